"""Hand out an SSD with MobileNet: downloaded, tiny (shipped or trained), or without knowledge."""

from __future__ import annotations

from typing import Any

from cmbench.lib import siblings

detectors = siblings.hooks(__file__, "detectors")

FULL: dict[str, Any] = detectors.published(__file__)


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Put a tiny or a synthetic model into the cache entry; the full one is a dependency."""
    return detectors.prepare(i)


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Verify the file and set what scripts that use a model look at."""
    return detectors.finish(i, FULL)
