"""From env keys to the harness's settings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import benchmark_lab as lab
from mlperf import catalog
from mlperf.harness import records
from mlperf.harness.settings import Overrides, SessionSettings

FOLDER = "/runs/20261121-1/012-app"
customize = lab.module_of(lab.SCRIPT / "app-mlperf-inference" / "customize.py")


def env(**changes: str) -> dict[str, str]:
    return {
        "CM_MLPERF_MODEL": "resnet50",
        "CM_MLPERF_FORM": "tiny",
        "CM_MLPERF_BACKEND": "onnxruntime",
        "CM_MLPERF_DEVICE": "cpu",
        "CM_MLPERF_MODEL_PRECISION": "float32",
        "CM_MLPERF_INFERENCE_VERSION": "6.1",
        "CM_MLPERF_LOADGEN_MODE": "all",
        "CM_MLPERF_RUN_STYLE": "test",
        "CM_MLPERF_SUBMISSION_DIVISION": "closed",
        "CM_DATASET_PREPROCESSED_PATH": "/data",
        "CM_ML_MODEL_FACTS_FILE_WITH_PATH": str(lab.MODEL / "model.json"),
        "CM_ML_MODEL_FILE_WITH_PATH": "/model.onnx",
        "CM_ML_MODEL_STARTING_WEIGHTS_FILENAME": "model.onnx",
        "CM_ML_MODEL_RETRAINING": "no",
        "CM_ML_MODEL_WEIGHT_TRANSFORMATIONS": "no",
        **changes,
    }


def settings(**changes: str) -> SessionSettings:
    return records.decode(SessionSettings, customize.session(env(**changes), FOLDER))


def test_nothing_given_is_one_test_run_of_offline() -> None:
    found = settings()
    assert found.scenarios == ("Offline",)
    assert found.modes == ("performance", "accuracy")
    assert (found.style, found.division, found.round) == ("test", "closed", "6.1")
    assert found.reuse is True
    assert found.sut_dir == str(Path.home() / "mlperf-inference-results" / "sut")
    assert found.overrides == Overrides()
    assert found.hw_name
    assert found.results_dir == str(Path.home() / "mlperf-inference-results" / "20261121-1")


def test_what_was_compiled_is_opened_whatever_came_after_it(tmp_path: Path) -> None:
    facts = json.loads((lab.MODEL / "model.json").read_text())
    (tmp_path / "m.pt.json").write_text(json.dumps({**facts, "name": "compiled"}))
    compiled = {
        "CM_NEURON_MODEL_FILE_WITH_PATH": str(tmp_path / "m.pt"),
        "CM_NEURON_MODEL_SIDECAR_WITH_PATH": str(tmp_path / "m.pt.json"),
    }
    found = settings(CM_MLPERF_BACKEND="neuron", **compiled).model
    assert (found.name, found.path) == ("compiled", str(tmp_path / "m.pt"))
    assert settings(**compiled).model.path == "/model.onnx"


def test_a_model_without_notes_on_its_weights_is_as_it_came() -> None:
    notes = ("STARTING_WEIGHTS_FILENAME", "RETRAINING", "WEIGHT_TRANSFORMATIONS")
    found = settings(**{f"CM_ML_MODEL_{name}": "" for name in notes}).model
    assert (found.retraining, found.weight_transformations) == ("no", "no")
    assert found.starting_weights == json.loads((lab.MODEL / "model.json").read_text())["file"]


@pytest.mark.parametrize(
    ("category", "scenarios"),
    [
        ("", ("SingleStream", "MultiStream", "Server", "Offline")),
        ("edge", ("SingleStream", "MultiStream", "Offline")),
        ("datacenter", ("Server", "Offline")),
    ],
)
def test_all_scenarios_are_those_of_the_category(category: str, scenarios: Any) -> None:
    found = settings(
        CM_MLPERF_LOADGEN_ALL_SCENARIOS="yes", CM_MLPERF_SUBMISSION_SYSTEM_TYPE=category
    )
    assert found.scenarios == scenarios


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"CM_MLPERF_LOADGEN_MODE": "fun"}, "--mode=fun is not known"),
        (
            {
                "CM_MLPERF_LOADGEN_ALL_SCENARIOS": "on",
                "CM_MLPERF_SUBMISSION_SYSTEM_TYPE": "fog",
            },
            "--category=fog is not known",
        ),
        ({"CM_NUM_THREADS": "two"}, "--threads=two: a whole number above zero is needed"),
        ({"CM_NUM_THREADS": "1.5"}, "--threads=1.5: a whole number above zero is needed"),
        ({"CM_MLPERF_LOADGEN_TARGET_QPS": "-3"}, "--offline_target_qps=-3: a number above zero"),
    ],
)
def test_wrong_values_are_named(changes: dict[str, str], message: str, tmp_path: Path) -> None:
    step = {"env": env(CM_TMP_RUN_DIR=str(tmp_path), **changes)}
    with pytest.raises(customize.Error, match=message) as caught:
        customize.preprocess(step)
    assert caught.value.code == "bad-value"


@given(st.sampled_from(sorted(customize.OVERRIDES)), st.integers(1, 10**6))
def test_every_override_has_its_key(name: str, value: int) -> None:
    keys, number = customize.OVERRIDES[name]
    found = settings(**{keys[0]: str(value)}).overrides
    assert getattr(found, name) == number(str(value))
    assert {field for field in Overrides.__slots__ if getattr(found, field) is not None} == {name}


def test_a_common_target_gives_way_to_the_special_one() -> None:
    found = settings(
        CM_MLPERF_LOADGEN_TARGET_QPS="10", CM_MLPERF_LOADGEN_SERVER_TARGET_QPS="4"
    ).overrides
    assert (found.offline_target_qps, found.server_target_qps) == (10, 4)


@pytest.mark.parametrize(
    ("backend", "names"),
    [("onnxruntime", ["onnxruntime-gpu"]), ("pytorch", ["torch"]), ("tensorrt", ["torch"])],
)
def test_what_computes_on_a_gpu_is_compared_with_its_cuda(
    backend: str, names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[str, list[str]]] = []
    monkeypatch.setattr(
        customize.cuda_packages, "refuse", lambda python, chosen, _: calls.append((python, chosen))
    )
    monkeypatch.setattr(customize.nvidia, "read", lambda: None)
    own = {"CM_MLPERF_BACKEND": backend, "CM_PYTHON_BIN_WITH_PATH": "/opt/python3"}
    customize.refuse_packages(env(CM_MLPERF_DEVICE="cuda", **own))
    customize.refuse_packages(env(CM_MLPERF_DEVICE="cuda", CM_NETWORK_LOADGEN="lon", **own))
    customize.refuse_packages(env(**own))
    assert calls == [("/opt/python3", names)]


def test_what_is_complete_is_kept_unless_rerun_says_otherwise() -> None:
    assert settings().reuse is True
    assert settings(CM_RERUN="no").reuse is True
    assert settings(CM_RERUN="yes").reuse is False


def test_settings_are_written_and_results_are_given_back(tmp_path: Path) -> None:
    step: dict[str, Any] = {"env": env(CM_TMP_RUN_DIR=str(tmp_path)), "state": {}}
    assert customize.preprocess(step) == {"return": 0}
    written = records.read(SessionSettings, Path(step["env"]["CM_MLPERF_HARNESS_CONFIG"]))
    records.write(Path(written.answer), {"folder": "/results/x", "problems": []})
    assert customize.postprocess(step) == {"return": 0}
    assert step["env"]["CM_MLPERF_INFERENCE_RESULTS_JSON"] == "/results/x/results.json"
    assert step["state"]["cm-mlperf-inference-results"]["folder"] == "/results/x"
    assert json.loads(Path(written.answer).read_text())["problems"] == []


def test_a_benchmark_of_99_9_percent_has_closer_bounds() -> None:
    stated = {
        "metric": "ROUGE-1",
        "unit": "",
        "reference": 40.0,
        "target": 39.6,
        "further": [{"metric": "gen_len", "unit": "tokens", "reference": 100.0, "target": 90.0}],
    }
    assert customize.accuracy("gptj-99", stated) == stated
    strict = customize.accuracy("gptj-99.9", stated)
    assert strict["target"] == pytest.approx(39.96)
    assert strict["further"] == stated["further"], "a number of tokens has the same bounds"


@pytest.mark.parametrize(
    ("benchmark", "form", "target"),
    [
        ("llama3.1-8b", "", 38.391408),
        ("llama3.1-8b-edge", "", 38.6694),
        ("llama3.1-8b", "tiny", 90),
        ("gptj-99", "", 90),
    ],
)
def test_a_full_language_model_is_judged_by_the_rules_of_its_benchmark(
    benchmark: str, form: str, target: float
) -> None:
    own = {"accuracy": {"metric": "ROUGE-1", "unit": "", "reference": 91, "target": 90}}
    env_of_run = {"CM_MLPERF_MODEL": benchmark, "CM_MLPERF_FORM": form}
    assert customize.stated(env_of_run, own)["target"] == pytest.approx(target)


def test_a_model_that_cannot_be_quantized_is_refused_and_it_is_said_why() -> None:
    wanted = env(CM_MLPERF_MODEL="rnnt", CM_MLPERF_MODEL_PRECISION="int8")
    with pytest.raises(customize.Error, match=r"rnnt cannot be quantized here: .*LSTM") as caught:
        customize.preprocess({"env": wanted})
    assert caught.value.code == "not-available"
    assert "--precision=float32" in caught.value.hint


def test_a_model_is_quantized_exactly_where_there_is_data_to_calibrate_it() -> None:
    path = lab.SCRIPT / "app-mlperf-inference" / "meta.yaml"
    meta = yaml.safe_load(path.read_text(encoding="utf-8"))
    variations = meta["variations"]
    able = set()
    for name in (name for name, each in variations.items() if each.get("group") == "model"):
        sources = [variations[base] for base in variations[name].get("base", ())]
        deps = [dep for each in (*sources, variations[name]) for dep in each.get("deps", ())]
        if "dataset-calibration" in {name for dep in deps for name in dep.get("names", ())}:
            able.add(name)
    (quantizer,) = variations["int8"]["deps"]
    never = set(quantizer["skip_if_env"]["CM_MLPERF_MODEL"])
    graphs = {name for name in catalog.runnable() if not catalog.benchmark(name).generates}
    assert able == graphs - never
    assert never == {"rnnt", "whisper"}
    for name in able:
        for form in ("", "synthetic", "tiny"):
            changes = {"CM_MLPERF_MODEL": name, "CM_MLPERF_MODEL_PRECISION": "int8"}
            assert customize.run_inputs.precision(env(**changes, CM_MLPERF_FORM=form)) == "int8"
