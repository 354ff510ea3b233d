"""Libraries of NVIDIA that come installed, as wheels or as an archive: cuDNN and TensorRT.

The version is the one that the headers define; where there are none, the library is asked, in a
process of its own. An archive is compared with the CUDA in use before anything of it is unpacked.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cmbench.errors import Error
from cmbench.lib.archives import extract, first_member
from cmbench.lib.elf import is_elf, machine_misfit
from cmbench.lib.libraries import ask_library, header_version
from cmbench.lib.pythons import Bounds, installed
from cmbench.lib.text_files import read_or_empty


@dataclass(frozen=True, slots=True)
class LibrarySpec:
    """A product to detect: its library, the headers that may define its version, its archives.

    ``asks`` are functions of the library that give its version: one number, or one per part.
    ``cuda`` is the function that gives the CUDA it was made with, empty where there is none;
    ``other_cuda`` is how its users choose another one.
    ``names`` are patterns of archive names, with the groups ``version``, ``cuda``, ``machine``.
    """

    title: str
    library: str
    headers: tuple[str, ...]
    macros: tuple[str, ...]
    asks: tuple[str, ...]
    names: tuple[str, ...]
    cuda: str = ""
    other_cuda: str = "--adr.cuda.path=FOLDER, the one that holds bin/nvcc"


CUDNN = LibrarySpec(
    title="cuDNN",
    library="libcudnn.so",
    headers=("cudnn_version.h", "cudnn.h"),
    macros=("CUDNN_MAJOR", "CUDNN_MINOR", "CUDNN_PATCHLEVEL"),
    asks=("cudnnGetVersion",),
    names=(
        r"cudnn-linux-(?P<machine>\w+)-(?P<version>\d[\d.]*\d)_cuda(?P<cuda>[\d.]+)-archive",
        r"cudnn-(?P<cuda>[\d.]+)-linux-(?P<machine>\w+)-v(?P<version>\d[\d.]*\d)",
    ),
    cuda="cudnnGetCudartVersion",
)
_TAR = (
    r"TensorRT-(?P<version>\d[\d.]*\d)\.(Linux|Ubuntu-[\d.]+)\.(?P<machine>\w+)-gnu"
    r"\.cuda-(?P<cuda>\d+\.\d+)"
)
_PARTS = ("MAJOR", "MINOR", "PATCH", "BUILD")
_ASKS = tuple(f"getInferLib{part.capitalize()}Version" for part in _PARTS)
TENSORRT = LibrarySpec(
    title="TensorRT",
    library="libnvinfer.so",
    headers=("NvInferVersion.h",),
    macros=tuple(f"NV_TENSORRT_{part}" for part in _PARTS),
    asks=(*_ASKS, "getInferLibVersion"),
    names=(_TAR,),
    other_cuda="--env.CM_CUDA_VERSION={version}",
)
LEAN = replace(TENSORRT, title="TensorRT's lean runtime", library="libnvinfer_lean.so")
RTX = replace(
    TENSORRT,
    title="TensorRT-RTX",
    library="libtensorrt_rtx.so",
    names=(_TAR.replace("TensorRT-", "TensorRT-RTX-", 1),),
)
MACHINES = {"x64": "x86_64", "sbsa": "aarch64", "arm64": "aarch64"}
"""Names of processors in archives, where they are not those of ``uname -m``."""
OTHER_HEADERS = "its headers in"


@dataclass(frozen=True, slots=True)
class VendorLibrary:
    """A library that was found: its file and folder, its headers' folder, version, CUDA's major.

    ``include`` and ``cuda`` are empty where they are not known.
    """

    path: str
    folder: str
    include: str
    version: str
    cuda: str


@dataclass(frozen=True, slots=True)
class LibraryDetection:
    """The first library that fits, if any, and a line per candidate."""

    chosen: VendorLibrary | None
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LibraryArchive:
    """An archive that may be unpacked here: what it holds, and for which CUDA; empty if unknown.

    ``machine`` is the processor that its libraries have to be for.
    """

    kind: LibrarySpec
    machine: str
    path: Path
    version: str
    cuda: str
    header: str


def find_library(
    kind: LibrarySpec, where: Iterable[str], bounds: Bounds, cuda: str = ""
) -> LibraryDetection:
    """Look into folders, and ``lib64``, ``lib`` below them, for one that fits bounds and CUDA."""
    known: dict[str, Path] = {}
    for place in where:
        for path in _files(kind, Path(place)):
            known.setdefault(os.path.realpath(path), path)
    chosen: VendorLibrary | None = None
    lines = []
    for path in known.values():
        library, problem = describe(kind, path)
        misfit = problem or bounds.misfit(library.version) or _misfit(library.cuda, cuda)
        taken = "an earlier one fits" if chosen else "chosen"
        version = f"{library.version}, " if library.version else ""
        lines.append(f"{path}: {version}{misfit or taken}")
        chosen = chosen or (None if misfit else library)
    return LibraryDetection(chosen, tuple(lines))


def _files(kind: LibrarySpec, path: Path) -> list[Path]:
    if path.is_file():
        return [path] if path.name.startswith(kind.library) else []
    folders = [path, path / "lib64", path / "lib"]
    paths = [file for folder in folders for file in sorted(folder.glob(f"{kind.library}*"))]
    # Of the names of one file, the shortest is what a linker looks for.
    return sorted(paths, key=lambda path: (folders.index(path.parent), len(path.name)))


def describe(kind: LibrarySpec, path: Path) -> tuple[VendorLibrary, str]:
    """What the library at ``path`` is, and why it cannot be used; the reason is empty if it can."""
    include, version = _headers(kind, path)
    values, problem = ask_library(str(path), _questions(kind), (str(path.parent),))
    reported = _version(kind, values)
    number = values.get(kind.cuda, 0)
    library = VendorLibrary(
        str(path),
        str(path.parent),
        include,
        version or reported,
        str(number // 1000) if number else "",
    )
    if version and reported and reported.split(".")[:2] != version.split(".")[:2]:
        return library, f"{OTHER_HEADERS} {include} are of another version: {reported}"
    return library, problem or ("" if library.version else "reports no version")


def _questions(kind: LibrarySpec) -> dict[str, str]:
    names = (*kind.asks, *([kind.cuda] if kind.cuda else []))
    return dict.fromkeys(names, "size" if kind is CUDNN else "int")


def _version(kind: LibrarySpec, values: Mapping[str, int]) -> str:
    """The version as text, from its parts or from the one number that holds them."""
    parts = [values[name] for name in kind.asks if name in values]
    if len(parts) > 1:
        return ".".join(map(str, parts[:4]))
    return version_of(parts[0]) if parts and parts[0] else ""


def version_of(number: int) -> str:
    """92800 is 9.28.0 and 8700 is 8.7.0: minor and patch have two digits each since version 9."""
    major = number // (10000 if number >= 90000 else 1000)
    rest = number % (10000 if number >= 90000 else 1000)
    return f"{major}.{rest // 100}.{rest % 100}"


def _headers(kind: LibrarySpec, path: Path) -> tuple[str, str]:
    """The folder of the headers that belong to a library, and their version."""
    home = path.resolve().parent
    folders = [path.parent.parent / "include", home.parent / "include"]
    if str(home).startswith(("/usr/lib", "/lib")):
        folders += [Path("/usr/include"), Path("/usr/include") / home.name]
    for folder in dict.fromkeys(folders):
        for name in kind.headers:
            version = header_version(read_or_empty(str(folder / name)), *kind.macros)
            if version:
                return str(folder), version
    return "", ""


def _misfit(made_for: str, used: str) -> str:
    """Why something for one CUDA does not go with another; a major version is what counts."""
    if made_for and used and _major(made_for) != _major(used):
        return f"it is for CUDA {made_for}, but CUDA {used} is used"
    return ""


def _major(version: str) -> str:
    return version.partition(".")[0]


def wheel_folders(python: str, packages: Iterable[str], folder: str) -> list[str]:
    """The ``folder`` of site-packages that wheels of this Python have put libraries into."""
    known = [installed(python, name) for name in packages] if python else []
    sites = [Path(one.record).parent.parent for one in known if one and one.record]
    return [f"{site}/{folder}" for site in dict.fromkeys(sites)]


# ---- archives


def archive_given(env: Mapping[str, Any], key: str, place: str) -> str:
    """Return the archive that a caller names: by its own key, or as a path that is no folder."""
    archive, named = str(env.get(key) or ""), str(env.get(place) or "")
    if not archive and named and not os.path.isdir(os.path.expanduser(named)):
        archive = named
    return os.path.abspath(os.path.expanduser(archive)) if archive else ""


def open_archive(
    kind: LibrarySpec, path: Path, bounds: Bounds, cuda: str, machine: str
) -> LibraryArchive:
    """Compare an archive with what is wanted, by its name and the headers in it.

    Nothing is unpacked. Raises Error where it is another thing, version, CUDA or machine, or
    damaged.
    """
    if not path.is_file():
        raise Error("file-not-found", f"there is no {path}", hint="check the path of --tar_file")
    match = next((m for p in kind.names if (m := re.match(p, path.name))), None)
    labels = match.groupdict() if match else {}
    _require(kind, path, labels, cuda, machine)
    header, version = _defined(kind, path)
    exact = labels.get("version") or version
    if not version:
        raise Error(
            "bad-value",
            f"{path.name} holds no {kind.title}: no header defines its version",
            hint=f"get the archive of {kind.title} for Linux from NVIDIA's site",
        )
    if not exact.startswith(version):
        raise Error(
            "bad-value",
            f"{path.name} does not match its name: its headers are of {kind.title} {version}",
            hint="get it again from NVIDIA's site",
        )
    misfit = bounds.misfit(exact)
    if misfit:
        raise Error("version-not-found", f"{path.name}: {misfit}", hint="ask for other bounds")
    return LibraryArchive(kind, machine, path, exact, labels.get("cuda") or "", header)


def _defined(kind: LibrarySpec, path: Path) -> tuple[str, str]:
    """The header in an archive that defines the version, and that version; empty without one."""
    for name in kind.headers:
        header = first_member(path, rf"(^|/)include/([^/]+/)?{re.escape(name)}$")
        version = header_version(header[1].decode(errors="replace"), *kind.macros) if header else ""
        if header and version:
            return header[0], version
    return "", ""


def _require(
    kind: LibrarySpec, path: Path, labels: Mapping[str, str], cuda: str, machine: str
) -> None:
    """Raise Error where the name says that the archive is for other machines."""
    of = MACHINES.get(labels.get("machine", ""), labels.get("machine", ""))
    if of and machine and of != machine:
        raise _other_machine(kind, path, f"it is for {of}, but this is {machine}")
    _require_cuda(kind, path, labels.get("cuda", ""), cuda)


def _require_cuda(kind: LibrarySpec, path: Path, made_for: str, used: str) -> None:
    """Raise Error where an archive is for another CUDA than the one in use."""
    misfit = _misfit(made_for, used)
    if misfit:
        other = kind.other_cuda.format(version=made_for)
        raise Error(
            "not-available",
            f"{path.name}: {misfit}",
            hint=f"get the archive of {kind.title} that fits; where CUDA {made_for} is installed "
            f"too, use that: {other}",
        )


def _other_machine(kind: LibrarySpec, path: Path, misfit: str) -> Error:
    return Error(
        "not-available",
        f"{path.name}: {misfit}",
        hint=f"get the archive of {kind.title} for this processor",
    )


def unpack(archive: LibraryArchive, target: Path) -> Path:
    """Unpack it below ``target``; returns the folder that has ``include`` and ``lib``.

    Raises Error where its libraries are for another processor, whatever its name says.
    """
    extract(archive.path, target)
    root = target / Path(archive.header.split("include/")[0])
    misfits = (machine_misfit(str(file), archive.machine) for file in _files(archive.kind, root))
    if misfit := next(filter(None, misfits), ""):
        raise _other_machine(archive.kind, archive.path, misfit)
    return root


def archived_library(archive: LibraryArchive, root: Path, cuda: str) -> tuple[VendorLibrary, str]:
    """Return the library of an unpacked archive, and a line about it.

    One that cannot be loaded here, as where CUDA's own libraries are missing, has the version of
    its headers. Raises Error where there is none, or one for another CUDA or of another version.
    """
    kind, name = archive.kind, archive.path.name
    again = "get it again from NVIDIA's site"
    files = _files(kind, root)
    if not files or not is_elf(str(files[0])):
        raise Error("bad-value", f"{name} holds no {kind.library}", hint=again)
    library, problem = describe(kind, files[0])
    _require_cuda(kind, archive.path, library.cuda, cuda)
    if problem.startswith(OTHER_HEADERS):
        raise Error("bad-value", f"{name}: {problem}", hint=again)
    without = f"{problem}; it cannot be loaded here yet: its headers tell the version"
    return library, f"{files[0]}: {library.version}, {without if problem else 'chosen'}"


def unpack_wheel(folder: Path, tag: str, target: Path) -> str:
    """Unpack the wheel of this Python (``cp310``) out of a folder; its name, or empty."""
    wheels = sorted(folder.glob(f"tensorrt-*-{tag}-*.whl"))
    for wheel in wheels[:1]:
        extract(wheel, target)
    return wheels[0].name if wheels else ""
