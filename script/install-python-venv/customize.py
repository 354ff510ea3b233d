"""Check that an environment can be made here; prove and register the one that was made."""

from __future__ import annotations

import os
import re
from typing import Any

from cmbench.errors import Error
from cmbench.lib.host.packages import install_command
from cmbench.lib.host.system import os_facts
from cmbench.lib.pythons import describe


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    env = i["env"]
    name = str(env.get("CM_NAME", "")).strip()
    if name and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise Error(
            "bad-value",
            f'--name="{name}" cannot name an environment',
            hint="use letters, digits, dots, dashes and underscores: --name=mlperf-cpu",
        )
    if env.get("CM_PYTHON_CAN_MAKE_VENV") == "no":
        raise cannot_make(env["CM_PYTHON_BIN_WITH_PATH"], env["CM_PYTHON_VERSION"])
    folder = os.path.join(os.getcwd(), name or "venv")
    env["CM_VIRTUAL_ENV_NAME"] = name
    env["CM_VIRTUAL_ENV_DIR"] = os.path.basename(folder)
    env["CM_VIRTUAL_ENV_PATH"] = folder
    env["CM_VIRTUAL_ENV_SCRIPTS_PATH"] = os.path.join(folder, "bin")
    # The tag of this entry keeps an older environment of the same name from answering.
    registered = {"extra_cache_tags": f"virtual,of-{os.path.basename(os.getcwd())}"}
    if name:
        registered["name"] = name
    i["automation"].update_deps({"update_deps": {"register-python": registered}})
    return {"return": 0}


def cannot_make(python: str, version: str) -> Error:
    minor = ".".join(version.split(".")[:2])
    facts = os_facts()
    packages = {"apt": f"python{minor}-venv", "apk": "python3", "zypper": "python3-base"}
    package = packages.get(facts.package_manager, "python3")
    command = install_command(facts.package_manager, [package], as_root=os.geteuid() == 0)
    return Error(
        "venv-missing",
        f"{python} ({version}) cannot make environments: its module venv or ensurepip is missing",
        hint=command
        or "install these modules, or choose another Python with --adr.base-python.path",
    )


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    env = i["env"]
    base = env["CM_PYTHON_BIN_WITH_PATH"]
    path = os.path.join(env["CM_VIRTUAL_ENV_SCRIPTS_PATH"], "python3")
    python, problem = describe(path)
    if python is None or not python.virtual or not python.has_pip:
        raise Error(
            "venv-broken",
            f"the new environment at {env['CM_VIRTUAL_ENV_PATH']} does not work",
            hint=f"make one by hand to see why: {base} -m venv /tmp/try",
            context=[problem or f"{path} is not in the environment or has no pip"],
        )
    env["CM_PYTHON_BIN_WITH_PATH"] = python.path
    env["CM_PYTHON_VERSION"] = python.version
    # Without the Python it was made with, an environment cannot run.
    return {"return": 0, "version": python.version, "relies_on": [python.base_executable]}
