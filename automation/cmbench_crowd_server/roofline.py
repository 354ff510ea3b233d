"""Whether hardware can have computed what a result says, by its cores and their widest units.

All bounds are generous: what is beyond them is impossible, what is below them may still be a lie.
"""

from __future__ import annotations

from cmbench_crowd import manifest as m
from cmbench_crowd_server.claims import form_of
from cmbench_results.shared import scenario_of

HERTZ = 7e9
PER_CYCLE = {"float32": 128.0, "float16": 2048.0, "bfloat16": 2048.0}
"""Operations of a core in a cycle: two 512-bit multiply-adds and twice that for matrix units of
phones and laptops; tiles of AMX for short numbers, and as many again for whole ones."""
WIDEST = 4096.0
ACCELERATOR = {"float32": 2e15, "float16": 1e16, "bfloat16": 1e16}
FASTEST = 5e16
"""Operations of an accelerator in a second, some times what any has."""
LEAST = 1e5
"""Operations of a sample of any model: a layer of 300 by 300."""
MOST_CORES, MOST_ACCELERATORS = 1024, 32
"""Of one node, where nobody says how many it has."""


def plausible(manifest: m.Manifest, value: float, unit: str) -> tuple[bool | None, str]:
    """Whether a figure is below what its hardware permits, in words; None where nothing is known.

    ``value`` is samples or tokens a second, or the milliseconds of a query.
    """
    work, system = manifest.workload, manifest.system
    if unit == "ms":
        scenario = scenario_of(work.scenario)
        samples = scenario.samples_per_query if scenario else 1
        value, unit = 1000 * samples / value, "samples/s"
    flop = _operations(work.benchmark, unit)
    # The open division, and other forms, compute other models.
    if work.division == "open" or form_of(manifest) or not flop:
        flop = LEAST
    most = _most(system, work.precision)
    words = f"{value:.4g} {unit} of {flop / 1e9:g} GFLOP each are {value * flop / 1e12:.3g} TFLOP/s"
    what = f"{system.accelerators} accelerators" if system.accelerators else f"{system.cores} cores"
    what = what if system.accelerators or system.cores else "a system that is not described"
    bound = f"{what} can compute {most / 1e12:.3g} at most"
    return value * flop <= most, f"{words}; {bound}"


def _operations(benchmark: str, unit: str) -> float:
    """Return the least that a sample or a token takes; 0 where no bound is known."""
    from mlperf import catalog

    spec = catalog.benchmarks("").get(benchmark)
    if spec is None:
        return 0.0
    return spec.size.token_operations if unit == "tokens/s" else spec.size.sample_operations


def _most(system: m.ManifestSystem, precision: str) -> float:
    """Return the operations in a second that nothing with these parts can exceed.

    Parts whose number is not said count as the largest systems have them.
    """
    untold = system.accelerators is None or (system.accelerator and not system.accelerators)
    accelerators = MOST_ACCELERATORS if untold else system.accelerators or 0
    nodes = max(1, system.nodes)
    cores = nodes * (system.cores or MOST_CORES) * HERTZ * PER_CYCLE.get(precision, WIDEST)
    return cores + nodes * accelerators * ACCELERATOR.get(precision, FASTEST)
