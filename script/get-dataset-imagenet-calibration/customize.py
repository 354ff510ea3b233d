"""Check the list of calibration images that was downloaded."""

from __future__ import annotations

import re
from typing import Any

from modelzoo.hooks import calibration_lists

COUNT = 500
NAME = re.compile(r"ILSVRC2012_val_\d{8}\.JPEG")


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Raise Error unless the list names 500 different images of the validation part."""
    path = i["env"]["CM_MLPERF_IMAGENET_CALIBRATION_LIST_FILE_WITH_PATH"]
    calibration_lists.entries(path, COUNT, NAME, "validation images")
    return {"return": 0}
