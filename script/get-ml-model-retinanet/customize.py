"""Hand out a RetinaNet: downloaded, tiny (shipped or trained again), or without knowledge."""

from __future__ import annotations

from typing import Any

from cmbench.lib import siblings

detectors = siblings.hooks(__file__, "detectors")

SIDE = 800
FULL: dict[str, Any] = {
    "name": "retinanet",
    "precision": "fp32",
    "inputs": [{"name": "images", "dtype": "float32", "shape": [3, SIDE, SIDE]}],
    # For one image, without a batch.
    "outputs": [
        {"name": "boxes", "dtype": "float32", "shape": [4]},
        {"name": "labels", "dtype": "int64", "shape": []},
        {"name": "scores", "dtype": "float32", "shape": []},
    ],
    "options": {
        "boxes": "boxes",
        "labels": "labels",
        "scores": "scores",
        "most": 1000,
        "least_score": 0.05,
        "extent": [SIDE, SIDE],
        "images_per_call": 1,
    },
    "accuracy": {"metric": "mAP", "unit": "%", "reference": 37.55, "target": 37.1745},
}


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Put a tiny or a synthetic model into the cache entry; the full one is a dependency."""
    return detectors.prepare(i)


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Verify the file and set what scripts that use a model look at."""
    return detectors.finish(i, FULL)
