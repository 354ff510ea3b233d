"""``docs/site/record_terminal.py``: the terminal in which a command is recorded."""

from __future__ import annotations

import runpy
import termios

import pytest

from support import ROOT

# The command may start before its terminal has its size.
WAITS = 'until [ "$(stty size)" = "24 80" ]; do sleep 0.01; done; echo wide'


def test_a_terminal_has_its_size_without_what_came_with_python_3_11(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pyte = pytest.importorskip("pyte")
    monkeypatch.delattr(termios, "tcsetwinsize", raising=False)
    program = runpy.run_path(str(ROOT / "docs/site/record_terminal.py"))
    screen = pyte.HistoryScreen(80, 24, history=9, ratio=1)
    assert program["record"](["timeout", "60", "sh", "-c", WAITS], screen) == 0
    assert screen.display[0].rstrip() == "wide"
