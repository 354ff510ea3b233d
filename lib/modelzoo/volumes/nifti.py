"""Files of NIfTI, of which a case of a medical data set has several."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nibabel

from modelzoo.program import ProgramError


@contextmanager
def reading(folder: Path) -> Iterator[None]:
    """Raise ProgramError where a file of the case in ``folder`` cannot be read."""
    try:
        yield
    except (nibabel.filebasedimages.ImageFileError, EOFError, OSError, zlib.error) as error:
        raise ProgramError(f"cannot read the case {folder}: {error}") from error


def opened(path: Path) -> tuple[Any, tuple[float, ...]]:
    """Return an image, whose numbers are still to be read, and the sizes of its voxels in mm."""
    # nibabel names only what all its formats have in common.
    image: Any = nibabel.load(path)
    return image, tuple(float(size) for size in image.header["pixdim"][1:4])
