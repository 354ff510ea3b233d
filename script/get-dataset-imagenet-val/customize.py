"""Find ImageNet's validation images where the user says, or unpack them, and count them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from cmbench.errors import Error
from modelzoo.hooks import pictures

COUNT = 50000
NAME = "ILSVRC2012_val_{:08d}.JPEG"
ARCHIVE = "ILSVRC2012_img_val.tar"
# So many images, the first ones, are published for tries.
SAMPLE = 500
# Where the images lie below a folder of the whole data set, as its two sources have it.
INSIDE = ("", "val", "ILSVRC2012_img_val", "Data/CLS-LOC/val", "ILSVRC/Data/CLS-LOC/val")
SOURCES = (
    "register and download ILSVRC2012_img_val.tar (6.3 GB): https://image-net.org/download.php",
    "or take part in https://www.kaggle.com/c/imagenet-object-localization-challenge",
)


def refuse(i: dict[str, Any]) -> dict[str, Any]:
    """Raise Error for more images than are published, where the user has not named any."""
    env = i["env"]
    if not env.get("IMAGENET_PATH") and requested_count(env) > SAMPLE:
        raise Error(
            "data-needed",
            "ImageNet may be used after a registration, and has to be fetched by you",
            context=SOURCES,
            hint="say where it is: --imagenet_path=FOLDER (or the archive); or add _tiny for "
            "data that is here",
        )
    return {"return": 0}


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Decide whether an archive has to be unpacked, or the published sample fetched."""
    refuse(i)
    env = i["env"]
    env["CM_DAE_ONLY_EXTRACT"] = env["CM_DATASET_IMAGENET_VAL_REQUIRE_DAE"] = "no"
    own_path = env.get("IMAGENET_PATH")
    if not own_path:
        env["CM_DATASET_IMAGENET_VAL_REQUIRE_DAE"] = "yes"
        return {"return": 0}
    path = os.path.abspath(os.path.expanduser(own_path))
    if not os.path.exists(path):
        raise Error(
            "file-not-found", f"there is no {path}", hint="check the path given as --imagenet_path"
        )
    archive = archive_of(path)
    if not archive:
        return {"return": 0}
    env["CM_IMAGENET_ARCHIVE"] = archive
    env["CM_DAE_ONLY_EXTRACT"] = "yes"
    return {"return": 0, "relies_on": [archive]}


def requested_count(env: Mapping[str, Any]) -> int:
    """Return the requested number of images; raise Error when there are fewer."""
    text = str(env["CM_IMAGENET_COUNT"])
    count = int(text) if text.isdigit() else 0
    if not 1 <= count <= COUNT:
        raise Error("bad-value", f"_size.{text}: a number from 1 to {COUNT} is needed")
    return count


def archive_of(path: str) -> str:
    """Return the archive that ``path`` is, or holds where nothing is unpacked; else ""."""
    if os.path.isfile(path):
        return path
    inside = os.path.join(path, ARCHIVE)
    return inside if os.path.isfile(inside) and not any(images(path).values()) else ""


def images(root: str) -> dict[str, set[str]]:
    """Return the names of images that are not empty, by folder at or below ``root``."""
    places = (os.path.normpath(os.path.join(root, inside)) for inside in INSIDE)
    return {place: set(_names(place)) for place in places if os.path.isdir(place)}


def _names(folder: str) -> Iterator[str]:
    """Images of ``folder`` and of the folders of classes in it."""
    with os.scandir(folder) as inside:
        for entry in inside:
            if entry.name.endswith(".JPEG"):
                if entry.is_file() and entry.stat().st_size:
                    yield entry.name
            elif entry.is_dir() and entry.name.startswith("n") and entry.name[1:].isdigit():
                yield from _names(entry.path)


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Find the images, count them and export them."""
    env = i["env"]
    count = requested_count(env)
    unpacked = env["CM_DAE_ONLY_EXTRACT"] == "yes" or (
        env["CM_DATASET_IMAGENET_VAL_REQUIRE_DAE"] == "yes"
    )
    root = env["CM_IMAGENET_EXTRACTED"] if unpacked else env["IMAGENET_PATH"]
    folder = find(os.path.abspath(os.path.expanduser(root)), count)
    env["CM_DATASET_PATH"] = env["CM_DATASET_IMAGENET_PATH"] = folder
    env["CM_DATASET_IMAGENET_VAL_PATH"] = folder
    env["CM_DATASET_SIZE"] = str(count)
    return {"return": 0, "version": "2012", "relies_on": [] if unpacked else [folder]}


def find(root: str, count: int) -> str:
    """The folder at or below ``root`` with the first ``count`` images; Error naming what lacks."""
    names = [NAME.format(number) for number in range(1, count + 1)]
    names_in_folder = images(root)
    folder = max(names_in_folder, key=lambda path: len(names_in_folder[path]), default=root)
    present = names_in_folder.get(folder, set())
    missing = [name for name in names if name not in present]
    if not missing:
        return folder
    none = len(missing) == count
    raise Error(
        "data-incomplete",
        f"{folder} has no image {NAME.format(1)} and so on, or empty ones"
        if none
        else f"{len(missing)} of the {count} images are missing or empty in {folder}",
        context=[] if none else [pictures.some(missing)],
        hint=f"--imagenet_path must name the folder of the images or {ARCHIVE}"
        if none
        else f"unpack {ARCHIVE} again, or give it as --imagenet_path",
    )
