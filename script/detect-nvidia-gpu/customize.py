"""Refuse a machine without any sign of an NVIDIA GPU, before anything is installed for one."""

from __future__ import annotations

from typing import Any

from cmbench.errors import Error
from cmbench.lib import nvidia


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Count the GPUs; raises Error where nothing speaks for one."""
    if not nvidia.signs():
        raise Error(
            "no-device",
            "this machine shows no NVIDIA GPU, which CUDA needs",
            context=[f"looked for: {', '.join(nvidia.LOOKED_FOR)}"],
            hint="use --device=cpu, or install NVIDIA's driver; a container must be started with "
            "the GPU (cm docker script ... --all_gpus). To go on all the same: "
            "--env.CM_TRUST_DEVICE=yes",
        )
    nodes = nvidia.nodes()
    if nodes:
        i["env"]["CM_CUDA_NUM_DEVICES"] = str(len(nodes))
    return {"return": 0}
