"""The processes that a session starts: they end when it ends, and report through files."""

from __future__ import annotations

import os
import signal
import stat
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

from .. import records
from ..errors import HarnessError
from ..jobs import ComparisonFigures, LoadGenOutcome, LogComparison, Probe, ProbeRequest
from ..settings import ModelSpec, RunSettings
from ..tuning.profile import SpeedProfile
from . import launch


def main(name: str, config: Path) -> int:
    """Run one of ``PROGRAMS``; the outcome is written next to the configuration.

    Raises HarnessError where LoadGen reports a failure.
    """
    _end_with_session()
    outcome = PROGRAMS[name](config)
    records.write(config.parent / "outcome.json", outcome)
    if failure := getattr(outcome, "failure", ""):
        raise HarnessError(failure)
    return 0


def _tune(config: Path) -> SpeedProfile:
    from ..tuning import tune

    return tune.tune(records.read(ProbeRequest, config), partial(launch.foretell, config.parent))


def _probe(config: Path) -> Probe:
    from ..measuring import probe

    return probe.probe(records.read(ProbeRequest, config), config)


def _build(config: Path) -> ModelSpec:
    from ..measuring import build

    return build.build(records.read(ProbeRequest, config), config.parent)


def _compare(config: Path) -> ComparisonFigures:
    from ..measuring import compare

    return compare.compare(records.read(LogComparison, config))


def _run(config: Path) -> LoadGenOutcome:
    from ..measuring import loadgen_run

    return loadgen_run.execute(records.read(RunSettings, config))


PROGRAMS: dict[str, Callable[[Path], object]] = {
    "probe": _probe,
    "build": _build,
    "tune": _tune,
    "run": _run,
    "compare": _compare,
}


def _end_with_session() -> None:
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
