"""Find a CUDA toolkit or its runtime, say why it was chosen; or install one without root."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from cmbench.errors import Error
from cmbench.lib.cuda import Toolkit, ToolkitSearch, find_runtime, find_toolkit, toolkit_folders
from cmbench.lib.host.packages import install_command
from cmbench.lib.host.system import os_facts
from cmbench.lib.pythons import Bounds
from cmbench.lib.tools import bounds_of, input_paths
from cmbench.lib.versions import compare, pip_version_string
from cmbench.lib.yes_no import is_yes

OLDEST_WHEELS = "13.0"
"""The wheels of CUDA 12 hold ptxas and libraries, and no nvcc."""
WHEELS = "wheels"
PACKAGES = {"apt": "nvidia-cuda-toolkit", "pacman": "cuda"}
USUAL_PACKAGE = "cuda-toolkit"
WAYS = (
    "name the folder it is in: --path=/usr/local/cuda-12.4; or install one without root: "
    "`--tags=get,cuda,_pip` (CUDA 13 and newer) or `--tags=get,cuda,_prebuilt --version=12.4.1`"
)


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """ToolkitSearch for one; where none fits, prepare the installation of one."""
    env, bounds = i["env"], bounds_of(i["env"])
    source = requested_source(env)
    result = ToolkitSearch(None, ())
    if not source:
        result = search(i, places(i), bounds)
        print("\n".join(result.lines) or f"no {what(env)} in any folder that was searched")
        if result.chosen:
            return take(i, result.chosen)
        if input_paths(env, "CM_INPUT"):
            raise nothing_fits(env, result, bounds)
        source = source_for(env, bounds)
    PREPARE[source](i, result, bounds)
    env["CM_TMP_CUDA_INSTALL"] = source
    return {"return": 0}


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Verify the installation."""
    env = i["env"]
    source = env.get("CM_TMP_CUDA_INSTALL")
    if not source:
        return {"return": 0}
    if source == "pip":
        links(Path(WHEELS))
    folders = installed_places(i, source)
    result = search(i, folders, bounds_of(env))
    print("\n".join(result.lines))
    if result.chosen is None:
        raise Error(
            "install-failed",
            f"what was installed holds no {what(env)} that fits",
            hint=WAYS,
            context=result.lines or [f"looked in: {', '.join(folders)}"],
        )
    return take(i, result.chosen)


def full(env: dict[str, Any]) -> bool:
    """Whether the compiler is wanted too."""
    return env.get("CM_CUDA_FULL_TOOLKIT_INSTALL") != "no"


def what(env: dict[str, Any]) -> str:
    """Return the requested part in a word."""
    return "nvcc" if full(env) else "libcudart.so"


def places(i: dict[str, Any]) -> list[str]:
    """Where to look: what ``--path`` names, or PATH, the environment and the usual folders."""
    env = i["env"]
    named = input_paths(env, "CM_INPUT")
    if named:
        return named
    known = env.get("CM_NVCC_BIN_WITH_PATH" if full(env) else "CM_CUDA_RT_WITH_PATH")
    key = "PATH" if full(env) else "LD_LIBRARY_PATH"
    searched = i["automation"].get_default_path_list({**i, "default_path_env_key": key})
    system = () if full(env) else os_facts().library_folders
    folders = [*searched, *toolkit_folders(os.environ), *system]
    return [f for f in ([str(known)] if known else []) + folders if os.path.isabs(f)]


def search(i: dict[str, Any], where: list[str], bounds: Bounds) -> ToolkitSearch:
    return (find_toolkit if full(i["env"]) else find_runtime)(where, bounds)


def nothing_fits(env: dict[str, Any], result: ToolkitSearch, bounds: Bounds) -> Error:
    suffix = "" if str(bounds) == "any version" else f" ({bounds})"
    return Error(
        "not-detected",
        f"no CUDA {'toolkit' if full(env) else 'runtime'} that fits was found{suffix}",
        hint=WAYS,
        context=result.lines or [f"there is no {what(env)} in any folder that was searched"],
    )


# ---- installing


def requested_source(env: dict[str, Any]) -> str:
    """Return the requested source, whatever is installed; empty for the first match."""
    keys = {
        "CM_CUDA_PIP_INSTALL": "pip",
        "CM_CUDA_PACKAGE_MANAGER_INSTALL": "package-manager",
        "CM_REQUIRE_INSTALL": "prebuilt",
    }
    return next((source for key, source in keys.items() if is_yes(env.get(key))), "")


def source_for(env: dict[str, Any], bounds: Bounds) -> str:
    """Wheels, but for a toolkit that is older than they are."""
    newest = bounds.exact or bounds.maximum
    if full(env) and newest and compare(newest.split(".")[0], "13") < 0:
        print(f"CUDA {newest}: the index has no nvcc before {OLDEST_WHEELS}, so by NVIDIA's file")
        return "prebuilt"
    return "pip"


def by_pip(i: dict[str, Any], result: ToolkitSearch, bounds: Bounds) -> None:
    """Choose NVIDIA's wheels; raise Error where the index has none, or cannot be read."""
    env = i["env"]
    newest = bounds.exact or bounds.maximum
    if full(env) and newest and compare(newest.split(".")[0], "13") < 0:
        raise Error(
            "not-available",
            f"the index has no nvcc of CUDA {newest}: wheels include it from 13.0 on",
            hint=f"`--tags=get,cuda,_prebuilt --version={newest}`, or _lib-only without a compiler",
        )
    folder = env.get("CM_CUDA_FIND_LINKS")
    if is_yes(env.get("CM_TMP_OFFLINE")) and not folder:
        raise Error(
            "offline",
            f"no {what(env)} that fits is here, and the network is turned off",
            hint=f"run this once with a network (without --offline); or {WAYS}; a folder of "
            "package files does too: --find_links=/folder",
            context=result.lines,
        )
    local = ["--no-index", "--find-links", os.path.abspath(folder)] if folder else []
    env["CM_TMP_CUDA_PIP"] = "\n".join([*local, requirement(env, bounds)])
    env["CM_TMP_CUDA_WHEELS"] = WHEELS


def requirement(env: dict[str, Any], bounds: Bounds) -> str:
    """The package with its bounds: a series such as 13.0 means all of its updates."""
    parts = "nvcc,cudart" if full(env) else "cudart"
    exact, least = bounds.exact, bounds.minimum
    if exact:
        number = re.match(r"\d+(\.\d+)*", exact)
        text = number[0] if number else exact
        return f"cuda-toolkit[{parts}]=={text}{'' if text.count('.') > 1 else '.*'}"
    if full(env) and compare(least or "0", OLDEST_WHEELS) < 0:
        least = OLDEST_WHEELS
    return f"cuda-toolkit[{parts}]{pip_version_string('', least, bounds.maximum)}"


def links(folder: Path) -> None:
    """Create the links that a linker needs: wheels have libraries under their full name only."""
    for library in folder.glob("nvidia/*/lib/libcudart.so.*"):
        plain = library.with_name("libcudart.so")
        if not plain.exists():
            plain.symlink_to(library.name)


def by_run_file(i: dict[str, Any], result: ToolkitSearch, bounds: Bounds) -> None:
    i["env"]["CM_REQUIRE_INSTALL"] = "yes"


def by_package_manager(i: dict[str, Any], result: ToolkitSearch, bounds: Bounds) -> None:
    """Choose the system's package; raises Error without a known manager, or without root."""
    manager = os_facts().package_manager
    package = PACKAGES.get(manager, USUAL_PACKAGE)
    command = install_command(manager, [package], as_root=os.geteuid() == 0)
    if not command:
        raise Error("tool-missing", "the package manager of this system is not known", hint=WAYS)
    if os.geteuid() != 0:
        raise Error(
            "needs-root",
            f"{manager} needs root to install {package}",
            hint=f"run this yourself, then repeat without _package-manager: `{command}`",
        )
    i["env"]["CM_TMP_CUDA_COMMAND"] = command


PREPARE = {"pip": by_pip, "prebuilt": by_run_file, "package-manager": by_package_manager}


def installed_places(i: dict[str, Any], source: str) -> list[str]:
    """Where that source has put it."""
    env = i["env"]
    if source == "pip":
        return sorted(str(path) for path in Path(WHEELS).absolute().glob("nvidia/cu*"))
    if source == "prebuilt":
        return [str(env["CM_CUDA_INSTALLED_PATH"])]
    return places({**i, "env": {**env, "CM_NVCC_BIN_WITH_PATH": ""}})


# ---- exports


def take(i: dict[str, Any], toolkit: Toolkit) -> dict[str, Any]:
    """Set the env of the chosen one; returns what the hook returns."""
    env = i["env"]
    env["CUDA_HOME"] = env["CUDA_PATH"] = env["CM_CUDA_INSTALLED_PATH"] = toolkit.root
    release = ".".join(toolkit.release.split(".")[:2])
    env["CM_CUDA_VERSION"] = release
    env["CM_CUDA_VERSION_STRING"] = "cu" + release.replace(".", "")
    env["CM_MLPERF_SUT_NAME_RUN_CONFIG_SUFFIX5"] = env["CM_CUDA_VERSION_STRING"]
    env["CM_CUDA_CACHE_TAGS"] = f"version-{toolkit.version}"
    if toolkit.nvcc:
        env["CM_NVCC_BIN_WITH_PATH"] = toolkit.nvcc
        env["CM_NVCC_BIN"] = os.path.basename(toolkit.nvcc)
        env["CM_NVCC_VERSION"] = toolkit.build
        env["CM_CUDA_PATH_BIN"] = os.path.dirname(toolkit.nvcc)
    else:
        env["CM_CUDA_RT_WITH_PATH"] = toolkit.runtime
    search_paths(i, toolkit)
    outside = not Path(toolkit.place).is_relative_to(os.getcwd())
    relies_on = [toolkit.place, *present(f"{toolkit.root}/version.json")] if outside else []
    return {
        "return": 0,
        "version": toolkit.version,
        "add_extra_cache_tags": [f"version-{toolkit.version}"],
        "relies_on": relies_on,
    }


def search_paths(i: dict[str, Any], toolkit: Toolkit) -> None:
    """Export programs, headers and libraries of the toolkit, without the default folders."""
    env = i["env"]
    folder = os.path.dirname(toolkit.nvcc)
    if folder and folder not in i["automation"].get_default_path_list(i):
        env["+PATH"] = [folder]
    if toolkit.include:
        env["CM_CUDA_PATH_INCLUDE"] = toolkit.include
        if toolkit.include != "/usr/include":
            env["+C_INCLUDE_PATH"] = env["+CPLUS_INCLUDE_PATH"] = [toolkit.include]
    if toolkit.library:
        env["CM_CUDA_PATH_LIB"] = toolkit.library
        if toolkit.library not in os_facts().library_folders:
            env["+LD_LIBRARY_PATH"] = env["+DYLD_FALLBACK_LIBRARY_PATH"] = [toolkit.library]
            env["+ LDFLAGS"] = [f"-L{toolkit.library}"]


def present(path: str) -> list[str]:
    return [path] if os.path.exists(path) else []
