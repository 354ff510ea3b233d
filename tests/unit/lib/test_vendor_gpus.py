"""GPUs of AMD and Intel: what their tools print, as recorded, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from cmbench.errors import Error
from cmbench.lib import vendor_gpus
from cmbench.lib.probe import ProbeResult
from cmbench.lib.vendor_gpus import VENDORS, listed, require, require_python

ASIC = {"gpu": 0, "asic": {"market_name": "AMD Instinct MI300X", "vendor_id": "0x1002"}}
AMD_SMI = json.dumps({"gpu_data": [ASIC, {**ASIC, "gpu": 1}]})
OLD_AMD_SMI = json.dumps([ASIC])
ROCM_SMI = json.dumps(
    {
        "card1": {"Card series": "AMD INSTINCT MI250 (MCM) OAM AC MBA", "Card model": "0x0b0c"},
        "card0": {"Card Series": "AMD Instinct MI300X", "GFX Version": "gfx942"},
        "system": {"Driver version": "6.2.4"},
    }
)
XPU_SMI = json.dumps(
    {"device_list": [{"device_id": 0, "device_name": "Intel(R) Data Center GPU Max 1100"}]}
)
SYCL_LS = """\
[level_zero:gpu][level_zero:0] Intel(R) oneAPI Unified Runtime over Level-Zero, Intel(R) Arc(TM) \
A770 Graphics 12.55.8 [1.3.29735+27]
[ext_oneapi_level_zero:gpu:1] Intel(R) Level-Zero, Intel(R) Data Center GPU Max 1550 1.3 [1.3.2]
[opencl:cpu][opencl:0] Intel(R) OpenCL, Intel(R) Xeon(R) CPU Max 9468 OpenCL 3.0 (Build 0) [2024]
[opencl:gpu][opencl:1] Intel(R) OpenCL Graphics, Intel(R) Arc(TM) A770 Graphics OpenCL 3.0 NEO
"""


def of(device: str, answers: Mapping[str, tuple[int, str]]) -> list[str]:
    """The GPUs that are listed where these tools alone are there."""

    def ask(command: list[str]) -> ProbeResult:
        status, text = answers[Path(command[0]).name]
        return ProbeResult(tuple(command), status, text, "", 0.1)

    def find(name: str) -> Path | None:
        return Path("/opt", name) if name in answers else None

    return listed(VENDORS[device], find, ask)


@pytest.mark.parametrize(
    ("device", "answers", "names"),
    [
        ("rocm", {"amd-smi": (0, AMD_SMI)}, ["AMD Instinct MI300X"] * 2),
        ("rocm", {"amd-smi": (0, OLD_AMD_SMI)}, ["AMD Instinct MI300X"]),
        (
            "rocm",
            {"amd-smi": (1, "ERROR"), "rocm-smi": (0, ROCM_SMI)},
            ["AMD Instinct MI300X", "AMD INSTINCT MI250 (MCM) OAM AC MBA"],
        ),
        ("rocm", {"amd-smi": (0, "no json"), "rocm-smi": (0, "WARNING: {}")}, []),
        ("rocm", {"amd-smi": (0, "[[]]")}, []),
        ("xpu", {"xpu-smi": (0, XPU_SMI)}, ["Intel(R) Data Center GPU Max 1100"]),
        (
            "xpu",
            {"xpu-smi": (0, '{"error": "no device"}'), "sycl-ls": (0, SYCL_LS)},
            ["Intel(R) Arc(TM) A770 Graphics", "Intel(R) Data Center GPU Max 1550"],
        ),
        ("xpu", {"sycl-ls": (0, "No platforms found.\n")}, []),
        ("xpu", {}, []),
    ],
)
def test_gpus_are_listed_as_their_tools_print_them(
    device: str, answers: dict[str, tuple[int, str]], names: list[str]
) -> None:
    assert of(device, answers) == names


def test_a_device_without_a_sign_is_refused(tmp_path: Path) -> None:
    for device, word in (("rocm", "amd-smi, rocm-smi"), ("xpu", "xpu-smi, sycl-ls")):
        with pytest.raises(Error, match=word) as raised:
            require(device, trusted=False, root=tmp_path, find=lambda name: None)
        assert raised.value.code == "no-device"
        require(device, trusted=True, root=tmp_path, find=lambda name: None)
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/kfd").touch()
    require("rocm", trusted=False, root=tmp_path, find=lambda name: None)
    require("cuda", trusted=False, root=tmp_path, find=lambda name: None)


def test_the_usual_pytorch_is_not_installed_for_another_gpu() -> None:
    for device in ("rocm", "xpu"):
        with pytest.raises(Error, match="not on the usual index") as raised:
            require_python(device, {})
        assert "--python=PATH" in str(raised.value.hint)
        require_python(device, {"CM_PYTHON_LAYER_BASE": "/opt/venv"})
    require_python("cuda", {})
    assert set(vendor_gpus.VENDORS) == {"rocm", "xpu"}
