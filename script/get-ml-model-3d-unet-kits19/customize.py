"""Provide a 3D U-Net: downloaded, tiny (shipped or trained again), or without knowledge."""

from __future__ import annotations

from typing import Any

from modelzoo.hooks import ml_models

FULL: dict[str, Any] = ml_models.published(__file__)


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Put a model into the cache entry, or ask for the download of one."""
    return ml_models.prepare(i, i["env"]["CM_UNET_RETRAIN"], "CM_UNET_DOWNLOAD")


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Verify the file and set what scripts that use a model look at."""
    return ml_models.finish(i["env"], FULL, "CM_UNET_DOWNLOADED")
