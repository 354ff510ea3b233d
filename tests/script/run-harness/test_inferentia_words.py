"""The make lines of the guide for Triton on Inferentia, read, and once from their start to logs."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

import nvidia_flow_lab as nv
from aws_neuron import artifact
from common.problems import Problem
from nvidia_flow_lab import compiled
from nvidia_mlperf.flow.systems import NeuronDevices
from nvidia_mlperf.make import (
    compiled_models,
    data,
    docker,
    flow,
    harness,
    inferentia,
    neuron,
    results,
    targets,
    work,
)
from support import Finished, Home, run

INF1 = NeuronDevices("inf1", "inf1.6xlarge", 16)
TRITON = "--benchmarks=resnet50 --scenarios=offline --config_ver=triton"


def a_flow(
    folder: Path, run_args: str = "", there: NeuronDevices | None = None, form: str = "tiny"
) -> flow.Flow:
    hands = nv.Hands(there=there or NeuronDevices())
    return nv.a_flow(folder, run_args, targets.INFERENTIA, hands=hands, form=form, allow_root=True)


def lines(flow_: flow.Flow) -> list[list[str]]:
    assert isinstance(flow_.runner, nv.Hands)
    return flow_.runner.lines


# ---- which system, which words


def test_a_folder_of_another_round_is_one_of_the_round_with_inferentia(tmp_path: Path) -> None:
    assert a_flow(tmp_path).settings.vendor_round == "v2.0"
    kept = flow.FlowSettings("Me", vendor_round="v0.7")
    assert targets.settings(kept, targets.NVIDIA) is kept


@pytest.mark.parametrize(
    ("there", "system"),
    [
        (NeuronDevices(), "Triton_Inferentia_INF1_2XLARGEx1"),
        (INF1, "Triton_Inferentia_INF1_6XLARGEx1"),
        (NeuronDevices("inf2", "inf2.xlarge", 2), "Triton_Inferentia_INF2_XLARGEx1"),
    ],
)
def test_the_type_of_the_instance_says_whose_values_count(
    tmp_path: Path, there: NeuronDevices, system: str
) -> None:
    plan = work.plan(a_flow(tmp_path, TRITON, there))
    assert plan.system == system
    assert f"system: {system} ({there})" in plan.lines()
    assert bool(plan.notes) is not bool(there.target)


def test_another_instance_names_the_systems_that_are_like_it(tmp_path: Path) -> None:
    larger = NeuronDevices("inf2", "inf2.8xlarge", 2)
    with pytest.raises(Problem, match=r"inf2\.8xlarge is not a system of v2\.0") as caught:
        work.plan(a_flow(tmp_path, TRITON, larger))
    assert "--system_name=ID" in caught.value.hint
    assert "INF2_XLARGEx1" in caught.value.hint
    assert "INF1" not in caught.value.hint
    named = f"{TRITON} --system_name=triton_inferentia_inf2_xlargex1"
    assert work.plan(a_flow(tmp_path, named, larger)).system == "Triton_Inferentia_INF2_XLARGEx1"


def test_systems_of_the_other_vendor_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Problem, match=r"v2\.0 has no system T4x1"):
        work.plan(a_flow(tmp_path, f"{TRITON} --system_name=T4x1"))
    mine = a_flow(tmp_path, f"{TRITON} --system_name=Triton_Inferentia_INF1_2XLARGEx1")
    with pytest.raises(Problem, match="is a system of AWS Inferentia") as caught:
        work.plan(replace(mine, vendor=targets.NVIDIA))
    assert caught.value.hint == "export USE_INFERENTIA=1"


def test_a_driver_that_does_not_work_stops(tmp_path: Path) -> None:
    broken = NeuronDevices(problem="the Neuron driver does not work", remedy="modprobe neuron")
    with pytest.raises(Problem, match="driver does not work") as caught:
        work.plan(a_flow(tmp_path, TRITON, broken))
    assert (caught.value.code, caught.value.hint) == ("no-driver", "modprobe neuron")


SAID = {
    "generate_engines": ("no step that generates engines", "make build_inferentia, then make run_"),
    "run": ("no step that generates engines", "make build_inferentia, then make run_"),
    "run_harness": (
        "run_harness is for NVIDIA's GPUs",
        'make run_inferentia_harness RUN_ARGS="--b',
    ),
}


@pytest.mark.parametrize("word", SAID)
def test_words_of_tensorrt_say_what_to_type(tmp_path: Path, word: str) -> None:
    with pytest.raises(Problem, match=re.escape(SAID[word][0])) as caught:
        targets.find(word, targets.INFERENTIA).function()(a_flow(tmp_path, "--benchmarks=bert"))
    assert caught.value.hint.startswith(SAID[word][1])


WRONG = {
    "--benchmarks=resnet50": "--config_ver=default is not there",
    "--benchmarks=rnnt --config_ver=triton": "v2.0 has no values for rnnt",
    "--benchmarks=resnet50 --config_ver=triton --inferentia_request_batchsize=4": (
        "did you mean inferentia_request_batch_size?"
    ),
    "--benchmarks=resnet50 --scenarios=singlestream --config_ver=triton": "no values for resnet50",
}


@pytest.mark.parametrize("line", WRONG)
def test_what_the_guide_does_not_have_is_said(tmp_path: Path, line: str) -> None:
    with pytest.raises(Problem) as caught:
        work.plan(a_flow(tmp_path, line))
    assert WRONG[line] in str(caught.value)
    assert caught.value.hint


def test_variables_of_the_guide_that_do_nothing_say_so_where_they_ask_for_something(
    tmp_path: Path,
) -> None:
    for value, said in (("0", False), ("", False), ("1", True)):
        given = {"USE_NIGHTLY": value, "CONTAINER_ENGINE": docker.NONE}
        flow_ = replace(a_flow(tmp_path), variables=given)
        docker.prebuild(flow_)
        assert isinstance(flow_.runner, nv.Hands)
        assert (docker.NIGHTLY in flow_.runner.told) is said
        assert "go on with make build_inferentia" in flow_.runner.told[-1]


# ---- models


def test_build_compiles_each_model_of_the_system_once(tmp_path: Path) -> None:
    flow_ = a_flow(tmp_path, there=INF1)
    inferentia.build_inferentia(flow_)
    asked = [line[2:6] for line in lines(flow_) if "compile" in line[2]]
    folder = f"--dir={compiled_models.models(flow_)}"
    assert asked == [
        ["--tags=compile,neuron-model,_bert,_tiny", "--target=inf1", "--batch_size=1", folder],
        ["--tags=compile,neuron-model,_resnet50,_tiny", "--target=inf1", "--batch_size=5", folder],
        ["--tags=compile,neuron-model,_resnet50,_tiny", "--target=inf1", "--batch_size=1", folder],
    ]


def test_what_no_device_runs_lies_apart_from_the_guides_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = tmp_path / "home/inferentia-compiled-models"
    monkeypatch.setattr(artifact, "usual_folder", lambda: usual)
    (tmp_path / "home").mkdir()
    assert compiled_models.models(a_flow(tmp_path, there=INF1, form="full")) == usual
    # A tiny model has the name of the real one.
    built = tmp_path / "build/inferentia-compiled-models"
    assert compiled_models.models(a_flow(tmp_path, there=INF1, form="tiny")) == built
    assert compiled_models.models(a_flow(tmp_path)) == tmp_path / "build/inferentia-compiled-models"
    mine = a_flow(tmp_path)
    given = replace(mine, settings=replace(mine.settings, compiled_models="/models"))
    assert compiled_models.models(given) == Path("/models")


def test_a_model_that_is_missing_or_of_another_device_stops_with_its_line(tmp_path: Path) -> None:
    flow_ = a_flow(tmp_path, TRITON)
    with pytest.raises(Problem, match=r"_bs5_dynamic\.pt is not compiled yet") as caught:
        inferentia.run_inferentia_harness(flow_)
    assert caught.value.hint.startswith("make build_inferentia, or cm run script --tags=compile,")
    assert lines(flow_) == []
    (item,) = work.plan(flow_).items
    compiled(flow_, item, "inf1")
    with pytest.raises(Problem, match="was compiled for inf1, and cpu is to run it"):
        compiled_models.require(flow_, [item])
    compiled(flow_, item, "cpu")
    compiled_models.require(flow_, [item])


def test_instances_that_are_not_one_for_each_core_are_refused(tmp_path: Path) -> None:
    flow_ = a_flow(tmp_path, f"{TRITON} --instance_group_count=3", INF1)
    with pytest.raises(Problem, match="3 instances of a core each, and 16 NeuronCores") as caught:
        inferentia.run_inferentia_harness(flow_)
    assert "--instance_group_count=16, as every" in caught.value.hint


def test_every_configuration_of_the_guide_is_served_by_an_instance_for_each_core(
    tmp_path: Path,
) -> None:
    for system in nv.KNOWN.systems.values():
        if system.accelerator == neuron.ACCELERATOR:
            line = f"--system_name={system.id} --config_ver=all"
            items = work.plan(a_flow(tmp_path, line)).items
            assert len(items) >= 4, system
            for item in items:
                assert "triton" in item.config.ver
                counts = (item.value(compiled_models.CORES), item.value(compiled_models.INSTANCES))
                assert counts[0] == counts[1] > 0, (system, item)


# ---- runs


def test_a_run_takes_the_compiled_model_and_the_cores_of_a_device(tmp_path: Path) -> None:
    line = "--benchmarks=bert --scenarios=server --config_ver=high_accuracy_triton --fast"
    flow_ = a_flow(tmp_path, line, INF1)
    plan = work.plan(flow_)
    words = harness.line(flow_, plan, plan.items[0])
    assert words[2:4] == [
        "--tags=run-mlperf,inference,_r6.1,_tiny,_performance-only",
        "--model=bert-99.9",
    ]
    assert {*neuron.SERVED, "--device=inf1", "--backend_options=instances=16"} <= set(words)
    assert "--adr.neuron-model.batch_size=1" in words
    assert any("INF1_6XLARGEx1_inf1_" in word for word in words)
    plain = a_flow(tmp_path, line)
    words = harness.line(plain, plan, plan.items[0])
    assert "--device=cpu" in words
    assert any("INF1_6XLARGEx1_cpu-stand-in_" in word for word in words)
    assert not any("instances" in word for word in words)


def test_audits_route_here(tmp_path: Path) -> None:
    flow_ = a_flow(tmp_path, TRITON)
    word = targets.find("run_audit_test01", targets.INFERENTIA).function()
    with pytest.raises(Problem, match="is not compiled yet"):
        word(flow_)
    compiled(flow_, work.plan(flow_).items[0], "cpu")
    word(flow_)
    (line,) = lines(flow_)
    assert {*neuron.SERVED, "--mode=compliance"} <= set(line)
    assert line[2].endswith(",_compliance")


def test_the_tree_says_what_stood_in_and_is_of_the_datacenter(tmp_path: Path) -> None:
    (tmp_path / "build/results/test_results").mkdir(parents=True)
    for there, noted in ((NeuronDevices(), True), (INF1, False)):
        flow_ = a_flow(tmp_path, there=there)
        with pytest.raises(Problem, match="no tree was made"):
            results.update_results(flow_)
        (line,) = lines(flow_)
        assert "--category=datacenter" in line
        assert (f"--sw_notes_extra={results.NEURON_NOTE}" in line) is noted


def test_data_are_those_of_the_two_benchmarks(tmp_path: Path) -> None:
    flow_ = a_flow(tmp_path)
    assert [word for word, _ in data.benchmarks(flow_)] == ["bert", "resnet50"]
    with pytest.raises(Problem, match="no model of rnnt is compiled for Inferentia"):
        data.benchmarks(replace(flow_, variables={"BENCHMARKS": "rnnt bert"}))


@dataclass
class Busy(nv.Hands):
    """Leaves an INVALID run of LoadGen; ``status`` says whether cm takes it for an error."""

    status: int = 0
    folder: Path = Path()

    def cm(self, line: Sequence[str]) -> int:
        system = next(word for word in line if word.startswith("--hw_name="))[10:].replace("-", "_")
        item = {"scenario": "Server", "validity": "INVALID", "performance_run": {"a": 1}}
        told = {
            "results": [{**item, "value": 9.0, "reasons": ["late"]}],
            "call": {"made": [["Server", "performance"]]},
        }
        place = self.folder / f"build/results/test_results/{system}-x/resnet50/results.json"
        logs = place.parent / "server/performance/run_1"
        logs.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps(told))
        return self.status


@pytest.mark.parametrize("status", [0, 1])
def test_a_run_that_the_host_has_spoilt_is_a_warning(tmp_path: Path, status: int) -> None:
    line = "--benchmarks=resnet50 --scenarios=server --config_ver=triton"
    hands = Busy(status=status, folder=tmp_path)
    flow_ = replace(a_flow(tmp_path, line), runner=hands)
    (item,) = work.plan(flow_).items
    compiled(flow_, item, "cpu")
    if status:
        with pytest.raises(Problem, match="1 runs are not as they must"):
            inferentia.run_inferentia_harness(flow_)
    else:
        inferentia.run_inferentia_harness(flow_)
        assert "warning: the host was busy; resnet50 Server triton is INVALID" in hands.told[-1]
    assert any("Result is : INVALID" in shown for shown in hands.shown)


# ---- the real thing

GUIDE = "--benchmarks=resnet50 --scenarios=offline --config_ver=triton"
REST = (
    "--benchmarks=resnet50 --scenarios=server --config_ver=triton",
    "--benchmarks=bert --scenarios=offline,server --config_ver=triton,high_accuracy_triton",
)
STANDS_IN = "stand-in: the processor computed this in the place of a Neuron device"


@pytest.mark.slow
@pytest.mark.needs_index
@pytest.mark.skipif(
    not os.environ.get("CMBENCH_INFERENTIA"),
    reason="installs PyTorch (2.6 GB to download), in 20 minutes: CMBENCH_INFERENTIA=1 runs it",
)
def test_the_lines_of_the_guide_from_an_empty_home(home: Home, tmp_path: Path) -> None:
    folder = tmp_path / "closed" / "NVIDIA"
    home.cm(
        *("run", "script", "--tags=run-harness,nvidia,_workdir", f"--path={folder}", "--quiet"),
        *("--submitter=Me", "--form=tiny", "--execution_mode=test", "--allow_root"),
    ).ok()
    typed = {"USE_INFERENTIA": "1", "USE_NIGHTLY": "0"}
    usual = home.environment().items()
    env = typed | {k: v for k, v in usual if k not in ("MAKELEVEL", "MAKEFLAGS")}

    def make(*words: str) -> Finished:
        return run(["make", *words], cwd=folder, env=env, timeout=4 * 1800)

    make("prebuild", "CONTAINER_ENGINE=none").ok()
    make("build_inferentia").ok()
    made = sorted(path.name for path in folder.glob("build/inferentia-compiled-models/**/*.pt"))
    assert made == [
        "bert-large-int32-bs1-concat.pt",
        "resnet50_neuron_bs1_dynamic.pt",
        "resnet50_neuron_bs5_dynamic.pt",
    ]
    for line in (GUIDE, *REST):
        done = make("run_inferentia_harness", f"RUN_ARGS={line}").ok()
        shown = done.stdout.splitlines()
        assert shown
        assert all("_cpu-stand-in_" in row for row in shown)
        # What the host has spoilt is no error, and said.
        spoilt = done.stdout.count("INVALID")
        assert done.stderr.count("warning: the host was busy") == spoilt
        told = make(
            "run_inferentia_harness", f"RUN_ARGS={line} --test_mode=AccuracyOnly", "VERBOSE=1"
        )
        assert told.ok().stdout.count("Accuracy test PASSED.") == len(shown)
    for path in folder.glob("build/results/test_results/*/*/results.json"):
        results = json.loads(path.read_text())
        assert (results["device"], results["backend"]) == ("cpu", "triton")
        assert results["stand_in"].startswith(STANDS_IN)
        assert "-cpu-neuron-triton-" in str(path)
    said = " ".join(make("update_results").stderr.split())
    assert "a stand-in took the place of a Neuron device" in said
    refused = make("check_submission")
    assert refused.status != 0
    assert "result.stand-in" in refused.stdout + refused.stderr
