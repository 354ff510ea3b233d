"""Inputs of other collections' script for NVIDIA's harness: one table says what each is here."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

import benchmark_lab as lab
from cmbench.errors import Error
from cmbench.lib import nvidia
from common.problems import Problem
from mlperf import catalog
from nvidia_mlperf.flow import inputs

FOLDER = lab.SCRIPT / "run-mlperf-inference-app"
META: dict[str, Any] = yaml.safe_load((FOLDER / "meta.yaml").read_text(encoding="utf-8"))
CUSTOMIZE = lab.module_of(FOLDER / "customize.py")
PUBLISHED = """
audio_buffer_num_lines count deque_timeout_usec devices dla_batch_size dla_copy_streams
dla_inference_streams embedding_weights_on_gpu_part enable_sort end_on_device extra_run_options
gpu_batch_size gpu_copy_streams gpu_inference_streams graphs_max_seqlen input_format log_dir
make_cmd max_batchsize max_dlas mlperf_conf mode multistream_target_latency num_issue_query_threads
num_sort_segments num_warmups offline_target_qps output_dir performance_sample_count power_setting
rerun run_infer_on_copy_streams scenario sdxl_batcher_time_limit server_target_qps
singlestream_target_latency skip_postprocess skip_preprocess skip_preprocessing soft_drop
start_from_device target_latency target_qps use_cuda_thread_per_device use_deque_limit use_fp8
use_graphs use_small_tile_gemm_plugin use_triton user_conf workspace_size
"""
"""The names of app-mlperf-inference-nvidia in both collections (input_mapping)."""


def take(*words: str, **env: str) -> tuple[dict[str, Any], list[str]]:
    """What becomes of inputs typed as ``name=value``; the notes."""
    found: dict[str, Any] = {
        "CM_MLPERF_IMPLEMENTATION": "nvidia",
        "CM_MLPERF_DEVICE": "cuda",
        **env,
    }
    for word in words:
        name, _, value = word.partition("=")
        found[META["input_mapping"][name]] = value
    notes = inputs.take(found)
    return found, notes


def test_every_published_name_is_an_input() -> None:
    table = yaml.safe_load((inputs.HERE / "inputs.yaml").read_text(encoding="utf-8"))
    assert sorted(table) == sorted(PUBLISHED.split())
    rows = inputs.read()
    assert {name: META["input_mapping"].get(name) for name in rows} == {
        name: row.env for name, row in rows.items()
    }
    for name in PUBLISHED.split():
        assert name in META["input_mapping"], name
    for name, row in rows.items():
        assert row.here == "used" or row.why or row.field, name


OF_VARIATIONS = {
    # What variations and run modes of both collections set, beside their inputs.
    "AUDIO_BATCH_SIZE": "",
    "DISABLE_BETA1_SMALLK": "",
    "DISABLE_ENCODER_PLUGIN": "",
    "SERVER_NUM_ISSUE_QUERY_THREADS": "",
    "EXTRA_BUILD_ENGINE_OPTIONS": "nothing here reads it",
    "LON": "nothing here reads it",
    "MAXN": "nothing here reads it",
    "MAXQ": "nothing here reads it",
    "RUN_MODE": "nothing here reads it",
}


@pytest.mark.parametrize("name", OF_VARIATIONS)
def test_keys_that_are_no_input_are_not_passed_over(name: str) -> None:
    key = f"{inputs.PREFIX}{name}"
    values = {"AUDIO_BATCH_SIZE": "64", "SERVER_NUM_ISSUE_QUERY_THREADS": "4"}
    _, (note,) = take(**{key: values.get(name, "true")})
    assert note.startswith(f"--env.{key} has no effect: {OF_VARIATIONS[name]}")
    with pytest.raises(Problem, match=f"--env.{key} is for --implementation=nvidia"):
        take(**{key: values.get(name, "true"), "CM_MLPERF_IMPLEMENTATION": "reference"})


def test_used_ones_become_settings_that_there_are() -> None:
    options = catalog.backend("tensorrt").options
    for row in inputs.read().values():
        kind, _, name = row.becomes.partition(" ")
        if kind == "option":
            assert name in options
        elif kind in ("precision", "backend"):
            assert name in META["input_description"][kind]["choices"]
        elif kind:
            assert META["input_mapping"][kind] == inputs._KEYS[kind]
    env, notes = take(
        *("gpu_batch_size=64", "gpu_inference_streams=3", "use_graphs=true", "use_fp8=yes"),
        *("workspace_size=1073741825", "deque_timeout_usec=2000", "use_deque_limit=true"),
    )
    assert env["CM_MLPERF_LOADGEN_MAX_BATCHSIZE"] == "64"
    assert env["CM_MLPERF_BACKEND_OPTIONS"] == "streams=3,graphs=true,workspace=1025"
    assert env["CM_MLPERF_SERVER_DEQUE_TIMEOUT_US"] == "2000"
    assert (env["CM_MLPERF_BACKEND"], env["CM_MLPERF_MODEL_PRECISION"]) == ("tensorrt", "fp8")
    assert notes == []
    env, _ = take("deque_timeout_usec=2000", "use_deque_limit=no", "use_triton=1")
    assert "CM_MLPERF_SERVER_DEQUE_TIMEOUT_US" not in env
    assert env["CM_MLPERF_BACKEND"] == "triton"


def test_our_own_words_come_first() -> None:
    env, _ = take(
        *("gpu_batch_size=64", "use_graphs=true"),
        CM_MLPERF_LOADGEN_MAX_BATCHSIZE="8",
        CM_MLPERF_BACKEND_OPTIONS="graphs=false",
    )
    assert env["CM_MLPERF_LOADGEN_MAX_BATCHSIZE"] == "8"
    assert env["CM_MLPERF_BACKEND_OPTIONS"] == "graphs=false"


def test_what_has_no_effect_is_said() -> None:
    _, notes = take("soft_drop=0.99", "skip_preprocess=yes", "gpu_copy_streams=4")
    assert "--soft_drop has no effect: longest samples put off: not done here" in notes
    assert len(notes) == 4, "skip_preprocessing has the key of skip_preprocess"


def test_all_that_is_wrong_comes_at_once() -> None:
    with pytest.raises(Problem) as caught:
        take("gpu_batch_size=many", "dla_batch_size=4", "make_cmd=run", "soft_drop=3")
    for part in (
        "gpu_batch_size is int in samples, and 'many' is not",
        "soft_drop is 3, above 1",
        "--dla_batch_size is refused: there is no DLA here",
        "--make_cmd is refused: words after make: run-harness,nvidia has them",
    ):
        assert part in str(caught.value)
    assert caught.value.hint


WRONG = {
    "fp8 and float16": (("use_fp8=yes",), {"CM_MLPERF_MODEL_PRECISION": "float16"}, "contradict"),
    "another backend": ((), {"CM_MLPERF_BACKEND": "openvino"}, "not openvino"),
    "no GPU": ((), {"CM_MLPERF_DEVICE": "cpu"}, "computes with TensorRT on a GPU"),
    "others": (
        ("gpu_batch_size=4",),
        {"CM_MLPERF_IMPLEMENTATION": "cmbench"},
        "--gpu_batch_size is for --implementation=nvidia",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_is_refused(case: str) -> None:
    words, env, told = WRONG[case]
    with pytest.raises(Problem, match=told):
        take(*words, **env)


def test_the_stand_in_takes_the_place_of_a_gpu_when_it_is_named() -> None:
    env, _ = take(CM_MLPERF_DEVICE="cpu", CM_MLPERF_BACKEND="stand-in")
    assert env["CM_MLPERF_BACKEND"] == "stand-in"
    # It has no options: those of lanes mean nothing to it.
    env, notes = take("use_graphs=true", CM_MLPERF_DEVICE="cpu", CM_MLPERF_BACKEND="stand-in")
    assert "CM_MLPERF_BACKEND_OPTIONS" not in env
    assert notes == ["--use_graphs has no effect: the stand-in has no lanes"]


@pytest.mark.parametrize(
    ("capability", "refused"), [("7.5", True), ("8.9", False), ("10.0", False)]
)
def test_fp8_below_its_compute_capability_is_refused(
    capability: str, refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvidia, "kinds", lambda: ({"compute_cap": capability},))
    env = {
        "CM_MLPERF_DEVICE": "cuda",
        "CM_MLPERF_BACKEND": "tensorrt",
        "CM_MLPERF_MODEL_PRECISION": "fp8",
    }
    if not refused:
        CUSTOMIZE.take_nvidia(env)
        return
    with pytest.raises(Error, match=r"fp8 needs compute capability 8\.9, .* has 7\.5"):
        CUSTOMIZE.take_nvidia(env)


def test_others_are_left_alone() -> None:
    env: dict[str, Any] = {"CM_MLPERF_IMPLEMENTATION": "reference", "CM_MLPERF_CONF": "x"}
    before = dict(env)
    assert inputs.take(env) == []
    assert env == before
