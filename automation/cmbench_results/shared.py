"""The packages of this repository's scripts that know MLPerf's rules and logs."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from typing import Any

import cmbench
from cmbench.errors import Error

_SCRIPTS = ("app-mlperf-inference", "generate-mlperf-inference-submission")


@cache
def importable() -> None:
    """Let ``mlperf_catalog``, ``mlperf_harness`` and ``mlperf_submission`` be imported.

    They need only the standard library. Raises ``incomplete-installation``.
    """
    package = Path(cmbench.__file__).parent
    places = (package.parent.parent / "script", package / "repo" / "script")
    folder = next((place for place in places if (place / _SCRIPTS[0] / "src").is_dir()), None)
    if folder is None:
        raise Error(
            "incomplete-installation",
            f"the scripts of cmbench are missing beside its engine in {package}",
            hint="install it again: pip install --force-reinstall cmbench",
        )
    sys.path.extend(str(folder / alias / "src") for alias in _SCRIPTS)


def benchmark_of(name: str, model: str = "") -> str:
    """Our name of a benchmark, given that of a round or a checker; the name itself if unknown."""
    importable()
    import mlperf_catalog as catalog

    known: dict[str, Any] = dict(catalog.benchmarks(""))
    for word in (model, name):
        if word in known:
            return word
    return next((each for each, spec in known.items() if spec.named(name)), name)


def scenario_of(name: str) -> Any:
    """The ``Scenario`` of that name in any case, or None: rounds before 2.0 had others."""
    importable()
    import mlperf_catalog as catalog

    return catalog.Scenario.of_folder(name)


def counts_tokens(benchmark: str, benchmark_round: str) -> bool:
    """Whether the results of a benchmark are in tokens per second in a round."""
    importable()
    import mlperf_catalog as catalog

    spec = catalog.benchmarks("").get(benchmark)
    if spec is None:
        return False
    spec = spec.at(benchmark_round)
    return spec.token_rates or spec.inferred_tokens
