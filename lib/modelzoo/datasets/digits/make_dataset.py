"""Lay the handwritten digits of scikit-learn out as the ImageNet validation set is laid out.

The source is the UCI "Optical Recognition of Handwritten Digits" test set (1,797 images of 8 x 8
grey levels 0..16, written by 13 people), which is part of scikit-learn's wheel, so nothing is
downloaded. Every level becomes a block of 4 x 4 RGB pixels of one PNG file of 32 x 32.

The images are ordered in blocks by writer. The held-out part is therefore one contiguous block at
the end: a random split would put the same writer into both parts and flatter the accuracy.
"""

from __future__ import annotations

import hashlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import PIL
import sklearn
from PIL import Image
from sklearn.datasets import load_digits

from modelzoo import files, program
from modelzoo.program import ProgramError

Pixels = npt.NDArray[np.uint8]
Labels = npt.NDArray[np.uint8]

VERSION = "1.0"
LEVELS = 16
BLOCK = 4
HELD_OUT = 540
SOURCE_IMAGES_SHA256 = "8f26b2bd9d135c256808f68f14fdabddde6d9c7f869ae419704b051f0f14b3b3"
SOURCE_LABELS_SHA256 = "8ba4f891220f5e4c9c819638d1602d74b83618f167043c6da52a2a247841ddf0"
PART_SHA256 = {
    "train": "64eefbcea15c363de8229b73f83224162570395e7fa585fe897743a2024b7b72",
    "val": "d97a89c5b849d114772943ce74ebb683944f1438a89d56039f26326df05060ca",
}


@dataclass(frozen=True, slots=True)
class DigitsPart:
    """One part of the split: ``pixels`` is [n, 32, 32] grey, ``labels`` is [n] in 0..9."""

    name: str
    pixels: Pixels
    labels: Labels

    def map_path(self, root: Path) -> Path:
        """The list of file names and labels, named as the ImageNet tools expect it."""
        return root / self.name / f"{self.name}_map.txt"

    def file_name(self, number: int) -> str:
        """The name of the image with this number, counted from one as ImageNet counts."""
        return f"digits_{self.name}_{number + 1:08d}.png"


def load_source() -> tuple[Pixels, Labels]:
    """The source images [1797, 8, 8] and labels [1797]; raises ProgramError if they changed."""
    bunch: Any = load_digits()
    images = bunch.images.astype(np.uint8)
    labels = bunch.target.astype(np.uint8)
    for what, array, expected in (
        ("images", images, SOURCE_IMAGES_SHA256),
        ("labels", labels, SOURCE_LABELS_SHA256),
    ):
        checksum = hashlib.sha256(array.tobytes()).hexdigest()
        if checksum != expected:
            raise ProgramError(
                f"the digit {what} of scikit-learn {sklearn.__version__} have sha256 {checksum}, "
                f"expected {expected}"
            )
    return images, labels


def enlarge(images: Pixels) -> Pixels:
    """Grey levels 0..16 [n, 8, 8] as pixels 0..255 [n, 32, 32], exact and without a filter."""
    grey = np.rint(images * (255.0 / LEVELS)).astype(np.uint8)
    large: Pixels = grey.repeat(BLOCK, axis=1).repeat(BLOCK, axis=2)
    return large


def split(pixels: Pixels, labels: Labels) -> list[DigitsPart]:
    """The training part and the held-out block of other writers after it."""
    cut = len(labels) - HELD_OUT
    return [
        DigitsPart("train", pixels[:cut], labels[:cut]),
        DigitsPart("val", pixels[cut:], labels[cut:]),
    ]


def write_part(part: DigitsPart, root: Path) -> None:
    """Write the PNG files of ``part`` and the list of their labels under ``root``/<name>."""
    folder = root / part.name
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for number, (grey, label) in enumerate(zip(part.pixels, part.labels, strict=True)):
        Image.fromarray(grey).convert("RGB").save(folder / part.file_name(number))
        lines.append(f"{part.file_name(number)} {label}\n")
    part.map_path(root).write_text("".join(lines), encoding="utf-8")


def digest_of_files(map_path: Path) -> tuple[int, str]:
    """Count and sha256 of the decoded pixels, names and labels that the listed files really hold.

    Decoded pixels are hashed rather than the files because encoders may pack the same image
    differently from version to version.
    """
    digest = hashlib.sha256()
    lines = map_path.read_text(encoding="utf-8").splitlines()
    for line in lines:
        with Image.open(map_path.parent / line.split()[0]) as image:
            digest.update(f"{line} {image.mode} {image.size}\n".encode())
            digest.update(image.tobytes())
    return len(lines), digest.hexdigest()


def verify_part(part: DigitsPart, root: Path) -> dict[str, Any]:
    """Read everything back; returns the facts of the part or raises ProgramError."""
    count, checksum = digest_of_files(part.map_path(root))
    if count != len(part.labels) or checksum != PART_SHA256[part.name]:
        raise ProgramError(
            f"{root / part.name} reads back as {count} images with sha256 {checksum}, "
            f"expected {len(part.labels)} with {PART_SHA256[part.name]}"
        )
    per_class = np.bincount(part.labels, minlength=10).tolist()
    return {"count": count, "sha256": checksum, "images_per_class": per_class}


def make(root: Path) -> dict[str, Any]:
    """Write and verify both parts below ``root``; returns the facts for dataset.json."""
    images, labels = load_source()
    parts = split(enlarge(images), labels)
    for part in parts:
        write_part(part, root)
    return {
        "version": VERSION,
        "source": "UCI Optical Recognition of Handwritten Digits, as in scikit-learn",
        "licence": "CC BY 4.0",
        "source_sha256": {"images": SOURCE_IMAGES_SHA256, "labels": SOURCE_LABELS_SHA256},
        "made_with": {"scikit-learn": sklearn.__version__, "pillow": PIL.__version__},
        "parts": {part.name: verify_part(part, root) for part in parts},
    }


def main(arguments: list[str] | None = None) -> int:
    """Write the data set into ``--out``; exit status 1 with one line when it cannot be trusted."""
    out: Path = program.parser(__doc__).parse_args(arguments).out

    def work() -> str:
        facts = make(out)
        files.write_facts(out, facts)
        counts = ", ".join(f"{name} {part['count']}" for name, part in facts["parts"].items())
        return f"images written and read back: {counts}"

    return program.run("make_dataset", work)


if __name__ == "__main__":
    sys.exit(main())
