"""Export the arrays that preprocessing has written."""

from __future__ import annotations

from typing import Any

from cmbench.errors import Error
from modelzoo.hooks import datasets

postprocess = datasets.arrays


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """The benchmark's cases are not divided: ``_size`` is for noise."""
    env = i["env"]
    count = env.get("CM_KITS19_SYNTHETIC_COUNT")
    if count and env.get("CM_DATASET_FORM") != "synthetic":
        raise Error(
            "bad-value",
            f"_size.{count} is for the synthetic form: the cases of the benchmark are not divided",
            hint="leave it out, or add the variation _synthetic",
        )
    return datasets.made_of_cases(i)
