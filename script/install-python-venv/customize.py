"""Check that an environment can be made here; prove and register the one that was made.

One that is made over another Python sees the packages of that one, and nothing is written there.
"""

from __future__ import annotations

import os
import re
import shlex
from itertools import islice
from pathlib import Path
from typing import Any

from cmbench.errors import Error
from cmbench.lib.host.packages import install_command
from cmbench.lib.host.system import os_facts
from cmbench.lib.pythons import (
    Python,
    candidates_in,
    choose,
    describe,
    environments_in,
    installed,
    interpreter_of,
    package_folders,
)
from cmbench.lib.tools import bounds_of
from cmbench.lib.versions import satisfies_pip

LAYER = "_layer.pth"
OLDEST_PIP = "20.3"
"""The first with the present resolver, and for wheels of manylinux_2_28 (PEP 600)."""


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    env = i["env"]
    name = str(env.get("CM_NAME", "")).strip()
    if name and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise Error(
            "bad-value",
            f'--name="{name}" cannot name an environment',
            hint="use letters, digits, dots, dashes and underscores: --name=mlperf-cpu",
        )
    layered = bool(env.get("CM_PYTHON_LAYER_BASE"))
    options = layer_options(env) if layered else []
    if env.get("CM_PYTHON_CAN_MAKE_VENV") == "no" and "--without-pip" not in options:
        raise cannot_make(env["CM_PYTHON_BIN_WITH_PATH"], env["CM_PYTHON_VERSION"])
    folder = os.path.join(os.getcwd(), name or "venv")
    env["CM_TMP_VENV_OPTIONS"] = " ".join(options)
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


def refuse(i: dict[str, Any]) -> dict[str, Any]:
    """Refuse a base that is no Python, or not of a wanted version; called by ``cm plan``."""
    base = str(i["env"].get("CM_PYTHON_LAYER_BASE") or "")
    if base:
        base_python(base, i["env"])
    return {"return": 0}


def base_python(path: str, env: dict[str, Any]) -> Python:
    """Return the Python that ``--over`` names; raise Error where it cannot be used."""
    interpreter = interpreter_of(path)
    python, problem = describe(interpreter)
    problem = problem or bounds_of(env).misfit(python.version if python else "")
    if python is None or problem:
        raise Error(
            "not-detected",
            f"{path} cannot be the Python of this run: {problem}",
            hint=other_base(path, env, missing=python is None),
        )
    return python


def other_base(path: str, env: dict[str, Any], *, missing: bool) -> str:
    """Return what to name instead of ``path``; an environment in or around it where one fits.

    With ``missing`` there is no Python at ``path``, else one of a wrong version.
    """
    folders = environments_in(path) if missing else []
    if missing and os.path.isfile(path):
        folders = [str(folder) for folder in list(Path(path).parents)[:2]]
    near = list(islice((folder for folder in folders if is_fit(folder, env)), 3))
    if near:
        return f"name an environment: {', or '.join(f'--python={folder}' for folder in near)}"
    if os.path.isdir(path) and missing:
        return (
            f"name the folder of an environment, or leave --python out; one is made there by\n"
            f"`python3 -m venv {shlex.quote(path)}`"
        )
    return (
        "name an interpreter, or the folder of an environment: "
        "--python=/opt/conda/envs/gpu/bin/python3"
    )


def is_fit(folder: str, env: dict[str, Any]) -> bool:
    """Return whether the environment at ``folder`` has a Python of a wanted version."""
    python = choose(candidates_in([Path(folder, "bin")])[:1], bounds_of(env)).chosen
    return python is not None


def layer_options(env: dict[str, Any]) -> list[str]:
    """Return the options of ``venv`` for an environment over another Python."""
    python = base_python(env["CM_PYTHON_BIN_WITH_PATH"], {})
    options = [] if python.virtual else ["--system-site-packages"]
    # The pip of the base is seen too, and ensurepip is often missing where packages are managed.
    pip = installed(python.path, "pip") if python.can_make_venv else None
    too_old = pip is not None and not satisfies_pip(pip.version, f">={OLDEST_PIP}")
    return [*options, "--without-pip"] if python.has_pip and not too_old else options


def link_packages(env: dict[str, Any], base: Python) -> None:
    """Let the new environment see the packages of ``base``, and write nothing beside them."""
    folder = env["CM_VIRTUAL_ENV_PATH"]
    # A venv sees those of the Python that it was made with, and of no other venv.
    # In ASCII: Python reads such a file in the encoding of the locale.
    seen = package_folders(base.path) if base.virtual else []
    compiled = os.path.join(folder, "pycache")
    lines = [
        f"import sys; sys.pycache_prefix = sys.pycache_prefix or {compiled!a}",
        *(f"import site; site.addsitedir({path!a})" for path in seen),
    ]
    release = ".".join(base.version.split(".")[:2])
    site = Path(folder, "lib", f"python{release}", "site-packages")
    Path(site, LAYER).write_text("\n".join([*lines, ""]), encoding="utf-8")


def cannot_make(python: str, version: str) -> Error:
    minor = ".".join(version.split(".")[:2])
    facts = os_facts()
    packages = {"apt": f"python{minor}-venv", "apk": "python3", "zypper": "python3-base"}
    package = packages.get(facts.package_manager, "python3")
    command = install_command(facts.package_manager, [package], as_root=os.geteuid() == 0)
    return Error(
        "venv-missing",
        f"{python} ({version}) cannot make environments: its module venv or ensurepip is missing",
        hint=f"`{command}`"
        if command
        else "install these modules, or choose another Python with --adr.base-python.path",
    )


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    env = i["env"]
    base = env["CM_PYTHON_BIN_WITH_PATH"]
    path = os.path.join(env["CM_VIRTUAL_ENV_SCRIPTS_PATH"], "python3")
    relies_on = []
    if env.get("CM_PYTHON_LAYER_BASE"):
        link_packages(env, base_python(base, {}))
        # A venv that is made again may have another Python.
        relies_on = [base, os.path.join(os.path.dirname(os.path.dirname(base)), "pyvenv.cfg")]
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
    relies_on = [item for item in [python.base_executable, *relies_on] if os.path.exists(item)]
    return {"return": 0, "version": python.version, "relies_on": relies_on}
