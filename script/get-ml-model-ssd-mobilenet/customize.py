"""Provide an SSD with MobileNet: downloaded, tiny (shipped or trained), or without knowledge."""

from __future__ import annotations

from modelzoo.hooks import ml_models

preprocess, postprocess = ml_models.hooks(__file__, "CM_DETECTOR_RETRAIN", "CM_DETECTOR_DOWNLOADED")
