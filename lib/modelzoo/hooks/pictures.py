"""What scripts share that provide the images of a list: fetch them, or count them."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

from common.problems import Problem
from modelzoo.hooks.native import run_program

SHOWN = 3


def fetch(i: dict[str, Any], key: str, names: Sequence[str], folder: str, url: str) -> None:
    """Download the images that ``folder`` does not hold.

    The script's ``fetch.sh`` gets them: ``key`` is the env key of the file that names them (JSON).
    """
    env = i["env"]
    wanted = os.path.join(env["CM_TMP_RUN_DIR"], "pictures.json")
    with open(wanted, "w", encoding="utf-8") as file:
        json.dump({"names": list(names), "folder": folder, "url": url}, file)
    env[key] = wanted
    run_program(i, "fetch")


def listed(annotations: str, wrong: str, hint: str) -> tuple[list[str], int]:
    """Return the images that a list in COCO's format names, and its number of boxes.

    Raises Problem (``data-wrong``) with the text ``wrong`` when the file is no such list.
    """
    try:
        with open(annotations, encoding="utf-8") as file:
            document = json.load(file)
        names = [str(image["file_name"]) for image in document["images"]]
        return names, len(document["annotations"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Problem("data-wrong", f"{annotations} {wrong}: {error}", hint=hint) from error


def some(missing: Sequence[str]) -> str:
    """The first of the images that are missing, for the context of a Problem."""
    return "missing: " + ", ".join(missing[:SHOWN]) + (" ..." if len(missing) > SHOWN else "")


def check(folder: str, names: Sequence[str], what: str, context: Sequence[str] = ()) -> None:
    """Raise Problem when images are missing or empty; ``what`` names them in the message."""
    missing = [name for name in names if not _there(os.path.join(folder, name))]
    if missing:
        raise Problem(
            "data-incomplete",
            f"{len(missing)} of {len(names)} {what} are not in {folder}",
            hint="leave --images_path out to download them, or fetch those that are missing into "
            f"this folder with --store={folder}",
            context=[some(missing), *context],
        )


def _there(path: str) -> bool:
    return os.path.isfile(path) and os.path.getsize(path) > 0
