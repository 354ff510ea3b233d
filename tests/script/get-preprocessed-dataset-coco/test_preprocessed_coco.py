"""The arrays of COCO for both SSDs: the sizes that their models and the rules want."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import yaml

import benchmark_forms as forms
from mlperf import catalog
from modelzoo.hooks import ml_models

SCRIPT = forms.SCRIPT / "get-preprocessed-dataset-coco"
META: dict[str, Any] = yaml.safe_load((SCRIPT / "meta.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", ["ssd-mobilenet", "ssd-resnet34"])
def test_the_full_arrays_fit_the_full_model_and_the_tiny_ones_the_tiny_one(name: str) -> None:
    full = ml_models.published(str(forms.SCRIPT / f"get-ml-model-{name}" / "customize.py"))
    env = META["variations"][f"for.{name}"]["env"]
    assert env["CM_DETECTION_INPUT"] == forms.DETECTOR_INPUTS[name]
    assert int(env["CM_DATASET_INPUT_SQUARE_SIDE"]) in full["inputs"][0]["shape"]
    tiny = forms.model(forms.SCRIPT / f"get-ml-model-{name}" / "tiny")["inputs"][0]
    samples = np.load(forms.pictures(name) / "samples.npy", mmap_mode="r")
    assert [str(samples.dtype), *samples.shape[1:]] == [tiny["dtype"], *tiny["shape"]]
    assert tiny["dtype"] == full["inputs"][0]["dtype"]
    assert tiny["name"] == full["inputs"][0]["name"]


def test_the_tiny_set_is_repeated_to_the_size_of_the_rules() -> None:
    count = int(META["variations"]["tiny"]["env"]["CM_DETECTION_QSL_COUNT"])
    for name in ("ssd-mobilenet", "ssd-resnet34"):
        assert count == catalog.benchmark(name).dataset_size


def test_the_same_program_makes_both() -> None:
    facts = json.loads((forms.pictures("ssd-mobilenet") / "dataset.json").read_text())
    assert (facts["input"], facts["count"]) == ("bytes", 500)
    other = SCRIPT.with_name("get-preprocessed-dataset-openimages") / "run.sh"
    assert (SCRIPT / "run.sh").read_text() == other.read_text()
