"""What the scripts around a tree take from their env keys."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

YES = ("yes", "true", "on", "1")
TREE = "~/mlperf-inference-submission"


def is_set(env: Mapping[str, Any], key: str) -> bool:
    """Whether a yes-or-no input is on."""
    return str(env.get(key) or "no").lower() in YES


def folder(text: str) -> Path:
    """A path as a person types it, made absolute."""
    return Path(os.path.abspath(os.path.expanduser(text)))


def optional(env: Mapping[str, Any], key: str) -> Path | None:
    """The path of an input that may be left out."""
    return folder(env[key]) if env.get(key) else None


def tree(env: Mapping[str, Any]) -> Path:
    """The folder of the tree."""
    return folder(env.get("CM_MLPERF_INFERENCE_SUBMISSION_DIR") or TREE)
