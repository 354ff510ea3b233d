"""What the user has to fetch is asked for before anything long is downloaded or installed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from lab import Lab


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
    lab = Lab.of_checkout(tmp_path)
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


TRUSTED = {"CM_TRUST_DEVICE": "yes"}


@pytest.mark.parametrize(
    ("backend", "device", "prerequisite"),
    [
        ("tensorrt", "cuda", "get-tensorrt"),
        ("onnxruntime-tensorrt", "cuda", "get-tensorrt"),
        ("neuron", "inf2", "get-neuron-sdk"),
    ],
)
def test_what_only_has_to_be_found_comes_before_packages_and_models(
    tmp_path: Path, backend: str, device: str, prerequisite: str
) -> None:
    lab = Lab.of_checkout(tmp_path)
    flags = {"model": "resnet50", "backend": backend, "device": device, "env": TRUSTED}
    answer = lab.plan("run-mlperf,inference", out="json", **flags).answer
    order = [node["script"] for node in in_order(answer["plan"]["root"])]
    own = order.index(prerequisite)
    fetched = [n for n, name in enumerate(order) if name.startswith(("get-generic", "get-ml"))]
    # TensorRT may come as a wheel, which is installed for it alone.
    assert own < next(n for n in fetched if n > own)
    assert not [n for n in fetched if n < own and order[n + 1] != prerequisite]


def test_without_tensorrt_plan_and_run_end_before_anything_is_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab.of_checkout(tmp_path)
    for key in ("LD_LIBRARY_PATH", "TENSORRT_ROOT"):
        monkeypatch.delenv(key, raising=False)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    flags = {"model": "resnet50", "backend": "tensorrt", "device": "cuda", "env": TRUSTED}
    if "no TensorRT that fits" not in (plan := lab.plan("run-mlperf,inference,_tiny", **flags)).err:
        pytest.skip(f"this machine has TensorRT: {plan.err}")
    assert "a run stops here: no TensorRT that fits was found" in plan.err
    failed = lab.run("run-mlperf,inference,_tiny", quiet=True, **flags)
    assert failed.answer["code"] == "not-detected"
    assert failed.record["error"]["chain"][-1].startswith("get-tensorrt")
    assert not [step for step in failed.status if step.startswith(("get-generic", "get-ml-"))]
