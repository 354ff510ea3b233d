"""Check the list of calibration features or questions that was downloaded."""

from __future__ import annotations

import re
from typing import Any

from modelzoo.hooks import calibration_lists

COUNT = 100
FEATURE = re.compile(r"0|[1-9]\d{0,4}")
QUESTION = re.compile(r"[0-9a-f]{24}")


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Raise Error unless the list has 100 different entries of its kind."""
    env = i["env"]
    path = env["CM_MLPERF_SQUAD_CALIBRATION_LIST_FILE_WITH_PATH"]
    if env["CM_DATASET_SQUAD_CALIBRATION_SET"] == "one":
        calibration_lists.entries(path, COUNT, FEATURE, "numbers of features")
    else:
        calibration_lists.entries(path, COUNT, QUESTION, "ids of questions")
    return {"return": 0}
