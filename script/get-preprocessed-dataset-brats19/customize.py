"""Hand out the arrays that a program of src has written."""

from __future__ import annotations

from typing import Any

from cmbench.lib import siblings

datasets = siblings.hooks(__file__, "datasets")


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """The arrays are worth nothing without the cases that they were made of."""
    env = i["env"]
    if env.get("CM_DATASET_FORM") == "synthetic":
        return {"return": 0}
    return {"return": 0, "relies_on": [env["CM_DATASET_CASES_FILE_PATH"]]}


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Set the folder and the facts of the arrays."""
    env = i["env"]
    answer: dict[str, Any] = datasets.hand_out(env, training=env["CM_DATASET_TYPE"] == "training")
    return answer
