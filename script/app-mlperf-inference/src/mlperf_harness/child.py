"""The processes that a session starts: they end when it ends, and report through files."""

from __future__ import annotations

import os
import signal
import stat
import threading
from functools import partial
from pathlib import Path

from . import records
from .errors import HarnessError, tell
from .settings import RunSettings


def main(name: str, config: Path) -> int:
    """Run one of these programs; the outcome is written beside the configuration."""
    _die_with_parent()
    out = config.parent / "outcome.json"
    try:
        if name == "calibrate":
            from . import calibrate, calibration, launch

            request = records.read(calibration.Request, config)
            records.write(
                out, calibrate.calibrate(request, partial(launch.foretell, config.parent))
            )
        elif name == "probe":
            from . import calibration, probe

            records.write(out, probe.probe(records.read(calibration.Request, config), config))
        elif name == "compare":
            from . import compare, outcome

            records.write(out, compare.compare(records.read(outcome.Comparison, config)))
        else:
            from . import loadgen_run

            ended = loadgen_run.execute(records.read(RunSettings, config))
            records.write(out, ended)
            if ended.failure:
                raise HarnessError(ended.failure)
    except HarnessError as error:
        tell(error)
        return 1
    return 0


def _die_with_parent() -> None:
    """End at once on Ctrl-C, and when the session is gone however it ended.

    While LoadGen runs, Python's own handlers do not get their turn. The session holds the other
    end of our standard input and never writes: when the read returns, it has ended.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if not stat.S_ISFIFO(os.fstat(0).st_mode):
        return  # started by hand

    def watch() -> None:
        os.read(0, 1)
        os._exit(1)

    threading.Thread(target=watch, name="parent-watch", daemon=True).start()
