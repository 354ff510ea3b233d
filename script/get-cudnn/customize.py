"""Find a cuDNN that fits the CUDA in use, or unpack NVIDIA's archive into the entry."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from cmbench.errors import Error
from cmbench.lib.cuda import toolkit_folders
from cmbench.lib.host.system import os_facts
from cmbench.lib.tools import bounds_of, input_paths
from cmbench.lib.vendor import (
    CUDNN,
    LibraryDetection,
    VendorLibrary,
    archive_given,
    archived_library,
    find_library,
    open_archive,
    unpack,
    wheel_folders,
)
from cmbench.lib.yes_no import is_yes


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Search for it, or prepare the installation of its wheel."""
    env = i["env"]
    archive = archive_given(env, "CM_CUDNN_TAR_FILE_PATH", "CM_CUDNN_INPUT")
    if archive:
        return unpacked(env, archive)
    if is_yes(env.get("CM_TMP_CUDNN_PIP")):
        env["CM_TMP_CUDNN_WHEEL"] = wheel(env)
        return {"return": 0}
    return take(i, search(env, places(i)))


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Prove the wheel, where one was installed."""
    env = i["env"]
    if not env.get("CM_TMP_CUDNN_WHEEL"):
        return {"return": 0}
    return take(i, search(env, wheels(env)))


def unpacked(env: dict[str, Any], path: str) -> dict[str, Any]:
    """Unpack an archive into the entry, and set the env; nothing is put into CUDA's own folders."""
    machine = str(env.get("CM_HOST_OS_MACHINE") or os.uname().machine)
    cuda = str(env.get("CM_CUDA_VERSION") or "")
    archive = open_archive(CUDNN, Path(path), bounds_of(env), cuda, machine)
    made_for = f", for CUDA {archive.cuda}" if archive.cuda else ""
    print(f"{path}: cuDNN {archive.version}{made_for}; unpacking")
    root = unpack(archive, Path(os.getcwd(), "archive"))
    library, line = archived_library(archive, root, cuda)
    print(line)
    export(env, library)
    return {"return": 0, "version": library.version, "relies_on": []}


def wheel(env: dict[str, Any]) -> str:
    """The name of the wheel for the CUDA that was found; raises Error when none was."""
    major = str(env.get("CM_CUDA_VERSION") or "").split(".")[0]
    if not major:
        raise Error("not-detected", "it is not known for which CUDA the wheel is to be")
    return f"nvidia-cudnn-cu{major}"


def wheels(env: dict[str, Any]) -> list[str]:
    """The folder that wheels of the chosen Python put cuDNN into."""
    packages = [f"nvidia-cudnn-cu{major}" for major in ("13", "12", "11")]
    return wheel_folders(str(env.get("CM_PYTHON_BIN_WITH_PATH") or ""), packages, "nvidia/cudnn")


def places(i: dict[str, Any]) -> list[str]:
    """Return the folders to search: only named ones, or those of CUDA, the system and wheels."""
    env = i["env"]
    named = input_paths(env, "CM_CUDNN_INPUT")
    if named:
        return named
    known = [str(env.get("CM_CUDA_PATH_LIB") or ""), os.environ.get("CUDNN_ROOT", "")]
    searched = i["automation"].get_default_path_list(
        {**i, "default_path_env_key": "LD_LIBRARY_PATH"}
    )
    folders = [*known, *searched, *toolkit_folders(os.environ), *os_facts().library_folders]
    return [f for f in [*folders, *wheels(env)] if os.path.isabs(f)]


def search(env: dict[str, Any], where: list[str]) -> LibraryDetection:
    return find_library(CUDNN, where, bounds_of(env), str(env.get("CM_CUDA_VERSION") or ""))


def take(i: dict[str, Any], result: LibraryDetection) -> dict[str, Any]:
    """Set the env; raise Error with the remedies where there is none."""
    print("\n".join(result.lines))
    if result.chosen is None:
        raise Error(
            "not-detected",
            f"no cuDNN that fits was found ({bounds_of(i['env'])})",
            hint="give NVIDIA's archive: --tar_file=/folder/cudnn-linux-x86_64-VERSION_cuda"
            "MAJOR-archive.tar.xz (get it from developer.nvidia.com/cudnn), or take the wheel, "
            "about 1 GB: `--tags=get,cudnn,_pip`; one that is installed: --input=/folder",
            context=result.lines or ["there is no libcudnn.so in any folder that was searched"],
        )
    export(i["env"], result.chosen)
    return {"return": 0, "version": result.chosen.version, "relies_on": [result.chosen.path]}


def export(env: dict[str, Any], library: VendorLibrary) -> None:
    env["CM_CUDNN_VERSION"] = library.version
    env["CM_CUDA_PATH_LIB_CUDNN"] = library.folder
    env["CM_CUDA_PATH_LIB_CUDNN_EXISTS"] = "yes"
    if library.folder not in os_facts().library_folders:
        env["+LD_LIBRARY_PATH"] = env["+DYLD_FALLBACK_LIBRARY_PATH"] = [library.folder]
    if library.include:
        env["CM_CUDA_PATH_INCLUDE_CUDNN"] = library.include
        if library.include != "/usr/include":
            env["+C_INCLUDE_PATH"] = env["+CPLUS_INCLUDE_PATH"] = [library.include]
