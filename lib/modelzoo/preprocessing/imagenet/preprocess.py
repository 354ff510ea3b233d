"""Turn a folder of images into the two arrays that the image classification benchmark reads.

The steps are those of the MLPerf reference for ResNet-50: RGB, resize by area so that the crop is
87.5 % of the short side, centre crop, subtract the channel means, NCHW float32. ``--side`` sets
the geometry: 224 for ImageNet, 28 for the tiny form at one eighth of it.

Everything goes into one memory-mapped array rather than one file per image: fifty thousand small
files take longer to open than the benchmark takes to load them. Run again after an interruption,
it goes on with the array that it finds.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import PIL
from PIL import Image, ImageOps

from modelzoo import files, program
from modelzoo.preprocessing.imagenet import like_torchvision, single_files
from modelzoo.preprocessing.imagenet.area import resized_crop
from modelzoo.preprocessing.imagenet.arrays import SAMPLES, complete, fill
from modelzoo.program import ProgramError

CROP_PERCENT = 87.5
MEANS = (123.68, 116.78, 103.94)
LABELS = "labels.npy"
SHOWN = 3

Sample = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class LabelledFile:
    """One line of the list: a file name and its label, counted from 0."""

    name: str
    label: int


def read_map(path: Path) -> list[LabelledFile]:
    """Read "file label" lines; raises ProgramError naming the first bad line."""
    entries = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        words = line.split()
        if not words:
            continue
        if len(words) != 2 or not words[1].isdigit():
            raise ProgramError(f'{path}:{number}: expected "file label", found "{line}"')
        entries.append(LabelledFile(words[0], int(words[1])))
    if not entries:
        raise ProgramError(f"{path} lists no images")
    return entries


def chosen(entries: Sequence[LabelledFile], only: Path | None, count: int) -> list[LabelledFile]:
    """Return the first ``count`` entries named in the list ``only``, in its order.

    Raises ProgramError for a name without a label, or too few entries.
    """
    if only is not None:
        known = {entry.name: entry for entry in entries}
        # A list may have a second column, which counts the lines.
        lines = only.read_text(encoding="utf-8").splitlines()
        names = [line.split()[0] for line in lines if line.strip()]
        strange = next((name for name in names if name not in known), None)
        if strange is not None:
            raise ProgramError(f"{only} names {strange}, which has no label")
        entries = [known[name] for name in names]
    if count > len(entries):
        raise ProgramError(f"{count} images are wanted, the list has {len(entries)}")
    return list(entries[: count or None])


def find_files(folder: Path, entries: Sequence[LabelledFile]) -> list[Path]:
    """Return the files of the entries, in ``folder`` or in a folder of their class there.

    Raises ProgramError when some are missing.
    """
    inside = sorted(Path(entry.path) for entry in os.scandir(folder) if entry.is_dir())
    places = {
        each.name: Path(each.path)
        for place in (*inside, folder)
        for each in os.scandir(place)
        if each.is_file()
    }
    missing = [entry.name for entry in entries if entry.name not in places]
    if missing:
        shown = ", ".join(missing[:SHOWN]) + (" ..." if len(missing) > SHOWN else "")
        raise ProgramError(f"{len(missing)} of {len(entries)} images are not in {folder}: {shown}")
    return [places[entry.name] for entry in entries]


def resized_size(width: int, height: int, side: int) -> tuple[int, int]:
    """The size to resize to so that a crop of ``side`` is 87.5 % of the short side."""
    short = int(100.0 * side / CROP_PERCENT)
    if height > width:
        return short, int(short * height / width)
    return int(short * width / height), short


def preprocess(image: Image.Image, side: int) -> Sample:
    """One image as [3, side, side] float32: resized by area, cropped, means subtracted."""
    # OpenCV, which the reference reads images with, turns them as their EXIF data ask for.
    pixels = np.asarray(ImageOps.exif_transpose(image).convert("RGB"))
    height, width = pixels.shape[:2]
    across, down = resized_size(width, height, side)
    corner = (down - side) // 2, (across - side) // 2
    crop = resized_crop(pixels, (down, across), corner, side)
    return (crop - np.asarray(MEANS, dtype=np.float32)).transpose(2, 0, 1)


def preprocess_file(path: Path, side: int, torchvision: bool = False) -> Sample:
    """As ``preprocess``, or as torchvision; raises ProgramError for no readable image."""
    try:
        with Image.open(path) as image:
            return (like_torchvision.preprocess if torchvision else preprocess)(image, side)
    except OSError as error:
        raise ProgramError(f"{path} cannot be read as an image: {error}") from error


def recipe(
    entries: Sequence[LabelledFile], files: Sequence[Path], side: int, torchvision: bool = False
) -> str:
    """What the array is made of and how: another one is not gone on with."""
    steps = f"{CROP_PERCENT} {MEANS}" if not torchvision else like_torchvision.RECIPE
    digest = hashlib.sha256(f"area {side} {steps}\n".encode())
    for entry, path in zip(entries, files, strict=True):
        digest.update(f"{entry.name} {entry.label} {path.stat().st_size}\n".encode())
    return digest.hexdigest()


def finished(out: Path, made_by: str) -> bool:
    """Whether ``out`` holds whole and undamaged arrays of this recipe already."""
    try:
        facts = files.read_facts(out)
        return bool(facts["recipe"] == made_by) and all(
            (out / name).stat().st_size == about["bytes"] and files.file_facts(out / name) == about
            for name, about in facts["files"].items()
        )
    except (OSError, ValueError, KeyError, TypeError):
        return False


def write(options: argparse.Namespace) -> str:
    """Write samples.npy, labels.npy and, last of all, dataset.json; returns what was done."""
    out: Path = options.out
    entries = chosen(read_map(options.map), options.only, options.count)
    images = find_files(options.images or options.map.parent, entries)
    made_by = recipe(entries, images, options.side, options.torchvision)
    what = f"{len(entries)} samples of 3 x {options.side} x {options.side} float32"
    if finished(out, made_by):
        return f"{what} are there already, whole and undamaged"
    (out / "dataset.json").unlink(missing_ok=True)
    make = partial(preprocess_file, side=options.side, torchvision=options.torchvision)
    shape = (3, options.side, options.side)
    kept = fill(out, shape, images, make, made_by, options.processes or usable_processors())
    np.save(out / LABELS, np.asarray([entry.label for entry in entries], dtype=np.int64))
    files.write_facts(out, facts(entries, options, made_by))
    complete(out)
    return f"{what} written" + (f", {kept} of them by an earlier run" if kept else "")


def usable_processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0))


def facts(
    entries: Sequence[LabelledFile], options: argparse.Namespace, made_by: str
) -> dict[str, Any]:
    """What dataset.json says: enough to refuse arrays that do not fit a model or were damaged."""
    return {
        "name": options.name,
        "count": len(entries),
        "classes": max(entry.label for entry in entries) + 1,
        "sample_shape": [3, options.side, options.side],
        "sample_dtype": "float32",
        "layout": "NCHW",
        **steps(options.torchvision),
        "files": files.facts_of_files(options.out, (SAMPLES, LABELS)),
        "recipe": made_by,
        "made_with": {"pillow": PIL.__version__, "numpy": np.__version__},
        "names": [entry.name for entry in entries],
        **({"qsl_count": options.qsl_count} if options.qsl_count else {}),
    }


def steps(torchvision: bool) -> dict[str, Any]:
    """Return the preprocessing of an image, for dataset.json."""
    if not torchvision:
        return {"channel_means": list(MEANS), "crop_percent": CROP_PERCENT}
    return {
        "channel_means": list(like_torchvision.MEANS),
        "channel_deviations": list(like_torchvision.DEVIATIONS),
        "crop_percent": 100 * like_torchvision.CROP / like_torchvision.SHORT_SIDE,
    }


def write_all(options: argparse.Namespace) -> str:
    """As ``write``, and a file per image where a scratch folder is named."""
    done = write(options)
    if options.scratch is None:
        return done
    out = single_files.folder(options.scratch)
    names = files.read_facts(options.out)["names"]
    new = single_files.write(np.load(options.out / SAMPLES, mmap_mode="r"), names, out)
    return f"{done}; {len(names)} files in {out}, {new} of them new"


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = program.parser(__doc__)
    parser.add_argument("--map", type=Path, required=True, help='list with "file label" lines')
    parser.add_argument("--images", type=Path, help="folder of the images (default: the list's)")
    parser.add_argument("--only", type=Path, help="list of the names to take, one a line")
    parser.add_argument("--count", type=int, default=0, help="only the first so many images")
    parser.add_argument("--side", type=int, required=True, help="pixels of the square crop")
    parser.add_argument("--name", required=True, help="name of the data set, for its facts")
    parser.add_argument("--qsl_count", type=int, help="how many samples runs are to have")
    parser.add_argument("--torchvision", action="store_true", help="the steps of torchvision")
    parser.add_argument("--scratch", type=Path, help="write a file for each image below it too")
    parser.add_argument("--processes", type=int, help="how many work at once (default: all)")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line."""
    options = parse(arguments)
    try:
        options.out.mkdir(parents=True, exist_ok=True)
        return program.run("preprocess", lambda: write_all(options))
    except KeyboardInterrupt:
        print("preprocess: stopped; run again, it goes on where it was", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
