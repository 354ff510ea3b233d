"""``docs/tutorial.md``, followed to the letter: what it says to type is typed, in an empty home."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import REACHES_IN, ROOT, copy_checkout, run

pytestmark = [pytest.mark.slow, pytest.mark.needs_index]

NINJA, USER = "script/get-ninja", "script/run-ninja-version"
# What the page tells the reader to put into a file: its first line, and how that is done.
EDITS = {
    "- name: a build by Kitware prints more than its version": f">> {NINJA}/detection_test.yaml",
    "- tags: get,ninja": f">> {USER}/meta.yaml",
    "#!/usr/bin/env bash": f"> {USER}/run.sh",
    "- name: Ninja is called as often as requested": f"> {USER}/detection_test.yaml",
}
COMMAND = re.compile(r"(python3|\.|pip|cm|cd|eval|git) ")
MISTAKE = f"sed -i.old s/new_env_keys:/new_env_kyes:/ {NINJA}/meta.yaml"
CORRECTION = f"mv {NINJA}/meta.yaml.old {NINJA}/meta.yaml"


def blocks() -> Iterator[str]:
    """The indented parts of the page."""
    text = (ROOT / "docs/tutorial.md").read_text(encoding="utf-8")
    for match in re.finditer(r"(?m)((?:^    .*\n|^\n(?=    ))+)", text):
        yield re.sub(r"(?m)^    ", "", match.group()).strip("\n")


def steps() -> tuple[list[str], list[str]]:
    """The shell lines that follow the page, and the lines of output that it promises."""
    typed: list[str] = ["set -e"]
    promised: list[str] = []
    for block in blocks():
        edit = EDITS.get(block.splitlines()[0])
        if edit:
            typed.append(f"printf '%s\\n' {shlex.quote(block)} {edit}")
            continue
        for line in block.splitlines():
            if line == "cm lint script get-ninja":
                typed += [MISTAKE, f"! {line}", CORRECTION, line]
            elif line == "cm test script":
                typed += [f"rm -r {USER}/src", line]
            elif COMMAND.match(line) and "<URL" not in line:
                typed.append(line)
            elif line and "..." not in line and "=" not in line:
                promised.append(line)
    return typed, [line for line in promised if not COMMAND.match(line)]


def test_the_tutorial(tmp_path: Path) -> None:
    copy_checkout(tmp_path / "cmbench")  # for the clone
    env = {k: v for k, v in os.environ.items() if not k.startswith("CM_") and k not in REACHES_IN}
    env |= {"HOME": str(tmp_path), "PATH": f"{Path(sys.executable).parent}:{env['PATH']}"}
    env |= {
        f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    typed, promised = steps()
    assert len(typed) > 25
    assert promised
    done = run(["bash", "-c", "\n".join(typed)], cwd=tmp_path, env=env, timeout=600).ok()
    assert [line for line in promised if line not in done.stdout] == []
    assert "Its version: 1." in done.stdout
