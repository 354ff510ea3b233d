"""Accelerators of this machine: their signs, and what their driver tells.

A sign is a device node, or something that only comes with a driver; it is found without starting a
process. Where there is none, no program can use such a device; where there is one, only the driver
itself knows whether it works.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from cmbench.lib.probe import ProbeResult, probe, which

ROOT = Path("/")
NVIDIA_NODES = "dev/nvidia[0-9]*"
# Below the root: the driver's own nodes, the one of WSL, those of a Jetson, the driver's state.
NVIDIA_TRACES = (
    "dev/nvidia*",
    "dev/dxg",
    "dev/nvhost-*",
    "proc/driver/nvidia",
)
NVIDIA_TOOL = "nvidia-smi"
NVIDIA_FIELDS = (
    "name",
    "driver_version",
    "memory.total",
    "pcie.link.gen.max",
    "pcie.link.width.max",
    "clocks.max.sm",
    "mig.mode.current",
)
"""What is asked of each GPU; the last one only drivers since version 450 know."""
LOOKED_FOR = (*(f"/{trace}" for trace in NVIDIA_TRACES), f"{NVIDIA_TOOL} on PATH")


def nvidia_nodes(root: Path = ROOT) -> list[Path]:
    """The device nodes of NVIDIA's GPUs, one for each."""
    return sorted(root.glob(NVIDIA_NODES))


def nvidia_signs(root: Path = ROOT, find: Callable[[str], Path | None] = which) -> tuple[str, ...]:
    """What speaks for an NVIDIA GPU that programs can use: paths; empty where nothing does.

    ``find`` gives the path of a program.
    """
    traces = [path for trace in NVIDIA_TRACES for path in sorted(root.glob(trace))]
    tool = find(NVIDIA_TOOL)
    return tuple(str(path) for path in (*traces, *([tool] if tool else [])))


def nvidia_gpus(
    ask: Callable[[Sequence[str]], ProbeResult] = probe,
) -> tuple[tuple[dict[str, str], ...], str]:
    """What NVIDIA's driver tells of each GPU, and why it tells nothing; one of both is empty.

    A GPU is a text for each of ``NVIDIA_FIELDS``: memory in MiB, clocks in MHz, ``[N/A]`` and the
    like where the driver does not know. ``ask`` runs a command.
    """
    fields: Sequence[str] = NVIDIA_FIELDS
    answer = ask(_query(fields))
    if not answer.ok and "not a valid field" in answer.output:
        fields = fields[:-1]
        answer = ask(_query(fields))
    if not answer.ok:
        return (), answer.problem
    rows = [[text.strip() for text in line.split(",")] for line in answer.stdout.splitlines()]
    return tuple(dict(zip(fields, row, strict=True)) for row in rows if len(row) == len(fields)), ""


def _query(fields: Sequence[str]) -> list[str]:
    return [NVIDIA_TOOL, f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
