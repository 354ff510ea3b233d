"""get-cuda-devices: the guide's lines, compiled once, and each way in which a driver is missing."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import cuda_lab
from cmbench.errors import Error
from cmbench.lib import nvidia
from lab import Lab, Result
from steps import Step, tool

# What guide 004 shows for a Tesla K80, and what our program adds; the added values are made up.
LINES = """GPU Device ID: {0}
GPU Name: Tesla K80
GPU compute capability: 3.7
CUDA driver version: 11.4
CUDA runtime version: 11.8
Global memory: 11997020160
Max clock rate: 823.500000 MHz
Total amount of shared memory per block: 49152
Total number of registers available per block: 65536
Warp size: 32
Maximum number of threads per multiprocessor:  2048
Maximum number of threads per block: 1024
Max dimension size of a thread block X: 1024
Max dimension size of a thread block Y: 1024
Max dimension size of a thread block Z: 64
Max dimension size of a grid size X: 2147483647
Max dimension size of a grid size Y: 65535
Max dimension size of a grid size Z: 65535
GPU UUID: GPU-{0}
PCI bus ID: 0000:00:0{0}.0
Number of multiprocessors: 13
ECC: on
"""


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    made = Lab.of_checkout(tmp_path)
    monkeypatch.setattr(nvidia, "read", lambda **_: nvidia.Driver(problem="no driver here"))
    return made


@pytest.fixture
def shown(lab: Lab, tmp_path: Path) -> Callable[..., Result]:
    """Run the script with a toolkit whose programs answer with that text and status."""

    def run(text: str, status: int = 0, **flags: Any) -> Result:
        made, content = tmp_path / "made", f"cat <<'END'\n{text}END\nexit {status}\n"
        # The compiler is seen to read it: written again it is another file.
        if not made.exists() or content not in made.read_text():
            tool(made, content)
        path = tmp_path / "cuda/bin/nvcc"
        if not path.exists():
            cuda_lab.nvcc(path, "11.8.89", tmp_path / "cuda", makes=made)
        adr = {"cuda": {"path": str(path.parent.parent)}}
        return lab.run("get,cuda-devices", adr=adr, **flags)

    return run


def test_the_lines_of_the_guide_and_what_comes_back(shown: Callable[..., Result]) -> None:
    told = shown(LINES.format(0) + "\n" + LINES.format(1))
    for line in LINES.format(1).splitlines():
        assert line in told.out.splitlines()
    heads = ("Checking compiler version", "Compiling program", "Running program")
    places = [told.out.index(f"{head} ...") for head in (*heads, "  - Running postprocess")]
    assert places == sorted(places)
    assert '  - running time of script "get,cuda-devices": ' in told.out
    assert told.env["CM_CUDA_NUM_DEVICES"] == "2"
    assert told.env["CM_CUDA_DEVICE_PROP_GPU_NAME"] == "Tesla K80"
    assert told.env["CM_CUDA_DEVICE_PROP_MAX_CLOCK_RATE"] == "823.500000 MHz"
    state = told.answer["new_state"]
    assert state["cm_cuda_num_devices"] == 2
    devices = {int(number): device for number, device in state["cm_cuda_devices_prop"].items()}
    assert devices[1]["GPU Device ID"] == "1"
    assert devices[0]["Maximum number of threads per multiprocessor"] == "2048"


def test_it_is_compiled_once_for_a_toolkit_and_run_every_time(
    shown: Callable[..., Result], tmp_path: Path
) -> None:
    for _ in range(3):
        assert shown(LINES.format(0)).answer["return"] == 0
    count = tmp_path / "cuda/bin/nvcc.count"
    assert count.read_text().split() == ["made"]


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        ("35 cudaErrorInsufficientDriver: too old", "no-driver", "needs driver 450.80.02 or newer"),
        ("100 cudaErrorNoDevice: none", "no-device", "shows no GPU to this process"),
        ("101 cudaErrorInvalidDevice: none", "no-device", "CUDA_VISIBLE_DEVICES names a GPU"),
        ("802 cudaErrorSystemNotReady: wait", "no-driver", "nvidia-fabricmanager has to run"),
        ("803 cudaErrorSystemDriverMismatch: x", "no-driver", "does not fit the driver"),
        ("77 cudaErrorIllegalAddress: oh", "no-driver", "cudaErrorIllegalAddress: oh"),
    ],
)
def test_what_the_runtime_refuses_is_said_in_words(
    error: str, code: str, says: str, shown: Callable[..., Result]
) -> None:
    told = shown(f"versions: driver 0.0 runtime 11.8\nerror: {error}\n", 1)
    assert told.answer["code"] == code
    assert told.answer["return"] == 1
    assert says in " ".join(told.err.split())


def test_a_driver_that_is_too_old_is_told_apart_from_none(
    shown: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu = nvidia.NvidiaGpu(0, "GPU-0", "", {"name": "Tesla K80"})
    old = nvidia.Driver("390.157", "9.1", (gpu,), source="nvidia-smi")
    monkeypatch.setattr(nvidia, "read", lambda **_: old)
    told = shown("versions: driver 9.1 runtime 11.8\nerror: 35 cudaErrorInsufficientDriver: x\n", 1)
    said = " ".join(told.err.split())
    assert "the driver 390.157 is older than CUDA 11.8" in said
    assert "it runs programs up to CUDA 9.1" in said
    assert "update the driver to 450.80.02 or newer" in said


def test_a_program_that_shows_nothing_is_no_success(shown: Callable[..., Result]) -> None:
    assert shown("\n").answer["code"] == "no-device"


GPUS = (
    nvidia.NvidiaGpu(
        0,
        "GPU-a",
        "00000000:07:00.0",
        {"name": "NVIDIA A100-SXM4-40GB", "memory.total": "40960", "compute_cap": "8.0",
         "clocks.max.sm": "1410", "ecc.mode.current": "Enabled", "mig.mode.current": "Enabled"},
        (nvidia.Mig("1g.5gb", 0, "MIG-0"), nvidia.Mig("1g.5gb", 1, "MIG-1")),
    ),
)  # fmt: skip


def by_driver(tmp_path: Path, **env: str) -> Step:
    step = Step("get-cuda-devices", tmp_path / "cwd", {"CM_TMP_CUDA_DEVICES_BY": "driver", **env})
    step.call("preprocess")
    step.call("postprocess")
    return step


def test_without_a_compiler_the_driver_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    driver = nvidia.Driver("550.54.15", "12.4", GPUS, source="NVML")
    monkeypatch.setattr(nvidia, "read", lambda **_: driver)
    step = by_driver(tmp_path)
    said = capsys.readouterr().out.splitlines()
    assert "asked: NVML, driver 550.54.15" in said
    assert "Global memory: 42949672960" in said
    assert "Max clock rate: 1410.000000 MHz" in said
    assert "MIG instances: 2: 1g.5gb MIG-0, 1g.5gb MIG-1" in said
    assert step.env["CM_CUDA_NUM_DEVICES"] == "1"
    assert step.env["CM_CUDA_DEVICE_PROP_GPU_COMPUTE_CAPABILITY"] == "8.0"
    assert step.state["cm_cuda_devices_prop"][0]["CUDA driver version"] == "12.4"


def test_a_driver_that_is_not_there_is_an_error_there_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvidia, "read", lambda **_: nvidia.Driver(problem="it is not loaded"))
    with pytest.raises(Error, match="it is not loaded") as caught:
        by_driver(tmp_path)
    assert caught.value.code == "no-driver"


def test_a_toolkit_that_cannot_compile_is_not_the_end(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = nvidia.Driver("550.54.15", "12.4", GPUS, source="NVML")
    monkeypatch.setattr(nvidia, "read", lambda **_: driver)
    path = cuda_lab.nvcc(tmp_path / "cuda/bin/nvcc", "11.8.89", makes=tmp_path / "nothing")
    told = lab.run("get,cuda-devices", adr={"cuda": {"path": str(path)}})
    assert told.answer["return"] == 0, told.err
    assert "its program could not be made" in told.out
    assert told.env["CM_CUDA_NUM_DEVICES"] == "1"


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="there is no nvcc")
def test_the_real_program_compiles_and_says_why_there_is_no_gpu(tmp_path: Path) -> None:
    lab = Lab.of_checkout(tmp_path)
    told = lab.run("get,cuda-devices", quiet=True)
    if list(Path("/dev").glob("nvidia*")):
        assert int(told.env["CM_CUDA_NUM_DEVICES"]) > 0
        return
    assert told.answer["code"] == "no-driver"
    assert told.answer["return"] == 1
    assert "error 35, cudaErrorInsufficientDriver" in told.err
    assert list(lab.home.rglob("device_query")), "it was compiled"
