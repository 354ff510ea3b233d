"""Every ``cm`` command line of the README and the pages means one script and knows its flags."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from cmind.cli import parse

from cmbench.cli.commands import verb_of, words_of
from cmbench.session.call import Call
from cmbench.session.workspace import Workspace
from cmbench_sweep.execution_flags import ELSEWHERE
from support import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGES += [
    *sorted((ROOT / "docs/how-to").glob("*.md")),
    *sorted((ROOT / "docs/reference").glob("*.md")),
]
_OF_A_PLACEHOLDER = re.compile(
    r"\.\.\.|…|[<\[{@]|ninja|get-(?:cmake|my-cmake|x|tool)\b|dataset,points"
)
"""Lines that stand for many, or name scripts that the reader makes."""
_PLANS = ("run", "plan", "docker", "doctor")


def commands(page: Path) -> Iterator[str]:
    """The ``cm`` command lines of blocks of code, and those between two backquotes."""
    text = page.read_text("utf-8").replace("\\\n", " ")
    inline = [" ".join(x.split()) for x in re.findall(r"(?<!`)`(cm [^`]+)`(?!`)", text)]
    for shown in [*re.findall(r"(?m)^[ ]*(cm .*)$", text), *inline]:
        line = re.split(r"\s#\s|\s[|>&]{1,2}\s|;", shown)[0].strip()
        if not _OF_A_PLACEHOLDER.search(line):
            yield line


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return Workspace.open(str(tmp_path_factory.mktemp("home")), [str(ROOT)])


def _fault(line: str, workspace: Workspace) -> str:
    _, word, *rest = shlex.split(line)
    if word in ("version", "init", "pull", "rm", "reindex", "load", "help", "-h") or not rest:
        return ""
    thing = rest[0]
    verb = verb_of(thing, word)
    if verb is None:
        ours = words_of(thing) and thing != "experiment"
        return f"cm has no verb {word} {thing}" if ours else ""
    if thing != "script" or word not in _PLANS:
        return ""
    given = parse([word, *rest])["cm_input"]
    if not {"tags", "artifact"} & given.keys():
        return ""
    of_the_verb = {flag.partition("=")[0] for flag in verb.flag_meanings} - {"tags"}
    left_out = {"action", "automation", *of_the_verb}
    if verb.at_site and "site" in given:
        left_out |= {"site", *ELSEWHERE}
    if word == "docker":  # Its flags are read with the options of the engine of containers.
        left_out = given.keys() - {"artifact", "tags"}
    call = Call(workspace, {key: value for key, value in given.items() if key not in left_out})
    warnings = call.request().warnings
    return "; ".join(text for text in warnings if "have these tags" in text or "knows no" in text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_command_line_means_one_script_and_knows_its_flags(
    page: Path, workspace: Workspace
) -> None:
    faults = {}
    for line in dict.fromkeys(commands(page)):
        try:
            fault = _fault(line, workspace)
        except Exception as error:
            fault = f"{type(error).__name__}: {error}"
        if fault:
            faults[line] = fault
    assert not faults, "\n".join(f"{line}\n    {why}" for line, why in faults.items())
