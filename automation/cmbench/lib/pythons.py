"""Python interpreters of this machine: their abilities and their packages.

Every question is answered by the interpreter itself. Ours and the one of a benchmark are different.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cmbench.lib.probe import ProbeResult, is_executable, probe
from cmbench.lib.versions import describe_range, in_series, is_standard, misfit, parse

_DESCRIBE = """
import importlib.util, json, os, platform, struct, sys, sysconfig
def here(name):
    return importlib.util.find_spec(name) is not None
mark = os.path.join(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED")
print(json.dumps({
    "version": platform.python_version(),
    "executable": sys.executable or "",
    "base_executable": getattr(sys, "_base_executable", None) or sys.executable or "",
    "implementation": platform.python_implementation(),
    "bits": struct.calcsize("P") * 8,
    "ext_suffix": sysconfig.get_config_var("EXT_SUFFIX") or "",
    "virtual": sys.prefix != getattr(sys, "base_prefix", sys.prefix),
    "can_make_venv": here("venv") and here("ensurepip"),
    "has_pip": here("pip"),
    "externally_managed": os.path.isfile(mark),
    "prefix": sys.prefix,
}))
"""

# No module of the current directory is ever imported.
_NOT_FROM_HERE = "import sys; sys.path[:] = [p for p in sys.path if p]\n"

_INSTALLED = (
    _NOT_FROM_HERE
    + """
import json
from importlib import metadata
def modules(files):
    found = set()
    for file in files:
        parts = file.parts
        if parts[0].endswith((".dist-info", ".egg-info", ".data")) or parts[0] == "..":
            continue
        if len(parts) == 1 and parts[0].endswith((".py", ".so", ".pyd")):
            found.add(parts[0].partition(".")[0])
        elif parts[-1] == "__init__.py":
            found.add(".".join(parts[:-1]))
    return sorted(m for m in found if not any(m.startswith(o + ".") for o in found))
try:
    it = metadata.distribution(sys.argv[1])
except metadata.PackageNotFoundError:
    print("null")
else:
    top = (it.read_text("top_level.txt") or "").split()
    print(json.dumps({
        "name": it.metadata["Name"] or sys.argv[1],
        "version": it.version,
        "folder": str(getattr(it, "_path", "")),
        "modules": modules(it.files or ()) or top,
        "requires": list(it.requires or ()),
    }))
"""
)

_PACKAGES = (
    _NOT_FROM_HERE
    + """
import json, os
from importlib import metadata
seen = {}
for it in metadata.distributions():
    name = it.metadata["Name"]
    if name and it.version:
        folder = os.path.dirname(str(getattr(it, "_path", "")))
        seen.setdefault(name, [it.version, folder])
print(json.dumps(seen))
"""
)

_FOLDERS = """
import json, site, sys
every = site.getsitepackages()
own = [path for path in every if sys.prefix != sys.base_prefix and path.startswith(sys.prefix)]
user = [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
print(json.dumps([*own, *user, *(path for path in every if path not in own)]))
"""

_IMPORT = (
    _NOT_FROM_HERE
    + """
import importlib
importlib.import_module(sys.argv[1])
"""
)

TIMEOUT = 60.0
"""Seconds for an answer: an interpreter on a cold network disk takes its time."""

_UNCHANGED = ("-B",)
"""A question writes nothing beside the modules of an interpreter, which may be another's."""

_NAME = re.compile(r"python(?:3(?:\.(?P<minor>\d+))?)?")
_NOT_FOR_IMPORT = re.compile(r"_.*|.*-stubs|tests?|docs?|examples?|benchmarks?|scripts?|setup")


@dataclass(frozen=True, slots=True)
class Python:
    """What an interpreter says of itself. ``path`` is where to start it."""

    path: str
    version: str
    base_executable: str
    implementation: str
    bits: int
    ext_suffix: str
    virtual: bool
    can_make_venv: bool
    has_pip: bool
    externally_managed: bool
    prefix: str


@dataclass(frozen=True, slots=True)
class Bounds:
    """The versions that a caller accepts; ``exact`` may be a series such as 3.10."""

    minimum: str = ""
    maximum: str = ""
    exact: str = ""

    def misfit(self, version: str) -> str:
        """Why ``version`` is not accepted; empty when it is."""
        exact = "" if self.exact and in_series(version, self.exact) else self.exact
        return misfit(version, self.minimum, self.maximum, exact)

    def __str__(self) -> str:
        return describe_range(self.minimum, self.maximum, self.exact)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file that may be the wanted Python, and what was found out about it."""

    found_as: str
    python: Python | None
    reason: str

    @property
    def line(self) -> str:
        """One line for a report."""
        return f"{self.python.path if self.python else self.found_as}: {self.reason}"


@dataclass(frozen=True, slots=True)
class PythonSearch:
    """The outcome of a search: the chosen one, if any, and all that were seen."""

    chosen: Python | None
    candidates: tuple[Candidate, ...]
    not_needed: tuple[str, ...]

    @property
    def report(self) -> list[str]:
        """Lines that say what was seen and why it was chosen or not."""
        lines = [candidate.line for candidate in self.candidates]
        if self.not_needed:
            lines += ["not checked, because the one above fits:"]
            lines += [f"  {path}" for path in self.not_needed]
        return lines


@dataclass(frozen=True, slots=True)
class Distribution:
    """An installed package. ``record`` is the file that changes when the package does.

    ``requires`` holds what it needs, as its metadata have it: ``torch==2.10.0``.
    """

    name: str
    version: str
    record: str
    modules: tuple[str, ...]
    requires: tuple[str, ...]

    def bounds_of(self, name: str) -> str:
        """Return the bounds within which it needs a package, as pip writes them."""
        line = re.compile(rf"{re.escape(name)}\s*\(?([^;)]*)", re.IGNORECASE)
        return next((match[1].strip() for text in self.requires if (match := line.match(text))), "")


@dataclass(frozen=True, slots=True)
class InstalledVersion:
    """A package of a Python, and the folder that it is in."""

    name: str
    version: str
    folder: str

    def is_within(self, prefix: str) -> bool:
        """Return whether it belongs to the environment at ``prefix``."""
        return os.path.realpath(self.folder).startswith(os.path.realpath(prefix) + os.sep)


def describe(path: str | Path) -> tuple[Python | None, str]:
    """The Python at ``path``, or why it is not one."""
    why_not = _not_a_program(Path(path))
    if why_not:
        return None, why_not
    result = probe([path, "-I", *_UNCHANGED, "-c", _DESCRIBE], timeout=TIMEOUT)
    facts = _answer(result)
    if not isinstance(facts, dict):
        # The first line is a launcher's own complaint, or Python 2's about the option.
        said = next((line for line in result.output.splitlines() if line.strip()), result.problem)
        return None, f"does not run as Python 3: {said.strip() or 'no output'}"
    executable = facts.pop("executable")
    # A launcher such as a pyenv shim chooses by the current directory: take what it leads to.
    usable = os.path.isabs(executable) and is_executable(Path(executable))
    return Python(path=executable if usable else str(path), **facts), ""


def _not_a_program(path: Path) -> str:
    """Return why the system does not start ``path``; empty where the attempt shows it."""
    if path.is_dir():
        for link in (path / "python3", path / "bin" / "python3"):
            if link.is_symlink() and not link.exists():
                return f"it has no interpreter: {link} leads to {link.resolve()}, which is missing"
        return "it has no interpreter: neither python3 nor bin/python3 is in it"
    closed = path.is_file() and not is_executable(path)
    return "it is no program: this user may not run it" if closed else ""


def search(folders: Iterable[Path], bounds: Bounds) -> PythonSearch:
    """Look for a Python within ``bounds``, in the order in which a shell would.

    ``python3`` of every folder in order, then ``python``, then ``python3.N`` from the newest on.
    The search ends at the first that fits; the rest is reported by name.
    """
    return choose(candidates_in(folders), bounds, by_name=True)


def candidates_in(folders: Iterable[Path]) -> list[Path]:
    """Files in ``folders`` that are called like a Python 3, the preferred first."""
    candidates: list[tuple[int, int, int, Path]] = []
    seen: set[tuple[str, str]] = set()
    for number, folder in enumerate(folders):
        for path in _pythons_of(folder):
            key = (os.path.realpath(folder), os.path.realpath(path))
            if key not in seen:
                seen.add(key)
                candidates.append((*_preference(path.name), number, path))
    return [path for *_, path in sorted(candidates)]


def _pythons_of(folder: Path) -> list[Path]:
    try:
        names = [name for name in os.listdir(folder) if _NAME.fullmatch(name)]
    except OSError:
        return []
    paths = [folder / name for name in sorted(names, key=_preference)]
    return [path for path in paths if is_executable(path)]


def _preference(name: str) -> tuple[int, int]:
    match = _NAME.fullmatch(name)
    minor = match["minor"] if match else None
    if minor is not None:
        return 2, -int(minor)
    return (0 if name == "python3" else 1), 0


def choose(paths: Sequence[Path], bounds: Bounds, *, by_name: bool = False) -> PythonSearch:
    """The first of ``paths`` that is a Python within ``bounds``.

    With ``by_name`` a ``python3.N`` that its name rules out is not started.
    """
    candidates: list[Candidate] = []
    seen: set[str] = set()
    for number, path in enumerate(paths):
        python, reason = _examine(path, bounds, by_name)
        if python is not None and not reason:
            candidates.append(Candidate(str(path), python, f"{python.version}, chosen"))
            return PythonSearch(python, tuple(candidates), tuple(map(str, paths[number + 1 :])))
        if python is None or python.path not in seen:
            candidates.append(Candidate(str(path), python, reason))
        seen.update([python.path] if python else ())
    return PythonSearch(None, tuple(candidates), ())


def _examine(path: Path, bounds: Bounds, by_name: bool) -> tuple[Python | None, str]:
    reason = misfit_by_name(path.name, bounds) if by_name else ""
    if reason:
        return None, reason
    python, reason = describe(path)
    return python, reason or bounds.misfit(python.version if python else "")


def misfit_by_name(name: str, bounds: Bounds) -> str:
    """Return why a ``python3.N`` cannot fit, by its name alone."""
    match = _NAME.fullmatch(name)
    if not match or match["minor"] is None:
        return ""
    release = (3, int(match["minor"]))
    low, high, exact = (
        parse(text).release[:2] for text in (bounds.minimum, bounds.maximum, bounds.exact)
    )
    # The end of all releases: a bound without a second number has no say in them.
    highest = high if len(high) == 2 else (4,)
    fits = low <= release <= highest and release[: len(exact)] == exact
    return "" if fits else f"by its name a 3.{release[1]}"


def installed(python: str, name: str) -> Distribution | None:
    """The package ``name`` (extras and case do not matter) as ``python`` has it."""
    command = [python, *_UNCHANGED, "-c", _INSTALLED, bare_name(name)]
    facts = _answer(probe(command, timeout=TIMEOUT))
    if not isinstance(facts, dict):
        return None
    folder = Path(facts["folder"])
    records = (folder / "RECORD", folder / "METADATA", folder / "PKG-INFO", folder)
    record = next((str(path) for path in records if path.is_file()), "")
    lists = tuple(facts["modules"]), tuple(facts["requires"])
    return Distribution(facts["name"], facts["version"], record, *lists)


def packages(python: str) -> dict[str, InstalledVersion]:
    """Return the packages that ``python`` sees, by their normal names."""
    facts = _answer(probe([python, *_UNCHANGED, "-c", _PACKAGES], timeout=TIMEOUT))
    if not isinstance(facts, dict):
        return {}
    return {
        normal_name(name): InstalledVersion(name, version, folder)
        for name, (version, folder) in facts.items()
    }


def pins(
    python: str, free: Iterable[str], layer: str = "", fixed: Collection[str] = ()
) -> list[str]:
    """Return the packages that ``python`` sees as constraints for pip, such as ``numpy==2.1.0``.

    Left out are those that are ``free`` to change, by name, and those of the environment ``layer``
    that are not ``fixed``.
    """
    names = {normal_name(name) for name in free}
    return [
        f"{package.name}=={package.version}"
        for name, package in sorted(packages(python).items())
        if name not in names
        and (name in fixed or not (layer and package.is_within(layer)))
        and is_standard(package.version)
    ]


def package_folders(python: str) -> list[str]:
    """Return the folders in which ``python`` has packages, in the order in which it looks there.

    That of the user is one of them where ``python`` sees it.
    """
    folders = _answer(probe([python, *_UNCHANGED, "-c", _FOLDERS], timeout=TIMEOUT))
    return [str(folder) for folder in folders or () if os.path.isdir(folder)]


def interpreter_of(path: str | Path) -> Path:
    """Return the interpreter that a path names: the file, or that of a folder or environment."""
    place = Path(path)
    files = candidates_in([place, place / "bin"]) if place.is_dir() else []
    return files[0] if files else place


def environments_in(folder: str | Path) -> list[str]:
    """Return the environments that ``folder`` holds, such as the ``envs`` of conda, by name."""
    try:
        places = sorted(place for place in Path(folder).iterdir() if place.is_dir())
    except OSError:
        return []
    return [str(place) for place in places if candidates_in([place / "bin"])]


def import_problem(python: str, module: str, timeout: float = 600.0) -> ProbeResult | None:
    """``None`` when ``python`` can import ``module`` in ``timeout`` seconds, else its output."""
    result = probe([python, "-c", _IMPORT, module], timeout=timeout)
    return None if result.ok else result


def import_name(distribution: Distribution) -> str:
    """The module by which to prove a package; empty for one without (stubs, data, plug-ins)."""
    names = [name for name in distribution.modules if _for_import(name)]
    wanted = normal_name(distribution.name).replace("-", "")
    for name in names:
        if re.sub(r"[._-]", "", name).lower() == wanted:
            return name
    return min(names, key=len, default="")


def _for_import(name: str) -> bool:
    first = name.partition(".")[0]
    valid = all(part.isidentifier() for part in name.split("."))
    return valid and not _NOT_FOR_IMPORT.fullmatch(first)


def bare_name(requirement: str) -> str:
    """``ray[default]`` without its extras."""
    return requirement.partition("[")[0].strip()


def normal_name(name: str) -> str:
    """A package name as the index compares it."""
    return re.sub(r"[-_.]+", "-", bare_name(name)).lower()


def _answer(result: ProbeResult) -> Any:
    """What an interpreter printed last, as JSON; ``None`` when it failed."""
    lines = result.stdout.strip().splitlines()
    if not result.ok or not lines:
        return None
    try:
        return json.loads(lines[-1])
    except ValueError:
        return None
