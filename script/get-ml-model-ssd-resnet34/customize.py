"""Hand out an SSD with ResNet-34: downloaded, tiny (shipped or trained), or without knowledge."""

from __future__ import annotations

from typing import Any

from cmbench.lib import siblings

detectors = siblings.hooks(__file__, "detectors")

SIDE = 1200
FULL: dict[str, Any] = {
    "name": "ssd_resnet34",
    "precision": "fp32",
    "inputs": [{"name": "image", "dtype": "float32", "shape": [3, SIDE, SIDE]}],
    # As many as it finds: -1.
    "outputs": [
        {"name": "bboxes", "dtype": "float32", "shape": [-1, 4]},
        {"name": "labels", "dtype": "int64", "shape": [-1]},
        {"name": "scores", "dtype": "float32", "shape": [-1]},
    ],
    "options": {
        "boxes": "bboxes",
        "labels": "labels",
        "scores": "scores",
        "most": 200,
        "least_score": 0.05,
        "classes": "position",
        "images_per_call": 1,
    },
    "accuracy": {"metric": "mAP", "unit": "%", "reference": 20.0, "target": 19.8},
}


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Put a tiny or a synthetic model into the cache entry; the full one is a dependency."""
    return detectors.prepare(i)


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Verify the file and set what scripts that use a model look at."""
    return detectors.finish(i, FULL)
