"""Find the cases of KiTS19 that the benchmark needs, or make the small set."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from cmbench.errors import Error
from cmbench.lib.programs import run_program
from modelzoo.hooks import cases as shared

NAMES = ("imaging.nii.gz", "segmentation.nii.gz")
# The benchmark has one case twice, under a number that KiTS19 does not have.
COPIES = {"case_00400": "case_00185"}
# What the rules allow to calibrate with: so many cases, none of which is judged.
CALIBRATION_CASES = 20
CASE = re.compile(r"case_\d{5}")
HOW = (
    "git clone https://github.com/neheller/kits19, there run "
    "'python3 -m starter_code.get_imaging', then give --kits19_path=kits19/data; or use _tiny"
)


def refuse(i: dict[str, Any]) -> dict[str, Any]:
    """Raise Error for the real cases, where the user has not said where they are."""
    why = "KiTS19 is free for non-commercial use (CC BY-NC-SA 4.0) and has to be fetched by you"
    answer: dict[str, Any] = shared.require(i["env"], "CM_KITS19_PATH", why, HOW)
    return answer


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Look at the user's folder; the tiny form is made by a program."""
    refuse(i)
    env = i["env"]
    if env.get("CM_DATASET_FORM") == "tiny":
        return run_program(i, "make")
    folder = cases_folder(env["CM_KITS19_PATH"])
    files = check(folder, wanted(env), shared.USES[env["CM_DATASET_TYPE"]])
    return {"return": 0, "relies_on": files}


def wanted(env: Mapping[str, str]) -> list[str]:
    """The cases of the benchmark, or those that its rules allow to calibrate with."""
    return shared.wanted(env, CALIBRATION_CASES, CASE)


def cases_folder(text: str) -> str:
    """The folder of the cases: the one that was given, or ``data`` in a checkout."""
    folder = os.path.abspath(os.path.expanduser(text))
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


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Set the folder of the cases and the list of those that are used."""
    env = i["env"]
    if env.get("CM_DATASET_FORM") == "tiny":
        folder = os.path.join(os.getcwd(), "data")
        return shared.hand_out(env, folder, sorted(os.listdir(folder)), "1.0")
    return shared.hand_out(env, cases_folder(env["CM_KITS19_PATH"]), wanted(env), "2019")
