"""NVIDIA's configurations as data: complete, as published, checked, matched, explained."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cmbench.errors import Error
from cmbench.lib import nvidia
from common.problems import Problem
from nvidia_mlperf.flow import registry, vocabulary
from nvidia_mlperf.flow.systems import GpuMachine, chosen, machine_of, match, nearest_to
from steps import Step

KNOWN = registry.load()
# Of the instances with Inferentia that NVIDIA did not submit with.
DERIVED = 30
SYSTEMS = tuple(KNOWN.systems.values())


def value(line: str) -> tuple[Any, ...]:
    """The values that a line names: round, benchmark, scenario, system, version, fields."""
    vendor_round, benchmark, scenario, system, ver, *names = line.split()
    config = KNOWN.config(KNOWN.table(vendor_round, benchmark, scenario), system, ver)
    return tuple(config.values[name].value for name in names)


# ---- what there is


def test_values_of_further_instances_are_marked_as_derived() -> None:
    for benchmark, field, ver, rates in (
        ("resnet50", "offline_expected_qps", "triton", (1200, 1200, 16000, 2200, 26400)),
        ("bert", "offline_expected_qps", "high_accuracy_triton", (70, 70, 1100, 160, 1920)),
    ):
        table = KNOWN.table("v2.0", benchmark, "Offline")
        assert table.source.startswith("mlcommons")
        ids = ("INF1_2XLARGE", "INF1_XLARGE", "INF1_24XLARGE", "INF2_XLARGE", "INF2_48XLARGE")
        for name, rate in zip(ids, rates, strict=True):
            config = KNOWN.config(table, f"Triton_Inferentia_{name}x1", ver)
            assert config.values[field].value == rate
            assert config.values["inferentia_compiled_model_framework"].value == "pytorch"
            if name not in ("INF1_2XLARGE", "INF1_XLARGE"):
                assert "derived: " in config.values[field].origin
                cores = config.values["inferentia_neuron_core_count"]
                assert cores.value == config.values["instance_group_count"].value


def test_every_file_is_there_and_nothing_is_wrong() -> None:
    assert [str(fault) for fault in KNOWN.faults] == []
    assert Counter(table.round for table in KNOWN.tables) == {"v0.7": 21, "v2.0": 21, "v3.1": 2}
    blocks = [block for table in KNOWN.tables for block in table.blocks.values()]
    registrations = sum(len(block.versions) for block in blocks if block.system)
    assert registrations == 438 + 1774 + DERIVED + 4
    assert len(KNOWN.systems) == 69
    for table in KNOWN.tables:
        vocabulary.benchmark(table.round, table.benchmark)
        assert "mlcommons/inference_results_" in table.source
        assert all(block.origin for block in table.blocks.values())


# Values of the table in the reference of vendor systems, which was made from another copy.
Q, B, C, S = (
    "gpu_offline_expected_qps",
    "gpu_batch_size",
    "gpu_copy_streams",
    "gpu_inference_streams",
)
QPS, SOFT = "server_target_qps", "soft_drop server_num_issue_query_threads"
SS, MS = "gpu_single_stream_expected_latency_ns", "gpu_multi_stream_samples_per_query"
PUBLISHED = {
    f"resnet50 Offline A100-SXM4x8 default {B} {C} {S} {Q} start_from_device": (
        2048,
        4,
        1,
        294400,
        True,
    ),
    f"resnet50 Offline A100-PCIex1 default {B} {C} {S} {Q}": (2048, 4, 1, 36800),
    f"resnet50 Offline T4x1 default {B} {C} {S} {Q}": (256, 4, 1, 6100),
    f"resnet50 Offline T4x20 default {Q}": (121500,),
    f"resnet50 Server A100-SXM4x8 default {B} {C} {S} {QPS} use_graphs deque_timeout_us": (
        128,
        4,
        2,
        255000,
        True,
        4000,
    ),
    "resnet50 Server A100-SXM4x8 triton server_target_qps": (210000,),
    f"resnet50 Server T4x1 default {B} {C} {S} server_target_qps deque_timeout_us": (
        26,
        4,
        2,
        4650,
        2000,
    ),
    f"resnet50 Server T4x20 default {B} {C} {S} server_target_qps": (52, 8, 4, 111500),
    f"resnet50 SingleStream T4x1 default {SS}": (996648,),
    f"resnet50 MultiStream T4x1 default {B} {MS}": (136, 272),
    f"ssd-resnet34 Offline A100-SXM4x8 default {B} {Q}": (64, 7500),
    f"ssd-resnet34 Server T4x1 default {B} server_target_qps deque_timeout_us": (2, 110, 2000),
    f"ssd-mobilenet Offline T4x1 default {B} {Q}": (128, 7463),
    f"bert Offline A100-SXM4x8 default {B} {Q}": (1024, 27200),
    f"bert Offline A100-SXM4x8 high_accuracy {Q}": (15000,),
    f"bert Server A100-SXM4x8 default {B} {S} {QPS} active_sms soft_drop": (96, 2, 24750, 60, 0.99),
    f"bert Server T4x20 default {QPS} {SOFT}": (7600, 0.992, 40),
    f"rnnt Offline A100-SXM4x8 default {B} {Q}": (2048, 80000),
    f"rnnt Server T4x1 default {B} server_target_qps": (256, 1050),
    f"3d-unet Offline A100-SXM4x8 default {B} {C} {Q}": (1, 2, 368),
    f"3d-unet Offline T4x1 default {B} {Q}": (2, 8),
    f"resnet50 Offline A100-SXM4x1-MIG_1x1g.5gb default {B} {Q}": (256, 36800),
}


def test_values_are_the_published_ones() -> None:
    assert {line: value(f"v0.7 {line}") for line in PUBLISHED} == PUBLISHED
    assert sum(map(len, PUBLISHED.values())) >= 50
    azure = "offline_expected_qps gpu_batch_size use_fp8 enable_sort"
    assert value(f"v3.1 gptj Offline ND_H100_v5 high_accuracy {azure}") == (106, 32, True, True)
    assert value("v3.1 gptj Server ND_H100_v5 default server_target_qps") == (84,)
    later = "v2.0 resnet50 Server A100-PCIex8 default server_target_qps gpu_copy_streams use_graphs"
    assert value(later) == (190000, 4, True), "what a block does not say, the one it is like does"


def test_words_mean_our_benchmarks_by_round() -> None:
    early = ["3d-unet", "bert", "dlrm", "resnet50", "rnnt", "ssd-mobilenet", "ssd-resnet34"]
    assert sorted(vocabulary.rounds("v0.7")) == sorted(vocabulary.rounds("v2.0")) == early
    assert sorted(vocabulary.rounds("v3.1")) == [
        *("3d-unet", "bert", "dlrm-v2", "gptj", "resnet50", "retinanet", "rnnt")
    ]
    assert vocabulary.our_benchmark("v0.7", "3d-unet", "default") == "3d-unet-brats-99"
    assert vocabulary.our_benchmark("v2.0", "3D-UNet", "high_accuracy_triton") == "3d-unet-99.9"
    assert vocabulary.our_benchmark("v2.0", "resnet50", "high_accuracy") == "resnet50"
    assert vocabulary.scenario("offline") == "Offline"
    for call, says in (
        (lambda: vocabulary.benchmark("v0.7", "gptj"), "v0.7 has no benchmark gptj"),
        (lambda: vocabulary.benchmark("v9", "bert"), "v9 is not known"),
        (lambda: vocabulary.scenario("Ofline"), "there is no scenario Ofline"),
    ):
        with pytest.raises(Problem, match=says):
            call()


# ---- faults: all at once, with file and line

GOOD = """source: a@1, b.json
round: v0.7
benchmark: bert
scenario: Server
blocks:
"""
FAULTS = {
    "  a: {system: T4x1}": "6: a: it does not say its origin",
    "  a: {origin: o, system: T5x1}": "6: a: there is no system T5x1: did you mean T4x",
    "  a: {origin: o, system: ND_H100_v5}": "6: a: ND_H100_v5 is not a system of v0.7",
    "  a: {origin: o, fields: {gpu_batchsize: 1}}": "6: a: there is no field gpu_batchsize: did",
    "  a: {origin: o, fields: {gpu_batch_size: big}}": "6: a: gpu_batch_size is int in samples",
    "  a: {origin: o, fields: {gpu_batch_size: 0}}": "6: a: gpu_batch_size is 0, below 1",
    "  a: {origin: o, fields: {precision: fp61}}": "6: a: precision is 'fp61': did you mean fp16?",
    "  a: {origin: o, fields: {num_warmups: 1}}": "6: a: num_warmups is for rnnt, not for bert",
    "  a: {origin: o, fields: {offline_expected_qps: 1}}": "6: a: offline_expected_qps is for",
    "  a: {origin: o, like: b}": "6: a: it is like b, which is not there",
    "  a: {origin: o, like: b}\n  b: {origin: o, like: a}": "7: b: it is like itself: b > a > b",
    "  a: {origin: o, system: T4x1}\n  b: {origin: o, system: T4x1}": "7: b: a has T4x1 default",
    "  a: {origin: o, fieds: {}}": "6: a: a block has no fieds",
    "  a: 3": "6: a: it is not a block",
    "  a: {origin: o": "it cannot be read",
}


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The fields and systems, and one file of values to write."""
    folder = tmp_path / "flow"
    (folder / "configs/v0.7/bert").mkdir(parents=True)
    shutil.copy(registry.HERE / "fields.yaml", folder)
    shutil.copytree(registry.HERE / "systems", folder / "systems")
    return folder


@pytest.mark.parametrize("blocks", FAULTS)
def test_a_fault_is_told_with_file_and_line(blocks: str, copy: Path) -> None:
    (copy / "configs/v0.7/bert/Server.yaml").write_text(GOOD + blocks + "\n")
    told = [str(fault) for fault in registry.load(copy).faults]
    assert any(FAULTS[blocks] in line for line in told), told
    assert all(line.startswith("configs/v0.7/bert/Server.yaml:") for line in told)


def test_all_faults_of_all_files_come_at_once(copy: Path) -> None:
    blocks = "  a: {origin: o, fields: {gpu_batch_size: 0, precision: x}}\n  b: {system: T}\n"
    (copy / "configs/v0.7/bert/Server.yaml").write_text(GOOD + blocks)
    (copy / "configs/v0.7/bert/Offline.yaml").write_text("round: v0.7\n")
    (copy / "systems/T4x1.yaml").write_text("id: T4x9\nrounds: [v0.7]\norigin: [o]\n")
    told = [str(fault) for fault in registry.load(copy).faults]
    assert len(told) == 6
    assert "configs/v0.7/bert/Offline.yaml:1: it lacks benchmark, blocks, scenario, source" in told
    assert "systems/T4x1.yaml:1: its id is T4x9, and its name is not" in told


# ---- systems

GPUS = {
    "T4x1": GpuMachine("Tesla T4", 1, 15, 70, "7.5"),
    "T4x8": GpuMachine("Tesla T4", 8, 14.8, 70, "7.5"),
    "A100-SXM4x8": GpuMachine("A100-SXM4-40GB", 8, 39.6, 400, "8.0"),
    "A100-SXM4x1-MIG_1x1g.5gb": GpuMachine(
        "NVIDIA A100-SXM4-40GB", 1, 40, 400, "8.0", profile="1g.5gb", instances=1
    ),
    "AGX_Xavier": GpuMachine("", 1, machine="aarch64", board="Jetson-AGX"),
}


@pytest.mark.parametrize("wanted", GPUS)
def test_a_machine_is_recognised_exactly(wanted: str) -> None:
    found = [system.id for system in match(GPUS[wanted], SYSTEMS) if "v0.7" in system.rounds]
    assert found == [wanted]


def test_the_power_limit_tells_a_station_from_a_server() -> None:
    station = GpuMachine("NVIDIA A100-SXM4-80GB", 4, 80, 275, "8.0")
    assert chosen(station, SYSTEMS, "v2.0").id == "DGX-Station-A100_A100-SXM-80GBx4"
    server = GpuMachine("NVIDIA A100-SXM4-80GB", 8, 80, 400, "8.0")
    assert chosen(server, SYSTEMS, "v2.0").id == "DGX-A100_A100-SXM-80GBx8"


@pytest.mark.parametrize(
    ("machine", "nearest"),
    [
        (GpuMachine("Tesla T4", 4, 15, 70, "7.5"), "T4x1"),
        (GpuMachine("NVIDIA GeForce RTX 2080 Ti", 1, 11, 250, "7.5"), "TitanRTXx1"),
        (GpuMachine("NVIDIA A100-SXM4-40GB", 4, 40, 400, "8.0"), "A100-SXM4x1"),
    ],
)
def test_another_machine_is_refused_with_the_nearest_by_name(
    machine: GpuMachine, nearest: str
) -> None:
    with pytest.raises(Problem, match=f"nearest is {nearest}: ") as caught:
        chosen(machine, SYSTEMS, "v0.7")
    assert f"--allow_nearest={nearest}\n" in caught.value.hint
    assert caught.value.hint.endswith("--tags=add,custom,system,nvidia --vendor_round=v0.7")
    assert chosen(machine, SYSTEMS, "v0.7", nearest).id == nearest


# GPUs that nobody submitted with in these rounds: name, memory and power as their makers give them.
OTHERS = {
    ("NVIDIA L40S", 44.99, 350, "8.9", "v2.0"): "DGX-A100_A100-SXM4-40GBx1",
    ("NVIDIA L4", 22.49, 72, "8.9", "v2.0"): "A2x1",
    ("NVIDIA GeForce RTX 4090", 23.99, 450, "8.9", "v2.0"): "Drive-A100-PCIex1",
    ("NVIDIA H100 PCIe", 79.65, 350, "9.0", "v2.0"): "DGX-A100_A100-SXM-80GBx1",
    ("NVIDIA GH200 480GB", 95.58, 900, "9.0", "v2.0"): "A100-SXM-80GB_aarch64x1",
    ("NVIDIA H100 NVL", 93.58, 400, "9.0", "v3.1"): "ND_H100_v5",
    ("Quadro RTX 6000", 24, 260, "7.5", "v0.7"): "TitanRTXx1",
    ("GRID T4-16Q", 16, 0, "7.5", "v0.7"): "T4x1",
}


@pytest.mark.parametrize("gpu", OTHERS, ids=lambda gpu: gpu[0])
def test_a_gpu_that_nobody_submitted_with_is_near_one_of_its_kind(
    gpu: tuple[str, float, float, str, str],
) -> None:
    name, memory, power, capability, vendor_round = gpu
    machine = GpuMachine(name, 1, memory, power, capability)
    if "GH200" in name:
        machine = replace(machine, machine="aarch64")
    with pytest.raises(Problem, match=f"nearest is {OTHERS[gpu]}: "):
        chosen(machine, SYSTEMS, vendor_round)


def test_a_system_without_values_in_a_round_is_none_of_it() -> None:
    # NVIDIA's programs of v2.0 know it, and its configurations have nothing for it.
    machine = GpuMachine("NVIDIA GeForce RTX 3090", 1, 24, 350, "8.6")
    with pytest.raises(Problem, match="is not a system of v2") as caught:
        chosen(machine, SYSTEMS, "v2.0")
    nearest = str(caught.value).partition("nearest is ")[2].partition(":")[0]
    table = KNOWN.table("v2.0", "resnet50", "Offline")
    assert KNOWN.config(table, nearest).values


def test_one_of_several_instances_is_chosen_first() -> None:
    machine = replace(GPUS["A100-SXM4x1-MIG_1x1g.5gb"], instances=7)
    with pytest.raises(Problem) as caught:
        chosen(machine, SYSTEMS, "v0.7")
    assert caught.value.hint.startswith("one instance: export CUDA_VISIBLE_DEVICES=MIG-")


WRITTEN = {
    "gpu: {names: NVIDIA L4}": "it is not a system: names is 'NVIDIA L4', and not a list of texts",
    "gpu: {names: [.nan]}": "it is not a system: names is [nan], and not a list of texts",
    "gpu: {name: [NVIDIA L4]}": "a system has no name: did you mean names?",
    "gpus: {names: [NVIDIA L4]}": "a system has no gpus: did you mean gpu?",
    "rounds: [v2]": "there is no round v2: did you mean v2.0?",
    "count: two": "it is not a system: invalid literal for int() with base 10: 'two'",
}


@pytest.mark.parametrize("line", WRITTEN)
def test_what_is_wrong_in_a_system_of_a_users_own_is_told(line: str, tmp_path: Path) -> None:
    path = tmp_path / "systems/mine.yaml"
    path.parent.mkdir()
    rounds = "" if "rounds" in line else "rounds: [v2.0]\n"
    path.write_text(f"id: mine\norigin: [here]\n{rounds}{line}\n")
    (fault,) = registry.load(own=tmp_path).faults
    assert fault.text == WRITTEN[line]


FOREIGN = {
    "configs/bert/Offline/custom.py": "from code.common import *\nclass A30X4(OfflineGPU:\n",
    "configs/v0.7/bert/Offline/config.json": "{}",
    "systems/mine.yml": "id: mine",
}


@pytest.mark.parametrize("name", FOREIGN)
def test_files_that_nobody_would_read_are_told(name: str, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    assert [str(fault) for fault in registry.load(own=empty).faults] == [
        f"{empty}: it has no systems/*.yaml and no configs/**/*.yaml"
    ]
    path = tmp_path / name
    path.parent.mkdir(parents=True)
    path.write_text(FOREIGN[name])
    (fault,) = registry.load(own=tmp_path).faults
    assert str(fault).startswith(f"{name}: it is not read: values are in files named .yaml, which ")


def test_one_t4_never_gets_the_values_of_eight_unscaled() -> None:
    table = KNOWN.table("v0.7", "resnet50", "Offline")
    eight = KNOWN.config(table, "T4x8")
    scaled = KNOWN.scaled(eight, GPUS["T4x1"])
    assert scaled.values[Q].value == eight.values[Q].value / 8
    assert "scaled by 1/8 from T4x8" in scaled.values[Q].given_by
    assert scaled.values[B] == eight.values[B]
    assert KNOWN.scaled(eight, replace(GPUS["T4x1"], count=8)) is eight


def test_parts_of_a_gpu_with_the_rate_of_a_whole_one_are_told() -> None:
    table = KNOWN.table("v0.7", "resnet50", "Offline")
    (note,) = KNOWN.config(table, "A100-SXM4x1-MIG_1x1g.5gb").notes
    assert "36800 is that of a whole GPU (A100-SXM4x1)" in note
    assert KNOWN.config(table, "A100-SXM4x1").notes == ()


def test_machines_that_cannot_be_told() -> None:
    with pytest.raises(Problem, match="shows no NVIDIA GPU"):
        machine_of((), "x86_64")
    two = ({"name": "Tesla T4"}, {"name": "NVIDIA L4"})
    with pytest.raises(Problem, match="the GPUs differ: NVIDIA L4, Tesla T4"):
        chosen(machine_of(two, "x86_64"), SYSTEMS, "v0.7")
    assert nearest_to(GpuMachine("x", 1), ()) is None


# ---- a user's own values, and the script


def test_all_that_is_wrong_with_given_fields_is_said_at_once() -> None:
    table = KNOWN.table("v0.7", "resnet50", "Offline")
    given = {
        "gpu_batchsize": "8",
        "precision": "fp12",
        "server_target_qps": "5",
        "end_on_device": "true",
        "gpu_copy_streams": "two",
    }
    with pytest.raises(Problem) as caught:
        KNOWN.config(table, "T4x1", "default", given)
    said = str(caught.value)
    for part in (
        "there is no field gpu_batchsize: did you mean gpu_batch_size?",
        "precision is 'fp12'",
        "server_target_qps is for Server, not for Offline",
        "end_on_device is refused",
        "gpu_copy_streams is int, and 'two' is not",
    ):
        assert part in said
    good = KNOWN.config(table, "T4x1", "default", {"gpu_batch_size": "8", "use_graphs": "True"})
    assert (good.values["gpu_batch_size"].value, good.values["use_graphs"].value) == (8, True)


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (("v0.7", "dlrm", "SingleStream"), "v0.7 has no dlrm in SingleStream"),
        (("v3.1", "bert", "Offline"), "v3.1 has no bert in Offline"),
    ],
)
def test_what_was_not_published_is_said(asked: tuple[str, str, str], says: str) -> None:
    with pytest.raises(Problem, match=says):
        KNOWN.table(*asked)
    with pytest.raises(Problem, match="--config_ver=maxq is not there"):
        KNOWN.config(KNOWN.table("v0.7", "bert", "Offline"), "T4x1", "maxq")


def explained(tmp_path: Path, **env: str) -> Step:
    given = {"CM_NVIDIA_VENDOR_ROUND": "v0.7", "CM_NVIDIA_CONFIG_VER": "default", **env}
    step = Step("explain-nvidia-config", tmp_path / "cwd", dict(given))
    step.call("preprocess")
    return step


def test_the_script_explains_and_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    explained(tmp_path)
    assert "v2.0: 21 files, 1804 configurations" in capsys.readouterr().out
    gpu = nvidia.NvidiaGpu(0, "GPU-0", "", {"name": "Tesla T4", "compute_cap": "7.5"})
    monkeypatch.setattr(nvidia, "read", lambda: nvidia.Driver("460.32.03", "11.2", (gpu,)))
    monkeypatch.setattr("os.uname", lambda: type("U", (), {"machine": "x86_64"}))
    asked = {"CM_NVIDIA_BENCHMARK": "resnet50", "CM_NVIDIA_RUN_ARGS": "--gpu_batch_size=4"}
    step = explained(tmp_path, **asked)
    said = capsys.readouterr().out
    assert "this machine: 1 x Tesla T4 (x86_64)" in said
    assert "v0.7 resnet50 Offline default on T4x1; here: resnet50" in said
    assert "configs/v0.7/resnet50/Offline.yaml: T4x1 (mlcommons/inference_results_v0.7" in said
    assert step.state["nvidia_config"]["gpu_batch_size"] == 4
    with pytest.raises(Error, match="nearest is"):
        explained(
            tmp_path, **{**asked, "CM_NVIDIA_VENDOR_ROUND": "v3.1", "CM_NVIDIA_BENCHMARK": "gptj"}
        )
