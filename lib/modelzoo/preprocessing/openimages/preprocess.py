"""Turn annotated images into the arrays that the object detection benchmarks read.

    python -m modelzoo.preprocessing.openimages.preprocess --annotations FILE --images DIR
        --input KIND --side N --name NAME --out DIR

With ``--list FILE`` instead of annotations, a list names an image per line, without boxes.

Images are made RGB and resized to N x N, linearly between the pixels' middles and without
smoothing, as OpenCV's INTER_LINEAR does on floats. Then, as a model is fed:

    shares      divided by 255                                       float32 [3, N, N]
    normalised  the same, less ImageNet's means, by its deviations   float32 [3, N, N]
    bytes       without fractions                                    uint8 [N, N, 3]

Written are ``samples.npy``, ``annotations.json`` (in COCO's format, images in the order of the
samples) and ``dataset.json``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import PIL
from PIL import Image

from modelzoo import files, program
from modelzoo.program import ProgramError

MEANS = np.asarray((0.485, 0.456, 0.406), dtype=np.float32)
DEVIATIONS = np.asarray((0.229, 0.224, 0.225), dtype=np.float32)
SHOWN = 3
# Bytes kept free on the disk in addition to the arrays.
MARGIN = 1 << 28

Pixels = npt.NDArray[np.float32]
Sample = npt.NDArray[Any]


def resize(pixels: Pixels, side: int) -> Pixels:
    """An image [h, w, 3] as [side, side, 3], linear between the middles of pixels."""
    for axis in (0, 1):
        size = pixels.shape[axis]
        at = (np.arange(side) + 0.5) * (size / side) - 0.5
        low = np.floor(at).astype(np.int64)
        share = (at - low).astype(np.float32)
        share[(low < 0) | (low >= size - 1)] = 0  # beyond the outermost middles nothing changes
        low = np.clip(low, 0, size - 1)
        high = np.minimum(low + 1, size - 1)
        weight = share.reshape((-1, 1, 1) if axis == 0 else (1, -1, 1))
        first, second = np.take(pixels, low, axis), np.take(pixels, high, axis)
        pixels = first * (1 - weight) + second * weight
    return pixels


def shares(pixels: Pixels) -> Sample:
    """[3, n, n] between 0 and 1."""
    return (pixels / np.float32(255)).transpose(2, 0, 1)


def normalised(pixels: Pixels) -> Sample:
    """[3, n, n] less ImageNet's means, by its deviations."""
    sample: Sample = (pixels / np.float32(255) - MEANS) / DEVIATIONS
    return sample.transpose(2, 0, 1)


def whole_bytes(pixels: Pixels) -> Sample:
    """[n, n, 3] without fractions."""
    return pixels.astype(np.uint8)


KINDS: dict[str, Callable[[Pixels], Sample]] = {
    "shares": shares,
    "normalised": normalised,
    "bytes": whole_bytes,
}


def read_picture(path: Path) -> Pixels:
    """An image as RGB [h, w, 3]; raises ProgramError when the file is none."""
    try:
        with Image.open(path) as image:
            return np.asarray(image.convert("RGB"), dtype=np.float32)
    except OSError as error:
        raise ProgramError(f"{path} cannot be read as an image: {error}") from error


def read_annotations(path: Path, count: int) -> dict[str, Any]:
    """The annotations of the first ``count`` images, or of all for 0.

    Raises ProgramError when the file is not in COCO's format.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        images = document["images"][: count or None]
        image_ids = {image["id"] for image in images}
        keys = ("id", "image_id", "category_id", "bbox", "area", "iscrowd")
        return {
            "images": [
                {key: image[key] for key in ("id", "file_name", "width", "height")}
                for image in images
            ],
            "annotations": [
                {"iscrowd": 0, **{key: annotation[key] for key in keys if key in annotation}}
                for annotation in document["annotations"]
                if annotation["image_id"] in image_ids
            ],
            "categories": [{"id": c["id"], "name": c["name"]} for c in document["categories"]],
        }
    except (ValueError, KeyError, TypeError) as error:
        raise ProgramError(
            f"{path} has no annotations in COCO's format: {type(error).__name__} {error}"
        ) from error


def read_list(path: Path, folder: Path, count: int) -> dict[str, Any]:
    """Annotations without boxes for the first ``count`` images of a list, or for all for 0."""
    names = path.read_text(encoding="utf-8").split()[: count or None]
    images: list[dict[str, Any]] = [{"id": k, "file_name": n} for k, n in enumerate(names, start=1)]
    check_files(folder, images)
    for image in images:
        height, width, _ = read_picture(folder / image["file_name"]).shape
        image.update(width=width, height=height)
    return {"images": images, "annotations": [], "categories": []}


def check_files(folder: Path, images: list[dict[str, Any]]) -> None:
    """Raise ProgramError when images are missing: all are looked for before any is read."""
    missing = [i["file_name"] for i in images if not (folder / i["file_name"]).is_file()]
    if missing:
        shown = ", ".join(missing[:SHOWN]) + (" ..." if len(missing) > SHOWN else "")
        raise ProgramError(f"{len(missing)} of {len(images)} images are not in {folder}: {shown}")


def reserved(out: Path, kind: str, side: int, count: int) -> np.memmap[Any, Any]:
    """samples.npy for ``count`` images; ProgramError when it does not fit onto the disk."""
    blank = KINDS[kind](np.zeros((side, side, 3), dtype=np.float32))
    message = f"{count} images need {{needed:.1f}} GB in {out}, {{free:.1f}} GB are free"
    advice = ": ask for fewer (_size.500), or put the cache on a larger disk"
    files.check_disk(out, count * blank.nbytes, message + advice, MARGIN)
    array: np.memmap[Any, Any] = files.array(out / "samples.npy", blank.dtype, count, *blank.shape)
    return array


def write_samples(
    folder: Path, images: list[dict[str, Any]], kind: str, side: int, out: Path
) -> Sample:
    """Write samples.npy; raises ProgramError when an image has another size than stated."""
    samples = reserved(out, kind, side, len(images))
    for row, image in enumerate(images):
        pixels = read_picture(folder / image["file_name"])
        if pixels.shape[:2] != (image["height"], image["width"]):
            raise ProgramError(
                f"{folder / image['file_name']} is {pixels.shape[1]} x {pixels.shape[0]} pixels, "
                f"the annotations say {image['width']} x {image['height']}"
            )
        samples[row] = KINDS[kind](resize(pixels, side))
    samples.flush()
    return samples


def facts(
    options: argparse.Namespace, annotations: dict[str, Any], samples: Sample
) -> dict[str, Any]:
    """What dataset.json says."""
    repeated = {"qsl_count": options.qsl_count} if options.qsl_count else {}
    return {
        "name": options.name,
        "count": len(annotations["images"]),
        **repeated,
        "objects": len(annotations["annotations"]),
        "classes": len(annotations["categories"]),
        "input": options.input,
        "sample_shape": list(samples.shape[1:]),
        "sample_dtype": str(samples.dtype),
        "files": files.facts_of_files(options.out, ("samples.npy", "annotations.json")),
        "made_with": {"pillow": PIL.__version__, "numpy": np.__version__},
    }


def parser_of(doc: str | None) -> argparse.ArgumentParser:
    """What the command lines of preprocessing and of made-up images have in common."""
    parser = program.parser(doc)
    parser.add_argument("--input", choices=KINDS, required=True, help="what the model is fed")
    parser.add_argument("--side", type=int, required=True, help="pixels of a side of the input")
    parser.add_argument("--name", required=True, help="name of the data set, for its facts")
    parser.add_argument("--qsl_count", type=int, default=0, help="samples that runs are to have")
    return parser


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = parser_of(__doc__)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--annotations", type=Path, help="JSON in COCO's format")
    source.add_argument("--list", type=Path, help="names of images without annotations")
    parser.add_argument("--images", type=Path, required=True, help="folder of the images")
    parser.add_argument("--count", type=int, default=0, help="only the first so many images")
    parser.add_argument("--expect", type=int, default=0, help="images that there must be")
    return parser.parse_args(arguments)


def finish(options: argparse.Namespace, annotations: dict[str, Any], samples: Sample) -> None:
    """Write the annotations and, last of all, dataset.json."""
    (options.out / "annotations.json").write_text(json.dumps(annotations) + "\n", encoding="utf-8")
    files.write_facts(options.out, facts(options, annotations, samples))


def make(options: argparse.Namespace) -> str:
    """Write everything; returns a line about it.

    Raises ProgramError when the list has not as many images as expected.
    """
    if options.list:
        annotations = read_list(options.list, options.images, options.count)
    else:
        annotations = read_annotations(options.annotations, options.count)
    count = len(annotations["images"])
    if options.expect not in (0, count):
        source = options.list or options.annotations
        raise ProgramError(f"{source} lists {count} images, expected {options.expect}")
    check_files(options.images, annotations["images"])
    samples = write_samples(
        options.images, annotations["images"], options.input, options.side, options.out
    )
    finish(options, annotations, samples)
    size = " x ".join(str(side) for side in samples.shape[1:])
    return f"{count} samples of {size} {samples.dtype} written"


def main(arguments: list[str] | None = None) -> int:
    """Run the command line."""
    options = parse(arguments)
    return program.run("preprocess", lambda: make(options))


if __name__ == "__main__":
    sys.exit(main())
