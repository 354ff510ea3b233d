"""Pages about the code: the glossary is in order, and the modules that pages name exist."""

from __future__ import annotations

import re

import pytest

from support import ROOT, project_files

DOCS = ROOT / "docs"
ROW = re.compile(r"^\| (.+?) \| .+ \| `.+` \|$", re.MULTILINE)
# A path from the root, or its end: what follows a folder that the page names once.
MODULE = re.compile(r"`(?:…/)?(\w[\w/]*/?\w+\.py)`")


def test_terms_are_in_alphabetical_order() -> None:
    glossary = (DOCS / "reference" / "glossary.md").read_text(encoding="utf-8")
    terms = ROW.findall(glossary.partition("\n## ")[0])
    assert len(terms) > 40
    assert terms == sorted(set(terms), key=str.lower)


@pytest.mark.parametrize("page", ["architecture.md", "reference/glossary.md"])
def test_named_modules_exist(page: str) -> None:
    modules = set(MODULE.findall((DOCS / page).read_text(encoding="utf-8")))
    assert len(modules) > 15
    files = [f"/{path.relative_to(ROOT).as_posix()}" for path in project_files()]
    assert [m for m in sorted(modules) if not any(f.endswith(f"/{m}") for f in files)] == []
