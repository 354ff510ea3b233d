"""Find the cases of KiTS19 that the benchmark needs, or make the small set."""

from __future__ import annotations

import os
import re

from cmbench.errors import Error
from modelzoo.hooks import cases as shared

NAMES = ("imaging.nii.gz", "segmentation.nii.gz")
# The benchmark has one case twice, under a number that KiTS19 does not have.
COPIES = {"case_00400": "case_00185"}
HOW = (
    "`git clone https://github.com/neheller/kits19`, there run "
    "'`python3 -m starter_code.get_imaging`', then give --kits19_path=kits19/data; or use _tiny"
)


def cases_folder(text: str) -> str:
    """The folder of the cases: the one that was given, or ``data`` in a checkout."""
    folder = shared.absolute(text)
    inside = os.path.join(folder, "data")
    return inside if os.path.isdir(inside) else folder


def check(folder: str, cases: list[str], use: str) -> list[str]:
    """The files of ``cases``, which ``use`` needs; Error naming those missing or empty."""
    needed = dict.fromkeys(COPIES.get(case, case) for case in cases)
    files = [os.path.join(folder, case, name) for case in needed for name in NAMES]
    missing = [path for path in files if not os.path.isfile(path) or not os.path.getsize(path)]
    if missing:
        raise Error(
            "data-incomplete",
            f"{folder} lacks {len(missing)} of the {len(files)} files that {use} needs",
            context=shared.some(missing),
            hint=HOW,
        )
    return files


KITS19 = shared.CaseDataset(
    key="CM_KITS19_PATH",
    version="2019",
    why="KiTS19 is free for non-commercial use (CC BY-NC-SA 4.0) and has to be fetched by you",
    how=HOW,
    calibration_cases=20,
    listed=re.compile(r"case_\d{5}"),
    folder_of=cases_folder,
    check=check,
)
refuse, preprocess, postprocess = KITS19.refuse, KITS19.preprocess, KITS19.postprocess
