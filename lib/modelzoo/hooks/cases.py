"""Common hooks of the scripts of volumes: the cases that are used, and their env keys."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

from common.problems import Problem
from modelzoo.hooks import calibration_lists
from modelzoo.hooks.native import run_program

LIST = "cases.txt"
# What the cases of a part are for.
USES = {"validation": "the benchmark", "calibration": "calibration"}


@dataclass(frozen=True, slots=True)
class CaseDataset:
    """A data set of cases that its users fetch, and a small one that a program makes.

    ``key`` is the env key of the user's folder, ``why`` and ``how`` say what to do without one.
    ``calibration_cases`` of the rules' list match ``listed``. ``folder_of`` finds the folder of the
    cases in that of the user; ``check`` returns the files of some cases in it, which a use needs.
    """

    key: str
    version: str
    why: str
    how: str
    calibration_cases: int
    listed: re.Pattern[str]
    folder_of: Callable[[str], str]
    check: Callable[[str, list[str], str], list[str]]

    def refuse(self, i: Mapping[str, Any]) -> dict[str, Any]:
        """Raise Problem for the real cases, where the user has not said where they are."""
        if i["env"].get("CM_DATASET_FORM") != "tiny" and not i["env"].get(self.key):
            raise Problem("data-needed", self.why, hint=self.how)
        return {"return": 0}

    def preprocess(self, i: dict[str, Any]) -> dict[str, Any]:
        """Look at the user's folder; the tiny form is made by a program."""
        self.refuse(i)
        env = i["env"]
        if env.get("CM_DATASET_FORM") == "tiny":
            return run_program(i, "make")
        folder, use = self.folder_of(env[self.key]), USES[env["CM_DATASET_TYPE"]]
        return {"return": 0, "relies_on": self.check(folder, self.wanted(env), use)}

    def wanted(self, env: Mapping[str, str]) -> list[str]:
        """The cases of the benchmark, or those that its rules allow to calibrate with."""
        if env["CM_DATASET_TYPE"] == "validation":
            return listed(env["CM_TMP_CURRENT_SCRIPT_PATH"])
        path = env["CM_CALIBRATION_LIST_FILE_WITH_PATH"]
        cases = calibration_lists.entries(path, self.calibration_cases, self.listed, "cases")
        # The rules' list writes HGG__NAME for the folder NAME in HGG.
        return [case.replace("__", "/", 1) for case in cases]

    def postprocess(self, i: Mapping[str, Any]) -> dict[str, Any]:
        """Set the folder of the cases and the list of those that are used."""
        env, made = i["env"], os.getcwd()
        if env.get("CM_DATASET_FORM") == "tiny":
            return hand_out(env, os.path.join(made, "data"), listed(made), "1.0")
        return hand_out(env, self.folder_of(env[self.key]), self.wanted(env), self.version)


def absolute(text: str) -> str:
    """Return the folder that a user has named."""
    return os.path.abspath(os.path.expanduser(text))


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
