"""The picture of a sweep as a PNG: the same charts, drawn by Pillow."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from cmbench_sweep.picture import PicturePanel, SweepPicture

_SCALE = 2
_INK, _SOFT, _RULE, _CARD, _RING = "#1a2230", "#566174", "#dce2ea", "#ffffff", "#c2570c"
_SERIES = "#2563c9"
_COLOURS = {"thread": _RULE, "mark": _RING}
_ANCHORS = {"start": "ls", "middle": "ms", "end": "rs"}
_MARGIN = 12.0


def write_png(picture: SweepPicture, path: Path) -> None:
    """Write a picture as a PNG; raise ``ImportError`` without Pillow, and ``OSError``."""
    from PIL import Image, ImageDraw

    size = (picture.width + 2 * _MARGIN, picture.height + 2 * _MARGIN)
    image = Image.new("RGB", (round(size[0] * _SCALE), round(size[1] * _SCALE)), _CARD)
    pen = _Pen(ImageDraw.Draw(image))
    pen.text(0, 18, picture.title, _INK, size=17)
    pen.text(0, 42, picture.best, _SOFT)
    for panel in picture.panels:
        pen.text(panel.x, panel.y - 12, panel.title, _INK)
        _draw_panel(pen, panel)
    image.save(path)


class _Pen:
    """Draws in units of the picture, moved by ``x`` and ``y``."""

    def __init__(self, draw: Any, x: float = 0.0, y: float = 0.0) -> None:
        self._draw, self._x, self._y = draw, x, y

    def moved(self, x: float, y: float) -> _Pen:
        return _Pen(self._draw, self._x + x, self._y + y)

    def _at(self, x: float, y: float) -> tuple[float, float]:
        return (x + self._x + _MARGIN) * _SCALE, (y + self._y + _MARGIN) * _SCALE

    def text(
        self, x: float, y: float, words: str, colour: str, anchor: str = "start", size: int = 13
    ) -> None:
        from PIL import ImageFont

        font = ImageFont.load_default(size * _SCALE)
        self._draw.text(self._at(x, y), words, fill=colour, font=font, anchor=_ANCHORS[anchor])

    def line(self, points: list[tuple[float, float]], colour: str, width: float = 1.0) -> None:
        at = [self._at(*point) for point in points]
        self._draw.line(at, fill=colour, width=round(width * _SCALE), joint="curve")

    def circle(self, x: float, y: float, radius: float, kind: str) -> None:
        left, top = self._at(x - radius, y - radius)
        right, bottom = self._at(x + radius, y + radius)
        box = (left, top, right, bottom)
        if kind == "ring":
            self._draw.ellipse(box, outline=_RING, width=round(2.5 * _SCALE))
        else:
            colour = _SERIES if re.search(r"\bs\d", kind) else _SOFT
            self._draw.ellipse(box, fill=colour, outline=_CARD, width=_SCALE)


def _draw_panel(pen: _Pen, panel: PicturePanel) -> None:
    chart, pen = panel.chart, pen.moved(panel.x, panel.y)
    frame = chart.frame
    for y, words in chart.rows:
        pen.line([(frame.left, y), (frame.end, y)], _RULE)
        pen.text(frame.left - 6, y + 4, words, _SOFT, "end")
    pen.line([(frame.left, frame.base), (frame.end, frame.base)], _SOFT)
    for x, words in chart.columns:
        pen.line([(x, frame.base), (x, frame.base + 3)], _SOFT)
        pen.text(x, frame.base + 15, words, _SOFT, "middle")
    pen.text(frame.end, frame.height - 5, chart.unit, _SOFT, "end")
    for kind, points, _ in chart.lines:
        if len(points) > 1:
            pen.line(points, _COLOURS.get(kind, _SERIES), 2.0)
    for x, y, radius, kind, _ in chart.dots:
        pen.circle(x, y, radius, kind)
    for x, y, anchor, words in chart.texts:
        pen.text(x, y, words, _SOFT, anchor)
