"""The memory that a run needs and has, checked before the run."""

from __future__ import annotations

import json
from pathlib import Path

from mlperf.catalog import BenchmarkSpec

from .. import host
from ..errors import HarnessError
from ..host import meminfo, read
from ..jobs import Probe
from ..settings import ModelSpec, SessionSettings
from ..wording import megabytes


def check(settings: SessionSettings, spec: BenchmarkSpec | None, probe: Probe) -> None:
    """Raise HarnessError when model, loaded samples and the rest do not fit into free memory."""
    models = (settings.model, *settings.scenario_models.values())
    model = max(map(model_bytes, models))
    count, samples = loaded(settings, spec, probe)
    rest = probe.library_bytes
    work = probe.work_bytes
    needed = model + samples + work + rest
    free, whose = available()
    if free is not None and free < needed:
        raise HarnessError(
            f"too little memory: a run needs about {megabytes(needed)} ({megabytes(model)} for "
            f"the model, {megabytes(samples)} for {count} loaded samples, {megabytes(work)} for a "
            f"sample in work, {megabytes(rest)} for the rest), and {megabytes(free)} {whose}",
            "end other programs, raise the limit, or load fewer samples with "
            "--performance_sample_count",
        )


def model_bytes(model: ModelSpec) -> int:
    """Bytes of all weights, which is about what one open model takes."""
    return model.data_bytes + sum(Path(graph.path).stat().st_size for graph in model.graphs())


def loaded(settings: SessionSettings, spec: BenchmarkSpec | None, probe: Probe) -> tuple[int, int]:
    """Return how many samples a run keeps loaded, and how many bytes they take."""
    folder = Path(settings.dataset)
    own = int(json.loads((folder / "dataset.json").read_text(encoding="utf-8"))["count"])
    rule = spec.loaded_samples if spec else probe.sample_count
    wanted = settings.overrides.performance_sample_count or rule
    # A small set that is repeated is loaded once.
    count = min(wanted, probe.sample_count, own)
    whole = sum(path.stat().st_size for path in folder.glob("*.npy"))
    return count, whole * count // max(1, own)


def available() -> tuple[int | None, str]:
    """Bytes that a new process can get, and whose bound that is; None where it is unknown."""
    limits = [
        (free, whose)
        for free, whose in (
            (meminfo("MemAvailable"), "are free on this machine"),
            (_cgroup_free(), "are left below the memory limit of this container or session"),
        )
        if free is not None
    ]
    return min(limits) if limits else (None, "")


def _cgroup_free() -> int | None:
    """What the limits of this process's cgroup and of those around it leave; caches count as free.

    Cgroups of both versions are looked at, as containers see them: their own is the root.
    """
    limits = [
        (folder / "memory.max", folder / "memory.current", folder / "memory.stat")
        for folder in host.cgroups()
    ]
    old = host.CGROUPS / "memory"
    limits.append(
        (old / "memory.limit_in_bytes", old / "memory.usage_in_bytes", old / "memory.stat")
    )
    free = [
        int(read(limit)) - int(read(usage)) + _cached(read(stat))
        for limit, usage, stat in limits
        if read(limit).strip().isdigit() and read(usage).strip().isdigit()
    ]
    return max(0, min(free)) if free else None


def _cached(stat: str) -> int:
    """Bytes of files that the kernel drops when they are wanted for something else."""
    for line in stat.splitlines():
        name, _, value = line.partition(" ")
        if name == "inactive_file" and value.strip().isdigit():
            return int(value)
    return 0
