"""Provide a 3D U-Net: downloaded, tiny (shipped or trained again), or without knowledge."""

from __future__ import annotations

from modelzoo.hooks import ml_models

preprocess, postprocess = ml_models.hooks(
    __file__, "CM_UNET_RETRAIN", "CM_UNET_DOWNLOADED", "CM_UNET_DOWNLOAD"
)
