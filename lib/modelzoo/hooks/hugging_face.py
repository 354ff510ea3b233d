"""Permission to fetch a checkpoint that its owner gives out by Hugging Face."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from common.problems import Problem

TOKEN_KEY = "HF_TOKEN"
TOKEN_FILE_KEY = "CM_HUGGING_FACE_TOKEN_FILE"


def acceptance(repository: str) -> str:
    """Return where the licence of a checkpoint is accepted."""
    return f"accept its licence at https://huggingface.co/{repository}"


def no_token(name: str, repository: str) -> Problem:
    """Return the problem of a missing access token for the model ``name``."""
    return Problem(
        "needs-input",
        f"{name} needs an access token of Hugging Face, and there is none",
        hint=f"{acceptance(repository)}, put a token into the environment (export {TOKEN_KEY}=...) "
        "or into a file of a login (huggingface-cli login), never into the command; _tiny needs "
        "none",
    )


def has_token(env: Mapping[str, Any]) -> bool:
    """Return whether there is an access token of Hugging Face.

    It is only looked for: it never becomes an env key, an argument or a record.
    """
    named = str(env.get(TOKEN_FILE_KEY) or "")
    if named:
        return _has_content(Path(os.path.expanduser(named)))
    return bool(os.environ.get(TOKEN_KEY, "").strip()) or _has_content(_login())


def _has_content(path: Path) -> bool:
    try:
        return bool(path.read_bytes().strip())
    except OSError:
        return False


def _login() -> Path:
    home = os.environ.get("HF_HOME") or os.path.join("~", ".cache", "huggingface")
    return Path(os.path.expanduser(home)) / "token"
