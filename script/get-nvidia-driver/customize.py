"""Query NVIDIA's driver, print its facts, and refuse a missing, broken or too old one."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from cmbench.errors import Error
from cmbench.lib import nvidia
from cmbench.lib.text_files import read_or_empty
from cmbench.lib.tools import bounds_of
from cmbench.lib.versions import compare


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Driver and GPUs into env and state; raises Error where there is none that will do."""
    env = i["env"]
    root = Path(os.path.expanduser(str(env.get("CM_NVIDIA_ROOT") or "/")))
    vendor_round = str(env.get("CM_NVIDIA_VENDOR_ROUND") or "")
    jetson = nvidia.jetson(root)
    driver = nvidia.read(root)
    env["CM_NVIDIA_GPU_VISIBLE"] = os.environ.get("CUDA_VISIBLE_DEVICES", "all")
    if jetson:
        print("\n".join(jetson_lines(jetson, root, vendor_round)))
        env["CM_NVIDIA_JETSON_BOARD"] = jetson.board
        env["CM_NVIDIA_JETSON_L4T_VERSION"] = jetson.l4t
        env["CM_NVIDIA_JETSON_JETPACK_VERSION"] = jetson.jetpack
    if driver.problem:
        if jetson and driver.trouble in ("not-there", "no-tool", "no-library"):
            # Before JetPack 6 a Jetson has neither nvidia-smi nor its library.
            return {"return": 0, "version": jetson.l4t}
        raise nvidia.no_driver(driver, needed=least(env, vendor_round))
    print("\n".join(lines(driver)))
    require(driver, env, "" if jetson else vendor_round)
    give_back(i, driver)
    return {"return": 0, "version": driver.version}


def least(env: dict[str, Any], vendor_round: str) -> str:
    """The oldest driver that will do; empty for any. Raises Error for an unknown round."""
    wanted = str(env.get("CM_VERSION_MIN") or "")
    of_round = nvidia.ROUND_DRIVERS.get(vendor_round, "")
    if vendor_round and not of_round:
        known = ", ".join(nvidia.ROUND_DRIVERS)
        raise Error("bad-value", f"--vendor_round={vendor_round} is not known", hint=known)
    return max((wanted, of_round), key=lambda text: [*map(int, re.findall(r"\d+", text))])


def require(driver: nvidia.Driver, env: dict[str, Any], vendor_round: str) -> None:
    """Raise Error for a driver that is older than requested, or too new."""
    needed = least(env, vendor_round)
    if needed and compare(driver.version, needed) < 0:
        what = f"the driver {driver.version} is too old"
        raise nvidia.no_driver(
            replace(driver, problem=what + (f" for {vendor_round}" if vendor_round else "")),
            needed=needed,
            context=lines(driver),
        )
    misfit = bounds_of({**env, "CM_VERSION_MIN": ""}).misfit(driver.version)
    if misfit:
        raise Error("version-not-found", f"NVIDIA's driver: {misfit}", hint="ask for other bounds")


def lines(driver: nvidia.Driver) -> list[str]:
    """Return a line on the driver, one per GPU and one per MIG instance."""
    cuda = f", CUDA up to {driver.cuda}" if driver.cuda else ""
    report = [f"driver {driver.version}{cuda} (asked: {driver.source})"]
    for gpu in driver.gpus:
        report.append(", ".join([f"GPU {gpu.index}: {gpu.name}", *facts(gpu), gpu.uuid]))
        report += [f"  MIG {part.profile} {part.number}: {part.uuid}" for part in gpu.mig]
        if gpu.mig_is_on and not gpu.mig:
            report.append("  MIG is on, and there is no instance: programs cannot use this GPU")
    return report


def facts(gpu: nvidia.NvidiaGpu) -> list[str]:
    """Return the driver's facts of a GPU, in words."""
    values = {
        "{} MiB": str(gpu.memory or ""),
        "compute capability {}": gpu.kind.get("compute_cap", ""),
        "{} W": gpu.kind.get("power.limit", ""),
    }
    return [words.format(value) for words, value in values.items() if value and "[" not in value]


def give_back(i: dict[str, Any], driver: nvidia.Driver) -> None:
    env = i["env"]
    first = driver.gpus[0]
    env["CM_NVIDIA_DRIVER_VERSION"] = driver.version
    env["CM_NVIDIA_DRIVER_CUDA_VERSION"] = driver.cuda
    env["CM_NVIDIA_GPU_COUNT"] = str(len(driver.gpus))
    env["CM_NVIDIA_GPU_NAME"] = first.name
    env["CM_NVIDIA_GPU_MEMORY"] = str(first.memory or "")
    env["CM_NVIDIA_GPU_COMPUTE_CAPABILITY"] = first.kind.get("compute_cap", "")
    env["CM_NVIDIA_GPU_MIG_INSTANCES"] = str(sum(len(gpu.mig) for gpu in driver.gpus))
    i["state"]["cm_nvidia_gpus"] = [
        {
            "index": gpu.index,
            "uuid": gpu.uuid,
            "pci.bus_id": gpu.bus_id,
            **gpu.kind,
            "mig": [part.uuid for part in gpu.mig],
        }
        for gpu in driver.gpus
    ]


# ---- Jetson


def jetson_lines(jetson: nvidia.Jetson, root: Path, vendor_round: str) -> list[str]:
    """Which JetPack it is, and for a round what NVIDIA's script would add."""
    release = f"Linux for Tegra {jetson.l4t}" if jetson.l4t else "an unknown release"
    report = [f"{jetson.board}: {release}, JetPack {jetson.jetpack or 'not known'}"]
    additional = additions().get(vendor_round)
    if not additional:
        return report
    if jetson.jetpack and compare(jetson.jetpack.split()[0], additional["jetpack"]) < 0:
        report.append(f"{vendor_round} needs JetPack {additional['jetpack']} or newer")
    installed = set(packages(root))
    missing = [name for name in additional["packages"] if name not in installed]
    report.append(f"NVIDIA's install script of {vendor_round} would add:")
    report.append(f"  packages: {', '.join(missing) or 'none, all are there'}")
    report.append(f"  from source, for hours: {', '.join(additional['from_source'])}")
    report.append(f"  Python packages: {', '.join(additional['python'])}")
    return report


def additions() -> dict[str, Any]:
    import yaml

    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "jetson.yaml")
    with open(path, encoding="utf-8") as stream:
        known: dict[str, Any] = yaml.safe_load(stream)
    return known


def packages(root: Path) -> list[str]:
    """The packages that Debian's package manager has installed in the tree."""
    blocks = read_or_empty(root / "var/lib/dpkg/status").split("\n\n")
    installed = [block for block in blocks if "\nStatus: install ok installed" in block]
    names = (re.search(r"^Package: (\S+)", block, re.MULTILINE) for block in installed)
    return [name[1] for name in names if name]
