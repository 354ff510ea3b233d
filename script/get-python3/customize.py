"""Choose a Python 3, prove that it runs, and say why it was chosen."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from cmbench.errors import Error
from cmbench.lib.pythons import Bounds, Python, PythonSearch, choose, search
from cmbench.lib.tools import bounds_of
from cmbench.lib.versions import parse


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    bounds = bounds_of(i["env"])
    result = find(i, bounds)
    if result.chosen is None:
        raise nothing_fits(result, bounds, str(i["env"].get("CM_TMP_PATH") or ""))
    print("\n".join(result.report))
    python = result.chosen
    tags = [f"version-{python.version}", "virtual" if python.virtual else "non-virtual"]
    export(i, python, tags)
    relies_on = [python.path, os.path.join(python.prefix, "pyvenv.cfg")]
    return {
        "return": 0,
        "version": python.version,
        "add_extra_cache_tags": tags,
        "relies_on": relies_on if python.virtual else relies_on[:1],
    }


def find(i: dict[str, Any], bounds: Bounds) -> PythonSearch:
    """PythonSearch a file, the folders of --path, or PATH."""
    env = i["env"]
    paths = env.get("CM_TMP_PATH", "")
    registered = "virtual" in str(env.get("CM_EXTRA_CACHE_TAGS", "")).split(",")
    custom = any(tag.startswith("custom-path.") for tag in i["variation_tags"])
    if env.get("CM_NAME") and not (paths or registered or custom):
        # The engine looks for a registered name before it runs this.
        raise not_registered(env["CM_NAME"], bounds)
    if paths:
        return search_paths(paths, bounds)
    if env.get("CM_PYTHON_BIN_WITH_PATH"):
        return choose([absolute(env["CM_PYTHON_BIN_WITH_PATH"])], bounds)
    folders = i["automation"].get_default_path_list(i)
    # A relative folder in PATH would make the current directory decide what is run.
    return search([Path(folder) for folder in folders if os.path.isabs(folder)], bounds)


def search_paths(paths: str, bounds: Bounds) -> PythonSearch:
    """PythonSearch only the paths of ``--path``; raise Error for one that does not exist."""
    places = [absolute(text) for text in paths.split(os.pathsep) if text]
    for path in places:
        if not path.exists():
            raise Error("bad-value", f"--path: {path} does not exist", hint="check the path")
    # An environment may be named by its own folder.
    folders = [folder for path in places if path.is_dir() for folder in (path, path / "bin")]
    return search(folders, bounds) if folders else choose(places, bounds)


def absolute(text: str) -> Path:
    """The path that a text names; raises Error for a relative one."""
    path = Path(text).expanduser()
    if not path.is_absolute():
        raise Error(
            "bad-value",
            f"{text} is not an absolute path",
            hint=f"give the whole path: --path=$PWD/{text}",
        )
    return path


def not_registered(name: str, bounds: Bounds) -> Error:
    version = f" --version={bounds.exact}" if bounds.exact else ""
    suffix = "" if str(bounds) == "any version" else f" of version {bounds}"
    return Error(
        "not-detected",
        f'no Python{suffix} is registered under the name "{name}"',
        hint="make an environment of that name:\n"
        f'`cm run script "install python-venv" --name={name}{version}`',
    )


def nothing_fits(result: PythonSearch, bounds: Bounds, paths: str) -> Error:
    suffix = "" if str(bounds) == "any version" else f" ({bounds})"
    return Error(
        "not-detected",
        f"no Python 3 that fits was found{suffix}",
        hint=f"install one, as with: {how_to_install(bounds)}; or name the folder it is in:\n"
        '`cm run script "get python3" --path=/folder/with/python3`',
        context=[candidate.line for candidate in result.candidates]
        or [f"there is no python3 in {paths or 'any folder of PATH'}"],
    )


def how_to_install(bounds: Bounds) -> str:
    """Return command lines of programs that install a Python beside that of the system."""
    version = bounds.exact or bounds.minimum or bounds.maximum or "3.12"
    return f"`pyenv install {version}`, or: `uv python install {version}`"


def export(i: dict[str, Any], python: Python, tags: list[str]) -> None:
    folder = os.path.dirname(python.path)
    i["env"].update(
        {
            "CM_PYTHON_BIN_WITH_PATH": python.path,
            "CM_PYTHON_BIN": os.path.basename(python.path),
            "CM_PYTHON_BIN_PATH": folder,
            "CM_PYTHON_VERSION": python.version,
            "CM_PYTHON_CACHE_TAGS": ",".join(tags),
            "CM_PYTHON_IMPLEMENTATION": python.implementation,
            "CM_PYTHON_BITS": str(python.bits),
            "CM_PYTHON_EXT_SUFFIX": python.ext_suffix,
            "CM_PYTHON_VIRTUAL": yes_no(python.virtual),
            "CM_PYTHON_CAN_MAKE_VENV": yes_no(python.can_make_venv),
        }
    )
    release = (*parse(python.version).release, 0, 0)
    for name, number in zip(("MAJOR", "MINOR", "PATCH"), release, strict=False):
        i["env"][f"CM_PYTHON_{name}_VERSION"] = str(number)
    # An environment goes first, as if it were activated.
    if python.virtual or folder not in i["automation"].get_default_path_list(i):
        i["env"]["+PATH"] = [folder]


def yes_no(value: bool) -> str:
    return "yes" if value else "no"
