"""Random images: laid out as real ones are, repeated to the rules' number."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import benchmark_forms as forms
import benchmark_lab as lab
from support import LIB, run

SRC = LIB / "modelzoo/preprocessing/openimages"
customize = lab.module_of(forms.SCRIPT / "get-preprocessed-dataset-openimages" / "customize.py")


@pytest.mark.parametrize(
    ("kind", "shape", "dtype"),
    [
        ("shares", (3, 96, 96), np.float32),
        ("normalised", (3, 96, 96), np.float32),
        ("bytes", (96, 96, 3), np.uint8),
    ],
)
def test_clouds_are_fed_as_photographs_are(
    tmp_path: Path, kind: str, shape: tuple[int, ...], dtype: type
) -> None:
    words = ("--input", kind, "--side", "96", "--name", "clouds", "--count", "3")
    command = [sys.executable, str(SRC / "synthetic.py"), *words, "--qsl_count", "50"]
    run([*command, "--out", str(tmp_path)]).ok()
    samples = np.load(tmp_path / "samples.npy")
    told = json.loads((tmp_path / "annotations.json").read_text())
    facts = json.loads((tmp_path / "dataset.json").read_text())
    assert (samples.shape, samples.dtype) == ((3, *shape), dtype)
    assert (facts["count"], facts["qsl_count"], len(told["images"])) == (3, 50, 3)
    assert {each["image_id"] for each in told["annotations"]} == {1, 2, 3}
    categories = {each["id"] for each in told["categories"]}
    assert {each["category_id"] for each in told["annotations"]} <= categories
    if kind == "ssd-mobilenet":
        # Like a photograph: neighbours are alike, the whole is not flat.
        values = samples.astype(np.float64)
        assert values.std() > 40
        assert np.abs(np.diff(values, axis=1)).mean() < 0.5 * values.std()
        assert abs(values.mean(axis=(1, 2, 3)) - 118).max() < 30


@pytest.mark.parametrize("data", ["openimages", "coco"])
def test_they_rely_on_no_file(data: str, tmp_path: Path) -> None:
    script = lab.module_of(forms.SCRIPT / f"get-preprocessed-dataset-{data}" / "customize.py")
    env = {"CM_DATASET_FORM": "synthetic", "CM_DATASET_TYPE": "validation"}
    env |= {"CM_DETECTION_INPUT": "bytes", "CM_DATASET_INPUT_SQUARE_SIDE": "300"}
    env |= {"CM_DATASET": data, "CM_TMP_RUN_DIR": str(tmp_path)}
    assert script.preprocess({"env": env}) == {"return": 0}
    assert (env["CM_DETECTION_COUNT"], env["CM_DETECTION_QSL_COUNT"]) == ("0", "0")


def test_both_come_out_of_the_engine(home: Any) -> None:
    tags = "--tags=get,preprocessed,dataset,coco,_for.ssd-mobilenet,_synthetic,_size.2"
    done = home.cm("run", "script", tags, "--quiet", "--out=json").json
    assert done["return"] == 0, done
    env = done["new_env"]
    facts = json.loads(Path(env["CM_DATASET_PREPROCESSED_PATH"], "dataset.json").read_text())
    assert (facts["count"], facts["qsl_count"], facts["sample_shape"]) == (2, 5000, [300, 300, 3])
    assert env["CM_DATASET_PREPROCESSED_FORM"] == "synthetic"
    assert os.path.isfile(os.path.join(env["CM_DATASET_PREPROCESSED_PATH"], "annotations.json"))
