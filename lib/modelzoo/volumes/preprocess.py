"""Turn cases of BraTS 2019 or KiTS19 into arrays that a benchmark loads at once.

    python -m modelzoo.volumes.preprocess --dataset brats --cases DIR --list FILE
        --window 224,224,160 --name NAME --out DIR

Every line of ``FILE`` names the folder of a case below ``DIR``. Written are ``samples.npy`` float32
and ``labels.npy`` uint8 (all volumes one after the other; 255 where nothing is judged),
``shapes.npy`` int64 [cases, 4] and ``dataset.json``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import scipy

from modelzoo import program
from modelzoo.program import ProgramError
from modelzoo.volumes import brats, kits19
from modelzoo.volumes.arrays import VolumeArrays, Window, check_room, window_fact, window_of

# The module of a data set, which reads and transforms a case.
DATASETS: dict[str, Any] = {"brats": brats, "kits19": kits19}


def dataset_facts(dataset: str, name: str, listed: Sequence[str], window: Window) -> dict[str, Any]:
    """Return the contents of dataset.json without the facts of the arrays."""
    packages = (np, scipy, nibabel)
    return {
        "name": name,
        "window": window_fact(window),
        **({"spacing_mm": kits19.SPACING_MM} if dataset == "kits19" else {}),
        "cases": list(listed),
        "made_with": {package.__name__: package.__version__ for package in packages},
    }


def write(folders: Sequence[Path], dataset: str, window: Window, out: Path) -> VolumeArrays:
    """Write the volumes of all cases; raise ProgramError for one that cannot be used."""
    if dataset == "brats":
        check_room(out, [(len(brats.MODALITIES), *window)] * len(folders))
    module, arrays = DATASETS[dataset], VolumeArrays(out)
    for number, folder in enumerate(folders, 1):
        case = module.read(folder)
        try:
            images, labels = module.preprocessed(case, window)
        except ProgramError as error:
            raise ProgramError(f"{folder}: {error}") from error
        arrays.add(images, labels)
        note = module.note(case, labels)
        print(f"{number} of {len(folders)}: {folder.name}{note}", flush=True)
    return arrays


def main(arguments: list[str] | None = None) -> int:
    """Write the arrays and, last of all, dataset.json."""
    parser = program.parser(__doc__)
    parser.add_argument("--dataset", choices=DATASETS, required=True, help="whose cases")
    parser.add_argument("--cases", type=Path, required=True, help="folder of the cases' folders")
    parser.add_argument("--list", type=Path, required=True, help="file with a case in each line")
    parser.add_argument("--window", type=window_of, required=True, help="sides of the window")
    parser.add_argument("--name", required=True, help="name of the data set, for its facts")
    options = parser.parse_args(arguments)

    def work() -> str:
        listed = options.list.read_text(encoding="utf-8").split()
        folders = DATASETS[options.dataset].folders(options.cases, listed)
        arrays = write(folders, options.dataset, options.window, options.out)
        arrays.close(dataset_facts(options.dataset, options.name, listed, options.window))
        return f"{len(listed)} volumes written"

    return program.run("preprocess", work)


if __name__ == "__main__":
    sys.exit(main())
