"""Common hooks of the scripts of volumes: the cases that are used, and their env keys."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any

from common.problems import Problem
from modelzoo.hooks import calibration_lists

LIST = "cases.txt"
# What the cases of a part are for.
USES = {"validation": "the benchmark", "calibration": "calibration"}


def require(env: Mapping[str, Any], key: str, why: str, how: str) -> dict[str, Any]:
    """Raise Problem ``data-needed`` where ``key`` does not say where the real cases are."""
    if env.get("CM_DATASET_FORM") != "tiny" and not env.get(key):
        raise Problem("data-needed", why, hint=how)
    return {"return": 0}


def wanted(env: Mapping[str, str], count: int, case: re.Pattern[str]) -> list[str]:
    """The cases of the benchmark, or the ``count`` that its rules allow to calibrate with."""
    if env["CM_DATASET_TYPE"] == "calibration":
        path = env["CM_CALIBRATION_LIST_FILE_WITH_PATH"]
        return calibration_lists.entries(path, count, case, "cases")
    return listed(env["CM_TMP_CURRENT_SCRIPT_PATH"])


def listed(folder: str) -> list[str]:
    """The cases that the list in ``folder`` names, in its order."""
    with open(os.path.join(folder, LIST), encoding="utf-8") as file:
        return file.read().split()


def hand_out(
    env: MutableMapping[str, Any], folder: str, cases: Sequence[str], version: str
) -> dict[str, Any]:
    """Set the ``folder`` of the cases and the list of those that are used: the answer of a hook."""
    path = os.path.join(os.getcwd(), LIST)
    with open(path, "w", encoding="utf-8") as file:
        file.write("".join(f"{case}\n" for case in cases))
    env["CM_DATASET_PATH"] = folder
    if env["CM_DATASET_TYPE"] == "calibration":
        env["CM_CALIBRATION_DATASET_PATH"] = folder
    env["CM_DATASET_CASES_FILE_PATH"] = path
    env["CM_DATASET_SIZE"] = str(len(cases))
    return {"return": 0, "version": version}


def some(lacking: Sequence[str], shown: int = 5) -> list[str]:
    """The first files that are lacking, for the context of a Problem."""
    return [*lacking[:shown], *(["..."] if len(lacking) > shown else [])]
