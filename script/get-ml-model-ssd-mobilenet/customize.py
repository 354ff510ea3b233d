"""Provide an SSD with MobileNet: downloaded, tiny (shipped or trained), or without knowledge."""

from __future__ import annotations

from typing import Any

from modelzoo.hooks import ml_models

FULL: dict[str, Any] = ml_models.published(__file__)


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Put the tiny model into the cache entry or make one; a full one is a dependency."""
    return ml_models.prepare(i, i["env"]["CM_DETECTOR_RETRAIN"])


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Verify the file and set what scripts that use a model look at."""
    return ml_models.finish(i["env"], FULL, "CM_DETECTOR_DOWNLOADED")
