"""Which backend and precision a run has when nobody names them, as `cm plan` tells it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cmbench.lib import nvidia
from cmbench.lib.host import machine
from lab import Lab

DEFAULT = {"onnxruntime", "float32"}
FAST = {"openvino", "int8"}
EXACT = {"openvino", "bfloat16"}


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab.of_checkout(tmp_path)


def chosen(lab: Lab, tags: str, **flags: Any) -> set[str]:
    """The variations of backend and precision that the measuring step is planned with."""
    answer = lab.plan(f"run-mlperf,inference{tags}", out="json", **flags).answer
    nodes = [answer["plan"]["root"]]
    while nodes:
        node = nodes.pop()
        if node["script"] == "app-mlperf-inference":
            known = {"onnxruntime", "openvino", "pytorch", "float32", "bfloat16", "int8"}
            return known.intersection(node["variations"])
        nodes += node["children"]
    raise AssertionError(answer)


def flags_of_the_cpu(monkeypatch: pytest.MonkeyPatch, *flags: str) -> None:
    real = machine.cpu_facts()
    monkeypatch.setattr(machine, "cpu_facts", lambda *_: replace(real, flags=flags))


@pytest.mark.parametrize("flag", ["amx_int8", "avx512_vnni", "avx_vnni"])
def test_where_the_cpu_has_instructions_for_int8_they_are_used(
    flag: str, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags_of_the_cpu(monkeypatch, "avx2", flag)
    assert chosen(lab, "", model="bert-99") == FAST
    assert chosen(lab, ",_synthetic", model="resnet50") == FAST
    assert chosen(lab, "", model="3d-unet-99") == FAST
    assert chosen(lab, "", model="retinanet", precision="int8") == FAST
    # Nobody has verified that int8 loses so little.
    assert chosen(lab, "", model="bert-99.9") == DEFAULT


@pytest.mark.parametrize("flag", ["amx_bf16", "avx512_bf16"])
def test_where_int8_is_not_for_a_benchmark_bfloat16_is_used(
    flag: str, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags_of_the_cpu(monkeypatch, "avx512_vnni", flag)
    assert chosen(lab, "", model="bert-99.9") == EXACT
    assert chosen(lab, ",_synthetic", model="3d-unet-99.9") == EXACT
    # Calibration needs data that does not come by itself, or int8 is impossible.
    assert chosen(lab, "", model="dlrm-v2-99") == EXACT
    assert chosen(lab, "", model="rnnt") == EXACT


def test_elsewhere_float32(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    flags_of_the_cpu(monkeypatch, "avx2", "avx512f")
    assert chosen(lab, "", model="bert-99") == DEFAULT
    assert chosen(lab, "", model="bert-99.9") == DEFAULT
    # A tiny model gains nothing.
    flags_of_the_cpu(monkeypatch, "amx_bf16", "amx_int8")
    lab.home = lab.home / "other"
    assert chosen(lab, ",_tiny", model="bert-99") == DEFAULT
    monkeypatch.setattr(nvidia, "signs", lambda: ("/dev/nvidia0",))
    assert chosen(lab, "", model="bert-99", device="cuda") == DEFAULT


def test_what_is_named_is_respected(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    flags_of_the_cpu(monkeypatch, "amx_bf16", "amx_int8")
    named = {"model": "bert-99"}
    assert chosen(lab, "", backend="onnxruntime", **named) == DEFAULT
    assert chosen(lab, "", backend="openvino", **named) == {"openvino", "float32"}
    assert chosen(lab, "", backend="onnxruntime", precision="int8", **named) == {
        "onnxruntime",
        "int8",
    }
    assert chosen(lab, "", precision="float32", **named) == DEFAULT
    assert chosen(lab, "", precision="bfloat16", **named) == EXACT
    assert chosen(lab, "", backend="pytorch", precision="bfloat16", **named) == {
        "pytorch",
        "bfloat16",
    }


def libraries(lab: Lab, **flags: Any) -> set[str]:
    """The variations with which TensorRT's libraries are planned."""
    asked = {"device": "cuda", "backend": "tensorrt", "env": {"CM_TRUST_DEVICE": "yes"}}
    answer = lab.plan("run-mlperf,inference,_tiny", out="json", **asked, **flags).answer
    nodes, found = [answer["plan"]["root"]], set()
    while nodes:
        node = nodes.pop()
        found |= set(node["variations"]) if node["script"] == "get-tensorrt" else set()
        nodes += node["children"]
    return found


def test_each_product_of_tensorrt_has_its_own_libraries(lab: Lab) -> None:
    assert libraries(lab) == {"tensorrt"}
    rtx = libraries(lab, tensorrt_product="tensorrt-rtx")
    assert "rtx" in rtx
    assert "tensorrt" not in rtx
