"""Hand out an SSD with MobileNet: downloaded, tiny (shipped or trained), or without knowledge."""

from __future__ import annotations

from typing import Any

from cmbench.lib import siblings

detectors = siblings.hooks(__file__, "detectors")

SIDE = 300
MOST = 100
FULL: dict[str, Any] = {
    "name": "ssd_mobilenet",
    "precision": "fp32",
    "inputs": [{"name": "image_tensor:0", "dtype": "uint8", "shape": [SIDE, SIDE, 3]}],
    "outputs": [
        {"name": "num_detections:0", "dtype": "float32", "shape": []},
        {"name": "detection_boxes:0", "dtype": "float32", "shape": [MOST, 4]},
        {"name": "detection_scores:0", "dtype": "float32", "shape": [MOST]},
        {"name": "detection_classes:0", "dtype": "float32", "shape": [MOST]},
    ],
    "options": {
        "count": "num_detections:0",
        "boxes": "detection_boxes:0",
        "labels": "detection_classes:0",
        "scores": "detection_scores:0",
        "most": MOST,
        "order": "yxyx",
    },
    "accuracy": {"metric": "mAP", "unit": "%", "reference": 22.0, "target": 21.78},
}


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Put a tiny or a synthetic model into the cache entry; the full one is a dependency."""
    return detectors.prepare(i)


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Verify the file and set what scripts that use a model look at."""
    return detectors.finish(i, FULL)
