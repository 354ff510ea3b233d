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
from cmbench.lib.tools import bounds_of, input_paths

INDEX = "https://pip.repos.neuron.amazonaws.com"
# The public index has placeholders of its packages, whose import raises an error with this text.
PLACEHOLDER = "WRONG PACKAGE"
PLACEHOLDER_VERSIONS = ("1.0", "1.0.post1")
TIMEOUT_S = 180.0


class SdkInspection(NamedTuple):
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
    """Inspect the Pythons; raise Error with the command to install the SDK where none has it."""
    env = i["env"]
    kind = str(env["CM_NEURON_SDK_KIND"])
    sdk = sdks()[kind]
    bounds, inspections = bounds_of(env), []
    for python in candidates(env, sdk):
        inspection = look(python, sdk)
        version = inspection.versions.get(sdk["packages"][0], "")
        misfit = "" if inspection.problem else bounds.misfit(version)
        inspections.append(inspection._replace(problem=misfit) if misfit else inspection)
        print(inspections[-1].line)
        if not inspections[-1].problem:
            return export_sdk(env, inspection, version)
    raise missing(kind, sdk, inspections)


def sdks() -> dict[str, Any]:
    """Return the known SDKs."""
    path = Path(__file__).with_name("sdks.json")
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return document


def candidates(env: Mapping[str, Any], sdk: Mapping[str, Any]) -> list[str]:
    """Return the Pythons to inspect: those of ``--path``, or AWS's environments and the chosen one.

    Raises Error when ``--path`` has no Python.
    """
    named = input_paths(env)
    if not named:
        environments = [
            place for pattern in sdk["environments"] for place in sorted(glob.glob(pattern))[::-1]
        ]
        return [*pythons_in(environments), str(env["CM_PYTHON_BIN_WITH_PATH"])]
    pythons = pythons_in(named)
    if not pythons:
        raise Error("bad-value", f"--path={named[0]}: there is no Python", hint="check the path")
    return pythons


def pythons_in(paths: Iterable[str]) -> list[str]:
    """Return the Pythons of files, environments, or folders of programs."""
    pythons = []
    for root in paths:
        inside = (root, f"{root}/python3", f"{root}/bin/python3", f"{root}/python")
        pythons += [path for path in inside if is_executable(Path(path))][:1]
    return pythons


def look(python: str, sdk: Mapping[str, Any]) -> SdkInspection:
    """What this Python has of the SDK."""
    there = {name: pythons.installed(python, name) for name in sdk["packages"]}
    versions = {name: one.version for name, one in there.items() if one}
    main = there[sdk["packages"][0]]
    if main is None:
        return SdkInspection(python, versions, (), f"no {sdk['packages'][0]}", "")
    failed = pythons.import_problem(python, sdk["module"], TIMEOUT_S)
    dummies = placeholders(versions, main.name, failed.output if failed else "")
    problem = failed.problem if failed else ""
    if dummies:
        problem = f"a placeholder of the public index, not the SDK: {', '.join(dummies)}"
    elif failed:
        problem = f"{sdk['module']} cannot be imported: {problem}"
    return SdkInspection(python, versions, dummies, problem, main.record)


def placeholders(versions: Mapping[str, str], main: str, output: str) -> tuple[str, ...]:
    """Those of the packages that only have the names; ``output`` is what the import of one said."""
    proven = main if not output else ""
    names = tuple(
        name for name, one in versions.items() if one in PLACEHOLDER_VERSIONS and name != proven
    )
    return names or ((main,) if PLACEHOLDER in output else ())


def export_sdk(env: dict[str, Any], inspection: SdkInspection, version: str) -> dict[str, Any]:
    """Export it, and list its versions as ``pip list`` does."""
    for name, one in inspection.versions.items():
        print(f"{name} {one}")
    env["CM_NEURON_SDK_PYTHON"] = inspection.python
    env["CM_NEURON_SDK_VERSION"] = version
    env["CM_NEURON_SDK_VERSIONS"] = json.dumps(dict(inspection.versions), sort_keys=True)
    relied = [path for path in (inspection.python, inspection.record) if path]
    return {"return": 0, "version": version, "relies_on": relied}


def missing(kind: str, sdk: Mapping[str, Any], inspections: list[SdkInspection]) -> Error:
    """The failure to raise: a placeholder to be removed first, or nothing that can be used."""
    last = inspections[-1]
    install = f"{last.python} -m pip install --extra-index-url={INDEX} {sdk['install']}"
    dummy = next((inspection for inspection in inspections if inspection.placeholders), None)
    needs = (
        f"it needs Python {sdk['pythons']} on x86-64; no configuration of pip is changed by this"
    )
    if dummy:
        remove = f"{dummy.python} -m pip uninstall -y {' '.join(dummy.placeholders)}"
        return Error(
            "import-failed",
            f"{dummy.python} has {dummy.problem}",
            hint=f"`{remove}`\n`{install}`\n{needs}",
            context=[inspection.line for inspection in inspections],
        )
    return Error(
        "not-detected",
        f"no Python with the Neuron SDK ({kind}: {sdk['packages'][0]}) was found",
        hint=f"`{install}`\n{needs}\none that is there already: --path=/its/folder, or "
        "--adr.neuron-sdk.path=/its/folder where another step asks",
        context=[inspection.line for inspection in inspections],
    )
