"""What the user has to fetch is asked for before anything long is downloaded or installed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from lab import Lab
from support import ROOT


def in_order(node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The steps of a plan as they are made: what a step needs, then itself."""
    for child in node["children"]:
        yield from in_order(child)
    yield node


@pytest.mark.parametrize(
    ("model", "data"),
    [
        ("resnet50", "get-dataset-imagenet-val"),
        ("3d-unet-99", "get-dataset-kits19"),
        ("3d-unet-brats-99", "get-dataset-brats"),
    ],
)
def test_data_that_the_user_fetches_comes_before_the_model(
    tmp_path: Path, model: str, data: str
) -> None:
    lab = Lab(tmp_path)
    lab.repo = ROOT
    flags = {"model": model, "execution_mode": "valid", "backend": "onnxruntime"}
    answer = lab.plan("run-mlperf,inference", out="json", **flags).answer
    scripts = [node["script"] for node in in_order(answer["plan"]["root"])]
    asked = scripts.index(data)
    models = [n for n, name in enumerate(scripts) if name.startswith("get-ml-model-")]
    assert models
    assert asked < models[0]
    packages = [
        name
        for node in in_order(answer["plan"]["root"])
        if node["script"].startswith("get-preprocessed-dataset-")
        for name in (child["script"] for child in node["children"])
    ]
    assert packages.index(data) < packages.index("get-generic-python-lib")
