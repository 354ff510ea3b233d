"""What a session writes for people and programs when it is done."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from .. import records
from ..settings import SessionSettings
from . import history, page, readme, summary
from .results import Results, ResultTree

SO_FAR = "The call that measures for this folder has not come to its end: more may follow."


def show_so_far(tree: ResultTree, whole: Results) -> None:
    """Write the documents for people as soon as there is something, in case the call is stopped.

    There is no results.json before the end: programs must not take a part for the whole.
    """
    if not any(result.runs() for result in whole.results):
        return
    part = replace(whole, notes=(*whole.notes, SO_FAR))
    _show(tree, part, part)


def write(tree: ResultTree, requested: Results, whole: Results, settings: SessionSettings) -> None:
    """Write the documents about the ``whole`` tree, and the answer about what was ``requested``."""
    for result in whole.results:
        folder = tree.scenario(result.scenario)
        if folder.is_dir():
            records.write_text(folder / "README.md", readme.text(whole, result, settings))
    _show(tree, requested, whole)
    records.write(tree.root / "results.json", whole)
    if settings.answer:
        records.write(Path(settings.answer), requested)


def _show(tree: ResultTree, requested: Results, whole: Results) -> None:
    records.write_text(tree.root / "summary.txt", summary.table(whole, requested))
    entries = []
    if whole.sut_file:
        path = Path(whole.sut_file).with_name(history.FILE)
        entries = history.remember(path, whole, whole.precision)
    records.write_text(tree.root / "report.html", page.render(whole, entries, whole.precision))
