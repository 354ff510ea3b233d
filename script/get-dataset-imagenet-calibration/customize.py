"""Check the list of calibration images that was downloaded."""

from __future__ import annotations

import re
from typing import Any

from cmbench.errors import Error

COUNT = 500
NAME = re.compile(r"ILSVRC2012_val_\d{8}\.JPEG")


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Raise Error unless the list names 500 different images of the validation part."""
    path = i["env"]["CM_MLPERF_IMAGENET_CALIBRATION_LIST_FILE_WITH_PATH"]
    with open(path, encoding="utf-8", errors="replace") as file:
        # The second list counts its lines in a second column.
        names = [line.split()[0] for line in file if line.strip()]
    strange = next((name for name in names if not NAME.fullmatch(name)), None)
    if strange is not None or len(set(names)) != COUNT:
        what = f'it says "{strange[:40]}"' if strange else f"it names {len(set(names))}"
        raise Error(
            "data-wrong",
            f"{path} is no list of {COUNT} validation images: {what}",
            hint="give the list of MLCommons' inference repository as --env.CM_PACKAGE_URL=FILE",
        )
    return {"return": 0}
