"""Fetch the validation part of COCO 2017, or check the copy that the user has."""

from __future__ import annotations

import os
from typing import Any

from cmbench.errors import Error
from modelzoo.hooks import pictures

COUNT = 5000
PICTURES = "val2017"
LIST = os.path.join("annotations", "instances_val2017.json")
ARCHIVES = {
    "CM_COCO_FROM_DATA": "val2017.zip",
    "CM_COCO_FROM_ANNOTATIONS": "annotations_trainval2017.zip",
}


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Say where archives lie."""
    env = i["env"]
    source = env.get("CM_COCO_FROM")
    for key, name in ARCHIVES.items():
        env[key] = ""
        if source and not env.get("CM_COCO_PATH"):
            path = os.path.join(os.path.abspath(os.path.expanduser(source)), name)
            if not os.path.isfile(path):
                raise Error(
                    "data-missing",
                    f"there is no file {path}",
                    hint=f"put {' and '.join(ARCHIVES.values())} into the folder that --from "
                    "names, or leave --from out to download them",
                )
            env[key] = path
    return {"return": 0}


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Find images and list, and count both."""
    env = i["env"]
    own_path = env.get("CM_COCO_PATH")
    root = os.path.abspath(os.path.expanduser(own_path)) if own_path else os.getcwd()
    annotations, folder = os.path.join(root, LIST), os.path.join(root, PICTURES)
    names = file_names(annotations)
    check(folder, names)
    env["CM_DATASET_PATH"] = env["CM_DATASET_COCO_PATH"] = root
    env["CM_DATASET_IMAGES_PATH"] = folder
    env["CM_DATASET_ANNOTATIONS_FILE_PATH"] = annotations
    env["CM_DATASET_SIZE"] = str(len(names))
    return {"return": 0, "version": "2017", "relies_on": [folder, annotations] if own_path else []}


def file_names(annotations: str) -> list[str]:
    """The images that the list names; Error when it is not that of COCO's validation part."""
    hint = f"--coco_path must name the folder above {PICTURES} and {LIST}"
    names, boxes = pictures.listed(annotations, "is not a list of COCO", hint)
    if len(names) != COUNT:
        raise Error(
            "data-incomplete",
            f"{annotations} lists {len(names)} images with {boxes} boxes, COCO's validation "
            f"part has {COUNT} images",
            hint="leave --coco_path out to download the right one",
        )
    return names


def check(folder: str, names: list[str]) -> None:
    """Raise Error when images are missing."""
    missing = [name for name in names if not os.path.isfile(os.path.join(folder, name))]
    if missing:
        raise Error(
            "data-incomplete",
            f"{len(missing)} of {len(names)} images are not in {folder}",
            hint="unpack val2017.zip again, or leave --coco_path out to download it",
            context=[pictures.some(missing)],
        )
