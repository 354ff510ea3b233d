"""Find TensorRT, its lean runtime or TensorRT-RTX; or unpack the archive into the entry."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

from cmbench.errors import Error
from cmbench.lib.cuda import find_runtime, find_toolkit, toolkit_folders
from cmbench.lib.host.system import os_facts
from cmbench.lib.probe import search_path
from cmbench.lib.pythons import Bounds, interpreter_of
from cmbench.lib.tools import bounds_of, input_paths
from cmbench.lib.vendor import (
    LEAN,
    RTX,
    TENSORRT,
    LibraryArchive,
    LibraryDetection,
    LibrarySpec,
    VendorLibrary,
    archive_given,
    archived_library,
    find_library,
    open_archive,
    unpack,
    unpack_wheel,
    wheel_folders,
)
from cmbench.lib.versions import parse
from cmbench.lib.yes_no import is_yes


class TensorRtChoice(NamedTuple):
    """A variant of TensorRT: its wheel, the packages with its libraries, and their folder."""

    kind: LibrarySpec
    wheel: str
    packages: tuple[str, ...]
    folder: str


CHOICES = {
    "": TensorRtChoice(
        TENSORRT,
        "tensorrt",
        ("tensorrt-cu13-libs", "tensorrt-cu12-libs", "tensorrt-cu11-libs", "tensorrt-libs"),
        "tensorrt_libs",
    ),
    "lean": TensorRtChoice(
        LEAN,
        "tensorrt-lean",
        ("tensorrt-lean-cu13-libs", "tensorrt-lean-cu12-libs"),
        "tensorrt_lean_libs",
    ),
    "rtx": TensorRtChoice(
        RTX,
        "tensorrt-rtx",
        ("tensorrt-rtx-cu13-libs", "tensorrt-rtx-cu12-libs"),
        "tensorrt_rtx_libs",
    ),
}
WAYS = (
    "give NVIDIA's archive: --tar_file=/folder/TensorRT-VERSION.Linux.x86_64-gnu.cuda-VERSION"
    ".tar.gz (get it from developer.nvidia.com/tensorrt); one that is installed: --input=/folder; "
    "without an archive, `--tags=get,tensorrt,_lean` runs engines, _rtx builds and runs those of "
    "TensorRT-RTX. The package tensorrt of the usual index is a placeholder: _pip needs NVIDIA's "
    "own index, --adr.tensorrt-wheel.extra_index_url=URL"
)


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Search for it, or prepare the installation of its wheel."""
    env = i["env"]
    choice = CHOICES[str(env.get("CM_TENSORRT_KIND") or "")]
    path = archive_given(env, "CM_TENSORRT_TAR_FILE_PATH", "CM_TENSORRT_INPUT")
    if path:
        return from_archive(i, choice, path)
    search = LibraryDetection(None, ())
    if not is_yes(env.get("CM_TENSORRT_PIP")):
        search = find_library(choice.kind, places(i, choice), bounds_of(env))
        print("\n".join(search.lines) or f"no {choice.kind.library} in any folder searched")
        if search.chosen or choice.kind is TENSORRT or input_paths(env, "CM_TENSORRT_INPUT"):
            return take(i, choice, search)
    env["CM_TMP_TENSORRT_WHEEL"] = choice.wheel
    return {"return": 0}


def refuse(i: dict[str, Any]) -> dict[str, Any]:
    """Refuse where it is in no folder and no wheel of it can be had; called by ``cm plan``."""
    env = i["env"]
    choice = CHOICES[str(env.get("CM_TENSORRT_KIND") or "")]
    handed = archive_given(env, "CM_TENSORRT_TAR_FILE_PATH", "CM_TENSORRT_INPUT")
    if choice.kind is not TENSORRT or is_yes(env.get("CM_TENSORRT_PIP")) or handed:
        return {"return": 0}
    base = str(env.get("CM_PYTHON_LAYER_BASE") or "")
    if base and not env.get("CM_PYTHON_BIN_WITH_PATH"):
        env = {**env, "CM_PYTHON_BIN_WITH_PATH": str(interpreter_of(base))}
    libraries = os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    search = find_library(choice.kind, folders_of(env, choice, libraries), bounds_of(env))
    require(env, choice, search)
    return {"return": 0}


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Verify the wheel, where one was installed."""
    env = i["env"]
    if not env.get("CM_TMP_TENSORRT_WHEEL"):
        return {"return": 0}
    choice = CHOICES[str(env.get("CM_TENSORRT_KIND") or "")]
    search = find_library(choice.kind, wheels(env, choice), bounds_of(env))
    print("\n".join(search.lines))
    return take(i, choice, search)


# ---- the archive


def from_archive(i: dict[str, Any], choice: TensorRtChoice, path: str) -> dict[str, Any]:
    """Compare it, unpack it, and set the env; its Python module comes along."""
    env = i["env"]
    machine = str(env.get("CM_HOST_OS_MACHINE") or os.uname().machine)
    cuda = cuda_in_use(env)
    archive = open_archive(choice.kind, Path(path), bounds_of(env), cuda, machine)
    print(f"{path}: {choice.kind.title} {archive.version}{for_cuda(archive, cuda)}; unpacking")
    root = unpack(archive, Path(os.getcwd(), "archive"))
    library, line = archived_library(archive, root, cuda)
    print(line)
    plug_in_python(env, root)
    export(env, library, archive.version, root)
    return {"return": 0, "version": archive.version}


def for_cuda(archive: LibraryArchive, cuda: str) -> str:
    if not archive.cuda:
        return ", for a CUDA that its name does not tell"
    used = f", and {cuda} is used" if cuda else "; no CUDA was found to compare it with"
    return f", for CUDA {archive.cuda}{used}"


def cuda_in_use(env: dict[str, Any]) -> str:
    """The CUDA that a step before has chosen, else the first one of this machine."""
    known = str(env.get("CM_CUDA_VERSION") or "")
    if known:
        return known
    folders = toolkit_folders(os.environ)
    cuda = find_toolkit([*map(str, search_path()), *folders], Bounds()).chosen
    cuda = cuda or find_runtime(folders, Bounds()).chosen
    return cuda.release if cuda else ""


def plug_in_python(env: dict[str, Any], root: Path) -> None:
    """Put the module of the archive that is for the chosen Python on its path."""
    release = parse(str(env.get("CM_PYTHON_VERSION") or "")).release
    if len(release) < 2 or not (root / "python").is_dir():
        return
    tag = f"cp{release[0]}{release[1]}"
    target = Path(os.getcwd(), "python")
    name = unpack_wheel(root / "python", tag, target)
    if name:
        print(f"Python module: {name}")
        env["+PYTHONPATH"] = [str(target)]
        return
    has = ", ".join(sorted(path.name for path in (root / "python").glob("tensorrt-*.whl")))
    print(f"no Python module for {tag}: the archive has {has or 'none'}")


# ---- installed libraries


def wheels(env: dict[str, Any], choice: TensorRtChoice) -> list[str]:
    """The folder that wheels of the chosen Python put the libraries into."""
    python = str(env.get("CM_PYTHON_BIN_WITH_PATH") or "")
    return wheel_folders(python, choice.packages, choice.folder)


def places(i: dict[str, Any], choice: TensorRtChoice) -> list[str]:
    """Return the folders to search in a run."""
    searched = i["automation"].get_default_path_list(
        {**i, "default_path_env_key": "LD_LIBRARY_PATH"}
    )
    return folders_of(i["env"], choice, searched)


def folders_of(env: dict[str, Any], choice: TensorRtChoice, searched: list[str]) -> list[str]:
    """Return the folders to search: only named ones, or ``searched``, the usual ones and wheels."""
    named = input_paths(env, "CM_TENSORRT_INPUT")
    if named:
        return named
    known = [str(env.get("CM_CUDA_PATH_LIB") or ""), os.environ.get("TENSORRT_ROOT", "")]
    usual = sorted(map(str, Path("/usr/local").glob("[Tt]ensor[Rr][Tt]*")), reverse=True)
    folders = [*known, *searched, *usual, *os_facts().library_folders]
    return [f for f in [*folders, *wheels(env, choice)] if os.path.isabs(f)]


def take(i: dict[str, Any], choice: TensorRtChoice, search: LibraryDetection) -> dict[str, Any]:
    """Set the env; raise Error with the remedies where there is none."""
    env = i["env"]
    library = require(env, choice, search)
    export(env, library, library.version, Path(library.folder).parent)
    return {"return": 0, "version": library.version, "relies_on": [library.path]}


def require(env: dict[str, Any], choice: TensorRtChoice, search: LibraryDetection) -> VendorLibrary:
    """Return the library that was found; raise Error with the remedies where there is none."""
    library = search.chosen
    if library is None:
        raise Error(
            "not-detected",
            f"no {choice.kind.title} that fits was found ({bounds_of(env)})",
            hint=WAYS,
            context=search.lines or [f"there is no {choice.kind.library} in any folder searched"],
        )
    if is_yes(env.get("CM_TENSORRT_REQUIRE_DEV")) and not library.include:
        raise Error(
            "not-detected",
            f"{library.path} is there without its headers, which _dev asks for",
            hint="install the package libnvinfer-dev; or " + WAYS,
            context=search.lines,
        )
    return library


def export(env: dict[str, Any], library: VendorLibrary, version: str, root: Path) -> None:
    env["CM_TENSORRT_VERSION"] = version
    env["CM_TENSORRT_INSTALL_PATH"] = str(root)
    env["CM_TENSORRT_LIB_PATH"] = library.folder
    env["CM_TENSORRT_LIB_WITH_PATH"] = library.path
    if library.folder not in os_facts().library_folders:
        env["+LD_LIBRARY_PATH"] = env["+DYLD_FALLBACK_LIBRARY_PATH"] = [library.folder]
        env["+ LDFLAGS"] = [f"-L{library.folder}"]
        programs = [str(root / "bin")] if (root / "bin/trtexec").exists() else []
        # CMake looks for libraries along PATH.
        env["+PATH"] = [*programs, library.folder]
    if library.include and library.include != "/usr/include":
        env["CM_TENSORRT_INCLUDE_PATH"] = library.include
        env["+C_INCLUDE_PATH"] = env["+CPLUS_INCLUDE_PATH"] = [library.include]
