"""Permission to fetch a checkpoint that its owner gives out by Hugging Face."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from common.problems import Problem

HUGGING_FACE = "huggingface"
CAN_BE_FETCHED = "Llama-3.1-8B-Instruct"
TOKEN_KEY = "HF_TOKEN"
PAGE = "https://huggingface.co/meta-llama/Llama-3.1-8B-Instruct"
ACCEPT = f"accept Meta's licence at {PAGE}"


def require_permission(env: Mapping[str, Any]) -> None:
    """Raise Problem where a checkpoint is to be fetched that nobody may have without asking.

    The access token is only looked for: it never becomes an env key, an argument or a record.
    """
    name = env["CM_ML_MODEL_NAME"]
    if env.get("CM_DOWNLOAD_SRC") != HUGGING_FACE or name != CAN_BE_FETCHED:
        raise Problem(
            "needs-input",
            f"{name} is only for those whom Meta and MLCommons have let in: no --checkpoint=FOLDER",
            hint=f"{ACCEPT} and add _hf (8B only), or fetch it from MLCommons "
            "(https://llama3-1.mlcommons.org) and give --checkpoint=FOLDER; "
            "_tiny needs neither",
        )
    if not has_token(env):
        raise no_token(name)


def no_token(name: str) -> Problem:
    """Return the problem of a missing access token for the model ``name``."""
    return Problem(
        "needs-input",
        f"{name} needs an access token of Hugging Face, and there is none",
        hint=f"{ACCEPT}, put a token into the environment (export {TOKEN_KEY}=...) or into a "
        "file of a login (huggingface-cli login), never into the command; _tiny needs none",
    )


def has_token(env: Mapping[str, Any]) -> bool:
    """Return whether there is an access token of Hugging Face."""
    named = str(env.get("CM_LLAMA3_TOKEN_FILE") or "")
    return bool(named or os.environ.get(TOKEN_KEY)) or _login().is_file()


def _login() -> Path:
    home = os.environ.get("HF_HOME") or os.path.join("~", ".cache", "huggingface")
    return Path(os.path.expanduser(home)) / "token"
