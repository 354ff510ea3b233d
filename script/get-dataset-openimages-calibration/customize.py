"""Get the pictures that the rules' list names, or check those that the user has."""

from __future__ import annotations

from typing import Any

from cmbench.lib import siblings

calibration_pictures = siblings.hooks(__file__, "calibration_pictures")


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Fetch, count and hand out the pictures."""
    env = i["env"]
    listing, folder = calibration_pictures.provide(i)
    env["CM_CALIBRATION_LIST_FILE_WITH_PATH"] = listing
    env["CM_CALIBRATION_IMAGES_PATH"] = folder
    return {"return": 0, "relies_on": [folder, listing]}
