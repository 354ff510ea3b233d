"""Charts as a PNG, drawn by Pillow, which is no dependency: what draws raises ImportError without.

Coordinates are those of the SVG, and colours those of the pages in their light form.
"""

from __future__ import annotations

import io
import re
from typing import Any

from .charts import Chart, Point

_SCALE = 2
_MARGIN = 12.0
_INK, _SOFT, _RULE, _CARD, _RING = "#1a2230", "#566174", "#dce2ea", "#ffffff", "#c2570c"
_SERIES = (
    *("#2563c9", "#c2570c", "#14804a", "#7c3aed", "#be185d", "#0e7490", "#7a6a00", "#6b4f3a"),
)
_KINDS = {"thread": _RULE, "mark": _RING, "limit": _SOFT}
_ANCHORS = {"start": "ls", "middle": "ms", "end": "rs"}
_DASHED = ("mark", "limit")
_DASH, _GAP = 5.0, 4.0
_TEXT = 13
_LETTER = 7.0
LINE = 18.0
"""From a line of text to the next one."""


class ChartCanvas:
    """A picture of so many units, with a margin; drawings are moved by ``x`` and ``y``."""

    def __init__(self, width: float, height: float) -> None:
        from PIL import Image, ImageDraw

        size = ((width + 2 * _MARGIN) * _SCALE, (height + 2 * _MARGIN) * _SCALE)
        self._image = Image.new("RGB", (round(size[0]), round(size[1])), _CARD)
        self._draw: Any = ImageDraw.Draw(self._image)
        self._x = self._y = 0.0

    def png(self) -> bytes:
        """Return the picture as the bytes of a file."""
        stream = io.BytesIO()
        self._image.save(stream, "PNG")
        return stream.getvalue()

    def head(self, title: str, *lines: str) -> None:
        """Write a title, and lines below it."""
        self._text(0, 18, title, _INK, size=17)
        for number, line in enumerate(lines):
            self._text(0, 42 + LINE * number, line, _SOFT)

    def note(self, y: float, words: str) -> None:
        """Write a small line, such as how the picture is read."""
        self._text(0, y, words, _SOFT, size=11)

    def caption(self, x: float, y: float, words: str) -> None:
        """Write the title of a chart."""
        self._text(x, y, words, _INK)

    def legend(self, y: float, names: list[str]) -> None:
        """Write the names of series in a row, each after its colour; long ones are cut."""
        x, most = 0.0, int(self._image.width / _SCALE / max(1, len(names)) / _LETTER) - 5
        shown = (name if len(name) <= most else f"{name[: most - 1]}…" for name in names)
        for number, name in enumerate(shown):
            self._circle(x + 5, y - 5, 5.0, f"point s{number} best")
            self._text(x + 15, y, name, _SOFT)
            x += 15 + self._draw.textlength(name, font=_font(_TEXT)) / _SCALE + 18

    def chart(self, chart: Chart, x: float, y: float) -> None:
        """Draw a chart with its corner at ``x`` and ``y``."""
        self._x, self._y = x, y
        try:
            self._axes(chart)
            for kind, points, _ in chart.lines:
                if len(points) > 1:
                    self._line(points, _colour(kind), 2.0, is_dashed=kind in _DASHED)
            for left, top, radius, kind, _ in chart.dots:
                self._circle(left, top, radius, kind)
            for left, top, anchor, words in chart.texts:
                self._text(left, top, words, _SOFT, anchor)
        finally:
            self._x = self._y = 0.0

    def _axes(self, chart: Chart) -> None:
        frame = chart.frame
        for y, words in chart.rows:
            self._line([(frame.left, y), (frame.end, y)], _RULE)
            self._text(frame.left - 6, y + 4, words, _SOFT, "end")
        self._line([(frame.left, frame.base), (frame.end, frame.base)], _SOFT)
        for x, words in chart.columns:
            self._line([(x, frame.base), (x, frame.base + 3)], _SOFT)
            self._text(x, frame.base + 15, words, _SOFT, "middle")
        self._text(frame.end, frame.height - 5, chart.unit, _SOFT, "end")

    def _at(self, x: float, y: float) -> Point:
        return (x + self._x + _MARGIN) * _SCALE, (y + self._y + _MARGIN) * _SCALE

    def _text(
        self, x: float, y: float, words: str, colour: str, anchor: str = "start", size: int = _TEXT
    ) -> None:
        at, font = self._at(x, y), _font(size)
        self._draw.text(at, words, fill=colour, font=font, anchor=_ANCHORS[anchor])

    def _line(
        self, points: list[Point], colour: str, width: float = 1.0, is_dashed: bool = False
    ) -> None:
        at = [self._at(*point) for point in points]
        for part in _dashes(at) if is_dashed else [at]:
            self._draw.line(part, fill=colour, width=round(width * _SCALE), joint="curve")

    def _circle(self, x: float, y: float, radius: float, kind: str) -> None:
        box = (*self._at(x - radius, y - radius), *self._at(x + radius, y + radius))
        if kind == "spot":
            return
        if kind == "ring":
            self._draw.ellipse(box, outline=_RING, width=round(2.5 * _SCALE))
            return
        colour = _colour(kind, _SOFT)
        fill = colour if kind.endswith("best") or "point" not in kind else _pale(colour)
        self._draw.ellipse(box, fill=fill, outline=_CARD, width=_SCALE)


def wrapped(words: str, width: float) -> list[str]:
    """Return the lines of a text that are no wider than ``width``."""
    font, lines = _font(_TEXT), [""]
    for word in words.split():
        longer = f"{lines[-1]} {word}".lstrip()
        if lines[-1] and font.getlength(longer) > width * _SCALE:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


def _font(size: int) -> Any:
    from PIL import ImageFont

    return ImageFont.load_default(size * _SCALE)


def _colour(kind: str, other: str = _SERIES[0]) -> str:
    """Return the colour of a class: of its series or of its kind."""
    if kind in _KINDS:
        return _KINDS[kind]
    match = re.search(r"\bs(\d)", kind)
    return _SERIES[int(match[1])] if match else other


def _pale(colour: str) -> str:
    """Return a colour half as strong, on white."""
    parts = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return "#" + "".join(f"{(part + 255) // 2:02x}" for part in parts)


def _dashes(path: list[Point]) -> list[list[Point]]:
    """Return the dashes of the straight line between the ends of a path."""
    (x, y), (right, bottom) = path[0], path[-1]
    length = max(1e-9, ((right - x) ** 2 + (bottom - y) ** 2) ** 0.5)
    a, b = (right - x) / length, (bottom - y) / length
    step, dash = (_DASH + _GAP) * _SCALE, _DASH * _SCALE
    starts = [step * number for number in range(int(length / step) + 1)]
    ends = [min(start + dash, length) for start in starts]
    return [
        [(x + a * start, y + b * start), (x + a * end, y + b * end)]
        for start, end in zip(starts, ends, strict=True)
    ]
