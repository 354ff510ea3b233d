"""Find Criteo's click logs where the user has them, or make the tiny day of clicks."""

from __future__ import annotations

import os
from typing import Any

from cmbench.errors import Error
from cmbench.lib.programs import run_program
from modelzoo.hooks import datasets

DAYS = tuple(f"day_{number}" for number in range(24))
# Label, 13 counts and 26 categories.
COLUMNS = 40
WHERE = "https://ailab.criteo.com/download-criteo-1tb-click-logs-dataset/"


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Check the user's folder; the tiny form is made by a program."""
    env = i["env"]
    if env.get("CM_DATASET_FORM") == "tiny":
        return run_program(i, "make")
    folder = os.path.abspath(os.path.expanduser(env.get("CM_CRITEO_PATH") or ""))
    if not env.get("CM_CRITEO_PATH"):
        raise Error(
            "data-not-free",
            "Criteo's click logs cannot be fetched by a program: their licence has to be accepted",
            hint=f"get them from {WHERE} and give the folder with --criteo_path=FOLDER, "
            "or use the tiny form: `--tags=get,dataset,criteo,_tiny`",
        )
    files = check(folder)
    env["CM_DATASET_PATH"] = folder
    return {"return": 0, "relies_on": files}


def check(folder: str) -> list[str]:
    """The 24 files; Error when one is missing or its first line is no line of a click log."""
    files = [os.path.join(folder, day) for day in DAYS]
    missing = [os.path.basename(path) for path in files if not os.path.isfile(path)]
    if missing:
        raise Error(
            "data-incomplete",
            f"{folder} has {len(files) - len(missing)} of the {len(files)} files of the click logs",
            hint=f"put the missing ones there, unpacked; the first is {missing[0]}",
            context=missing,
        )
    for path in files:
        with open(path, encoding="ascii", errors="replace") as file:
            columns = len(file.readline().rstrip("\n").split("\t"))
        if columns != COLUMNS:
            raise Error(
                "data-wrong",
                f"{path} has {columns} columns in its first line, a click log has {COLUMNS}",
                hint="unpack the downloaded file again",
            )
    return files


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Set what scripts that use the data set look at."""
    env = i["env"]
    if env.get("CM_DATASET_FORM") != "tiny":
        return {"return": 0}
    folder = os.getcwd()
    facts = datasets.read_facts(folder)
    env["CM_DATASET_PATH"] = folder
    env["CM_DATASET_SIZE"] = str(facts["pairs"])
    env["CM_DATASET_ROWS"] = ",".join(str(rows) for rows in facts["rows"])
    return {"return": 0, "version": facts["version"]}
