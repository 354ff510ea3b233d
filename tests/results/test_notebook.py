"""``docs/how-to/results.ipynb``: every cell runs, in order, in a home with results."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest
from samples import sweep

from cmbench_results.result_sources import SourceFiles
from support import ROOT, Home

NOTEBOOK = ROOT / "docs" / "how-to" / "results.ipynb"


def _run(source: str, names: dict[str, Any]) -> Any:
    """Run a cell, and return the value of its last line where that is an expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, NOTEBOOK.name, "exec"), names)
    if not isinstance(last, ast.Expr):
        return None
    return eval(compile(ast.Expression(last.value), NOTEBOOK.name, "eval"), names)


def test_every_cell_of_the_notebook_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = Home(tmp_path)
    home.register(ROOT)
    for key, value in home.environment().items():
        monkeypatch.setenv(key, value)
    places = SourceFiles(home.cm_repos / "cmbench")
    for run in sweep(tmp_path / "sweep"):
        places.add(run)
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    names: dict[str, Any] = {}
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    values = [_run("".join(cell["source"]), names) for cell in cells]
    assert [cell["outputs"] for cell in cells] == [[]] * len(cells), "it is kept without outputs"
    assert len(names["table"]) == 18
    assert any(value is not None for value in values)
    printed = capsys.readouterr().out
    assert "steps" in printed
    assert printed.splitlines()[-1].endswith("#" * 40), "the largest batch is the best"
