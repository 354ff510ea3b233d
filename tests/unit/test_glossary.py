"""``docs/reference/glossary.md``: its terms are in order, and the modules that it names exist."""

from __future__ import annotations

import re

from support import ROOT, project_files

ROW = re.compile(r"^\| (.+?) \| .+ \| `(.+)` \|$", re.MULTILINE)


def rows() -> list[tuple[str, str]]:
    """Return each term with the module that defines it."""
    text = (ROOT / "docs" / "reference" / "glossary.md").read_text(encoding="utf-8")
    return ROW.findall(text.partition("\n## ")[0])


def test_terms_are_in_alphabetical_order() -> None:
    terms = [term for term, _ in rows()]
    assert len(terms) > 40
    assert terms == sorted(set(terms), key=str.lower)


def test_modules_of_the_glossary_exist() -> None:
    files = [f"/{path.relative_to(ROOT).as_posix()}" for path in project_files()]
    modules = {module.removeprefix("…").removeprefix("/") for _, module in rows()}
    assert [m for m in sorted(modules) if not any(f.endswith(f"/{m}") for f in files)] == []
