"""What is special about this model; the rest is tested with RetinaNet, for all detectors."""

from __future__ import annotations

import yaml

import benchmark_forms as forms
from modelzoo.hooks import ml_models

SCRIPT = forms.SCRIPT / "get-ml-model-ssd-resnet34"
FULL = ml_models.published(str(SCRIPT / "customize.py"))
META = yaml.safe_load((SCRIPT / "meta.yaml").read_text(encoding="utf-8"))


def test_its_labels_are_places_in_the_list_of_categories() -> None:
    """COCO numbers 80 categories from 1 to 90, this model from 1 to 80."""
    assert FULL["options"]["classes"] == "position"


def test_it_takes_one_image_at_a_time_and_its_file_is_pinned() -> None:
    assert FULL["options"]["images_per_call"] == 1
    env = META["variations"]["onnx,fp32"]["default_env"]
    assert len(env["CM_DOWNLOAD_CHECKSUM"]) == 64
    assert int(env["CM_DOWNLOAD_SIZE"]) > 80_000_000
