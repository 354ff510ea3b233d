"""Common hooks of the scripts of calibration images: the rules' list, and its images.

Such a script downloads the list into ``CM_CALIBRATION_LIST_FILE_WITH_PATH`` and then calls
``provide``. Its ``fetch.sh`` gets the images that ``CM_CALIBRATION_FETCH`` (JSON) names.
"""

from __future__ import annotations

import os
import re
from typing import Any

from modelzoo.hooks import calibration_lists, pictures

COUNT = 500
# A name and nothing else, so that no list leads out of the folder of the images.
NAME = re.compile(r"[\w-][\w.-]*\.jpg")


def provide(i: dict[str, Any]) -> dict[str, Any]:
    """Fetch and count the images and export their paths: the hook ``postprocess``.

    Reads ``CM_CALIBRATION_LIST_FILE_WITH_PATH``, ``CM_CALIBRATION_URL`` and the user's
    ``CM_CALIBRATION_GIVEN_IMAGES_PATH`` or ``CM_CALIBRATION_STORE``. Raises Problem when some are
    missing.
    """
    env = i["env"]
    listing = os.path.abspath(env["CM_CALIBRATION_LIST_FILE_WITH_PATH"])
    names = calibration_lists.entries(listing, COUNT, NAME, "images")
    own_folder = env.get("CM_CALIBRATION_GIVEN_IMAGES_PATH")
    store = env.get("CM_CALIBRATION_STORE") or os.path.join(os.getcwd(), "pictures")
    folder = os.path.abspath(os.path.expanduser(own_folder or store))
    if not own_folder:
        pictures.fetch(i, "CM_CALIBRATION_FETCH", names, folder, env["CM_CALIBRATION_URL"])
    pictures.check(folder, names, "calibration images")
    env["CM_CALIBRATION_LIST_FILE_WITH_PATH"] = listing
    env["CM_CALIBRATION_IMAGES_PATH"] = folder
    return {"return": 0, "relies_on": [folder, listing]}
