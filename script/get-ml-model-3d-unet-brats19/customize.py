"""Provide a 3D U-Net for brains: downloaded, tiny, trained again, or without knowledge."""

from __future__ import annotations

import os
from typing import Any

from cmbench.errors import Error
from modelzoo.hooks import ml_models

FULL: dict[str, Any] = ml_models.published(__file__)
# The network's 31.2 million weights; the rest of the file is its graph.
WEIGHTS_BYTES = 124_795_904
GRAPH_BYTES = 2_000_000
RECORD = "https://zenodo.org/record/3928973"


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Put a model into the cache entry, or ask for the download of one."""
    return ml_models.prepare(i, i["env"]["CM_BRATS_UNET_RETRAIN"], "CM_BRATS_UNET_DOWNLOAD")


def check_size(path: str) -> None:
    """Raise Error when a file cannot be the full model: no checksum of it was ever published."""
    size = os.path.getsize(path)
    if WEIGHTS_BYTES <= size <= WEIGHTS_BYTES + GRAPH_BYTES:
        return
    raise Error(
        "model-file",
        f"{path} has {size} bytes; the full model has {WEIGHTS_BYTES} bytes of weights and "
        f"at most {GRAPH_BYTES} more",
        hint=f"get 224_224_160.onnx from {RECORD} yourself and give it with "
        "--adr.dae.local_path=FILE",
    )


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Verify the file and set what scripts that use a model look at."""
    env = i["env"]
    if env.get("CM_BRATS_UNET_DOWNLOAD") == "yes":
        check_size(env["CM_BRATS_UNET_DOWNLOADED"])
    return ml_models.finish(env, FULL, "CM_BRATS_UNET_DOWNLOADED")
