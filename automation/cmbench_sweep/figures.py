"""The figures of a finished run: what a sweep compares its points by."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cmbench import api
from cmbench.errors import Error, did_you_mean
from cmbench_results.readers import text_of
from cmbench_results.values import ACCURACY, BenchmarkResult, number

USED_BATCH = "used_batch"
"""The batch of a run: tuning chooses it up to ``batch_size``. No figure to compare points by."""
SECONDS = "seconds"
"""How long the requested script took, without what it depends on."""
_OWN = "cm-result.json"


def figures_of(ran: api.FinishedRun, sources: Mapping[str, str], folder: str) -> dict[str, float]:
    """Return the figures of a run that ``sources`` names, or all of them if it is empty.

    ``sources`` maps a figure to the env key or state that holds it. ``folder`` is that of the
    run. Raises ``no-figure`` if a required one is missing.
    """
    figures = {**_of_harness(ran), **_of_file(os.path.join(folder, _OWN))}
    figures.setdefault(SECONDS, float(ran.steps[-1]["seconds"]))
    for name, source in sources.items():
        value = number(_at(ran, source)) if source else None
        if value is not None:
            figures[name] = value
    missing = [name for name in sources if name not in figures]
    if missing:
        hint = did_you_mean(missing[0], figures) or f"it has: {', '.join(figures)}"
        raise Error("no-figure", f"the run gave no {', '.join(missing)}", hint=hint)
    return {name: figures[name] for name in sources} if sources else figures


def _at(ran: api.FinishedRun, source: str) -> Any:
    start, _, rest = source.partition(".")
    if start == "env":
        return ran.outcome.new_env.get(rest)
    value: Any = ran.outcome.new_state
    for key in rest.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _of_harness(ran: api.FinishedRun) -> dict[str, float]:
    """Return the figures of the results.json that a run of the harness names."""
    path = ran.env.get("CM_MLPERF_INFERENCE_RESULTS_JSON")
    if not path or not os.path.isfile(str(path)):
        return {}
    from cmbench_results.readers.run import read

    results = [result for result in read(Path(str(path))) if isinstance(result, BenchmarkResult)]
    figures: dict[str, float] = {}
    for result in results:
        start = f"{result.workload.scenario}." if len(results) > 1 else ""
        figures.update({start + name: value for name, value in _of_result(result)})
    return figures


def _of_result(result: BenchmarkResult) -> Iterator[tuple[str, float]]:
    yield from ((metric.name, metric.value) for metric in result.metrics)
    if result.value is not None and not result.figure("throughput"):
        yield "value", result.value
    if result.accuracy is not None:
        yield ACCURACY, result.accuracy
    if result.validity:
        yield "valid", float(result.validity == "VALID")
    if (batch := number(result.settings.get("batch"))) is not None:
        yield USED_BATCH, batch


def _of_file(path: str) -> dict[str, float]:
    """Return the numbers in the file of programs of CM's experiments, nested names with dots."""
    if not os.path.isfile(path):
        return {}
    try:
        return dict(_numbers(json.loads(text_of(Path(path)))))
    except (OSError, ValueError, RecursionError) as problem:
        raise Error("no-figure", f"{path}: {problem}", hint="write a JSON object") from None


def _numbers(data: Any, start: str = "") -> Iterator[tuple[str, float]]:
    if isinstance(data, Mapping):
        for key, value in data.items():
            yield from _numbers(value, f"{start}.{key}".lstrip("."))
    elif isinstance(data, int | float) and math.isfinite(data):
        yield start, float(data)
