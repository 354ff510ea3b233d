"""The make lines of NVIDIA's guides: what is understood, and one way from link_dirs to logs."""

from __future__ import annotations

import inspect
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from cmbench.doctor.vendors import subject_of
from common.problems import Problem
from mlperf import catalog
from nvidia_flow_lab import Hands, a_flow, read
from nvidia_mlperf.flow import registry, space
from nvidia_mlperf.flow.fields import USED
from nvidia_mlperf.flow.systems import GpuMachine
from nvidia_mlperf.make import (
    advice,
    calibrate,
    checks,
    data,
    docker,
    engines,
    flow,
    generate,
    harness,
    logs,
    options,
    results,
    scratch,
    targets,
    work,
)
from support import ROOT, Finished, Home, run

# ---- RUN_ARGS

UNDERSTOOD: dict[str, dict[str, Any]] = {
    "": {},
    "--benchmarks=resnet50,BERT --scenarios=offline,server": {
        "benchmarks": ("resnet50", "bert"),
        "scenarios": ("Offline", "Server"),
    },
    "--benchmarks all --scenarios=SINGLESTREAM": {"scenarios": ("SingleStream",)},
    "--scenarios=single_stream,multi-stream": {"scenarios": ("SingleStream", "MultiStream")},
    "--config_ver=default,high_accuracy --test_mode=AccuracyOnly": {
        "versions": ("default", "high_accuracy"),
        "mode": "AccuracyOnly",
    },
    # What a README of round v2.0 says, and no program knows.
    "--test_mode=AccuracyMode": {"mode": "AccuracyOnly"},
    "--fast --verbose --gpu_batch_size=8 --min_query_count 1": {
        "fast": True,
        "verbose": True,
        "fields": {"gpu_batch_size": 8, "min_query_count": 1},
    },
    "--use_graphs=false --offline_expected_qps=10.5": {
        "fields": {"use_graphs": False, "offline_expected_qps": 10.5}
    },
    "--harness_type=triton --accuracy_target=.999": {"versions": ("high_accuracy_triton",)},
    "--system_name=X --log_dir=out --audit_test=TEST01": {
        "system": "X",
        "log_dir": "out",
        "audit": "TEST01",
    },
}


@pytest.mark.parametrize("text", UNDERSTOOD)
def test_run_args_are_understood(text: str) -> None:
    found = read(text)
    for name, value in UNDERSTOOD[text].items():
        assert getattr(found, name) == value
    assert found.lines()[0].startswith("benchmarks: ")


def test_what_has_no_effect_is_said() -> None:
    (note,) = read("--use_spin_wait=true").notes
    assert note == "--use_spin_wait is kept for the record: of NVIDIA's C++ harness"


WRONG = {
    "--benchmark=resnet50": "there is no --benchmark: did you mean benchmarks?",
    "--benchmarks=resnet": "v0.7 has no benchmark resnet: did you mean resnet50?",
    "--scenarios=ofline": "there is no scenario ofline: did you mean Offline?",
    "--gpu_batch_size=many": "gpu_batch_size is int in samples, and 'many' is not",
    "--test_mode=Accuracy": "test_mode is 'Accuracy'",
    "--server_target_latency_ns=5": "server_target_latency_ns is refused: the rules fix it",
    "--no_gpu": "--no_gpu is refused: there is no DLA here",
    "--power": "--power is refused: power runs are not made here",
    "--config_ver=hetero": "HeteroMIG is refused",
    "--power_setting=MaxQ": "MaxQ is refused",
    "-benchmarks=bert": "-benchmarks=bert belongs to no --name",
    "...": "... is a placeholder",
    "--benchmarks='bert": "cannot be read (No closing quotation)",
}


@pytest.mark.parametrize("text", WRONG)
def test_what_is_wrong_in_run_args_is_said(text: str) -> None:
    with pytest.raises(Problem) as caught:
        read(text)
    assert WRONG[text] in str(caught.value)


def test_a_name_given_twice_is_refused_unless_it_says_the_same() -> None:
    assert read("--fast --benchmarks=bert --benchmarks=bert").benchmarks == ("bert",)
    with pytest.raises(Problem) as caught:
        read("--benchmarks=bert --fast --benchmarks=resnet50 --gpu_batch_size=1 --gpu_batch_size 2")
    assert "--benchmarks is given twice: bert and resnet50" in str(caught.value)
    assert "--gpu_batch_size is given twice: 1 and 2" in str(caught.value)


def test_the_benchmarks_of_two_places_are_not_mixed_up() -> None:
    told = read("--benchmarks=resnet50", benchmarks="bert rnnt")
    assert told.benchmarks == ("resnet50",)
    assert told.notes == ("BENCHMARKS=bert rnnt does not count beside --benchmarks",)
    assert read("--fast", benchmarks="bert,rnnt").benchmarks == ("bert", "rnnt")


def test_versions_that_are_there_are_those_of_what_is_asked_for(tmp_path: Path) -> None:
    line = "--benchmarks=resnet50 --scenarios=offline --config_ver=high_accuracy"
    with pytest.raises(Problem) as caught:
        work.plan(a_flow(tmp_path, line))
    assert caught.value.hint == "one of: default, triton"


def test_all_that_is_wrong_comes_at_once() -> None:
    with pytest.raises(Problem) as caught:
        read(" ".join(text for text in WRONG if text.startswith("--") and "'" not in text))
    told = [WRONG[text] for text in WRONG if text.startswith("--") and "'" not in text]
    assert [each for each in told if each not in str(caught.value)] == []


# ---- from the line to its runs


def names(flow_: flow.Flow) -> list[str]:
    return [item.name for item in work.plan(flow_).items]


def test_no_run_args_mean_everything_that_the_system_has(tmp_path: Path) -> None:
    found = names(a_flow(tmp_path))
    assert len(found) == 18
    assert {name.split()[0] for name in found} == set(registry.vocabulary.rounds("v0.7"))
    assert not any("MultiStream" in name for name in found)
    azure = work.plan(a_flow(tmp_path, vendor_round="v3.1"))
    assert any("TensorRT-LLM" in note and "not public" in note for note in azure.notes)
    assert names(a_flow(tmp_path, vendor_round="v3.1")) == [
        "gptj Offline default",
        "gptj Server default",
    ]


def test_a_version_that_a_benchmark_lacks_is_left_out_with_a_word(tmp_path: Path) -> None:
    line = "--benchmarks=bert,resnet50 --scenarios=offline --config_ver=default,high_accuracy"
    plan = work.plan(a_flow(tmp_path, line))
    assert [(item.ours, item.config.ver) for item in plan.items] == [
        ("bert-99", "default"),
        ("bert-99.9", "high_accuracy"),
        ("resnet50", "default"),
    ]
    assert "resnet50 Offline has no high_accuracy: left out" in plan.notes


IMPOSSIBLE = {
    "--benchmarks=3d-unet --scenarios=server": "v0.7 has no values for 3d-unet in Server",
    "--scenarios=multistream": "v0.7's MultiStream, the most samples in a fixed interval",
    "--config_ver=high_acuracy": "--config_ver=high_acuracy is not there",
    "--benchmarks=resnet50 --config_ver=high_accuracy": "--config_ver=high_accuracy is not there",
    "--scenarios=offline --server_target_qps=5": "server_target_qps is for Server, not for Offline",
    "--system_name=T4x3": "v0.7 has no system T4x3",
}


@pytest.mark.parametrize("line", IMPOSSIBLE)
def test_what_cannot_be_run_is_refused(line: str, tmp_path: Path) -> None:
    with pytest.raises(Problem) as caught:
        work.plan(a_flow(tmp_path, line))
    assert IMPOSSIBLE[line] in str(caught.value)
    assert caught.value.hint


def test_a_field_counts_where_it_applies(tmp_path: Path) -> None:
    plan = work.plan(a_flow(tmp_path, "--benchmarks=resnet50 --server_target_qps=5"))
    assert {item.config.scenario: item.overrides for item in plan.items} == {
        "Offline": {},
        "Server": {"server_target_qps": 5},
        "SingleStream": {},
    }


def test_a_machine_with_gpus_has_its_own_system(tmp_path: Path) -> None:
    eight = GpuMachine("Tesla T4", 8, 15, 70, "7.5")
    assert work.plan(a_flow(tmp_path, hands=Hands(eight))).system == "T4x8"
    three = GpuMachine("Tesla T4", 3, 15, 70, "7.5")
    with pytest.raises(Problem, match="nearest is T4x1"):
        work.plan(a_flow(tmp_path, hands=Hands(three)))
    plan = work.plan(a_flow(tmp_path, hands=Hands(three), allow_nearest="T4x1"))
    assert plan.items[0].value("gpu_offline_expected_qps") is not None


# ---- engines

NAMES = {
    "v0.7 --benchmarks=resnet50 --scenarios=offline": "resnet50-Offline-gpu-b256-int8.default",
    "v0.7 --benchmarks=bert --scenarios=server": (
        "bert-Server-gpu-int8_S_384_B_16_P_2_vs_il.default"
    ),
    "v2.0 --benchmarks=resnet50 --scenarios=server": "resnet50-Server-gpu-b26-int8.lwis_k_99_MaxP",
    "v3.1 --scenarios=offline --config_ver=high_accuracy": (
        "gptj-Offline-gpu-b32-int8.custom_k_99_9_MaxP"
    ),
}


@pytest.mark.parametrize("line", NAMES)
def test_engines_have_the_names_of_their_round(line: str, tmp_path: Path) -> None:
    vendor_round, _, run_args = line.partition(" ")
    (item,) = work.plan(a_flow(tmp_path, run_args, vendor_round=vendor_round)).items
    assert engines.name(item) == NAMES[line]


def test_only_a_stand_in_takes_the_place_of_an_engine(tmp_path: Path) -> None:
    class Builder(Hands):
        def cm_json(self, line: Sequence[str]) -> dict[str, Any]:
            self.lines.append(list(line))
            return {"env": {"CM_ENGINE_FILE_WITH_PATH": str(tmp_path / "m.onnx")}}

    flow_ = a_flow(tmp_path, "--benchmarks=bert --scenarios=offline", hands=Builder())
    (tmp_path / "m.onnx").write_bytes(b"a model")
    with pytest.raises(Problem, match="does not say that it is a stand-in"):
        generate.generate_engines(flow_)
    (tmp_path / "m.onnx.json").write_text('{"builder": "stand-in"}')
    generate.generate_engines(flow_)
    assert isinstance(flow_.runner, Builder)
    assert flow_.runner.lines[-1][2] == "--tags=generate,engine,nvidia,_stand-in,_tiny"
    engine = engines.find_engine(flow_, work.plan(flow_).items[0])
    assert engine is not None
    assert engines.sidecar(engine)["built"] == {"builder": "stand-in"}
    generate.generate_engines(flow_)
    assert len(flow_.runner.lines) == 2, "an engine that is there is not made again"


def test_a_missing_engine_stops_with_the_line_that_makes_it(tmp_path: Path) -> None:
    line = "--benchmarks=resnet50 --scenarios=offline,server --gpu_batch_size=4"
    flow_ = a_flow(tmp_path, line)
    with pytest.raises(Problem, match=r"resnet50-Server-gpu-b4-int8\.default\.onnx: it is"):
        harness.run_harness(flow_)
    assert isinstance(flow_.runner, Hands)
    assert flow_.runner.lines == []
    with pytest.raises(Problem) as caught:
        engines.require(flow_, work.plan(flow_).items)
    assert caught.value.hint == (
        "make generate_engines RUN_ARGS='--benchmarks=resnet50 --scenarios=Offline,Server "
        "--config_ver=default --gpu_batch_size=4'"
    )


def test_an_engine_that_does_not_fit_is_told(tmp_path: Path) -> None:
    model = tmp_path / "m.onnx"
    model.write_bytes(b"a model")
    flow_ = a_flow(tmp_path, "--benchmarks=resnet50 --scenarios=offline")
    (item,) = work.plan(flow_).items
    engine = engines.put(flow_, item, model)
    assert engines.sidecar(engine)["kind"] == "stand-in"
    assert engines.misfit(flow_, item, engine) == ""
    assert not list(tmp_path.rglob("*.plan")), "only TensorRT makes a plan"
    other = work.plan(
        a_flow(tmp_path, "--benchmarks=resnet50 --scenarios=offline --precision=fp16")
    )
    assert engines.misfit(flow_, other.items[0], engine) == "it was made with other fields"
    full = replace(flow_, settings=replace(flow_.settings, form="full"))
    assert engines.misfit(full, item, engine) == "it is of the tiny form"
    engine.unlink()
    engine.write_bytes(b"another")
    assert engines.misfit(flow_, item, engine) == "its checksum is not that in its sidecar"
    engine.with_name(f"{engine.name}.json").unlink()
    assert engines.misfit(flow_, item, engine) == "no sidecar describes it"
    # A plan that nothing here has made is not run.
    engine.unlink()
    plan = engine.with_suffix(".plan")
    plan.write_bytes(b"x")
    told = {"kind": "tensorrt", "fields_sha256": engines.digest(engines.fields_of(item))}
    plan.with_name(f"{plan.name}.json").write_text(json.dumps(told))
    assert "its builder is not TensorRT" in engines.misfit(flow_, item, plan)


# ---- runs


def test_what_used_fields_become_is_there() -> None:
    scripts = {
        name: yaml.safe_load((ROOT / f"script/{name}/meta.yaml").read_text())["input_mapping"]
        for name in ("run-mlperf-inference-app", "generate-nvidia-engine")
    }
    kinds = {
        "option": catalog.backend("tensorrt").options,
        "triton": catalog.backend("triton").options,
        "backend": catalog.lookup.backends(),
        "engine": scripts["generate-nvidia-engine"],
    }
    read_by_calibrate = inspect.getsource(calibrate)
    for name, field in registry.load().fields.items():
        kind, _, what = field.ours.partition(" ")
        if field.here != USED:
            assert not field.ours, f"{name} becomes nothing"
        elif kind == "calibrate":
            assert f'"{name}"' in read_by_calibrate, name
        elif what:
            assert what in kinds[kind], name
        else:
            assert kind in scripts["run-mlperf-inference-app"], name


def test_fields_for_triton_become_its_options(tmp_path: Path) -> None:
    line = "--benchmarks=resnet50 --scenarios=server --config_ver=triton "
    flow_ = a_flow(tmp_path, f"{line}--instance_group_count=4 --preferred_batch_size=8,32")
    plan = work.plan(flow_)
    words = harness.line(flow_, plan, plan.items[0])
    assert {"--backend=triton", "--backend_options=instances=4,preferred_batch=32"} <= set(words)


def test_a_wait_for_a_batch_that_triton_does_not_gather_is_refused(tmp_path: Path) -> None:
    known = work.plan(a_flow(tmp_path, "--benchmarks=resnet50 --scenarios=server")).fields
    told = {"max_queue_delay_usec": 1000}
    assert options.of_backend(known, told, "triton") == "", "NVIDIA's values leave it to the server"
    with pytest.raises(Problem, match="max_queue_delay_usec has no effect without") as caught:
        options.of_backend(known, told, "triton", told)
    assert "--preferred_batch_size" in caught.value.hint
    both = {**told, "preferred_batch_size": 8}
    assert options.of_backend(known, both, "triton", both) == "delay_us=1000,preferred_batch=8"


def test_what_is_for_engines_is_told_to_have_no_effect_on_a_stand_in(tmp_path: Path) -> None:
    flow_ = a_flow(tmp_path, "--benchmarks=resnet50 --precision=fp16 --use_graphs=true")
    told = options.idle(work.plan(flow_).fields, work.plan(flow_).arguments.fields)
    assert [each.partition(" ")[0] for each in told] == ["--precision", "--use_graphs"]


def test_fields_become_options_in_their_units(tmp_path: Path) -> None:
    line = (
        "--benchmarks=resnet50 --scenarios=singlestream --min_query_count=64 "
        "--gpu_single_stream_expected_latency_ns=2000000 --fast --test_mode=AccuracyMode"
    )
    flow_ = a_flow(tmp_path, line, division="open")
    plan = work.plan(flow_)
    words = harness.line(flow_, plan, plan.items[0])
    assert words[2] == "--tags=run-mlperf,inference,_r6.1,_tiny,_accuracy-only"
    assert {"--target_latency=2.0", "--min_query_count=64", "--min_duration=60000"} <= set(words)
    assert {"--division=open", "--execution_mode=test", "--scenario=SingleStream"} <= set(words)
    assert not any("batch_size" in word for word in words), "256 is for a T4"


def test_logs_are_laid_out_as_nvidias(tmp_path: Path) -> None:
    source = tmp_path / "ours/server"
    (source / "performance/run_1").mkdir(parents=True)
    (source / "performance/run_1/mlperf_log_summary.txt").write_text("summary")
    lines = {"result_scheduled_samples_per_sec": 9.5, "result_completed_samples_per_sec": 9.4}
    (source / "performance/run_1/mlperf_log_detail.txt").write_text(
        "".join(f':::MLLOG {{"key": "{k}", "value": {v}}}\n' for k, v in lines.items())
    )
    flow_ = a_flow(tmp_path, "--benchmarks=bert --scenarios=server --config_ver=high_accuracy")
    (item,) = work.plan(flow_).items
    book = logs.Book(tmp_path / "logs", "T4x1_stand-in")
    told = book.add(item, source, {"performance_run": {}, "validity": "VALID"} | {"x": 1})
    assert told == [], "nothing was measured"
    told = book.add(item, source, {"performance_run": {"a": 1}, "validity": "VALID"})
    line = "Scheduled samples per second: 9.5 and Result is : VALID"
    line += " (completed samples per second: 9.4)"
    assert told == [f"T4x1_stand-in-high_accuracy-Server: bert: {line}"]
    there = tmp_path / "logs/T4x1_stand-in/bert-99.9/Server/mlperf_log_summary.txt"
    assert there.read_text() == "summary"
    summary = json.loads((tmp_path / "logs/perf_harness_summary.json").read_text())
    assert summary == {"T4x1_stand-in-high_accuracy-Server": {"bert": line}}


def test_only_what_the_last_call_has_made_counts(tmp_path: Path) -> None:
    flow_ = a_flow(tmp_path, "--benchmarks=resnet50 --scenarios=offline")
    (item,) = work.plan(flow_).items
    told = {"scenario": "Offline", "performance_run": {"a": 1}, "accuracy_run": {"b": 2}}
    path = tmp_path / "results.json"
    call = {"made": [["Offline", "accuracy"], ["Server", "performance"]]}
    path.write_text(json.dumps({"results": [told], "call": call}))
    assert harness.read_result(path, item) == {**told, "performance_run": None}


INVALID = {
    "Offline": ({"result_samples_per_second": 100.0}, "--offline_expected_qps=110"),
    "Server": ({"effective_target_qps": 50}, "--server_target_qps=45"),
    "SingleStream": (
        {"result_90.00_percentile_latency_ns": 2e6},
        "--single_stream_expected_latency_ns=2000000",
    ),
}


def test_a_rate_far_beyond_the_machine_comes_down_to_what_was_answered(tmp_path: Path) -> None:
    flow_ = a_flow(tmp_path, "--benchmarks=resnet50 --scenarios=server")
    (item,) = work.plan(flow_).items
    logged = {"effective_target_qps": 1e7, "result_completed_samples_per_sec": 1000.0}
    assert advice.new_value(item, {}, logged) == 900


@pytest.mark.parametrize("scenario", INVALID)
def test_why_invalid_names_the_field_and_its_value(scenario: str, tmp_path: Path) -> None:
    flow_ = a_flow(tmp_path, f"--benchmarks=resnet50 --scenarios={scenario}")
    (item,) = work.plan(flow_).items
    logged, wanted = INVALID[scenario]
    place = tmp_path / "performance/run_1"
    place.mkdir(parents=True)
    (place / "mlperf_log_detail.txt").write_text(
        "".join(f':::MLLOG {{"key": "{k}", "value": {v}}}\n' for k, v in logged.items())
    )
    result = {"performance_run": {"a": 1}, "validity": "INVALID", "reasons": ["too short"]}
    (told,) = advice.problems(flow_, item, result, tmp_path)
    assert told == f"resnet50 {scenario} default is INVALID: too short: {wanted}"
    # What is advised can be typed.
    assert read(wanted).fields


def test_run_times_are_told_before_the_runs(tmp_path: Path) -> None:
    for line, seconds in (("", 187), ("--fast", 1122), ("--min_duration=500", 9)):
        flow_ = a_flow(tmp_path, line)
        *_, told = advice.run_times(flow_, work.plan(flow_))
        assert told.startswith(f"run time: at least {seconds} s for 18 runs")


# ---- checks, data, results


def test_what_stops_stops_with_its_remedy(tmp_path: Path) -> None:
    fine = {"id": "a.b", "state": "ok", "text": "well", "remedy": ""}
    stop = {"id": "audit.left-over", "state": "stop", "text": "spoils", "remedy": "rm x"}
    hands = Hands(found=[fine])
    flow_ = a_flow(tmp_path, hands=hands)
    checks.report(flow_)
    assert hands.told == ["ok   a.b: well"]
    hands.found.append(stop)
    for check in (
        lambda: checks.report(flow_),
        lambda: checks.before_runs(flow_, work.plan(flow_)),
    ):
        with pytest.raises(Problem, match=r"audit\.left-over: spoils") as caught:
            check()
        assert caught.value.hint == "rm x"


def test_variables_of_containers_are_told_to_have_no_effect(tmp_path: Path) -> None:
    hands = Hands()
    settings = flow.FlowSettings("Me", form="tiny", allow_root=True)
    given = {"DOCKER_ARGS": "-v a:b", "CONTAINER_ENGINE": "none"}
    docker.prebuild(flow.Flow(tmp_path, settings, given, targets.NVIDIA, hands))
    assert "DOCKER_ARGS has no effect: it is for a container" in hands.told
    assert hands.made == []


def test_what_is_going_to_run_is_told_to_the_doctor(tmp_path: Path) -> None:
    line = "--benchmarks=dlrm,resnet50 --scenarios=offline"
    flow_ = a_flow(tmp_path, line, form="full", vendor_round="v0.7")
    told = checks.subject(flow_, work.plan(flow_))
    assert told["scenarios"] == ["Offline"]
    memory = {need["name"]: need["memory"] for need in told["needs"]}
    assert memory == {"dlrm": 40 * 10**9, "resnet50": 0}
    assert ("data/imagenet", ".JPEG", 50_000) in told["needs"][1]["data"]
    assert subject_of(told).folder == tmp_path, "the doctor understands it"
    tiny = checks.subject(a_flow(tmp_path))
    assert tiny["needs"] == []
    skipping = replace(flow_, variables={"SKIP_DRIVER_CHECK": "1"})
    assert checks.subject(skipping)["skip_driver"]
    assert not checks.subject(replace(flow_, variables={"SKIP_DRIVER_CHECK": "0"}))["skip_driver"]


def test_values_of_another_system_are_told(tmp_path: Path) -> None:
    one = GpuMachine("Tesla T4", 1, 15, 70, "7.5")
    line = "--benchmarks=resnet50 --scenarios=offline"
    eight = work.plan(a_flow(tmp_path, f"{line} --system_name=T4x8", hands=Hands(one)))
    (found,) = checks.of_system(eight)
    assert (found.id, found.state) == ("config.system", checks.WARNING)
    assert found.text.startswith("the values are those of T4x8: it has 8 of them")
    own = work.plan(a_flow(tmp_path, line, hands=Hands(one)))
    assert [check.state for check in checks.of_system(own)] == [checks.OK]


def test_batches_for_a_larger_gpu_are_told(tmp_path: Path) -> None:
    one = GpuMachine("Tesla T4", 1, 15, 70, "7.5")
    line = "--benchmarks=resnet50 --scenarios=offline --system_name=A100-SXM4x1"
    (found,) = checks.of_batches(work.plan(a_flow(tmp_path, line, hands=Hands(one))))
    assert found.id == "config.batch"
    assert "batches are for 40 GiB, this GPU has 15: resnet50 Offline default" in found.text
    given = work.plan(a_flow(tmp_path, f"{line} --gpu_batch_size=4", hands=Hands(one)))
    assert list(checks.of_batches(given)) == [], "who gives one knows"


def test_rates_of_a_whole_gpu_for_a_part_are_told(tmp_path: Path) -> None:
    part = GpuMachine("A100-SXM4-40GB", 1, 40, 400, "8.0", profile="1g.5gb", instances=1)
    flow_ = a_flow(tmp_path, "--benchmarks=resnet50 --scenarios=offline", hands=Hands(part))
    found = list(checks.of_parts(work.plan(flow_)))
    assert [check.id for check in found] == ["config.mig"]
    assert "is that of a whole GPU" in found[0].text


def test_a_gpu_that_is_not_there_stops(tmp_path: Path) -> None:
    wrong = {"id": "gpu.visible", "state": "stop", "text": "names no GPU here", "remedy": "unset"}
    flow_ = a_flow(tmp_path, hands=Hands(found=[wrong]))
    with pytest.raises(Problem, match=r"gpu\.visible: names no GPU here") as caught:
        checks.report(flow_)
    assert caught.value.code == "no-device"


def test_data_by_hand_are_given_where_they_are(tmp_path: Path) -> None:
    full = a_flow(tmp_path, form="full")
    folder = tmp_path / "build/data/BraTS/MICCAI_BraTS_2019_Data_Training"
    assert data.by_hand(full, "3d-unet-brats-99.9") == []
    folder.mkdir(parents=True)
    (given,) = data.by_hand(full, "3d-unet-brats-99.9")
    assert given == f"--adr.original-dataset.brats_path={folder}"
    assert data.by_hand(a_flow(tmp_path), "3d-unet-brats-99.9") == []
    chosen = replace(full, variables={"BENCHMARKS": "bert, resnet50"})
    assert data.benchmarks(chosen) == [("bert", "bert-99"), ("resnet50", "resnet50")]
    assert len(data.benchmarks(full)) == 7


@pytest.mark.parametrize("kind", space.FOLDERS)
def test_every_benchmarks_files_are_shown_at_nvidias_places(kind: str, tmp_path: Path) -> None:
    flow_ = a_flow(tmp_path)
    source = tmp_path / "store"
    source.mkdir()
    places = {getattr(own, kind) for each in space.places().values() for own in each}
    for place in places:
        shown = flow_.build / kind / place
        data.show(flow_, shown, source)
        assert shown.resolve() == source


def test_as_root_the_scratch_space_is_refused_with_the_setting_that_lets_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    with pytest.raises(Problem, match="as root, the files") as caught:
        scratch.space(a_flow(tmp_path, allow_root=False))
    assert caught.value.hint.endswith("flow.yaml")
    assert "set allow_root: true" in caught.value.hint


def test_values_of_another_round_are_pointed_at(tmp_path: Path) -> None:
    for words, hint in (
        ("--benchmarks=resnet50,bert --scenarios=offline,server", "--vendor_round=v2.0"),
        ("--benchmarks=retinanet", "leave it out"),
    ):
        with pytest.raises(Problem, match=r"v3\.1 has no values for") as caught:
            work.plan(a_flow(tmp_path, words, vendor_round="v3.1"))
        assert hint in caught.value.hint


def test_no_results_no_tree(tmp_path: Path) -> None:
    for word in ("update_results", "check_submission", "pack_submission"):
        with pytest.raises(Problem, match="is not there") as caught:
            targets.find(word, targets.NVIDIA).function()(a_flow(tmp_path))
        assert caught.value.hint.startswith("make ")


def test_what_judges_a_tree_is_told_which_target_measures(tmp_path: Path) -> None:
    for vendor, target in (
        (targets.NVIDIA, "run_harness"),
        (targets.INFERENTIA, "run_inferentia_harness"),
    ):
        flow_ = a_flow(tmp_path, vendor=vendor)
        results.tree(flow_, there=False).mkdir(parents=True, exist_ok=True)
        results.check_submission(flow_)
        assert isinstance(flow_.runner, Hands)
        assert f"--make_target={target}" in flow_.runner.lines[0]


def test_azures_category_needs_not_be_told(tmp_path: Path) -> None:
    for vendor_round, given in (("v0.7", []), ("v3.1", ["--category=datacenter"])):
        flow_ = a_flow(tmp_path, vendor_round=vendor_round)
        (tmp_path / "build/results/test_results").mkdir(parents=True, exist_ok=True)
        with pytest.raises(Problem, match="no tree was made"):
            results.update_results(flow_)
        assert isinstance(flow_.runner, Hands)
        assert [word for word in flow_.runner.lines[0] if "--category" in word] == given


def test_where_scenarios_of_both_categories_were_measured_both_are_told(tmp_path: Path) -> None:
    flow_ = a_flow(tmp_path)
    for name in ("a/resnet50/offline", "a/resnet50/singlestream", "b/bert-99/server"):
        (tmp_path / "build/results/test_results" / name).mkdir(parents=True)
    runs = tmp_path / "build/results/test_results"
    assert results.both(runs) == "", "each tells its own"
    (runs / "a/bert-99/server").mkdir(parents=True)
    assert results.both(runs) == "datacenter,edge"
    with pytest.raises(Problem, match="no tree was made"):
        results.update_results(flow_)
    assert isinstance(flow_.runner, Hands)
    assert "--category=datacenter,edge" in flow_.runner.lines[0]


def test_an_archive_has_the_sum_that_is_beside_it(tmp_path: Path) -> None:
    flow_ = a_flow(tmp_path)
    (results.tree(flow_, there=False) / "open").mkdir(parents=True)
    results.pack_submission(flow_)
    line = (tmp_path / "build/Me.tar.gz.sha1").read_text()
    assert run(["sha1sum", "-c", "Me.tar.gz.sha1"], cwd=tmp_path / "build").status == 0, line


def test_compliance_is_asked_of_the_same_runs(tmp_path: Path) -> None:
    model = tmp_path / "m.onnx"
    model.write_bytes(b"a model")
    flow_ = a_flow(tmp_path, "--benchmarks=resnet50 --scenarios=offline")
    engines.put(flow_, work.plan(flow_).items[0], model)
    targets.find("run_audit_test01", targets.NVIDIA).function()(flow_)
    assert isinstance(flow_.runner, Hands)
    (line,) = flow_.runner.lines
    assert line[2] == "--tags=run-mlperf,inference,_r6.1,_tiny,_compliance"
    assert "--mode=compliance" in line
    assert "--rerun" not in line


@dataclass
class Refusing(Hands):
    """Runs nothing, and says of each line but the last that its result is not accepted."""

    kind: str = "result-not-accepted"

    def cm(self, line: Sequence[str]) -> int:
        self.lines.append(list(line))
        return int("--scenario=Server" not in line)

    def failure(self) -> Problem | None:
        return Problem(self.kind, "TEST01 performance", "run it again")


@pytest.mark.parametrize(("kind", "made"), [("result-not-accepted", 2), ("no-space", 1)])
def test_a_compliance_test_that_fails_does_not_keep_others(
    tmp_path: Path, kind: str, made: int
) -> None:
    model = tmp_path / "m.onnx"
    model.write_bytes(b"a model")
    arguments = "--benchmarks=resnet50 --scenarios=offline,server"
    flow_ = a_flow(tmp_path, arguments, hands=Refusing(kind=kind))
    for item in work.plan(flow_).items:
        engines.put(flow_, item, model)
    with pytest.raises(Problem, match="TEST01 performance") as caught:
        results.run_audit_harness(flow_)
    assert caught.value.code == kind
    assert len(flow_.runner.lines) == made  # type: ignore[attr-defined]
    if made > 1:
        assert str(caught.value).endswith("1 of 2 were not accepted")


# ---- words and folders


def test_every_word_has_its_function_and_a_word_of_help() -> None:
    for target in targets.TARGETS:
        assert callable(target.function())
        assert target.help


def test_words_are_found_by_vendor() -> None:
    rows = (
        *targets.TARGETS,
        targets.MakeTarget("run_inferentia_harness", "x:y", "…", vendor=targets.INFERENTIA),
    )
    assert targets.find("link_dirs", targets.INFERENTIA, rows).word == "link_dirs"
    with pytest.raises(Problem) as caught:
        targets.find("run_inferentia_harness", targets.NVIDIA, rows)
    assert caught.value.hint == "export USE_INFERENTIA=1"
    with pytest.raises(Problem) as caught:
        targets.find("generate_engine", targets.NVIDIA, rows)
    assert caught.value.hint == "did you mean generate_engines?"
    assert targets.vendor_of({"USE_INFERENTIA": "1"}) == targets.INFERENTIA
    assert targets.vendor_of({"USE_INFERENTIA": "0"}) == targets.NVIDIA


def test_settings_that_cannot_be_are_all_told() -> None:
    with pytest.raises(Problem) as caught:
        flow.checked({"vendor_round": "v0.8", "form": "small", "colour": "red"}, "x")
    for part in ("vendor_round is 'v0.8'", "form is 'small'", "no colour", "--submitter=NAME"):
        assert part in str(caught.value)


def test_a_link_replaces_a_link_and_nothing_else(tmp_path: Path) -> None:
    place = tmp_path / "data"
    for target in ("one", "two", "two"):
        scratch.link(place, tmp_path / target)
        assert os.readlink(place) == str(tmp_path / target)
    place.unlink()
    place.mkdir()
    with pytest.raises(Problem, match="in the way of a link"):
        scratch.link(place, tmp_path / "one")


# ---- the real thing


@pytest.fixture
def folder(home: Home, tmp_path: Path) -> Path:
    """A folder of the flow, made by its script; runs have the packages of this Python."""
    path = tmp_path / "closed" / "NV IDIA"
    done = home.cm(
        *("run", "script", "--tags=run-harness,nvidia,_workdir", f"--path={path}", "--quiet"),
        *("--submitter=Me", "--division=open", "--form=tiny", "--execution_mode=test"),
        *("--allow_root", f"--python={sys.executable}"),
    )
    done.ok()
    return path


def make(home: Home, folder: Path, *words: str) -> Finished:
    env = home.environment() | {"MLPERF_SCRATCH_PATH": str(home.path / "scratch")}
    # The tests themselves may run below a make; one that was called by it tells of its folders.
    typed = {key: value for key, value in env.items() if key not in ("MAKELEVEL", "MAKEFLAGS")}
    return run(["make", *words], cwd=folder, env=typed)


def test_words_that_cannot_be_end_in_one_error(home: Home, folder: Path) -> None:
    done = make(home, folder, "generate_engine")
    assert "make knows no generate_engine" in done.stderr
    assert "did you mean generate_engines?" in done.stderr
    assert done.stdout == ""
    assert "make generate_engines" in make(home, folder).stdout
    done = make(home, folder, "info", "SUBMITTER=../..")
    assert "submitter is '../..'" in done.stderr
    done = make(home, folder, "run_harness", "RUN_ARGS=--benchmarks=bert --scenario=offline")
    assert "there is no --scenario: did you mean scenarios?" in done.stderr
    done = make(home, folder, "download_model", "BENCHMARK=resnet50")
    assert "no word reads BENCHMARK=" in done.stderr
    assert "note: NEU_CARDS= has no effect" in make(home, folder, "info", "NEU_CARDS=8").stderr


def test_an_accuracy_without_a_target_passes_no_test() -> None:
    found = {"accuracy": 97.5, "accuracy_unit": "%", "accuracy_reached": True}
    assert logs.accuracy({**found, "accuracy_target": 90}).endswith("Accuracy test PASSED.")
    aimless = logs.accuracy({**found, "accuracy_target": None})
    assert aimless == "Accuracy = 97.5 %. There is no threshold."


def made_for_benchmark(home: Home) -> set[str]:
    """The scripts of the steps that the last run of a benchmark has made, not taken."""
    paths = sorted((home.cm_repos / "cmbench/runs").glob("*/record.json"))
    records = [json.loads(path.read_text(encoding="utf-8"))["steps"] for path in paths]
    (steps,) = (each for each in records if any("app-mlperf-inf" in s["step"] for s in each))
    return {step["step"].partition(",")[0] for step in steps if step["status"] == "done"}


@pytest.mark.slow
@pytest.mark.needs_index
def test_the_lines_of_the_guide_from_links_to_logs(home: Home, folder: Path) -> None:
    lines = "--benchmarks=resnet50 --scenarios=offline --config_ver=default,high_accuracy"
    prepare = [(word, "BENCHMARKS=resnet50") for word in ("download_data", "preprocess_data")]
    for words in (*prepare, ("generate_engines", f"RUN_ARGS={lines}")):
        done = make(home, folder, *words)
        assert done.status == 0, done.stderr
        assert done.stdout == ""
    for name in ("data", "models", "preprocessed_data"):
        assert os.readlink(folder / "build" / name) == str(home.path / "scratch" / name)
    short = "--min_duration=100 --min_query_count=100 --test_mode=SubmissionRun"
    done = make(home, folder, "run_harness", f"RUN_ARGS={lines} {short}")
    assert done.status == 0, done.stderr
    # What was prepared is what the run reads.
    made = made_for_benchmark(home)
    assert "app-mlperf-inference" in made
    assert not [name for name in made if name.startswith(("get-dataset", "get-pre", "get-ml-"))]
    performance, accuracy = done.stdout.splitlines()
    assert performance.endswith("and Result is : VALID")
    assert accuracy.endswith("Accuracy test PASSED.")
    (summary,) = (folder / "build/logs").glob("*/perf_harness_summary.json")
    (figures,) = json.loads(summary.read_text()).values()
    assert figures.keys() == {"resnet50"}
    assert list(summary.parent.glob("T4x1_stand-in*/resnet50/Offline/mlperf_log_summary.txt"))
    assert list(summary.parent.glob("T4x1_stand-in*/resnet50/Offline/accuracy/accuracy.txt"))
    done = make(home, folder, "update_results")
    assert done.status == 0, done.stderr
    told = " ".join(done.stderr.split())
    assert "flow complete; not submittable because a stand-in took the place of TensorRT" in told
    moved = folder.rename(folder.with_name("moved"))
    assert list((moved / "results").glob("T4x1_stand_in*/resnet/Offline/performance/run_1/*"))
