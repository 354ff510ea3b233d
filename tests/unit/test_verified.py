"""What says "not verified on hardware" is on the page of what was verified, and nothing else is."""

from __future__ import annotations

import re

from support import ROOT

PAGE = ROOT / "docs/verified.md"
SENTENCE = re.compile(r"not\s+(?:yet\s+)?verified\s+on\s+hardware", re.IGNORECASE)
ROW = re.compile(r"^\|.*\]\(\.\./script/([\w.-]+)/README\.md\)", re.MULTILINE)


def readmes() -> dict[str, str]:
    """The page of each script, without what is generated from its inputs."""
    pages = (ROOT / "script").glob("*/README.md")
    return {page.parent.name: page.read_text(encoding="utf-8") for page in pages}


def listed() -> set[str]:
    return set(ROW.findall(PAGE.read_text(encoding="utf-8").partition("## Not verified")[2]))


def test_each_script_that_never_ran_on_hardware_is_listed_and_says_so() -> None:
    said = {name for name, text in readmes().items() if SENTENCE.search(text)}
    assert said - listed() == set(), f"add a row to {PAGE.name}"
    assert listed() - said == set(), "its page does not say: not verified on hardware"


def test_a_row_of_what_was_verified_says_all_five_things() -> None:
    rows = PAGE.read_text(encoding="utf-8").partition("## Not verified")[0].split("|---|")[-1]
    for row in rows.splitlines()[1:]:
        if row:
            cells = [cell.strip() for cell in row.strip("|").split("|")]
            assert len(cells) == 5
            assert all(cells)
            assert re.fullmatch(r"\d{4}-\d\d-\d\d", cells[3])
            assert "`" in cells[4]
