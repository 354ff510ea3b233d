"""``python -m aws_neuron.compiling REQUEST``: compile, and answer where the request says."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from common.problems import Problem

from . import compile_request, work


def exit_on_signal(number: int, _: FrameType | None) -> None:
    """Leave by the way that cleans up."""
    raise SystemExit(128 + number)


def main(request: str) -> int:
    """Return the exit status: 0 also for a failure in the answer, which the hook reports."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, exit_on_signal)
    fields = json.loads(Path(request).read_text(encoding="utf-8"))
    answer: dict[str, Any]
    try:
        answer = {"path": str(work.make(compile_request.read(fields)))}
    except Problem as error:
        answer = error.answer()
    Path(fields["answer"]).write_text(json.dumps(answer, indent=2), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
