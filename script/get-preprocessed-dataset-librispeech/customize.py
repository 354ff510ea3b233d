"""Choose the part to preprocess, and export the arrays that preprocessing has written."""

from __future__ import annotations

from typing import Any

from modelzoo.hooks import datasets


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """The tiny set is repeated until it has the rules' size, the full one must have it."""
    env = i["env"]
    if env.get("CM_DATASET_FORM") == "synthetic":
        return {"return": 0}
    option = "--qsl-count" if env.get("CM_DATASET_FORM") == "tiny" else "--expect"
    env["CM_DATASET_LIBRISPEECH_COUNT_OPTION"] = option
    return {"return": 0, "relies_on": [env["CM_DATASET_PATH"]]}


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Set the folder and the facts of the arrays."""
    env = i["env"]
    return datasets.hand_out(env)
