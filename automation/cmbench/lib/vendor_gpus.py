"""GPUs of AMD and Intel, as their tools list them. Not verified on hardware.

A tool that is missing, fails or prints something else lists nothing; the next one is asked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from cmbench.errors import Error
from cmbench.lib.probe import ProbeResult, probe, which

Ask = Callable[[list[str]], ProbeResult]
Find = Callable[[str], Path | None]


class GpuTool(NamedTuple):
    """A tool that lists GPUs: how it is called, and the names in what it prints."""

    command: tuple[str, ...]
    names: Callable[[str], list[str]]


class GpuVendor(NamedTuple):
    """The GPUs of one vendor by the word of ``--device``.

    ``nodes`` are device files that its driver makes; ``build`` is the PyTorch that computes there.
    """

    title: str
    nodes: tuple[str, ...]
    tools: tuple[GpuTool, ...]
    build: str
    check: str


def amd_smi_names(text: str) -> list[str]:
    """Return the names in ``amd-smi static --asic --json``, a list or below ``gpu_data``."""
    document = json.loads(text)
    rows = document.get("gpu_data", []) if isinstance(document, dict) else document
    return [str(row["asic"]["market_name"]) for row in rows]


def rocm_smi_names(text: str) -> list[str]:
    """Return the names in ``rocm-smi --showproductname --json``; older ones write small letters."""
    cards = json.loads(text)
    rows = [{k.lower(): v for k, v in cards[key].items()} for key in sorted(cards) if _card(key)]
    return [str(row.get("card series") or row.get("card model") or "AMD GPU") for row in rows]


def _card(key: str) -> bool:
    return re.fullmatch(r"card\d+", key) is not None


def xpu_smi_names(text: str) -> list[str]:
    """Return the names in ``xpu-smi discovery -j``."""
    document = json.loads(text)
    rows = document.get("device_list", []) if isinstance(document, dict) else document
    return [str(row["device_name"]) for row in rows]


def sycl_ls_names(text: str) -> list[str]:
    """Return the GPUs that Level Zero shows in ``sycl-ls``: OpenCL shows them once more."""
    pattern = r"^\[(?:ext_oneapi_)?level_zero:gpu(?::\d+)?\]\S* [^,]*, (.+?) [\d.]+ \[[^]]*\]$"
    return re.findall(pattern, text, re.MULTILINE)


VENDORS = {
    "rocm": GpuVendor(
        "AMD",
        ("dev/kfd",),
        (
            GpuTool(("amd-smi", "static", "--asic", "--json"), amd_smi_names),
            GpuTool(("rocm-smi", "--showproductname", "--json"), rocm_smi_names),
        ),
        "PyTorch for ROCm",
        "`amd-smi list` and the group of /dev/kfd",
    ),
    "xpu": GpuVendor(
        "Intel",
        (),
        (
            GpuTool(("xpu-smi", "discovery", "-j"), xpu_smi_names),
            GpuTool(("sycl-ls",), sycl_ls_names),
        ),
        "PyTorch for XPU",
        "`sycl-ls`, which must list a level_zero:gpu, and the group of /dev/dri/renderD*",
    ),
}


def listed(vendor: GpuVendor, find: Find = which, ask: Ask = probe) -> list[str]:
    """Return the names of a vendor's GPUs, by the first of its tools that knows any."""
    return next((names for names in _answers(vendor, find, ask) if names), [])


def _answers(vendor: GpuVendor, find: Find, ask: Ask) -> Iterator[list[str]]:
    for tool in vendor.tools:
        path = find(tool.command[0])
        answer = ask([str(path), *tool.command[1:]]) if path else None
        if answer and answer.ok:
            with suppress(ValueError, KeyError, TypeError, AttributeError):
                yield tool.names(answer.stdout)


def require(device: str, trusted: bool, root: Path = Path("/"), find: Find = which) -> None:
    """Raise ``no-device`` where no GPU of the vendor of ``device`` is seen, unless ``trusted``.

    Devices of other vendors are not looked for.
    """
    vendor = VENDORS.get(device)
    if vendor is None or trusted or any((root / node).exists() for node in vendor.nodes):
        return
    if not listed(vendor, find):
        tools = ", ".join(tool.command[0] for tool in vendor.tools)
        text = f"--device={device}: there is no sign of a GPU of {vendor.title}: not by {tools}"
        hint = f"check {vendor.check}; or use --device=cpu; `cm plan script` goes on with "
        raise Error("no-device", text, hint=f"{hint}--env.CM_TRUST_DEVICE=yes")


def require_python(device: str, env: dict[str, Any]) -> None:
    """Raise ``not-available`` where pip's usual PyTorch would be installed for another device."""
    vendor = VENDORS.get(device)
    if vendor and not env.get("CM_PYTHON_LAYER_BASE"):
        text = f"--device={device}: {vendor.build} is not on the usual index of packages"
        hint = "use a Python that has it, of a container or of your own: --python=PATH"
        raise Error("not-available", text, hint=hint)
