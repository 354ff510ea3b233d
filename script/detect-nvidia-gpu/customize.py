"""Refuse a machine without any sign of an NVIDIA GPU, before anything is installed for one."""

from __future__ import annotations

import os
from typing import Any

from cmbench.errors import Error
from cmbench.lib import nvidia


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Count the GPUs; raises Error where nothing speaks for one, or CUDA_VISIBLE_DEVICES hides all.

    That variable may name a part of a GPU (MIG) by its UUID.
    """
    if not nvidia.signs():
        raise Error(
            "no-device",
            "this machine shows no NVIDIA GPU, which CUDA needs",
            context=[f"looked for: {', '.join(nvidia.LOOKED_FOR)}"],
            hint="use --device=cpu, or install NVIDIA's driver; a container must be started with "
            "the GPU (`cm docker script ... --all_gpus`). To go on all the same: "
            "--env.CM_TRUST_DEVICE=yes",
        )
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        # Only the driver knows numbers and UUIDs; where it does not answer, nothing is compared.
        nvidia.visible(nvidia.read().gpus, chosen)
    nodes = nvidia.nodes()
    if nodes:
        i["env"]["CM_CUDA_NUM_DEVICES"] = str(len(nodes))
    return {"return": 0}
