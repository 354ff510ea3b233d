"""What a session must know before it measures anything; nothing is computed for it."""

from __future__ import annotations

from pathlib import Path

import mlperf_loadgen

from mlperf.catalog import OFFLINE

from ..backends import registry as backends
from ..benchmarks import registry as benchmarks
from ..errors import DAMAGED, HarnessError
from ..jobs import Probe, ProbeRequest
from .loadgen_run import library_versions


def probe(request: ProbeRequest, config: Path) -> Probe:
    """Report versions, the seed that identifies LoadGen's round, and the number of samples.

    Raises HarnessError when the benchmark or the backend cannot be used at all.
    """
    try:
        benchmark = benchmarks.create(request.benchmark, Path(request.dataset), request.model)
    except OSError as error:
        raise HarnessError(f"the data cannot be read: {error}", DAMAGED) from error
    backend = backends.create(
        request.backend, request.device, request.precision, request.backend_options
    )
    empty = config.with_name("user.conf")
    empty.write_text("", encoding="utf-8")
    settings = mlperf_loadgen.TestSettings()
    status = settings.FromConfig(str(empty), benchmark.rules.loadgen_key, OFFLINE)
    if status not in (0, None):
        raise HarnessError(f"LoadGen cannot read its own rules (status {status})")
    return Probe(
        versions={**backend.versions(), **library_versions()},
        qsl_seed=int(settings.qsl_rng_seed),
        sample_count=benchmark.sample_count,
        library_bytes=backend.library_bytes,
        device_facts=backend.device_facts(),
        work_bytes=backend.work_bytes(int(getattr(benchmark, "work_bytes", 0))),
        weight_bytes=backend.weight_bytes(request.model),
    )
