"""CUDA toolkits and runtimes of this machine: where they are, what version they are of.

What counts is what ``nvcc`` itself says. It may be a wrapper in another folder than the toolkit,
and a toolkit made of Python wheels has no ``version.json``: the version is in ``nvcc --version``,
the root in the line ``TOP=`` of ``nvcc --dryrun``.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cmbench.lib.host.system import os_facts
from cmbench.lib.libraries import ask_library
from cmbench.lib.probe import ProbeResult, is_executable, probe
from cmbench.lib.pythons import Bounds
from cmbench.lib.text_files import read_or_empty
from cmbench.lib.versions import parse

Ask = Callable[[Sequence[str | Path]], ProbeResult]

USUAL = (
    "usr/local/cuda",
    "usr/local/cuda-[0-9]*",
    "usr/cuda",
    "usr/cuda-[0-9]*",
    "opt/cuda",
    "usr/local/packages/cuda",
)
"""Where toolkits are installed, below the root."""
LIBRARY_FOLDERS = ("lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib", "")
RUNTIME = "libcudart.so"


@dataclass(frozen=True, slots=True)
class Toolkit:
    """A toolkit, or a runtime alone, whose ``nvcc`` is empty.

    ``release`` is what nvcc calls it (13.0), ``version`` may be more exact (12.4.1), ``build`` is
    that of nvcc (12.4.131). ``include`` and ``library`` are folders; empty where there is none.
    """

    nvcc: str
    runtime: str
    root: str
    release: str
    version: str
    build: str
    include: str
    library: str

    @property
    def place(self) -> str:
        """The file by which it was found."""
        return self.nvcc or self.runtime


@dataclass(frozen=True, slots=True)
class ToolkitSearch:
    """The toolkit that fits, if any, and a line on every candidate: its version, and why not."""

    chosen: Toolkit | None
    lines: tuple[str, ...]


def toolkit_folders(environ: Mapping[str, str], root: Path = Path("/")) -> list[str]:
    """Where toolkits may be, beside PATH: what the environment names, then the usual places."""
    named = [environ.get(key, "") for key in ("CUDA_HOME", "CUDA_PATH")]
    usual = [path for pattern in USUAL for path in sorted(root.glob(pattern), key=_age)]
    return list(dict.fromkeys([*(f for f in named if os.path.isabs(f)), *map(str, usual)]))


def _age(path: Path) -> tuple[int, ...]:
    """The newest first."""
    return tuple(-number for number in parse(path.name.partition("-")[2] or "0").release)


def find_toolkit(where: Iterable[str], bounds: Bounds, ask: Ask = probe) -> ToolkitSearch:
    """The first nvcc that runs and fits; ``where`` are files, and folders with or without bin."""
    nvccs = (path for place in where for path in _programs(Path(place)))
    return _first(nvccs, bounds, lambda path: _toolkit(path, ask))


def find_runtime(where: Iterable[str], bounds: Bounds) -> ToolkitSearch:
    """The first CUDA runtime library that loads and fits."""
    places = (path for place in where for path in _runtimes(Path(place)))
    return _first(places, bounds, _runtime)


def _first(
    paths: Iterable[Path], bounds: Bounds, describe: Callable[[Path], tuple[Toolkit | None, str]]
) -> ToolkitSearch:
    chosen: Toolkit | None = None
    lines = []
    known: dict[str, Path] = {}
    for path in paths:
        known.setdefault(os.path.realpath(path), path)
    for path in known.values():
        toolkit, problem = describe(path)
        if toolkit is None:
            lines.append(f"{path}: {problem}")
            continue
        misfit = _misfit(toolkit, bounds)
        verdict = misfit or ("an earlier one fits" if chosen else "chosen")
        lines.append(f"{path}: {toolkit.version} in {toolkit.root}, {verdict}")
        chosen = chosen or (None if misfit else toolkit)
    return ToolkitSearch(chosen, tuple(lines))


def _misfit(toolkit: Toolkit, bounds: Bounds) -> str:
    """Why it is not accepted; users name a release, an update of it, or nvcc's own number."""
    names = dict.fromkeys((toolkit.version, toolkit.release, toolkit.build))
    misfits = [bounds.misfit(name) for name in names if name]
    return "" if "" in misfits else misfits[0]


def _programs(place: Path) -> list[Path]:
    paths = [place] if place.is_file() else [place / "nvcc", place / "bin/nvcc"]
    return [path for path in paths if is_executable(path)]


def _toolkit(nvcc: Path, ask: Ask) -> tuple[Toolkit | None, str]:
    said = ask([nvcc, "--version"])
    if not said.ok:
        return None, f"does not run: {said.problem}"
    match = re.search(r"release (\d+(?:\.\d+)+)(?:, V(\d+(?:\.\d+)+))?", said.output)
    if match is None:
        return None, "printed no version"
    # The file does not have to exist; the settings are printed before it is read.
    top = re.search(r"^#\$ TOP=(.+)$", ask([nvcc, "--dryrun", "none.cu"]).output, re.MULTILINE)
    root = (
        os.path.normpath(top[1].strip()) if top else str(Path(os.path.realpath(nvcc)).parent.parent)
    )
    include, library = _headers(root), _library(root)
    version = _exact_version(root, match[1])
    return Toolkit(str(nvcc), "", root, match[1], version, match[2] or "", include, library), ""


def _exact_version(root: str, release: str) -> str:
    """What ``version.json`` says, which also knows of updates (12.4.1); else the release."""
    try:
        version = str(json.loads(read_or_empty(f"{root}/version.json"))["cuda"]["version"])
    except (ValueError, KeyError, TypeError):
        return release
    return version if version.startswith(release) else release


def _headers(root: str) -> str:
    folders = [f"{root}/include", f"{root}/targets/x86_64-linux/include", "/usr/include"]
    return next((f for f in folders if os.path.exists(f"{f}/cuda_runtime_api.h")), "")


def _library(root: str) -> str:
    folders = [os.path.join(root, name) for name in LIBRARY_FOLDERS if name]
    # Distributions put the libraries of their own package among those of the system.
    folders += os_facts().library_folders if root.startswith("/usr/lib/") else ()
    return next((folder for folder in folders if list(Path(folder).glob("libcudart*"))), "")


def _runtimes(place: Path) -> list[Path]:
    if place.is_file():
        return [place]
    paths = [path for name in LIBRARY_FOLDERS for path in (place / name).glob(f"{RUNTIME}*")]
    return sorted(paths, key=lambda path: (path.parent != place, len(path.name)))


def _runtime(path: Path) -> tuple[Toolkit | None, str]:
    values, problem = ask_library(str(path), {"cudaRuntimeGetVersion": "into"})
    number = values.get("cudaRuntimeGetVersion", 0)
    if not number:
        return None, problem or "reports no version"
    version = f"{number // 1000}.{number % 1000 // 10}"
    folders = path.resolve().parents
    root = next((str(f) for f in folders if (f / "include/cuda_runtime_api.h").exists()), "")
    # A runtime may well come without headers.
    root = root or str(path.parent.parent)
    return Toolkit("", str(path), root, version, version, "", _headers(root), str(path.parent)), ""
