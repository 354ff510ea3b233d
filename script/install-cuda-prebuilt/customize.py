"""Choose NVIDIA's run file for a version of CUDA and this machine; verify the installation."""

from __future__ import annotations

import os
import re
from typing import Any

from cmbench.errors import Error
from cmbench.lib.cuda import find_toolkit
from cmbench.lib.pythons import Bounds
from cmbench.lib.text_files import read_or_empty
from cmbench.lib.tools import bounds_of
from cmbench.lib.yes_no import is_yes

SITE = "https://developer.download.nvidia.com/compute/cuda"
FILE_NAME = re.compile(r"cuda_(\d+\.\d+\.\d+)_([\d.]+)_linux(_sbsa)?\.run")
SUFFIXES = {"x86_64": "", "aarch64": "_sbsa"}
LOGS = ("/var/log/cuda-installer.log", "/tmp/cuda-installer.log")
"""Where the installer writes: the first as root, the second as anybody else."""


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Address, checksum and words for the installer."""
    env = i["env"]
    machine = str(env.get("CM_HOST_OS_MACHINE") or os.uname().machine)
    if is_yes(env.get("CM_CUDA_INSTALL_DRIVER")) and os.geteuid() != 0:
        raise Error(
            "needs-root",
            "a driver is a module of the kernel: only root can install it",
            hint="leave out _driver, and let the machine's owner install the driver",
        )
    local = str(env.get("CUDA_RUN_FILE_LOCAL_PATH") or "")
    # Its entry is looked up by this value: a dependency must not inherit one of an earlier call.
    env["CUDA_RUN_FILE_LOCAL_PATH"] = local
    version, checksum, url = chosen(bounds_of(env), machine, local)
    prefix = os.path.abspath(os.path.expanduser(env.get("CM_CUDA_INSTALL_PREFIX") or os.getcwd()))
    folder = os.path.join(prefix, "install")
    env["CM_CUDA_INSTALL_PREFIX"] = prefix
    env["CM_CUDA_INSTALLED_PATH"] = folder
    env["CM_NVCC_BIN_WITH_PATH"] = os.path.join(folder, "bin/nvcc")
    env["CM_TMP_CUDA_URL"], env["CM_TMP_CUDA_SHA256"] = url, checksum
    env["CM_TMP_CUDA_WORDS"] = "\n".join(words(env, folder))
    print(f"CUDA {version} into {folder}")
    return {"return": 0, "version": version}


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    """The compiler must be there, run, and be of the version; raises Error."""
    env = i["env"]
    search = find_toolkit([env["CM_CUDA_INSTALLED_PATH"]], Bounds())
    if search.chosen is None:
        said = next((text for text in map(read_or_empty, LOGS) if text), "")
        raise Error(
            "install-failed",
            "the installer reported success, and there is no nvcc that runs",
            hint="see what it says when it is run by hand: `bash "
            + env["CM_CUDA_RUN_FILE_PATH"]
            + "`",
            context=[*search.lines, *said.splitlines()[-5:]],
        )
    print("\n".join(search.lines))
    return {"return": 0, "version": search.chosen.version}


def words(env: dict[str, Any], folder: str) -> list[str]:
    """Return the installer's options: quietly, this folder and nothing else."""
    options = ["--silent", "--override", "--toolkit", f"--toolkitpath={folder}"]
    options += [f"--defaultroot={folder}", "--no-man-page", f"--tmpdir={env['CM_TMP_RUN_DIR']}"]
    if is_yes(env.get("CM_CUDA_INSTALL_DRIVER")):
        options.append("--driver")
    if is_yes(env.get("CM_CUDA_DRIVER_INSTALL_OVERRIDE")):
        options.append("--override-driver-check")
    return options + str(env.get("CUDA_ADDITIONAL_INSTALL_OPTIONS") or "").split()


def chosen(bounds: Bounds, machine: str, local: str) -> tuple[str, str, str]:
    """Return version, checksum and URL; a local file is identified by its name.

    Raises Error when no run file of the table fits.
    """
    import yaml

    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "run-files.yaml")
    with open(path, encoding="utf-8") as stream:
        known: dict[str, dict[str, str]] = yaml.safe_load(stream)
    name = FILE_NAME.search(os.path.basename(local))
    if name:
        return of_name(name, known, bounds, machine)
    if machine not in SUFFIXES:
        raise Error("not-available", f"NVIDIA has no run file for {machine}")
    fitting = [version for version in known if not bounds.misfit(version)]
    if local and not fitting:
        return bounds.exact or "unknown", "", ""
    if not fitting:
        raise Error(
            "version-not-found",
            f"the table has no run file of CUDA {bounds}",
            hint=f"it has {', '.join(known)}; for another one give the file: "
            "--local_run_file_path=/folder/cuda_VERSION_DRIVER_linux.run",
        )
    version = fitting[0]
    facts = known[version]
    file = f"cuda_{version}_{facts['driver']}_linux{SUFFIXES[machine]}.run"
    # A file of another name may be of any version: there is nothing to compare it with.
    checksum = "" if local else facts[machine]
    return version, checksum, f"{SITE}/{version}/local_installers/{file}"


def of_name(
    name: re.Match[str], known: dict[str, dict[str, str]], bounds: Bounds, machine: str
) -> tuple[str, str, str]:
    """Return the version in the name of NVIDIA's file; raise Error for one that does not fit."""
    version, suffix = name[1], name[3] or ""
    if suffix != SUFFIXES.get(machine):
        raise Error(
            "bad-value",
            f"{name[0]} is for {'Arm servers' if suffix else 'x86-64'}, but this is {machine}",
            hint="get the file for this machine",
        )
    misfit = bounds.misfit(version)
    if misfit:
        raise Error("bad-value", f"{name[0]}: {misfit}", hint="get the file of that version")
    return version, known.get(version, {}).get(machine, ""), ""
