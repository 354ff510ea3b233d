"""How a session ends: its exit status, and the answer to the step that has started it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

from common.problems import Problem

OK, FAILED, USAGE, INTERRUPTED, CUT_OFF = 0, 1, 2, 130, 141


def run_session(run: Callable[[dict[str, object]], int], answer: str) -> int:
    """Call ``run``, which fills the record of its figures; return the exit status.

    For a program that starts it, figures and a failure are written to the file ``answer``, and a
    failure that stands there is no failure of the process.
    """
    record: dict[str, object] = {}
    try:
        status = run(record)
    except Problem as error:
        if not answer:
            text = f"error: {error}" + (f"\n  next: {error.hint}" if error.hint else "")
            print(text, file=sys.stderr, flush=True)
            return USAGE if error.code == "bad-value" else FAILED
        record |= error.answer()
        status = OK
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr, flush=True)
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read has seen enough, as in `| head`; Python would say so again at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CUT_OFF
    if answer:
        Path(answer).write_text(json.dumps(record), encoding="utf-8")
    return status
