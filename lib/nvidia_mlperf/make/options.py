"""What fields become in a run: inputs of run-mlperf-inference-app, and options of its backends.

``ours`` of ``fields.yaml`` says it; a test holds it to the real inputs and options.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from typing import Any

from common.problems import Problem
from mlperf import catalog
from nvidia_mlperf.flow.fields import USED, ConfigField

FAST = {"min_duration": 60_000, "min_query_count": 1}
"""What ``--fast`` means: milliseconds, queries."""
LIMIT = "use_deque_limit"
WAIT = "deque_timeout_us"
KINDS = {"tensorrt": "option", "triton": "triton"}
"""By backend, the first word of ``ours`` for its options."""
_UNITS = {"target_latency": 1e-6}
"""Inputs in another unit than their fields: milliseconds for nanoseconds."""


def inputs(known: Mapping[str, ConfigField]) -> dict[str, str]:
    """Return the fields that are an input of a run, and which."""
    return {
        name: field.ours
        for name, field in known.items()
        if field.here == USED and field.ours.isidentifier() and field.ours not in _WORDS
    }


_WORDS = ("calibrate", "mode")
"""What the words of make read themselves."""


def of_run(
    known: Mapping[str, ConfigField], chosen: Mapping[str, Any]
) -> Iterator[tuple[str, Any]]:
    """Inputs of a run for fields; a wait of 0, or without a limit, is none."""
    for name, option in inputs(known).items():
        value = chosen.get(name)
        idle = option == WAIT and (not value or chosen.get(LIMIT) is False)
        if value is not None and name != LIMIT and not idle:
            yield option, value * _UNITS[option] if option in _UNITS else value


def of_backend(
    known: Mapping[str, ConfigField],
    chosen: Mapping[str, Any],
    backend: str,
    typed: Container[str] = (),
) -> str:
    """The value of ``--backend_options`` for fields; empty where they set none of its options.

    An option without the one that it needs has no effect: it is left out, and raises Problem
    where the user has ``typed`` its field.
    """
    options, fields = {}, {}
    for name, value in chosen.items():
        kind, _, option = known[name].ours.partition(" ")
        if option and kind == KINDS.get(backend):
            most = max(value) if isinstance(value, list) else value
            options[option], fields[option] = str(most).lower(), name
    specs = catalog.lookup.backends()[backend].options if options else {}
    for option in [*options]:
        needed = specs[option].needs if option in specs else ""
        if needed and needed not in options:
            if fields[option] in typed:
                raise _alone(fields[option], f"{KINDS[backend]} {needed}", known)
            del options[option]
    return ",".join(f"{option}={value}" for option, value in options.items())


def _alone(name: str, needed: str, known: Mapping[str, ConfigField]) -> Problem:
    other = next(field for field, each in known.items() if each.ours == needed)
    text = f"RUN_ARGS: --{name} has no effect without --{other}"
    return Problem("bad-value", text, f"add --{other}, or leave out --{name}")


def idle(known: Mapping[str, ConfigField], names: Mapping[str, Any]) -> list[str]:
    """Return notes on fields without effect on a stand-in: those of engines and lanes."""
    for_engines = [name for name in names if known[name].ours.startswith(("engine", "option"))]
    return [f"--{name} has no effect: the stand-in computes in float32" for name in for_engines]
