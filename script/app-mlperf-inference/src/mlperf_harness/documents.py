"""What a session writes for people and programs when it is done."""

from __future__ import annotations

from pathlib import Path

from . import history, page, readme, records, summary
from .results import Results, Tree
from .settings import SessionSettings


def write(tree: Tree, results: Results, settings: SessionSettings) -> None:
    """Write results.json and the reports into the tree, and the answer for the caller."""
    records.write_text(tree.root / "summary.txt", summary.table(results))
    entries = []
    if results.sut_file:
        path = Path(results.sut_file).with_name(history.FILE)
        entries = history.remember(path, results, settings.precision)
    text = page.render(results, entries, settings.precision)
    records.write_text(tree.root / "report.html", text)
    for result in results.results:
        folder = tree.scenario(result.scenario)
        if folder.is_dir():
            records.write_text(folder / "README.md", readme.text(results, result, settings))
    records.write(tree.root / "results.json", results)
    if settings.answer:
        records.write(Path(settings.answer), results)
