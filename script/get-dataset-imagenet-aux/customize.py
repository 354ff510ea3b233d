"""Check the list of labels that came in the archive."""

from __future__ import annotations

import os
from typing import Any

from cmbench.errors import Error

COUNT = 50000
CLASSES = 1000
# The first is in the archive; MLPerf's own tools know the list under the second name.
LISTS = ("val.txt", "val_map.txt")
AGAIN = "remove the entry and get it anew: `cm rm cache --tags=imagenet-aux`"


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Find the list, check that it is complete, and export it."""
    env = i["env"]
    folder, path = find(env["CM_IMAGENET_AUX_EXTRACTED"])
    check(path)
    env["CM_DATASET_AUX_PATH"] = folder
    env["CM_DATASET_AUX_LABELS_FILE_WITH_PATH"] = path
    return {"return": 0, "version": "2012"}


def find(root: str) -> tuple[str, str]:
    """The folder of the list and the list, at or below ``root``.

    Raises Error when there is no list.
    """
    for folder, folders, names in os.walk(root):
        folders.sort()
        for name in LISTS:
            if name in names:
                return folder, os.path.join(folder, name)
    raise Error("data-wrong", f"what was unpacked has no {LISTS[0]}", hint=AGAIN)


def check(path: str) -> None:
    """Raise Error unless the list has labels from 0 to 999 for all 50000 images."""
    with open(path, encoding="utf-8", errors="replace") as file:
        lines = [line.split() for line in file if line.strip()]
    for number, words in enumerate(lines, start=1):
        right = len(words) == 2 and words[1].isdigit() and int(words[1]) < CLASSES
        if not right:
            raise Error(
                "data-wrong",
                f'{path}:{number}: "{" ".join(words)}" is not an image with its label',
                hint=AGAIN,
            )
    names = {words[0] for words in lines}
    if len(names) != COUNT or len(lines) != COUNT:
        raise Error(
            "data-incomplete",
            f"{path} has labels for {len(names)} images, not {COUNT}",
            hint=AGAIN,
        )
