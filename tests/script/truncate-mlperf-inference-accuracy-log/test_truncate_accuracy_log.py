"""Truncation as a step of its own."""

from __future__ import annotations

import submission_lab as lab
from support import Home


def test_long_logs_are_cut(home: Home) -> None:
    tree = lab.make(home.path / "tree")
    log = next(tree.root.rglob("accuracy/mlperf_log_accuracy.json"))
    lab.put(log, lab.answers(range(3000)))
    words = ("run", "script", "--tags=truncate,accuracy-log", f"--submission_dir={tree.root}")
    assert "1 accuracy logs cut" in home.cm(*words).ok().stdout
    assert log.stat().st_size < 10 * 1024
    assert "0 accuracy logs cut" in home.cm(*words).ok().stdout
