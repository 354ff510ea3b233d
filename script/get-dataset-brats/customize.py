"""Look through the user's BraTS 2019, or make the small set."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

from cmbench.errors import Error
from modelzoo.hooks import cases as shared

MODALITIES = ("t1", "t1ce", "t2", "flair")
PARTS = (*MODALITIES, "seg")
# Number of cases by grade in the training data of BraTS 2019.
GRADES = {"HGG": 259, "LGG": 76}
ARCHIVE = "MICCAI_BraTS_2019_Data_Training"
SITE = "https://www.med.upenn.edu/cbica/brats2019/registration.html"
HOW = (
    f"register at {SITE}, unpack {ARCHIVE}, then give --brats_path=DIR (in the command of a "
    "benchmark: --adr.original-dataset.brats_path=DIR); or use _tiny"
)


@dataclass(frozen=True, slots=True)
class CaseSurvey:
    """What a folder holds: cases by grade, and the files that listed and other cases lack."""

    counts: dict[str, int]
    lacking: list[str]
    lacking_elsewhere: list[str]

    def line(self, wanted: int, use: str) -> str:
        """The count in words; ``use`` needs ``wanted`` of the cases."""
        total = sum(self.counts.values())
        parts = ", ".join(f"{self.counts[grade]} {grade}" for grade in GRADES)
        text = f"{total} of {sum(GRADES.values())} cases ({parts}); "
        text += f"the {wanted} that {use} needs are whole"
        if self.lacking_elsewhere:
            text += f"; files that others lack: {len(self.lacking_elsewhere)}, not needed here"
        return text


def cases_folder(text: str) -> str:
    """The folder with HGG and LGG: the one that was given, or the one below it.

    Raises Error when one of them is missing.
    """
    folder = shared.absolute(text)
    inside = os.path.join(folder, ARCHIVE)
    root = inside if os.path.isdir(inside) else folder
    if not os.path.isdir(root):
        raise Error("file-not-found", f"there is no folder {root}", hint=HOW)
    lost = [grade for grade in GRADES if not os.path.isdir(os.path.join(root, grade))]
    if lost:
        names = "neither HGG nor LGG" if len(lost) == 2 else f"no {lost[0]}"
        raise Error("data-incomplete", f"{root} has {names} in it", hint=HOW)
    return root


def files(folder: str, case: str) -> list[str]:
    """The five files of a case such as HGG/BraTS19_2013_13_1."""
    name = os.path.basename(case)
    return [os.path.join(folder, case, f"{name}_{part}.nii.gz") for part in PARTS]


def check(folder: str, cases: Sequence[str], use: str) -> CaseSurvey:
    """Return the survey; raise Error naming missing files of ``cases``, which ``use`` needs."""
    counted = survey(folder, cases)
    if not counted.lacking:
        return counted
    parts = ", ".join(f"{number} {grade}" for grade, number in counted.counts.items())
    needed = len(cases) * len(PARTS)
    raise Error(
        "data-incomplete",
        f"{folder} lacks {len(counted.lacking)} of the {needed} files that {use} needs",
        context=[
            f"found {sum(counted.counts.values())} of {sum(GRADES.values())} cases: {parts}",
            *shared.some(counted.lacking),
        ],
        hint=_remedy(counted.lacking),
    )


def survey(folder: str, cases: Sequence[str]) -> CaseSurvey:
    """Count the cases of both grades and check their files."""
    present = {grade: _folders(os.path.join(folder, grade)) for grade in GRADES}
    named = {f"{grade}/{name}" for grade, names in present.items() for name in names}
    others = sorted(named - set(cases))
    return CaseSurvey(
        {grade: len(names) for grade, names in present.items()},
        [path for case in cases for path in files(folder, case) if _empty(path)],
        [path for case in others for path in files(folder, case) if _empty(path)],
    )


def _folders(path: str) -> list[str]:
    with os.scandir(path) as entries:
        return sorted(entry.name for entry in entries if entry.is_dir())


def _empty(path: str) -> bool:
    try:
        return os.path.getsize(path) == 0
    except OSError:
        return True


def _remedy(lacking: Sequence[str]) -> str:
    """Packed images that were unpacked by mistake only need to be packed again."""
    unpacked = [path for path in lacking if os.path.isfile(path.removesuffix(".gz"))]
    if len(unpacked) == len(lacking):
        return "the images are there without .gz: pack them again, gzip -r HGG LGG"
    return HOW


def look_through(folder: str, cases: list[str], use: str) -> list[str]:
    """Return the files of ``cases``, which ``use`` needs; print what else the folder holds."""
    print(f"{folder}: {check(folder, cases, use).line(len(cases), use)}")
    return [path for case in cases for path in files(folder, case)]


BRATS = shared.CaseDataset(
    key="CM_BRATS_PATH",
    version="2019",
    why="BraTS 2019 is given to who registers for it, and has to be fetched by you",
    how=HOW,
    calibration_cases=40,
    listed=re.compile(r"(HGG|LGG)__BraTS19_\w+"),
    folder_of=cases_folder,
    check=look_through,
)
refuse, preprocess, postprocess = BRATS.refuse, BRATS.preprocess, BRATS.postprocess
