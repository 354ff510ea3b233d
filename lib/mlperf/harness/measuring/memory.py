"""The memory that a run needs and has, checked before the run."""

from __future__ import annotations

import json
from pathlib import Path

from mlperf import catalog
from mlperf.catalog import BenchmarkSpec

from .. import host
from ..errors import HarnessError
from ..host import meminfo, read
from ..jobs import Probe
from ..settings import SessionSettings
from ..wording import megabytes
from . import gpu_users

NUMBER_BYTES = {"float16": 2, "bfloat16": 2, "int8": 1}


def check(settings: SessionSettings, spec: BenchmarkSpec | None, probe: Probe) -> None:
    """Raise HarnessError when model, loaded samples and the rest do not fit into free memory."""
    others = (model.stored_bytes() for model in settings.scenario_models.values())
    model = max(probe.weight_bytes, *others, 0)
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
    _check_gpus(settings, model, work)


def _check_gpus(settings: SessionSettings, model: int, work: int) -> None:
    """Raise HarnessError when the weights fit into no GPU, as far as NVIDIA's driver tells.

    Graphs are stored in float32 or less: what a shorter format takes is the least that they can be.
    Backends that generate tokens say what their format takes.
    """
    known = catalog.backends().get(settings.backend)
    if known is None or known.service:
        return
    share = 4 if known.generates else NUMBER_BYTES.get(settings.precision, 4)
    needed = model * share // 4 + work
    free = gpu_users.most_free_bytes(settings.device) if needed else None
    if free is not None and free < needed:
        raise HarnessError(
            f"too little memory on the GPU: the weights take about {megabytes(needed - work)} and "
            f"a sample in work {megabytes(work)}, and {megabytes(free)} are free",
            "end other programs that use it, or compute with --precision=float16",
        )


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
