"""What the scripts of calibration pictures share: the rules' list, and the pictures it names.

Such a script downloads the list into ``CM_CALIBRATION_LIST_FILE_WITH_PATH`` and then hands over to
``provide``. Its ``fetch.sh`` gets the pictures that ``CM_CALIBRATION_FETCH`` (JSON) names.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from cmbench.errors import Error

COUNT = 500
SHOWN = 3


def provide(i: Mapping[str, Any]) -> tuple[str, str]:
    """The list, and the folder of the pictures, which are fetched; Error when some are missing.

    Reads ``CM_CALIBRATION_LIST_FILE_WITH_PATH``, ``CM_CALIBRATION_URL`` and what the user gave:
    ``CM_CALIBRATION_GIVEN_IMAGES_PATH`` or ``CM_CALIBRATION_STORE``.
    """
    env = i["env"]
    listing = os.path.abspath(env["CM_CALIBRATION_LIST_FILE_WITH_PATH"])
    names = listed(listing)
    given = env.get("CM_CALIBRATION_GIVEN_IMAGES_PATH")
    store = env.get("CM_CALIBRATION_STORE") or os.path.join(os.getcwd(), "pictures")
    folder = os.path.abspath(os.path.expanduser(given or store))
    if not given:
        _fetch(i, names, folder)
    check(folder, names)
    return listing, folder


def listed(path: str) -> list[str]:
    """The pictures that the list in ``path`` names; Error unless they are 500 different ones."""
    with open(path, encoding="utf-8", errors="replace") as file:
        names = [line.strip() for line in file if line.strip()]
    strange = next((n for n in names if n != os.path.basename(n) or not n.endswith(".jpg")), None)
    if strange is not None or len(set(names)) != COUNT:
        what = f'it says "{strange[:40]}"' if strange else f"it names {len(set(names))}"
        raise Error(
            "data-wrong",
            f"{path} is no list of {COUNT} pictures: {what}",
            hint="give the list of MLCommons' inference repository as --env.CM_PACKAGE_URL=FILE",
        )
    return names


def _fetch(i: Mapping[str, Any], names: list[str], folder: str) -> None:
    """Download the pictures that ``folder`` does not hold."""
    env = i["env"]
    wanted = os.path.join(env["CM_TMP_RUN_DIR"], "pictures.json")
    with open(wanted, "w", encoding="utf-8") as file:
        json.dump({"names": names, "folder": folder, "url": env["CM_CALIBRATION_URL"]}, file)
    env["CM_CALIBRATION_FETCH"] = wanted
    i["automation"].run_native_script(
        {"run_script_input": i["run_script_input"], "env": env, "script_name": "fetch"}
    )


def check(folder: str, names: list[str]) -> None:
    """Raise Error when pictures are missing or empty."""
    missing = [name for name in names if not _there(os.path.join(folder, name))]
    if missing:
        shown = ", ".join(missing[:SHOWN]) + (" ..." if len(missing) > SHOWN else "")
        raise Error(
            "data-incomplete",
            f"{len(missing)} of {len(names)} calibration pictures are not in {folder}",
            hint="leave --images_path out to download them, or fetch those that are missing into "
            f"this folder with --store={folder}",
            context=[f"missing: {shown}"],
        )


def _there(path: str) -> bool:
    return os.path.isfile(path) and os.path.getsize(path) > 0
