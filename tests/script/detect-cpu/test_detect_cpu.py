"""detect-cpu: this machine, and a recorded Arm64 server."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cmbench.lib.host import machine
from steps import Step


def test_this_machine(tmp_path: Path) -> None:
    step = Step("detect-cpu", tmp_path / "cwd", {})
    step.call("preprocess")
    env = step.env
    assert int(env["CM_HOST_CPU_TOTAL_CORES"]) == os.cpu_count()
    assert env["CM_HOST_CPU_TOTAL_CORES"] == env["CM_HOST_CPU_TOTAL_LOGICAL_CORES"]
    assert 1 <= int(env["CM_HOST_CPU_USABLE_CORES"]) <= int(env["CM_HOST_CPU_TOTAL_CORES"])
    assert env["CM_HOST_CPU_ARCHITECTURE"] == os.uname().machine
    assert env["CM_HOST_MEMORY_CAPACITY"][-1] in "MGT"
    assert env["CM_HOST_DISK_CAPACITY"][-1] in "MGT"
    assert all(isinstance(value, str) and value for value in env.values())
    raw = step.state["host_device_raw_info"]
    assert raw["memory"]["total"] == int(env["CM_HOST_CPU_MEMSIZE"])
    assert raw["usable"]["cores"] == int(env["CM_HOST_CPU_USABLE_CORES"])
    assert list(step.cwd.iterdir()) == []


def test_what_is_not_known_is_not_set(tmp_path: Path) -> None:
    step = Step("detect-cpu", tmp_path / "cwd", {})
    keys = step.module.cpu_keys(machine.cpu_facts(tmp_path / "empty", "riscv64"))
    assert {key for key, value in keys.items() if value} == {"CM_HOST_CPU_ARCHITECTURE"}


@pytest.mark.parametrize(
    ("flags", "bfloat16", "int8"),
    [
        (("avx2", "avx512_bf16"), "yes", ""),
        (("amx_tile", "amx_bf16", "amx_int8"), "yes", "yes"),
        (("avx512f", "avx512_vnni"), "", "yes"),
        (("avx2", "avx_vnni"), "", "yes"),
        (("avx2", "avx512f"), "", ""),
    ],
)
def test_instructions_for_small_numbers(
    flags: tuple[str, ...], bfloat16: str, int8: str, tmp_path: Path
) -> None:
    step = Step("detect-cpu", tmp_path / "cwd", {})
    keys = step.module.cpu_keys(replace(machine.cpu_facts(), flags=flags))
    assert (keys["CM_HOST_CPU_BFLOAT16"], keys["CM_HOST_CPU_INT8"]) == (bfloat16, int8)


def test_a_recorded_machine(tmp_path: Path) -> None:
    cpus = tmp_path / "sys/devices/system/cpu"
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_text(
        "".join(
            f"processor\t: {n}\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\nFeatures\t: asimd\n\n"
            for n in range(80)
        )
    )
    for number in range(80):
        topology = cpus / f"cpu{number}/topology"
        topology.mkdir(parents=True)
        (topology / "core_id").write_text(f"{number % 40}\n")
        (topology / "physical_package_id").write_text(f"{number // 40}\n")
    (cpus / "online").write_text("0-79\n")
    step = Step("detect-cpu", tmp_path / "cwd", {})
    keys = step.module.cpu_keys(machine.cpu_facts(tmp_path, "aarch64"))
    assert keys["CM_HOST_CPU_MODEL_NAME"] == "Neoverse-N1"
    assert keys["CM_HOST_CPU_SOCKETS"] == "2"
    assert keys["CM_HOST_CPU_PHYSICAL_CORES_PER_SOCKET"] == "40"
    assert keys["CM_HOST_CPU_THREADS_PER_CORE"] == "1"
    assert keys["CM_HOST_CPU_ON_LINE_CPUS_LIST"] == "0-79"


@pytest.mark.parametrize("tags", ["detect,cpu", "detect-cpu,info"])
def test_through_the_engine(cm: Callable[..., Any], tmp_path: Path, tags: str) -> None:
    result = cm("run", "script", f"--tags={tags}", "--out=json", cwd=tmp_path).ok().json
    assert int(result["new_env"]["CM_HOST_CPU_TOTAL_CORES"]) == os.cpu_count()
    assert result["new_state"]["host_device_raw_info"]["cpu"] is not None
