"""What the ``customize.py`` of any repository may import from cmbench."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from cmbench.author.hook_library import hook_library
from cmbench.lib import PUBLIC
from support import ROOT

TEMPLATES = sorted((ROOT / "automation/cmbench/author/templates").rglob("customize.py.in"))
PAGE = ROOT / "docs/reference/hook-library.md"


@pytest.mark.parametrize("module", PUBLIC)
def test_each_public_name_is_there_and_documented(module: str) -> None:
    for name in PUBLIC[module]:
        assert getattr(import_module(module), name).__doc__, name


def imported_names(source: str) -> Iterator[tuple[str, str]]:
    """Module and name of each import from cmbench."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("cmbench"):
            yield from ((str(node.module), alias.name) for alias in node.names)


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.parent.name)
def test_a_new_script_imports_public_names_only(template: Path) -> None:
    source = re.sub(r"@\w+@", "X", template.read_text(encoding="utf-8"))
    assert [pair for pair in imported_names(source) if pair[1] not in PUBLIC[pair[0]]] == []


def test_the_example_of_the_page_imports_public_names_only() -> None:
    example = re.search(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert example is not None
    pairs = list(imported_names(example.group(1)))
    assert pairs
    assert [pair for pair in pairs if pair[1] not in PUBLIC[pair[0]]] == []


def test_the_page_shows_how_a_name_is_called() -> None:
    page = hook_library()
    assert "    which(name: str, path: str | None = None) -> Path | None" in page
    assert "        arguments: Sequence[str] = ('--version',)," in page
    assert "    Tool:\n        path: str\n        version: str" in page
    assert "\n    Error(\n        code: str,\n        message: str,\n        *,\n" in page
