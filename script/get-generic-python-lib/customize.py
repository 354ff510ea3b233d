"""See whether the chosen Python has a fitting version; install it if not; prove it."""

from __future__ import annotations

import os
import re
import shlex
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from cmbench.errors import Error
from cmbench.lib import causes, cuda_builds, cuda_packages, nvidia, pythons
from cmbench.lib.programs import run_program
from cmbench.lib.text_files import read_or_empty
from cmbench.lib.versions import satisfies_pip
from cmbench.lib.yes_no import is_yes
from common.failure_output import explained, first_cause

LAST_LINES = 12
CONSTRAINTS = "packages-of-the-base.txt"
BUILDS = ("torchvision-build", "driver-too-old", "cudnn-missing", "numpy-abi")
"""Known causes of a failed import that another install of the same package does not mend."""
BUILT_FOR = {"torchvision": "torch", "torchaudio": "torch"}
"""Packages whose libraries fit one version of another package, which their metadata name."""
FIXED = ("torch", "onnxruntime-gpu")
"""What is chosen for a driver, by a step of its own: no package that needs it replaces it."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9,._ -]+\])?")
NAME_IT = "name it:\n`cm run script --tags=get,generic-python-lib,_package.NAME`"
BOUNDS_APART = "give bounds apart from the name: --version=1.2, --version_min=1, --version_max=2"
GIVE_PYTHON = "give it: --env.CM_PYTHON_BIN_WITH_PATH=/path/to/python3"
MAKE_ENVIRONMENT = (
    "make an environment, and add --adr.python.name=mlperf to your command:\n"
    '`cm run script "install python-venv" --name=mlperf`'
)
PIP_ADDRESSES = {
    "--index-url": "CM_GENERIC_PYTHON_PIP_INDEX_URL",
    "--extra-index-url": "CM_GENERIC_PYTHON_PIP_EXTRA_INDEX_URL",
    "--find-links": "CM_GENERIC_PYTHON_PIP_EXTRA_FIND_LINKS_URL",
}
ELSEWHERE = "PIP_USER PIP_TARGET PIP_PREFIX PIP_ROOT"
"""Variables by which a user sends packages elsewhere; an environment takes none of them."""
NOT_ELSEWHERE = ("--no-user", "--target=")
"""Against the same in a pip.conf: pip takes an empty target for none."""
NOISE = re.compile(r"\s*$|Looking in (indexes|links): |WARNING: Location ")
LONG_LIST = re.compile(r"\(from versions: .{200,}?((?:, [^,)]+){12})\)")


class RequestedPackage(NamedTuple):
    """A package, its version bounds as pip writes them, and where it is to be installed."""

    name: str
    bounds: str
    url: str
    python: str
    force: bool


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    wanted = read_wanted(i)
    present = pythons.installed(wanted.python, wanted.name)
    reason = why_install(wanted, present)
    base = folder_of_base(wanted, present) if present else ""
    if base and present and not reason:
        print(f"{present.name} {present.version} is used, of {base}")
    if reason:
        print(f"{wanted.name}: {reason}")
        install(i, wanted, present)
        present = proven(wanted)
    assert present is not None
    if i["env"].get("CM_GENERIC_PYTHON_PACKAGE_IMPORT") != "no":
        prove_import(wanted, present)
    export(i["env"], wanted, present)
    return {
        "return": 0,
        "version": present.version,
        "relies_on": [present.record] if present.record else [],
    }


def foresee(i: dict[str, Any]) -> dict[str, Any]:
    """Say which version of a Python of the user's own is used; called by ``cm plan``."""
    env = i["env"]
    base = text(env, "CM_PYTHON_LAYER_BASE")
    python = text(env, "CM_PYTHON_BIN_WITH_PATH")
    name = text(env, "CM_GENERIC_PYTHON_PACKAGE_NAME")
    if not base or not name:
        return {}
    seen = pythons.packages(python or str(pythons.interpreter_of(base)))
    package = seen.get(pythons.normal_name(name))
    bounds = text(env, "CM_TMP_PIP_VERSION_STRING")
    if package is None or not satisfies_pip(package.version, bounds):
        return {}
    if other_build(python or str(pythons.interpreter_of(base)), name):
        return {}
    return {"present": f"{package.name} {package.version} of {package.folder}"}


def refuse(i: dict[str, Any]) -> dict[str, Any]:
    """Refuse a build for a CUDA that this machine does not have; called by ``cm plan``."""
    env = i["env"]
    name = pythons.bare_name(text(env, "CM_GENERIC_PYTHON_PACKAGE_NAME"))
    # A package for every device is one cache entry for all runs: reading the device would split it.
    if not cuda_builds.builds(name):
        return {"return": 0}
    if not name.endswith("-gpu") and text(env, "CM_MLPERF_DEVICE") != "cuda":
        return {"return": 0}
    python, base = text(env, "CM_PYTHON_BIN_WITH_PATH"), text(env, "CM_PYTHON_LAYER_BASE")
    python = python or (str(pythons.interpreter_of(base)) if base else "")
    if foresee(i):
        cuda_packages.refuse(python, [name], nvidia.read())
    elif not any(text(env, key) for key in (*PIP_ADDRESSES.values(), "CM_GENERIC_PYTHON_PIP_URL")):
        bounds = text(env, "CM_TMP_PIP_VERSION_STRING")
        cuda_packages.refuse_wheel(name, bounds, python, nvidia.read())
    return {"return": 0}


def folder_of_base(wanted: RequestedPackage, present: pythons.Distribution) -> str:
    """Return the folder that has a package; empty for one of the environment itself."""
    folder = os.path.dirname(os.path.dirname(present.record))
    own = os.path.dirname(os.path.dirname(wanted.python))
    return "" if f"{folder}{os.sep}".startswith(f"{own}{os.sep}") else folder


def read_wanted(i: dict[str, Any]) -> RequestedPackage:
    """Return the requested package; raise Error for a wrong name of a package or a Python."""
    env = i["env"]
    name = text(env, "CM_GENERIC_PYTHON_PACKAGE_NAME")
    python = text(env, "CM_PYTHON_BIN_WITH_PATH")
    if not name:
        problem, hint = "no Python package is named", NAME_IT
    elif not NAME.fullmatch(name):
        problem, hint = f'"{name}" is not the name of a Python package', BOUNDS_APART
    elif not python:
        problem, hint = "_custom-python needs the path of a Python", GIVE_PYTHON
    else:
        bounds = text(env, "CM_TMP_PIP_VERSION_STRING")
        force = is_yes(env.get("CM_TMP_PYTHON_PACKAGE_FORCE_INSTALL"))
        return RequestedPackage(name, bounds, text(env, "CM_GENERIC_PYTHON_PIP_URL"), python, force)
    raise Error("bad-value", problem, hint=hint)


def text(env: dict[str, Any], key: str) -> str:
    return str(env.get(key, "")).strip()


def why_install(wanted: RequestedPackage, present: pythons.Distribution | None) -> str:
    """Return why something has to be installed; empty when the present version fits."""
    if present is None:
        return "not there yet"
    if wanted.force:
        return f"{present.version} is there, a new install was asked for"
    if not satisfies_pip(present.version, wanted.bounds):
        base = folder_of_base(wanted, present)
        where = f"there ({base})" if base else "there"
        return f"{present.version} is {where}, {wanted.bounds} is wanted"
    built_for = other_build(wanted.python, wanted.name)
    if built_for:
        return f"{present.version} is there, built for {built_for}"
    # Only pip knows whether the packages of an extra are installed.
    return f"{present.version} is there, its extras are looked at" if "[" in wanted.name else ""


def other_build(python: str, name: str) -> str:
    """Return what a package was built for, and what there is; empty where both are the same."""
    partner = BUILT_FOR.get(pythons.normal_name(name))
    present = pythons.installed(python, name) if partner else None
    under = pythons.installed(python, partner) if present and partner else None
    bounds = present.bounds_of(under.name) if present and under else ""
    if under is None or satisfies_pip(under.version, bounds):
        return ""
    return f"{under.name}{bounds}, and {under.name} is {under.version}"


def install(
    i: dict[str, Any], wanted: RequestedPackage, present: pythons.Distribution | None
) -> None:
    env = i["env"]
    python = installable(wanted)
    require_source(env, wanted)
    refuse(i)
    arguments = os.path.join(env["CM_TMP_RUN_DIR"], "pip-arguments.txt")
    log = os.path.join(env["CM_TMP_RUN_DIR"], "pip.log")
    with open(arguments, "w", encoding="utf-8") as out:
        words = [*pip_arguments(env, wanted, present, python), *constraints(env, wanted, python)]
        out.write("\n".join(words) + "\n")
    env["CM_TMP_PIP_ARGUMENTS"] = arguments
    env["CM_TMP_PIP_LOG"] = log
    env["CM_TMP_PIP_UNSET"] = ELSEWHERE if python.virtual else ""
    try:
        run_program(i, "install")
        os.unlink(log)
    except Error as error:
        raise pip_failed(wanted, python, log, package_folders(env)) from error
    finally:
        # An index URL may hold a password.
        os.unlink(arguments)
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(env["CM_TMP_RUN_DIR"], CONSTRAINTS))


def installable(wanted: RequestedPackage) -> pythons.Python:
    """The Python to install for; raises Error where pip must not or cannot do it."""
    python, problem = pythons.describe(wanted.python)
    if python is None:
        raise Error(
            "not-detected",
            f"{wanted.python} {problem}",
            hint='choose another one:\n`cm run script "get python3" --path=/folder`',
        )
    # PIP_BREAK_SYSTEM_PACKAGES is pip's own way to say that a user knows what this means.
    allowed = python.virtual or is_yes(os.environ.get("PIP_BREAK_SYSTEM_PACKAGES"))
    if python.externally_managed and not allowed:
        raise Error(
            "externally-managed",
            f"{python.path} belongs to the system, which does not allow pip to install "
            f"{wanted.name} there",
            hint=MAKE_ENVIRONMENT,
        )
    if not python.has_pip:
        problem = f"{python.path} has no pip, and {wanted.name} has to be installed"
        raise Error("pip-missing", problem, hint=MAKE_ENVIRONMENT)
    return python


def package_folders(env: dict[str, Any]) -> list[str]:
    """Return the folders of package files that pip looks into."""
    named = (text(env, PIP_ADDRESSES["--find-links"]), text(env, "CM_TMP_PACKAGE_FILES"))
    return [path for path in named if path.startswith("/")]


def require_source(env: dict[str, Any], wanted: RequestedPackage) -> None:
    """Raise Error where pip would need the network and must not use it, or a folder is missing."""
    for folder in package_folders(env):
        if not os.path.exists(folder):
            raise Error(
                "bad-value",
                f"--find_links={folder}: there is no such folder",
                hint="name the folder that holds the package files (*.whl)",
            )
    links = text(env, PIP_ADDRESSES["--find-links"])
    places = (wanted.url, links, text(env, "CM_TMP_PACKAGE_FILES"))
    local = any(place.startswith(("/", "file:")) for place in places)
    if is_yes(env.get("CM_TMP_OFFLINE")) and not local:
        raise Error(
            "offline",
            f"{wanted.name}{wanted.bounds} is not installed, and the network is turned off",
            hint="run this once with a network (without --offline), or give a folder of package "
            "files: --find_links=/folder",
        )


def pip_arguments(
    env: dict[str, Any],
    wanted: RequestedPackage,
    present: pythons.Distribution | None,
    python: pythons.Python,
) -> list[str]:
    """The words after `pip install`."""
    extra = shlex.split(str(env.get("CM_GENERIC_PYTHON_PIP_EXTRA", "")))
    words = [*(NOT_ELSEWHERE if python.virtual else ()), *extra]
    if python.virtual:
        # Python compiles modules on import, a small part of them: scikit-learn installs in half
        # the time. A Python of the system may have users who cannot write to it later.
        words.append("--no-compile")
    if is_yes(env.get("CM_TMP_OFFLINE")):
        words.append("--no-index")
    if is_yes(env.get("CM_GENERIC_PYTHON_DEV_VERSION")):
        words.append("--pre")
    if wanted.force and present is not None:
        words += ["--upgrade", "--force-reinstall", "--no-deps"]
    elif env.get("CM_GENERIC_PYTHON_PACKAGE_INSTALL_DEPS") == "no":
        words.append("--no-deps")
    for option, key in PIP_ADDRESSES.items():
        words += [option, text(env, key)] if text(env, key) else []
    return [*words, wanted.url or wanted.name + wanted.bounds]


def constraints(env: dict[str, Any], wanted: RequestedPackage, python: pythons.Python) -> list[str]:
    """Return the options by which pip replaces nothing that a layer has from its base.

    Only the requested package itself may be installed over that of the base: what follows from it
    must fit the rest, which was built and tried together. So must it fit what a driver needs.
    """
    free, own = [wanted.name], python.prefix
    pinned = pythons.pins(python.path, free, own, FIXED) if python.virtual else []
    if not pinned:
        return []
    path = os.path.join(env["CM_TMP_RUN_DIR"], CONSTRAINTS)
    with open(path, "w", encoding="utf-8") as out:
        out.write("\n".join(pinned) + "\n")
    return ["--constraint", path]


def pip_failed(
    wanted: RequestedPackage, python: pythons.Python, log: str, folders: Sequence[str] = ()
) -> Error:
    said = read_or_empty(log)
    known = {
        "name": wanted.name,
        "version": python.version,
        "python": python.path,
        "prefix": python.prefix,
        "temporary": tempfile.gettempdir(),
    }
    hint = remedy(said).strip().format(**known)
    unfit = files_of(wanted.name, folders)
    if unfit and hint.startswith(f"there is no {wanted.name} "):
        hint = (
            f"{', '.join(unfit[:3])} of {folders[0]} is for another Python or machine: add a file "
            f"for Python {python.version}, or use the Python that it is for: --python=PATH"
        )
    return Error(
        "pip-failed",
        f"pip could not install {wanted.name}{wanted.bounds} for Python {python.version}",
        hint=hint or f"the whole output of pip: {log}",
        context=last_words(said),
        doing=f"{python.path} -m pip install",
        exit_code=2,
    )


def files_of(name: str, folders: Sequence[str]) -> list[str]:
    """Return the names of the wheels of a package in these folders."""
    begin = re.sub(r"[-_.]+", "_", name).lower() + "-"
    files = [file for folder in folders if os.path.isdir(folder) for file in os.listdir(folder)]
    return sorted(f for f in files if f.endswith(".whl") and f.lower().startswith(begin))


def remedy(said: str) -> str:
    """What to do about the first known cause in pip's output; empty when there is none."""
    import yaml

    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pip-remedies.yaml")
    with open(path, encoding="utf-8") as stream:
        known = yaml.safe_load(stream)
    return next((item["remedy"] for item in known if re.search(item["match"], said)), "")


def last_words(said: str) -> list[str]:
    """The cause and the last lines that pip wrote; long lists of versions are cut."""
    lines = [line.rstrip() for line in said.splitlines() if not NOISE.match(line)]
    shown = explained(lines, LAST_LINES)
    return [LONG_LIST.sub(r"(from versions: ...\1)", line) for line in shown]


def proven(wanted: RequestedPackage) -> pythons.Distribution:
    """Return the installed package; raise Error unless it is the requested one."""
    distribution = pythons.installed(wanted.python, wanted.name)
    if distribution is None or not (
        wanted.url or satisfies_pip(distribution.version, wanted.bounds)
    ):
        state = f"{distribution.version} is there" if distribution else "it is missing"
        raise Error(
            "install-failed",
            f"pip reported success for {wanted.name}{wanted.bounds}, but {state}",
            hint=f"see what pip reports: `{wanted.python} -m pip show {wanted.name}`",
        )
    return distribution


def prove_import(wanted: RequestedPackage, present: pythons.Distribution) -> None:
    """Import the package in its Python; raises Error, with what helps, when that fails."""
    module = pythons.import_name(present)
    failed = pythons.import_problem(wanted.python, module) if module else None
    if failed is None:
        return
    library = re.search(r"ImportError: (lib\S+?): cannot open shared object", failed.output)
    known = causes.find_cause("\n".join(first_cause(failed.output.splitlines())))
    hint = "install it again with --force_install, or another version with --version"
    if known and known.name in BUILDS:
        hint = str(known)
    elif library:
        hint = f"it needs {library[1]} of the system: install the package that has it"
    elif re.search(r"GLIBC(XX)?_\S+ not found", failed.output):
        hint = "it was built for a newer system: choose an older version with --version_max"
    elif failed.timed_out:
        hint = "the machine or the disk is busy: run the same command again when it is not"
    raise Error(
        "import-failed",
        f"{present.name} {present.version} is installed, but cannot be imported ({module})",
        hint=hint,
        context=failed.tail(LAST_LINES) or (failed.problem,),
        doing=f"{wanted.python} -c 'import {module}'",
    )


def export(env: dict[str, Any], wanted: RequestedPackage, present: pythons.Distribution) -> None:
    bare = pythons.bare_name(wanted.name)
    key = re.sub(r"[^A-Z0-9]", "_", bare.upper())
    env[f"CM_PYTHONLIB_{key}_VERSION"] = present.version
    env[f"CM_PYTHONLIB_{key}_CACHE_TAGS"] = f"version-{present.version}"
    env[f"CM_{key}_VERSION"] = present.version
    env["CM_TMP_PYTHON_PACKAGE_VERSION_KEY"] = f"CM_{key}_VERSION"
