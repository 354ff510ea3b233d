"""Turn a folder of images into the two arrays that the image classification benchmark reads.

The steps are those of the MLPerf reference for ResNet-50: RGB, resize so that the crop is 87.5 %
of the short side, centre crop, subtract the channel means, NCHW float32. ``--side`` sets the
geometry: 224 for ImageNet, 28 for the tiny form at one eighth of it.

Everything goes into one memory-mapped array rather than one file per image: fifty thousand small
files take longer to open than the benchmark takes to load them.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import PIL
from PIL import Image

CROP_PERCENT = 87.5
MEANS = (123.68, 116.78, 103.94)

Sample = npt.NDArray[np.float32]


class PreprocessError(Exception):
    """The images or their list cannot be used; the text says which and why."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the list: a file name and its label, counted from 0."""

    name: str
    label: int


def read_map(path: Path) -> list[Entry]:
    """Read "file label" lines; raises PreprocessError naming the first bad line."""
    entries = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        words = line.split()
        if not words:
            continue
        if len(words) != 2 or not words[1].isdigit():
            raise PreprocessError(f'{path}:{number}: expected "file label", found "{line}"')
        entries.append(Entry(words[0], int(words[1])))
    if not entries:
        raise PreprocessError(f"{path} lists no images")
    return entries


def resized_size(width: int, height: int, side: int) -> tuple[int, int]:
    """The size to resize to so that a crop of ``side`` is 87.5 % of the short side."""
    short = int(100.0 * side / CROP_PERCENT)
    if height > width:
        return short, int(short * height / width)
    return int(short * width / height), short


def preprocess(image: Image.Image, side: int) -> Sample:
    """One image as [3, side, side] float32: resized by area, cropped, means subtracted."""
    rgb = image.convert("RGB")
    size = resized_size(*rgb.size, side)
    if size != rgb.size:
        rgb = rgb.resize(size, Image.Resampling.BOX)
    left, top = (size[0] - side) // 2, (size[1] - side) // 2
    pixels = np.asarray(rgb.crop((left, top, left + side, top + side)), dtype=np.float32)
    return (pixels - np.asarray(MEANS, dtype=np.float32)).transpose(2, 0, 1)


def preprocess_file(path: Path, side: int) -> Sample:
    """As ``preprocess``; raises PreprocessError when the file is no readable image."""
    try:
        with Image.open(path) as image:
            return preprocess(image, side)
    except OSError as error:
        raise PreprocessError(f"{path} cannot be read as an image: {error}") from error


def write_arrays(folder: Path, entries: Sequence[Entry], side: int, out: Path) -> None:
    """Write samples.npy [n, 3, side, side] float32 and labels.npy [n] int64 into ``out``."""
    samples = np.lib.format.open_memmap(
        out / "samples.npy", mode="w+", dtype=np.float32, shape=(len(entries), 3, side, side)
    )
    for row, entry in enumerate(entries):
        samples[row] = preprocess_file(folder / entry.name, side)
    samples.flush()
    np.save(out / "labels.npy", np.asarray([entry.label for entry in entries], dtype=np.int64))


def file_facts(path: Path) -> dict[str, Any]:
    """Size and sha256 of a written file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return {"bytes": path.stat().st_size, "sha256": digest.hexdigest()}


def facts(
    entries: Sequence[Entry], side: int, name: str, qsl_count: int | None, out: Path
) -> dict[str, Any]:
    """What dataset.json says: enough to refuse arrays that do not fit a model or were damaged."""
    return {
        "name": name,
        "count": len(entries),
        "classes": max(entry.label for entry in entries) + 1,
        "sample_shape": [3, side, side],
        "sample_dtype": "float32",
        "layout": "NCHW",
        "channel_means": list(MEANS),
        "crop_percent": CROP_PERCENT,
        "files": {file: file_facts(out / file) for file in ("samples.npy", "labels.npy")},
        "made_with": {"pillow": PIL.__version__, "numpy": np.__version__},
        "names": [entry.name for entry in entries],
        **({"qsl_count": qsl_count} if qsl_count else {}),
    }


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--map", type=Path, required=True, help='list with "file label" lines')
    parser.add_argument("--images", type=Path, help="folder of the images (default: the list's)")
    parser.add_argument("--side", type=int, required=True, help="pixels of the square crop")
    parser.add_argument("--name", required=True, help="name of the data set, for its facts")
    parser.add_argument("--qsl_count", type=int, help="how many samples runs are to have")
    parser.add_argument("--out", type=Path, required=True, help="folder to write into")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Write samples.npy, labels.npy and, last of all, dataset.json."""
    options = parse(arguments)
    try:
        entries = read_map(options.map)
        write_arrays(options.images or options.map.parent, entries, options.side, options.out)
    except (OSError, PreprocessError) as error:
        print(f"preprocess: {error}", file=sys.stderr)
        return 1
    told = facts(entries, options.side, options.name, options.qsl_count, options.out)
    text = json.dumps(told, indent=1) + "\n"
    unfinished = options.out / "dataset.json.part"
    unfinished.write_text(text, encoding="utf-8")
    os.replace(unfinished, options.out / "dataset.json")
    print(f"{len(entries)} samples of 3 x {options.side} x {options.side} float32 written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
