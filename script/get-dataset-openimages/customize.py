"""Fetch the images of Open Images and their boxes, or check those that the user has."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from cmbench.errors import Error
from modelzoo.hooks import pictures

COUNT = 24781
HOMEPAGE = "https://storage.googleapis.com/openimages/web/index.html"


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Find the list, get the images that it names, and count them."""
    env = i["env"]
    annotations = find_annotations(env, os.getcwd())
    count = int(env.get("CM_DATASET_COUNT") or 0)
    names = file_names(annotations, count)
    own_folder = env.get("CM_OPENIMAGES_IMAGES_PATH")
    if own_folder:
        folder = os.path.abspath(os.path.expanduser(own_folder))
    else:
        store = env.get("CM_OPENIMAGES_STORE") or os.path.join(os.getcwd(), "validation")
        folder = os.path.abspath(os.path.expanduser(store))
        pictures.fetch(i, "CM_OPENIMAGES_LIST", names, folder, env["CM_OPENIMAGES_URL"])
    pictures.check(folder, names, "images", [f"the data set is described at {HOMEPAGE}"])
    env["CM_DATASET_PATH"] = env["CM_DATASET_IMAGES_PATH"] = folder
    env["CM_DATASET_ANNOTATIONS_FILE_PATH"] = annotations
    env["CM_DATASET_SIZE"] = str(len(names))
    return {"return": 0, "version": "v6", "relies_on": [folder, annotations]}


def find_annotations(env: Mapping[str, Any], root: str) -> str:
    """The user's list, or the one that was unpacked below ``root``.

    Raises Error when there is none.
    """
    own_file = env.get("CM_OPENIMAGES_ANNOTATIONS_PATH")
    if own_file:
        return os.path.abspath(os.path.expanduser(str(own_file)))
    for folder, _, names in os.walk(root):
        for name in sorted(names):
            if name.endswith(".json") and name.startswith("openimages"):
                return os.path.join(folder, name)
    raise Error(
        "data-wrong",
        "what was unpacked has no openimages-mlperf.json",
        hint="give the list with --annotations_path=FILE",
    )


def file_names(annotations: str, count: int) -> list[str]:
    """Return the images that the list names, the first ``count`` of them unless that is 0.

    Raises Error when all are requested and the list is not that of the benchmark.
    """
    hint = "leave --annotations_path out to download the list of the benchmark"
    wrong = "has no annotations in COCO's format"
    names, boxes = pictures.listed(annotations, wrong, hint)
    if not count and len(names) != COUNT:
        raise Error(
            "data-incomplete",
            f"{annotations} lists {len(names)} images with {boxes} boxes, "
            f"the benchmark has {COUNT} images",
            hint=f"{hint}, or ask for fewer images: _size.{len(names)}",
        )
    return names[: count or None]
