"""What is special about this model; the rest is tested with RetinaNet, for all detectors."""

from __future__ import annotations

import yaml

import benchmark_forms as forms
from modelzoo.hooks import ml_models

SCRIPT = forms.SCRIPT / "get-ml-model-ssd-mobilenet"
FULL = ml_models.published(str(SCRIPT / "customize.py"))
META = yaml.safe_load((SCRIPT / "meta.yaml").read_text(encoding="utf-8"))


def test_it_takes_whole_bytes_and_puts_rows_first() -> None:
    assert FULL["inputs"] == [{"name": "image_tensor:0", "dtype": "uint8", "shape": [300, 300, 3]}]
    assert FULL["options"]["order"] == "yxyx"


def test_both_exports_have_the_same_signature_and_addresses_of_their_own() -> None:
    old, new = (META["variations"][f"onnx,fp32,opset-{n}"]["default_env"] for n in (8, 11))
    assert old["CM_PACKAGE_URL"] != new["CM_PACKAGE_URL"]
    assert META["variations"]["opset-11"]["default"]
