"""Export SQuAD's held-out questions: downloaded, the user's, or the made-up ones."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from cmbench.errors import Error
from cmbench.lib.files import file_checksum
from cmbench.lib.programs import run_program


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Make the tiny form, check the user's file, or request the download."""
    env = i["env"]
    if env.get("CM_DATASET_FORM") == "tiny":
        return run_program(i, "make")
    own_file = env.get("CM_SQUAD_PATH")
    if not own_file:
        env["CM_SQUAD_DOWNLOAD"] = "yes"
        return {"return": 0}
    path = os.path.abspath(os.path.expanduser(own_file))
    _check(path, env["CM_DOWNLOAD_CHECKSUM"])
    env["CM_DATASET_SQUAD_VAL_PATH"] = path
    return {"return": 0, "relies_on": [path]}


def _check(path: str, md5: str) -> None:
    try:
        checksum = file_checksum(Path(path), "md5")
    except OSError as error:
        raise Error(
            "data-missing",
            f"cannot read {path}: {error.strerror}",
            hint="give the path of dev-v1.1.json with --squad_path=FILE",
        ) from error
    if checksum != md5:
        raise Error(
            "data-wrong",
            f"{path} is not SQuAD's dev-v1.1.json: its MD5 is {checksum}, not {md5}",
            hint="leave --squad_path out to download the right file",
        )


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Set where the questions lie."""
    env = i["env"]
    if env.get("CM_DATASET_FORM") == "tiny":
        folder = os.getcwd()
        env["CM_DATASET_SQUAD_VAL_PATH"] = os.path.join(folder, "dev-v1.1.json")
        env["CM_DATASET_SQUAD_TRAIN_PATH"] = os.path.join(folder, "train-v1.1.json")
    return {"return": 0}
