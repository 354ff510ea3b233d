"""COCO's calibration images; how they are fetched is tested with those of Open Images."""

from __future__ import annotations

from typing import Any

import yaml

from support import ROOT

SCRIPTS = ROOT / "script"


def meta(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((SCRIPTS / name / "meta.yaml").read_text("utf-8"))
    return found


def test_both_data_sets_are_fetched_in_the_same_way() -> None:
    own, other = meta("get-dataset-coco-calibration"), meta("get-dataset-openimages-calibration")
    for key in ("input_mapping", "new_env_keys", "deps", "prehook_deps"):
        assert own[key] == other[key]
    for name in ("customize.py", "fetch.sh"):
        texts = {(SCRIPTS / each["alias"] / name).read_text("utf-8") for each in (own, other)}
        assert len(texts) == 1


def test_the_images_are_of_the_training_part_which_no_run_is_judged_on() -> None:
    url = meta("get-dataset-coco-calibration")["default_env"]["CM_CALIBRATION_URL"]
    judged = meta("get-dataset-coco")["default_env"]["CM_COCO_URL_DATA"]
    assert url.endswith("/train2017/")
    assert judged.endswith("/val2017.zip")
