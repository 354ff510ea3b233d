"""What results ask MLPerf's catalogue."""

from __future__ import annotations

from typing import Any


def benchmark_of(name: str, model: str = "") -> str:
    """Our name of a benchmark, given that of a round or a checker; the name itself if unknown."""
    from mlperf import catalog

    specs: dict[str, Any] = dict(catalog.benchmarks(""))
    for word in (model, name):
        if word in specs:
            return word
    return next((spec_name for spec_name, spec in specs.items() if spec.has_name(name)), name)


def organization_of(name: str) -> str:
    """Return the one spelling of a submitter that rounds write in several ways."""
    return _SPELLINGS.get(name.lower(), name)


_SPELLINGS = {"ctuning": "cTuning"}


def scenario_of(name: str) -> Any:
    """Return the ``Scenario`` of that name in any case, or None: rounds before 2.0 had others."""
    from mlperf import catalog

    return catalog.Scenario.of_folder(name)


def counts_tokens(benchmark: str, benchmark_round: str) -> bool:
    """Return whether the results of a benchmark are in tokens per second in a round."""
    from mlperf import catalog

    spec = catalog.benchmarks("").get(benchmark)
    if spec is None:
        return False
    spec = spec.at(benchmark_round)
    return spec.token_rates or spec.inferred_tokens
