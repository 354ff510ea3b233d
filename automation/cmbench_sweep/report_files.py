"""The report of a sweep as files: a page, its picture as SVG, and as PNG where Pillow is there."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from cmbench.errors import Error
from cmbench_sweep.picture import SweepPicture, picture_of
from cmbench_sweep.points import command_of
from cmbench_sweep.report import MeasuredPoint, Report, best
from cmbench_sweep.values import LOWER
from common.files import replace_text
from mlperf.pages.raster import ChartCanvas
from mlperf.pages.render import render

_TEMPLATES = Path(__file__).with_name("templates")


def write_report(summary: Report, folder: Path) -> Path | None:
    """Write the report of a sweep into a folder, and return its page.

    Returns ``None`` where there is nothing to draw. Raises ``OSError``.
    """
    try:
        picture = picture_of(summary)
    except Error:
        return None
    drawn = render(_TEMPLATES / "picture.html", picture=picture).strip() + "\n"
    page = folder / "report.html"
    folder.mkdir(parents=True, exist_ok=True)
    replace_text(folder / "sweep.svg", drawn)
    has_png = False
    with contextlib.suppress(ImportError):
        (folder / "sweep.png").write_bytes(_png(picture))
        has_png = True
    values = {"picture": picture, "drawn": drawn, "has_png": has_png, **_table(summary)}
    replace_text(page, render(_TEMPLATES / "page.html", **values))
    return page


def _png(picture: SweepPicture) -> bytes:
    """Return a picture as a PNG; raise ``ImportError`` without Pillow."""
    canvas = ChartCanvas(picture.width, picture.height)
    canvas.head(picture.title, picture.best)
    for panel in picture.panels:
        canvas.caption(panel.x, panel.y - 12, panel.title)
        canvas.chart(panel.chart, panel.x, panel.y)
    return canvas.png()


def _table(summary: Report) -> dict[str, Any]:
    """Return what the page shows below the picture: all points and the command of the best."""
    figure = summary.figure()
    sign = 1 if summary.direction(figure) == LOWER else -1
    having = [entry for entry in summary.measured if figure in entry.figures]
    rows = sorted(having, key=lambda entry: sign * entry.figures[figure])
    axes = [name for name, values in summary.sweep.axes.items() if len(values) > 1]
    top = best(summary)
    used = any(entry.used_batches for entry in rows)
    return {
        "head": [*axes, *summary.figures, "runs", *(["batch used"] if used else [])],
        "rows": [
            [*_cells(entry, axes, summary.figures), *([_batches(entry)] if used else [])]
            for entry in rows
        ],
        "command": command_of(top.point) if top else "",
    }


def _batches(entry: MeasuredPoint) -> str:
    """Return the batches that the runs of a point used."""
    return entry.used_batches or str(entry.point.values.get("batch_size", ""))


def _cells(entry: MeasuredPoint, axes: Sequence[str], figures: Sequence[str]) -> Iterator[str]:
    yield from (str(entry.point.values.get(name, "")) for name in axes)
    yield from (
        f"{v:,.6g}" if (v := entry.figures.get(name)) is not None else "" for name in figures
    )
    yield str(len(entry.outcome.runs))
