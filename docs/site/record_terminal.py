"""A picture of a real run: what a command leaves in a terminal of 80 columns, as an SVG.

    python docs/site/record_terminal.py docs/site/pictures/benchmark.svg --most 14 -- \
      sed -n '/^    MLPerf inference:/,/^    Offline/s/^    //p' README.md

The command runs in a terminal of its own, and pyte, a terminal in memory, has its last lines.
That of the README is the run of `make benchmark` on a quiet machine, which its text quotes.
"""

from __future__ import annotations

import argparse
import fcntl
import html
import os
import pty
import re
import select
import struct
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import pyte

COLUMNS, LINES = 80, 24
LINE_PX, CHARACTER_PX, MARGIN_PX = 18, 8.43, 16
BACKGROUND, FOREGROUND = "#14161f", "#d7dae5"
COLOURS = {
    "red": "#ff7a85",
    "green": "#7bd88f",
    "brown": "#e6c06a",
    "blue": "#7aa2f7",
    "magenta": "#c69cf4",
    "cyan": "#6fd0e0",
    "default": FOREGROUND,
}


def main() -> int:
    """Write the picture; the exit status is that of the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("picture", type=Path)
    parser.add_argument("--most", type=int, default=LINES, help="so many lines are shown")
    parser.add_argument("--from-line", default="", help="begin with the line that holds this")
    parser.add_argument("command", nargs="+", help="after --")
    given = parser.parse_args()
    command = given.command
    screen = pyte.HistoryScreen(COLUMNS, LINES, history=5000, ratio=1)
    status = record(command, screen)
    rows = list(everything(screen))
    start = next((n for n, row in enumerate(rows) if given.from_line in plain(row)), None)
    if start is None or status != 0:
        print("\n".join(map(plain, rows)), file=sys.stderr)
        return status or 1
    shown = rows[start : start + given.most] if given.from_line else rows[-given.most :]
    given.picture.write_text(svg(shown, " ".join(command)), encoding="utf-8")
    return status


def record(command: list[str], screen: pyte.Screen) -> int:
    """Run a command in a terminal of the screen's size; returns its exit status."""
    stream = pyte.ByteStream(screen)
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvp(command[0], command)
    # termios.tcsetwinsize came with Python 3.11.
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", LINES, COLUMNS, 0, 0))
    while True:
        select.select([terminal], [], [])
        try:
            data = os.read(terminal, 1 << 16)
        except OSError:  # the other end is closed
            break
        if not data:
            break
        stream.feed(data)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


Row = list[tuple[str, str, bool]]


def everything(screen: pyte.HistoryScreen) -> Iterator[Row]:
    """Every line that was ever on the screen and was not written over, as text, colour, bold."""
    for line in [*screen.history.top, *(screen.buffer[y] for y in range(screen.cursor.y + 1))]:
        cells = [line[x] for x in range(COLUMNS)]
        yield [(cell.data, cell.fg, cell.bold) for cell in cells]


def plain(row: Row) -> str:
    """The text of a line."""
    return "".join(text for text, _, _ in row).rstrip()


def svg(rows: list[Row], label: str) -> str:
    """The lines as a picture of a terminal."""
    while rows and not plain(rows[-1]):
        rows = rows[:-1]
    width = COLUMNS * CHARACTER_PX + 2 * MARGIN_PX
    height = len(rows) * LINE_PX + 2 * MARGIN_PX
    body = "\n".join(_line(row, number) for number, row in enumerate(rows))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" role="img" '
        f'aria-label="{html.escape(label)}">\n'
        f'<rect width="100%" height="100%" rx="8" fill="{BACKGROUND}"/>\n'
        '<g font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,DejaVu Sans Mono,monospace" '
        f'font-size="14">\n{body}\n</g>\n</svg>\n'
    )


def _line(row: Row, number: int) -> str:
    """One line: a text for each run of one colour, as wide as its columns."""
    y = MARGIN_PX + (number + 0.78) * LINE_PX
    parts, start = [], 0
    while start < len(row):
        end = start
        while end < len(row) and row[end][1:] == row[start][1:]:
            end += 1
        text = "".join(cell[0] for cell in row[start:end])
        _, colour, bold = row[start]
        fill = COLOURS.get(colour, f"#{colour}" if len(colour) == 6 else FOREGROUND)
        weight = ' font-weight="bold"' if bold else ""
        # Readers of SVG fold blanks: what stands apart is placed apart.
        for part in re.finditer(r"\S+(?: \S+)*", text):
            x = MARGIN_PX + (start + part.start()) * CHARACTER_PX
            length = len(part[0]) * CHARACTER_PX
            parts.append(
                f'<text x="{x:.1f}" y="{y:.1f}" fill="{fill}"{weight} textLength="{length:.1f}" '
                f'lengthAdjust="spacingAndGlyphs">{html.escape(part[0])}</text>'
            )
        start = end
    return "".join(parts)


if __name__ == "__main__":
    sys.exit(main())
