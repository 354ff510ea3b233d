"""The benchmarks of the catalogue: a new one is one module here and one specification there."""

from __future__ import annotations

from pathlib import Path

from mlperf import catalog
from mlperf.catalog import plugins

from ..errors import HarnessError
from ..records import read_json
from ..settings import ModelSpec
from .base import Benchmark
from .repeated import RepeatedBenchmark

# In full: imports of what is in it are looked for by name.
PACKAGE = "mlperf.harness.benchmarks"


def create(name: str, dataset: Path, model: ModelSpec) -> Benchmark:
    """Return the benchmark ``name`` on the preprocessed ``dataset``.

    A data set whose facts name a ``qsl_count`` is repeated until it has that many samples.
    Raises HarnessError when they do not fit.
    """
    spec = catalog.benchmarks().get(name)
    if spec is None or not spec.runnable:
        why = f" ({spec.unavailable})" if spec else ""
        raise HarnessError(f"no benchmark {name}{why}; there are: {', '.join(catalog.runnable())}")
    benchmark: Benchmark = plugins.named_class(spec.module, PACKAGE)(dataset, model, spec)
    count = read_json(dataset / "dataset.json").get("qsl_count", benchmark.sample_count)
    if count == benchmark.sample_count:
        return benchmark
    return RepeatedBenchmark(benchmark, count)
