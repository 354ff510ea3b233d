"""Lines of make that guides, repositories of results and other tools have, as people type them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from common.problems import Problem
from nvidia_flow_lab import KNOWN, Hands, a_flow, read
from nvidia_mlperf.flow.errors import nearest
from nvidia_mlperf.flow.fields import USED
from nvidia_mlperf.flow.systems import GpuMachine
from nvidia_mlperf.make import checks, flow, generate, harness, info, run_arguments, targets, work

T4 = GpuMachine("Tesla T4", 1, 15, 70, "7.5")

# ---- RUN_ARGS

TYPED: dict[str, dict[str, Any]] = {
    # Since v4.0 --fast has this name.
    "--benchmarks=bert --scenarios=offline --test_run": {"fast": True},
    "--benchmarks=bert --config_ver=HIGH_ACCURACY,Triton": {
        "versions": ("high_accuracy", "triton")
    },
    "--benchmarks=bert --harness_type=Triton --accuracy_target=0.999": {
        "versions": ("high_accuracy_triton",)
    },
    "--benchmarks=bert --audit_test=test04-a": {"audit": "TEST04-A"},
    # Two hyphens, as pages of the web show them.
    "\N{EM DASH}benchmarks=bert \N{EN DASH}\N{EN DASH}scenarios=offline": {
        "benchmarks": ("bert",),
        "scenarios": ("Offline",),
    },
    # The line that the collections' NVIDIA app makes for a run.
    " --benchmarks=resnet50 --scenarios=offline  --test_mode=PerformanceOnly "
    "--offline_expected_qps=1 --user_conf_path=/x/u.conf --mlperf_conf_path=/x/mlperf.conf "
    "--gpu_batch_size=4 --use_deque_limit --no_audit_verify  ": {
        "fields": {
            "offline_expected_qps": 1,
            "user_conf_path": "/x/u.conf",
            "mlperf_conf_path": "/x/mlperf.conf",
            "gpu_batch_size": 4,
            "use_deque_limit": True,
        }
    },
}


@pytest.mark.parametrize("text", TYPED)
def test_what_is_typed_is_understood(text: str, tmp_path: Path) -> None:
    found = read(text)
    for name, value in TYPED[text].items():
        assert getattr(found, name) == value
    assert work.plan(a_flow(tmp_path, text)).items


REFUSED = {
    (
        "v0.7",
        "--benchmarks=<BENCHMARKS> --scenarios=<SCENARIOS> --test_mode=<A/P> [OTHER FLAGS]",
    ): "<BENCHMARKS>, <SCENARIOS>, <A/P>, [OTHER FLAGS] are placeholders of the guide",
    ("v2.0", "--benchmarks=... --config_ver=default[,triton]"): "..., [,triton] are placeholders",
    ("v2.0", "--benchmarks=bert --scenarios=offline [OTHER FLAGS]"): "[OTHER FLAGS] is a placeh",
    ("v3.1", "--benchmarks=ssd-resnet34,dlrm"): "v3.1 has no benchmark ssd-resnet34: it is one of "
    "v0.7 and v2.0: --vendor_round=v2.0; v3.1 has no benchmark dlrm: it is one of v0.7 and v2.0",
    ("v2.0", "--benchmarks=retinanet"): "v2.0 has no benchmark retinanet: it is one of v3.1",
    ("v2.0", "--benchmarks=llama2-70b"): "v2.0 has no benchmark llama2-70b: one of: 3d-unet, bert",
    ("v2.0", "--help"): "--help is refused: make info shows all words",
    ("v2.0", "--action=run_harness"): "--action is refused: the word after make says",
    ("v2.0", "--q=x"): "there is no --q: nothing here is called like that",
    ("v2.0", "--harness_type=lwiss"): "--harness_type is 'lwiss': did you mean lwis?",
}


@pytest.mark.parametrize("line", REFUSED)
def test_what_cannot_be_meant_is_refused_with_its_reason(line: tuple[str, str]) -> None:
    with pytest.raises(Problem) as caught:
        read(line[1], line[0])
    assert REFUSED[line] in str(caught.value)
    assert "make info" in caught.value.hint


def test_no_hint_is_empty_or_of_another_kind_of_machine(tmp_path: Path) -> None:
    with pytest.raises(Problem) as caught:
        work.plan(a_flow(tmp_path, "--system_name=SINIAN", vendor_round="v2.0"))
    assert caught.value.hint == "one of your own: cm run script --tags=add,custom,system,nvidia"
    hands = Hands(GpuMachine("NVIDIA L4", 1, 22.5, 72, "8.9"))
    with pytest.raises(Problem) as caught:
        work.plan(a_flow(tmp_path, "--benchmarks=bert", hands=hands, vendor_round="v2.0"))
    assert "nearest is A2x1" in str(caught.value), "a Jetson is no card"


def test_a_system_of_another_round_is_told_with_that_round(tmp_path: Path) -> None:
    with pytest.raises(Problem, match=r"v0\.7 has no system ND_H100_v5") as caught:
        work.plan(a_flow(tmp_path, "--system_name=ND_H100_v5"))
    assert caught.value.hint == "it is one of v3.1: --vendor_round=v3.1"
    with pytest.raises(Problem) as caught:
        work.plan(a_flow(tmp_path, "--benchmarks=bert --allow_nearest=Orin", hands=Hands(T4)))
    assert caught.value.hint == "it is one of v2.0: --vendor_round=v2.0"


def test_what_another_round_has_comes_with_the_line_that_makes_its_folder(tmp_path: Path) -> None:
    flow_ = a_flow(tmp_path / "flow", "--benchmarks=gptj", submitter="Me & Co", allow_root=True)
    with pytest.raises(Problem, match=r"v0\.7 has no benchmark gptj") as caught:
        work.plan(flow_)
    told = flow.with_folder(caught.value, flow_.folder, flow_.settings)
    assert told.hint.endswith(
        "a folder for it: cm run script --tags=run-harness,nvidia,_workdir "
        f"--path={tmp_path}/flow-v3.1 --vendor_round=v3.1 '--submitter=Me & Co' --form=tiny "
        "--execution_mode=test --allow_root=true"
    )
    for hint in ("y", "cm run script --tags=add,custom,system,nvidia --vendor_round=v0.7"):
        other = Problem("bad-value", "x", hint)
        assert flow.with_folder(other, flow_.folder, flow_.settings) is other


NEAREST = "--benchmarks=resnet50 --scenarios=offline --allow_nearest=T4x8"


def test_the_line_that_makes_engines_keeps_whose_values_count(tmp_path: Path) -> None:
    flow_ = a_flow(tmp_path, NEAREST, hands=Hands(replace(T4, count=4)))
    with pytest.raises(Problem, match="engines do not fit") as caught:
        harness.run_harness(flow_)
    assert "--allow_nearest=T4x8" in caught.value.hint
    assert ".plan: it is missing" in str(caught.value), "what a GPU computes is no stand-in"


def test_gpus_that_differ_are_no_reason_against_a_system_that_is_named(tmp_path: Path) -> None:
    hands = Hands(replace(T4, name="NVIDIA L4, Tesla T4", count=2, kinds=2))
    info.info(a_flow(tmp_path, hands=hands))
    with pytest.raises(Problem, match="the GPUs differ: NVIDIA L4, Tesla T4") as caught:
        work.plan(a_flow(tmp_path, "--benchmarks=bert", hands=hands))
    assert "--system=T4x1" in caught.value.hint
    named = "--benchmarks=bert --scenarios=offline --system=T4x1"
    assert work.plan(a_flow(tmp_path, named, hands=hands)).system == "T4x1"


# ---- words

INSTEAD = {
    "run_cpu_harness": "make run_harness computes on the processor where there is no GPU",
    "build_triton_cpu_backends": "make run_harness computes on the processor",
    "run_harness_power": "leave the power out: make run_harness",
    "power_set_maxq_state": "leave the power out",
    "clean_shallow": "make clean removes build/, engines and logs too",
    "export_submission": "make update_results makes the tree",
    "push_full_results": "make update_results makes the tree",
    "run_audit_verification": "make run_audit_harness",
    "shell": "make attach_docker",
}


@pytest.mark.parametrize("word", INSTEAD)
def test_a_word_of_nvidias_that_is_not_here_says_why(word: str) -> None:
    with pytest.raises(Problem, match=f"there is no make {word}: ") as caught:
        targets.find(word, targets.NVIDIA)
    assert caught.value.code == "not-available"
    assert INSTEAD[word] in caught.value.hint


PARTS = {
    "clone_loadgen": "build",
    "build_plugins": "build",
    "build_loadgen": "build",
    "build_harness": "build",
    "run_audit_test06": "run_audit_harness",
    "run_audit_test01_once": "run_audit_harness",
    "check_submission_staging": "check_submission",
    "stage_compliance": "update_results",
}


def test_parts_of_a_word_are_that_word() -> None:
    for part, word in PARTS.items():
        assert targets.find(part, targets.NVIDIA).word == word
    for patterns in targets.ABSENT:
        for target in targets.TARGETS:
            assert target.word not in patterns.split()


def test_the_list_of_words_fits_into_a_terminal(tmp_path: Path) -> None:
    hands = Hands()
    info.info(a_flow(tmp_path, "", hands=hands))
    told = [line for line in hands.shown if line.startswith("  ")]
    assert max(map(len, told)) <= 80
    assert "run_audit_test06_once" in "".join(told)


# ---- variables

MAKEFLAGS = {
    "": [],
    "w": [],
    "kw -j2 -- RUN_ARGS=--benchmarks=bert\\ --scenarios=offline BENCHMARKS=a\\ b": [],
    " -- CM=/x/cm": [],
    " -- NEU_CARDS=8": ["NEU_CARDS= has no effect: no word here reads it"],
    "-- BUILD_TRTLLM:=1 DOCKER_ARGS=-v\\ a:b": [
        "BUILD_TRTLLM= has no effect: no word here reads it"
    ],
}


@pytest.mark.parametrize("makeflags", MAKEFLAGS)
def test_variables_that_nothing_reads_are_said(makeflags: str) -> None:
    assert flow.unread(makeflags) == MAKEFLAGS[makeflags]


@pytest.mark.parametrize(
    ("name", "meant"),
    [("BENCHMARK", "BENCHMARKS"), ("RUNARGS", "RUN_ARGS"), ("run_args", "RUN_ARGS")],
)
def test_variables_that_are_misspelt_are_refused(name: str, meant: str) -> None:
    with pytest.raises(Problem, match=f"no word reads {name}=") as caught:
        flow.unread(f"w -- {name}=resnet50")
    assert caught.value.hint == f"did you mean {meant}=?"


PLACEHOLDERS = {
    "MLPERF_SCRATCH_PATH": ["/path/to/scratch/space", "<path/to/scratch/space>", "DIR"],
    "DOCKER_ARGS": ["-v <from>:<to> -v <from>:<to>", "-v /path/to/data:/data"],
    "NVIDIA_VISIBLE_DEVICES": ["0,2,4..."],
    "LOG_DIR": ["path/to/logs"],
    "SUBMITTER": ["<your_company>"],
}


@pytest.mark.parametrize("name", PLACEHOLDERS)
def test_what_nobody_has_chosen_is_refused(name: str) -> None:
    for text in PLACEHOLDERS[name]:
        with pytest.raises(Problem, match=f"{name}=.*: a placeholder of the guide"):
            flow.check_chosen({name: text, "DOCKER_COMMAND": "a <b >c", "RUN_ARGS": "..."})


def test_paths_that_only_look_like_placeholders(tmp_path: Path) -> None:
    there = tmp_path / "[A disk]"
    there.mkdir()
    for text in (str(there), "/data/DIR", "/my/path/to/space", "-v /a:/b -e X=1", "0,1", "all"):
        flow.check_chosen({"MLPERF_SCRATCH_PATH": text})


# ---- before a build


@dataclass
class Small(Hands):
    """Finds what the doctor finds where weights are larger than the memory of the GPU."""

    subjects: list[dict[str, Any]] = field(default_factory=list)

    def findings(self, vendor: str, subject: Any) -> list[Any]:
        self.subjects.append(dict(subject))
        large = [need["name"] for need in subject["needs"] if need["gpu_memory"] > 15 * 2**30]
        stop = {"id": "gpu.memory", "state": "stop", "text": f"too few for {large}", "remedy": "x"}
        ram = {"id": "memory.room", "state": "stop", "text": "RAM", "remedy": "y"}
        return [ram, stop] if large else [ram]


def test_too_little_memory_of_a_gpu_is_refused_before_a_build(tmp_path: Path) -> None:
    hands = Small(T4)
    flow_ = a_flow(tmp_path, "--benchmarks=dlrm --scenarios=offline", hands=hands, form="full")
    with pytest.raises(Problem, match=r"gpu\.memory: too few for \['dlrm'\]") as caught:
        generate.generate_engines(flow_)
    assert caught.value.hint == "x", "memory of the processor does not stop a build"
    assert hands.lines == [], "nothing is built"
    # 24 thousand million weights of one byte; those of a stand-in are no matter of a GPU.
    assert hands.subjects[0]["needs"][0]["gpu_memory"] == 24_060 * 10**6
    alone = replace(flow_, settings=replace(flow_.settings, builder="stand-in"))
    assert checks.subject(alone, work.plan(alone))["needs"][0]["gpu_memory"] == 0


# ---- fields

OF_OTHERS = """
performance_sample_count_override run_infer_on_copy sparsity multi_stream_target_latency_ns
server_coalesce_queries server_target_qps_adj_factor gpu_engine_batch_size openvino_version
verbose_glog vboost_slider disable_beta1_smallk energy_aware_kernels use_nmsopt
slice_overlap_patch_kernel_cg_impl compress_categorical_inputs qsl_numa_override
interaction_op_precision pipeline_parallelism gpu_rank_map use_inflight_batching
trtllm_batching_mode trtllm_batch_sched_policy kvcache_free_gpu_mem_frac max_num_tokens
llm_gen_config_path use_token_latencies soc_pva_freq xavier_gpu_freq engine_file configs
num_samples
"""
"""Names that configurations of other rounds and submitters have, or the programs that read them."""


def test_names_of_other_rounds_and_submitters_are_known() -> None:
    known = {**run_arguments.FLAGS, **KNOWN.fields}
    for name in OF_OTHERS.split():
        assert known[name].why, f"{name}: why it has no effect, or is refused"


def test_one_wrong_letter_is_told_with_the_name_that_was_meant() -> None:
    names = [*run_arguments.FLAGS, *KNOWN.fields]
    for name in names:
        for wrong in (f"{name[:2]}q{name[3:]}", name[:1] + name[2:], name + "s"):
            assert wrong in names or nearest(wrong, names) == f"did you mean {name}?"


def test_every_field_says_what_it_is_and_what_becomes_of_it() -> None:
    for told in KNOWN.fields.values():
        first, second = told.described().splitlines()
        assert first.startswith(f"{told.name}: {told.type}")
        assert told.why or told.here == USED
        assert second.split()[0].rstrip(":") == told.here
    told = KNOWN.fields["split_threshold"].described()
    assert told == (
        "split_threshold: int from 0; default 500; for dlrm\n"
        "    record: of NVIDIA's harness for DLRM"
    )
