"""Every backend with every benchmark: a plan and a run, or one refusal that tells why."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import Lab
from mlperf import catalog
from mlperf.catalog import BackendSpec, run_inputs

MODELS = [name for name in catalog.runnable() if not name.endswith("99.9")]
NO_DEVICE = "no-device"


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab.of_checkout(tmp_path)


def ways() -> Iterator[tuple[BackendSpec, dict[str, str]]]:
    """Every backend that users may choose, with each value of an option that decides much."""
    for spec in catalog.backends("").values():
        name = {"backend": spec.name}
        for case in spec.cases:
            option = {f"{spec.name}_{case.option}": case.value}
            yield spec.where({case.option: case.value}), name | option
        if spec.public and not spec.cases:
            yield spec, name


def refusal(model: str, flags: dict[str, str]) -> run_inputs.CatalogError | None:
    env = {f"CM_MLPERF_{key.upper()}": value for key, value in flags.items()}
    try:
        run_inputs.backend({**env, "CM_MLPERF_MODEL": model})
    except run_inputs.CatalogError as error:
        return error
    return None


def test_every_pair_is_taken_or_refused_with_the_reason() -> None:
    for spec, flags in ways():
        for model in MODELS:
            able = model not in spec.refuses and (not spec.only or model in spec.only)
            able = able and spec.generates == catalog.benchmark(model).generates
            refused = refusal(model, {**flags, "device": spec.devices[0]})
            assert (refused is None) is able, (model, flags)
            if refused is not None:
                assert f"does not run {model}: " in str(refused)
                assert refused.code == "not-available"
                assert "--backend" in refused.hint


OPENS = {
    (spec.model_tag, spec.data_tag, spec.quantized, tuple(step.tags for step in spec.steps)): flags
    for spec, flags in ways()
}
"""One way for each kind of files that backends open."""


@pytest.mark.parametrize("flags", OPENS.values(), ids=lambda flags: "-".join(flags.values()))
def test_no_pair_fails_before_it_can_be_refused(lab: Lab, flags: dict[str, str]) -> None:
    for model in MODELS:
        answer = lab.plan("run-mlperf,inference,_tiny", model=model, **flags).answer
        refused = refusal(model, flags)
        if refused is None:
            assert answer.get("code", "") in ("", NO_DEVICE), (model, answer)
        elif answer["code"] != NO_DEVICE:
            assert (answer["code"], answer["error"]) == (refused.code, str(refused)), model


@pytest.mark.parametrize("flags", [{}, {"triton_backend": "neuron"}], ids=["alone", "in Triton"])
def test_a_run_is_refused_before_anything_is_installed(lab: Lab, flags: dict[str, str]) -> None:
    backend = "triton" if flags else "neuron"
    given = {"model": "retinanet", "backend": backend, **flags, "quiet": True}
    answer = lab.run("run-mlperf,inference,_tiny", **given).answer
    assert answer["code"] == "not-available"
    assert "does not run retinanet: it runs resnet50, bert-99, bert-99.9 only" in answer["error"]
    assert not os.path.exists(lab.store.place("store"))


def test_a_model_of_ones_own_needs_no_data_of_a_benchmark(lab: Lab, tmp_path: Path) -> None:
    model = tmp_path / "mine.onnx"
    model.write_bytes(b"a model")
    asks = {"tags": "run-mlperf,inference,_all-scenarios"}
    told = lab.call("plan", **asks, model_path=str(model))
    assert told.answer["return"] == 0
    assert "app-mlperf-inference,_benchmark.own,_cpu" in told.out
    assert "imagenet" not in (told.out + told.err).lower()
    refused = lab.call("plan", **asks, data_path=str(model))
    assert refused.answer["code"] == "needs-input"
    assert "--model_path" in refused.err


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"precision": "int8"}, "--precision=int8 and --model_path contradict each other"),
        ({"model": "bert-99"}, "--model has no effect with --model_path"),
        ({"model": "resnet50"}, "--model has no effect with --model_path"),
    ],
)
def test_a_plan_refuses_what_contradicts_a_model_of_ones_own(
    lab: Lab, tmp_path: Path, flags: dict[str, str], words: str
) -> None:
    (tmp_path / "mine.onnx").write_bytes(b"a model")
    asks = {"tags": "run-mlperf,inference", "model_path": str(tmp_path / "mine.onnx"), **flags}
    for verb in ("plan", "run"):
        refused = lab.call(verb, **asks, quiet=True)
        assert refused.answer["code"] == "bad-value"
        assert words in " ".join(refused.err.split())


def test_two_forms_at_once_exclude_each_other(lab: Lab) -> None:
    refused = lab.call("plan", tags="run-mlperf,inference,_tiny,_synthetic")
    assert refused.answer["code"] == "bad-value"
    assert "_tiny and _synthetic exclude each other" in " ".join(refused.err.split())
