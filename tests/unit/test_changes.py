"""The changelog and the files in ``changes/`` that its next section is built from."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import cmbench
from support import ROOT, run

FRAGMENT = re.compile(r"\+[\w-]+\.(added|changed|fixed|removed)\.md")
FRAGMENT_LINES = 3


def faults(folder: Path) -> list[str]:
    """Return what is wrong with the fragments in ``folder``, one line for each fault."""
    messages = []
    for path in sorted(folder.iterdir()):
        if path.name == "README.md":
            continue
        if not FRAGMENT.fullmatch(path.name):
            messages.append(f"{path.name}: the name is not +<short-slug>.<type>.md")
        lines = path.read_text(encoding="utf-8").splitlines()
        if not 1 <= len(lines) <= FRAGMENT_LINES or not all(line.strip() for line in lines):
            messages.append(f"{path.name}: a fragment has one to three lines, none of them empty")
        if lines and lines[0].startswith(("-", "*", "#")):
            messages.append(f"{path.name}: the bullet is added by towncrier")
    return messages


def test_fragments_are_valid() -> None:
    assert faults(ROOT / "changes") == []


def test_faults_of_fragments_are_reported(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("\n" * 9)
    (tmp_path / "+plan-shows-disk.added.md").write_text("`cm plan` shows the disk space.\n")
    (tmp_path / "+long.fixed.md").write_text("a\nb\nc\nd\n")
    (tmp_path / "+listed.fixed.md").write_text("- a\n")
    (tmp_path / "12.bugfix.md").write_text("")
    assert [line.split(":")[0] for line in faults(tmp_path)] == [
        "+listed.fixed.md",
        "+long.fixed.md",
        "12.bugfix.md",
        "12.bugfix.md",
    ]


def test_the_changelog_begins_with_the_present_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## (\S+)", text, re.MULTILINE)
    assert headings[0] == cmbench.__version__
    assert len(headings) == len(set(headings))


def test_towncrier_builds_the_next_section(tmp_path: Path) -> None:
    pytest.importorskip("towncrier")
    for name in ("pyproject.toml", "CHANGELOG.md"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    changes = tmp_path / "changes"
    changes.mkdir()
    (changes / "README.md").write_text("Not a fragment.\n")
    (changes / "+plan-shows-disk.added.md").write_text("`cm plan` shows\nthe disk space.\n")
    (changes / "+tests.removed.md").write_text("`--old` is gone.\n")
    command = [sys.executable, "-m", "towncrier", "build", "--yes", "--version=9.8", "--date=today"]
    run(command, cwd=tmp_path).ok()
    text = (tmp_path / "CHANGELOG.md").read_text(encoding="utf-8")
    section = text.split("<!-- towncrier release notes start -->")[1].split("## 0.1.0")[0]
    assert section.strip().split("\n") == [
        "## 9.8 (today)",
        "",
        "### Added",
        "",
        "- `cm plan` shows",
        "  the disk space.",
        "",
        "### Removed",
        "",
        "- `--old` is gone.",
    ]
    assert [path.name for path in changes.iterdir()] == ["README.md"]
