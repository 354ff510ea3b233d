"""Each command that the crowd part tells its users to type is one that can be typed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cmbench.cli.reply import Command
from cmbench.errors import Error
from cmbench.session.workspace import Workspace
from cmbench_crowd import http_client, verbs
from cmbench_crowd_server import verbs as server_verbs
from support import ROOT

SOURCES = [
    *sorted((ROOT / "automation" / "cmbench_crowd").rglob("*.py")),
    *sorted((ROOT / "script" / "run-crowd-benchmark").glob("*.py")),
]
PAGES = [ROOT / "docs" / "how-to" / name for name in ("crowd.md", "results-server.md")]
COMMAND = re.compile(
    r"\bcm ([a-z]+) (crowd|results)"
    r"((?: (?:--[a-z_-]+(?:=[^\s,)'\"#]+)?|[A-Z]+\b|last\b|all\b|X|\w+\.zip))*)"
)
VALUES = {"server": "http://127.0.0.1:9", "port": "none", "why": "a laptop"}
REFUSED = ("unknown-flag", "needs-input", "bad-value")


def texts(path: Path) -> Iterator[str]:
    """The texts of a program but for its docstrings, with an X for each value in them."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr | ast.JoinedStr):
            skipped.update(ast.walk(node))
            skipped.discard(node)
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = (p.value if isinstance(p, ast.Constant) else "X" for p in node.values)
            yield "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in skipped:
            yield node.value.replace("{}", "X")


def commands() -> list[str]:
    told = [text for path in SOURCES for text in texts(path)]
    told += [path.read_text(encoding="utf-8") for path in PAGES]
    return sorted({found[0] for text in told for found in COMMAND.finditer(text)})


VERBS = {
    **{verb: getattr(verbs, f"{verb}_crowd") for verb in ("show", "plan", "bundle", "upload")},
    **{verb: getattr(verbs, f"{verb}_crowd") for verb in ("withdraw", "lease", "return")},
    "serve": server_verbs.serve_results,
    "review": server_verbs.review_results,
}


def test_there_are_commands_to_look_at() -> None:
    assert len(commands()) > 15


@pytest.mark.parametrize("line", [c for c in commands() if c.split()[1] in VERBS])
def test_a_command_that_is_told_can_be_typed(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_client.time, "sleep", lambda seconds: None)
    monkeypatch.setattr(server_verbs, "_serve", lambda *told: None)
    monkeypatch.chdir(tmp_path)
    tokens = tmp_path / "tokens"
    tokens.write_text("a-token-that-is-long-enough\n")
    (tmp_path / "work.json").write_text("[]")
    flags: dict[str, Any] = {}
    _, verb, noun, *words = line.split()
    for word in words:
        if word.startswith("--"):
            name, _, value = word[2:].replace("-", "_").partition("=")
            known = {**VALUES, "token_file": str(tokens), "home": str(tmp_path / "home"), "db": ""}
            flags[name] = known.get(name, value or True)
    if verb == "serve":
        flags.setdefault("port", "0")
    assert flags.get("out", "json") == "json", "no command takes a file so"
    names = [word for word in words if not word.startswith("--")]
    workspace = Workspace.open(str(tmp_path / "home"))
    try:
        VERBS[verb](Command(noun, workspace, {**flags, "artifacts": names}))
    except Error as problem:
        assert problem.code not in REFUSED, problem.render()  # noqa: PT017


def test_a_misspelt_way_to_publish_is_refused(tmp_path: Path) -> None:
    """Else results would wait for a look that nobody expects."""
    workspace = Workspace.open(str(tmp_path / "home"))
    with pytest.raises(Error, match="--publish=chekced"):
        server_verbs.serve_results(Command("results", workspace, {"publish": "chekced"}))


@pytest.mark.parametrize("flag", ["home", "token_file", "title", "db"])
def test_a_flag_without_its_value_is_no_value(flag: str, tmp_path: Path) -> None:
    workspace = Workspace.open(str(tmp_path / "home"))
    with pytest.raises(Error, match=f"--{flag.replace('_', '-')} needs a value"):
        server_verbs.serve_results(Command("results", workspace, {flag: True, "port": "0"}))
