"""The machine as the registry of NVIDIA's systems looks at it."""

from __future__ import annotations

import os
from typing import Any

from cmbench.lib import nvidia


def machine() -> Any:
    """Return the GPUs here as a ``nvidia_mlperf.flow.systems.GpuMachine``; None without one.

    Raises Error where CUDA_VISIBLE_DEVICES names one that is not there.
    """
    from nvidia_mlperf.flow import systems

    board = nvidia.jetson()
    gpus = nvidia.visible(nvidia.read().gpus, os.environ.get("CUDA_VISIBLE_DEVICES"))
    if not gpus and not board:
        return None
    kinds = [{**gpu.kind, "profiles": [part.profile for part in gpu.mig]} for gpu in gpus]
    return systems.machine_of(kinds, os.uname().machine, board.board if board else "")


def this_machine() -> Any:
    """The same; raises Problem without a GPU."""
    from nvidia_mlperf.flow import systems

    return machine() or systems.machine_of((), os.uname().machine)
