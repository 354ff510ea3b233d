"""Say which pictures to preprocess, and hand out the arrays that preprocessing has written."""

from __future__ import annotations

from typing import Any

from cmbench.lib import siblings

datasets = siblings.hooks(__file__, "datasets")


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Name the pictures; too few for the rules are repeated, those for calibration never."""
    answer: dict[str, Any] = datasets.detection_pictures(i["env"])
    return answer


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Set the folder and the facts of the arrays."""
    env = i["env"]
    calibrates = env["CM_DATASET_TYPE"] == "calibration"
    answer: dict[str, Any] = datasets.hand_out(env, training=calibrates, form="full")
    return answer
