"""Signs of accelerators on this machine, found without starting a process.

A sign is a device node, or something that only comes with a driver. Where there is none, no program
can use such a device; where there is one, only the driver itself knows whether it works.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from cmbench.lib.probe import which

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
