"""Find the AWS Neuron SDK: only an import, in a process of the Python that has it, counts."""

from __future__ import annotations

import glob
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from cmbench.errors import Error
from cmbench.lib import pythons
from cmbench.lib.probe import is_executable
from cmbench.lib.tools import bounds_of, named_places

INDEX = "https://pip.repos.neuron.amazonaws.com"
# Of each of its packages the public index has one that imports as an error, with these words.
PLACEHOLDER = "WRONG PACKAGE"
PLACEHOLDER_VERSIONS = ("1.0", "1.0.post1")
TIMEOUT_S = 180.0


class Look(NamedTuple):
    """What was found in one Python: versions by package, and the trouble with the import."""

    python: str
    versions: Mapping[str, str]
    placeholders: tuple[str, ...]
    problem: str
    record: str

    @property
    def line(self) -> str:
        """One line for a report."""
        if not self.problem:
            return f"{self.python}: {', '.join(f'{k} {v}' for k, v in self.versions.items())}"
        return f"{self.python}: {self.problem}"


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Look into each Python; raises Error with the line to install the SDK where none has it."""
    env = i["env"]
    kind = str(env["CM_NEURON_SDK_KIND"])
    sdk = sdks()[kind]
    bounds, looks = bounds_of(env), []
    for python in candidates(env, sdk):
        found = look(python, sdk)
        version = found.versions.get(sdk["packages"][0], "")
        misfit = "" if found.problem else bounds.misfit(version)
        looks.append(found._replace(problem=misfit) if misfit else found)
        print(looks[-1].line)
        if not looks[-1].problem:
            return taken(env, found, version)
    raise missing(kind, sdk, looks)


def sdks() -> dict[str, Any]:
    """What is known of each SDK."""
    path = Path(__file__).with_name("sdks.json")
    told: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return told


def candidates(env: Mapping[str, Any], sdk: Mapping[str, Any]) -> list[str]:
    """The Pythons to look into: those of ``--path``, or AWS's environments and the chosen one.

    Raises Error when ``--path`` has no Python.
    """
    named = named_places(env)
    if not named:
        known = [place for each in sdk["environments"] for place in sorted(glob.glob(each))[::-1]]
        return [*pythons_in(known), str(env["CM_PYTHON_BIN_WITH_PATH"])]
    found = pythons_in(named)
    if not found:
        raise Error("bad-value", f"--path={named[0]}: there is no Python", hint="check the path")
    return found


def pythons_in(places: Iterable[str]) -> list[str]:
    """The Python of each place: a file, an environment, or a folder of programs."""
    found = []
    for place in places:
        inside = (place, f"{place}/python3", f"{place}/bin/python3", f"{place}/python")
        found += [path for path in inside if is_executable(Path(path))][:1]
    return found


def look(python: str, sdk: Mapping[str, Any]) -> Look:
    """What this Python has of the SDK."""
    there = {name: pythons.installed(python, name) for name in sdk["packages"]}
    versions = {name: one.version for name, one in there.items() if one}
    main = there[sdk["packages"][0]]
    if main is None:
        return Look(python, versions, (), f"no {sdk['packages'][0]}", "")
    failed = pythons.import_problem(python, sdk["module"], TIMEOUT_S)
    dummies = placeholders(versions, main.name, failed.output if failed else "")
    problem = failed.problem if failed else ""
    if dummies:
        problem = f"a placeholder of the public index, not the SDK: {', '.join(dummies)}"
    elif failed:
        problem = f"{sdk['module']} cannot be imported: {problem}"
    return Look(python, versions, dummies, problem, main.record)


def placeholders(versions: Mapping[str, str], main: str, output: str) -> tuple[str, ...]:
    """Those of the packages that only have the names; ``output`` is what the import of one said."""
    proven = main if not output else ""
    found = tuple(
        name for name, one in versions.items() if one in PLACEHOLDER_VERSIONS and name != proven
    )
    return found or ((main,) if PLACEHOLDER in output else ())


def taken(env: dict[str, Any], found: Look, version: str) -> dict[str, Any]:
    """Hand it out, its versions listed as ``pip list`` does it."""
    for name, one in found.versions.items():
        print(f"{name} {one}")
    env["CM_NEURON_SDK_PYTHON"] = found.python
    env["CM_NEURON_SDK_VERSION"] = version
    env["CM_NEURON_SDK_VERSIONS"] = json.dumps(dict(found.versions), sort_keys=True)
    relied = [path for path in (found.python, found.record) if path]
    return {"return": 0, "version": version, "relies_on": relied}


def missing(kind: str, sdk: Mapping[str, Any], looks: list[Look]) -> Error:
    """The failure to raise: a placeholder to be removed first, or nothing that can be used."""
    last = looks[-1]
    install = f"{last.python} -m pip install --extra-index-url={INDEX} {sdk['install']}"
    dummy = next((each for each in looks if each.placeholders), None)
    needs = (
        f"it needs Python {sdk['pythons']} on x86-64; no configuration of pip is changed by this"
    )
    if dummy:
        remove = f"{dummy.python} -m pip uninstall -y {' '.join(dummy.placeholders)}"
        return Error(
            "import-failed",
            f"{dummy.python} has {dummy.problem}",
            hint=f"{remove}\n{install}\n{needs}",
            context=[each.line for each in looks],
        )
    return Error(
        "not-detected",
        f"no Python with the Neuron SDK ({kind}: {sdk['packages'][0]}) was found",
        hint=f"{install}\n{needs}\none that is there already: --path=/its/folder, or "
        "--adr.neuron-sdk.path=/its/folder where another step asks",
        context=[each.line for each in looks],
    )
