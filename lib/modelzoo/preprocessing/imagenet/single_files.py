"""A file per image, as NVIDIA's harnesses read them: ``NAME.npy`` below a scratch folder."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from modelzoo.files import check_disk

DATA = "preprocessed_data"
# The guide for Inferentia writes the first, NVIDIA's code expects the last.
NAMES = ("Resnet50", "ResNet50")
FORMAT = "fp32_pytorch"
# Bytes kept free on the disk, and the overhead of a file.
MARGIN, HEAD = 1 << 28, 4096


def folder(scratch: Path) -> Path:
    """Where the files go: into the folder of either name that is there, else as the code has it."""
    imagenet = scratch / DATA / "imagenet"
    there = [imagenet / name for name in NAMES if (imagenet / name).is_dir()]
    return (there[-1] if there else imagenet / NAMES[-1]) / FORMAT


def write(samples: npt.NDArray[np.float32], names: Sequence[str], out: Path) -> int:
    """Write ``samples`` [n, 3, side, side] into a file per sample; return the number of new ones.

    One that is there with the same values is kept, and one that is interrupted is not there.
    Raises ProgramError where the disk has no room, OSError.
    """
    out.mkdir(parents=True, exist_ok=True)
    paths = [out / f"{name}.npy" for name in names]
    missing = [row for row, path in enumerate(paths) if not _same(path, samples[row])]
    needed = len(missing) * (HEAD + (samples[0].nbytes if len(samples) else 0))
    advice = "name a folder of a larger disk: --scratch_path=FOLDER"
    check_disk(out, needed, margin=MARGIN, advice=advice)
    for row in missing:
        unfinished = paths[row].with_name(f".{paths[row].name}.{os.getpid()}.part")
        with unfinished.open("wb") as file:
            np.save(file, samples[row])
        unfinished.replace(paths[row])
    return len(missing)


def _same(path: Path, sample: npt.NDArray[np.float32]) -> bool:
    try:
        return np.array_equal(np.load(path), sample)
    except (OSError, ValueError, EOFError):
        return False
