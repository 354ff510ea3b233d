"""Provide an SSD with ResNet-34: downloaded, tiny (shipped or trained), or without knowledge."""

from __future__ import annotations

from typing import Any

from modelzoo.hooks import detectors

FULL: dict[str, Any] = detectors.published(__file__)
preprocess = detectors.prepare


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Verify the file and set what scripts that use a model look at."""
    return detectors.finish(i, FULL)
