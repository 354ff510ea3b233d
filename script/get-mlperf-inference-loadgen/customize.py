"""Check that LoadGen can be installed here; prove that the one installed is that of the round."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from cmbench.errors import Error
from cmbench.lib.host.packages import install_command
from cmbench.lib.probe import ProbeResult, probe, which
from cmbench.lib.pythons import installed

PACKAGE = "mlcommons-loadgen"
NEEDED = (
    "ConstructFastSUT",
    "ConstructQSL",
    "DestroyFastSUT",
    "DestroyQSL",
    "LogOutputSettings",
    "LogSettings",
    "QuerySampleResponse",
    "QuerySamplesComplete",
    "StartTestWithLogSettings",
    "TestMode",
    "TestScenario",
    "TestSettings",
)
READY_MADE = {("linux", "x86_64"), ("darwin", "arm64")}


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    env = i["env"]
    if env.get("CM_VERSION"):
        raise Error(
            "bad-value",
            "LoadGen is chosen by the round, not by --version",
            hint="name the round, as in `--tags=get,loadgen,_r5.1`, or one version of the package "
            f"with --adr.loadgen-package.version={env['CM_VERSION']}",
        )
    platform = (env["CM_HOST_OS_TYPE"], env["CM_HOST_OS_MACHINE"])
    if platform not in READY_MADE and installed(env["CM_PYTHON_BIN_WITH_PATH"], PACKAGE) is None:
        print(f"LoadGen is compiled here: there is no ready-made one for {' '.join(platform)}")
        require_compiler(env)
    return {"return": 0}


def require_compiler(env: dict[str, Any]) -> None:
    """Raise Error where LoadGen cannot be compiled: pip would find out after its downloads."""
    program = "import os, sysconfig; print(os.path.join(sysconfig.get_path('include'), 'Python.h'))"
    header = probe([env["CM_PYTHON_BIN_WITH_PATH"], "-c", program], timeout=30).stdout.strip()
    missing = []
    if not (which("g++") or which("c++")):
        missing.append("there is no C++ compiler")
    if not os.path.isfile(header):
        missing.append("the headers of this Python are missing")
    if not missing:
        return
    manager = env.get("CM_HOST_OS_PACKAGE_MANAGER", "")
    packages = {"apt": ["g++", "python3-dev"], "brew": ["gcc"]}
    command = install_command(
        manager, packages.get(manager, ["gcc-c++", "python3-devel"]), as_root=os.geteuid() == 0
    )
    raise Error(
        "tool-missing",
        f"LoadGen has to be compiled on this machine, and {' and '.join(missing)}",
        hint=f"`{command}`" if command else "install g++ and the Python headers",
    )


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    env = i["env"]
    python = env["CM_PYTHON_BIN_WITH_PATH"]
    package = installed(python, PACKAGE)
    if package is None:
        raise Error("install-failed", f"{python} has no {PACKAGE} after its installation")
    facts = examine(python)
    require_round(env, facts, package.version)
    env["CM_MLPERF_INFERENCE_LOADGEN_VERSION"] = package.version
    own = keep(Path(facts["path"]), package.version, Path.cwd() / "site")
    env["CM_MLPERF_INFERENCE_LOADGEN_PATH"] = str(own or facts["path"])
    if own is None:
        return {"return": 0, "version": package.version, "relies_on": [facts["path"]]}
    env["+PYTHONPATH"] = [str(own.parent)]
    return {"return": 0, "version": package.version}


def keep(module: Path, version: str, folder: Path) -> Path | None:
    """Copy LoadGen and its metadata into ``folder``; return None when it is not one file.

    A run of another round may put its own LoadGen into the same Python at any moment, also while
    this one measures.
    """
    metadata = module.parent / f"{PACKAGE.replace('-', '_')}-{version}.dist-info"
    if (
        not module.is_file()
        or not module.name.startswith("mlperf_loadgen")
        or not metadata.is_dir()
    ):
        return None
    folder.mkdir(exist_ok=True)
    shutil.copytree(metadata, folder / metadata.name, dirs_exist_ok=True)
    shutil.copyfile(module, folder / module.name)
    return folder / module.name


def examine(python: str) -> dict[str, Any]:
    """Return LoadGen's facts from the Python that will run it.

    Raises Error when it does not answer or is unsuitable.
    """
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "src", "check_loadgen.py")
    result = probe([python, program, *NEEDED], timeout=60)
    try:
        facts = json.loads(result.stdout.strip().splitlines()[-1]) if result.ok else None
    except (ValueError, IndexError):
        facts = None
    if not isinstance(facts, dict):
        raise broken(result)
    if facts["missing"] or facts["status"]:
        raise Error(
            "loadgen-unsuitable",
            f"the LoadGen at {facts['path']} is not the one that benchmarks need",
            hint=f"another package may be in its place: `{python} -m pip uninstall mlperf-loadgen`",
            context=[f"it lacks {', '.join(facts['missing'])}" if facts["missing"] else
                     f"its own configuration cannot be read (status {facts['status']})"],
        )  # fmt: skip
    return facts


def broken(result: ProbeResult) -> Error:
    return Error(
        "import-failed",
        "LoadGen is installed, but does not work",
        hint="install it again:\n`cm run script "
        f"--tags=get,generic-python-lib,_package.{PACKAGE} --force_install`",
        context=result.tail(8) or [result.problem],
        doing=" ".join(result.command[:2]),
    )


def require_round(env: dict[str, Any], facts: dict[str, Any], version: str) -> None:
    """Raise Error when LoadGen has not the seeds of the round: the checker refuses such runs."""
    expected = env["CM_MLPERF_INFERENCE_LOADGEN_QSL_SEED"]
    if facts["qsl_seed"] == expected:
        return
    wanted_round = env["CM_MLPERF_INFERENCE_LOADGEN_ROUND"]
    raise Error(
        "loadgen-wrong-round",
        f"LoadGen {version} does not have the seeds of round {wanted_round}",
        hint="leave out --adr.loadgen-package.version, or choose the round that this version "
        "belongs to, as in _r5.1",
        context=[f"seed of {wanted_round}: {expected}", f"seed found:   {facts['qsl_seed']}"],
    )
