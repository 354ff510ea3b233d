"""Find a Triton server that runs, or put the one of a wheel into an environment of its own."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

from cmbench.errors import Error
from cmbench.lib import pythons
from cmbench.lib.host.packages import install_command
from cmbench.lib.host.system import OsFacts, os_facts
from cmbench.lib.probe import probe
from cmbench.lib.programs import run_program
from cmbench.lib.tools import bounds_of, find_tool, not_found, search_folders
from cmbench.lib.versions import parse
from cmbench.lib.yes_no import is_yes

TOOL = "tritonserver"
# It has no --version: without a repository it prints its version, and ends with status 1.
ASK = ("--model-repository", "/none", "--allow-gpu-metrics", "false")
VERSION = r"server_version\s*\|\s*(\d\S*)"
MACHINES = ("x86_64", "aarch64")
OLDEST_GLIBC = "2.35"
ELSEWHERE = (
    "name a server that is there with --path=/folder, or use one of another machine by --url"
)
# A module that finds the path of a package, without importing it.
FOLDER = "import importlib.util as u; print(u.find_spec('{}').submodule_search_locations[0])"
SITE = "import sysconfig; print(sysconfig.get_path('purelib'))"
LIBRARIES = "import sysconfig; print(sysconfig.get_config_var('LIBDIR') or '')"
LAUNCHER = """#!/bin/sh
# Models find their packages by the first python3 of PATH and by nothing else.
PATH={scripts}:$PATH
LD_LIBRARY_PATH={libraries}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}
export PATH LD_LIBRARY_PATH
unset PYTHONHOME
{alias}exec {server} --backend-directory {tree}/backends --cache-directory {tree}/caches "$@"
"""
# PyTorch's own programs for GPUs are what makes it large; a processor computes without them.
TORCH = "import torch; print(torch.ones(1).numpy().sum(), torch.__version__)"
TORCH_TIMEOUT_S = 180.0
LINK = "torch-of-another-environment.pth"
# The server passes the path of the stub to a shell unquoted: a link without blanks replaces it.
ALIAS, ALIASED = "exec 9< {tree}\n", "/proc/self/fd/9"
PLAIN = re.compile(r"[\w@%+=:,./-]+", re.ASCII)


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Use an installed server; else make the environment for the wheel."""
    env = i["env"]
    source = env.get("CM_TRITON_SERVER_FROM", "")
    if source == "container":
        env["CM_TRITON_SERVER_KIND"] = "container"
        version = env["CM_TRITON_SERVER_IMAGE"].rpartition(":")[2]
        env["CM_TRITON_SERVER_VERSION"] = version
        return {"return": 0, "version": version}
    if source != "wheel":
        search = find_tool(
            TOOL, search_folders(i), bounds_of(env), arguments=ASK, pattern=VERSION, any_status=True
        )
        print("\n".join(search.lines))
        if search.tool is not None:
            return present(env, search.tool.path, search.tool.version)
        if source == "found" or env.get("CM_TMP_PATH"):
            raise not_found(TOOL, search, bounds_of(env))
    make_environment(i)
    return {"return": 0}


def refuse(i: dict[str, Any]) -> dict[str, Any]:
    """Refuse where no server is installed and none can be; called by ``cm plan``."""
    source = i["env"].get("CM_TRITON_SERVER_FROM", "")
    if source not in ("container", "found") and not shutil.which(TOOL):
        require_platform(os_facts())
    return {"return": 0}


def present(env: dict[str, Any], path: str, version: str) -> dict[str, Any]:
    """Export a server that was installed before."""
    env["CM_TRITON_SERVER_KIND"] = "found"
    export(env, path, version)
    return {"return": 0, "version": version, "relies_on": [path]}


def export(env: dict[str, Any], path: str, version: str) -> None:
    env["CM_TRITON_SERVER_BIN_WITH_PATH"] = path
    env["CM_TRITON_SERVER_VERSION"] = version
    env["+PATH"] = [os.path.dirname(path)]


def make_environment(i: dict[str, Any]) -> None:
    """An environment of its own: the server needs a numpy that is older than that of benchmarks.

    Raises Error when the Python cannot make one.
    """
    env = i["env"]
    require_platform(os_facts())
    embeddable(env["CM_PYTHON_BIN_WITH_PATH"], env["CM_PYTHON_VERSION"])
    if env.get("CM_PYTHON_CAN_MAKE_VENV") == "no":
        raise Error(
            "venv-missing",
            f"{env['CM_PYTHON_BIN_WITH_PATH']} cannot make the environment that Triton needs",
            hint="choose another Python with --adr.triton-python.path, or install its venv",
        )
    env["CM_TRITON_SERVER_KIND"] = "wheel"
    folder = os.path.join(os.getcwd(), "environment")
    env["CM_TRITON_SERVER_ENVIRONMENT"] = folder
    run_program(i, "make-environment")
    env["CM_TRITON_SERVER_PYTHON"] = os.path.join(folder, "bin", "python3")
    env["CM_TRITON_SERVER_TORCH_FOLDER"] = ""
    there = pythons.installed(env["CM_PYTHON_BIN_WITH_PATH"], "torch")
    if is_yes(env.get("CM_TRITON_SERVER_TORCH")) and there:
        print(f"PyTorch {there.version} of {env['CM_PYTHON_BIN_WITH_PATH']} is used")
        env["CM_TRITON_SERVER_TORCH_FOLDER"] = str(Path(there.record).parents[1])


def require_platform(facts: OsFacts) -> None:
    """Raise Error where the wheel has no server for this machine."""
    fits = facts.kind == "linux" and facts.machine in MACHINES and facts.glibc
    if fits and parse(facts.glibc) >= parse(OLDEST_GLIBC):
        return
    library = f"glibc {facts.glibc}" if facts.glibc else "no glibc"
    raise Error(
        "not-available",
        f"there is no Triton server to install for {facts.kind} {facts.machine} with {library}",
        context=[f"the wheel is for Linux on {' and '.join(MACHINES)}, glibc {OLDEST_GLIBC} on"],
        hint=ELSEWHERE,
    )


def embeddable(python: str, version: str) -> Path:
    """The library of a Python; Triton's Python backend is a program that has it inside.

    Raises Error when it is missing.
    """
    facts = os_facts()
    name = f"libpython{'.'.join(version.split('.')[:2])}.so.1.0"
    own = probe([python, "-I", "-c", LIBRARIES]).stdout.strip()
    folders = [own or "/usr/lib", *facts.library_folders]
    library = next((Path(folder, name) for folder in folders if Path(folder, name).is_file()), None)
    if library is None:
        package = name.removesuffix(".so.1.0")
        command = install_command(facts.package_manager, [package], as_root=os.geteuid() == 0)
        raise Error(
            "tool-missing",
            f"the library {name} is missing, which Triton needs to run Python {version}",
            hint=f"{f'`{command}`' if command else 'install it'}\n"
            "or choose another Python with --adr.triton-python.version=3.11, of 3.8 to 3.13",
        )
    return library


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Complete the server of the wheel and prove that it starts."""
    env = i["env"]
    if env["CM_TRITON_SERVER_KIND"] != "wheel":
        return {"return": 0}
    python = env["CM_TRITON_SERVER_PYTHON"]
    require_old_numpy(python)
    package = probe([python, "-I", "-c", FOLDER.format("pytriton")]).stdout.strip()
    tree = Path(package, "tritonserver")
    stub = put_stub(tree, env["CM_PYTHON_VERSION"])
    libraries = Path.cwd() / "lib"
    libraries.mkdir(exist_ok=True)
    library = embeddable(env["CM_PYTHON_BIN_WITH_PATH"], env["CM_PYTHON_VERSION"])
    link = libraries / library.name
    link.unlink(missing_ok=True)
    link.symlink_to(library)
    launcher = write_launcher(Path.cwd() / "bin" / TOOL, python, libraries, tree)
    version = prove(launcher, stub, libraries)
    export(env, str(launcher), version)
    relies = [os.path.realpath(python), str(library), *share_torch(env)]
    return {"return": 0, "version": version, "relies_on": relies}


def share_torch(env: dict[str, Any]) -> list[str]:
    """Let models import the PyTorch of another environment, after the packages of their own.

    Returns the file by which a change is noticed; raises Error where it cannot be used.
    """
    if not is_yes(env.get("CM_TRITON_SERVER_TORCH")):
        return []
    python, folder = env["CM_TRITON_SERVER_PYTHON"], env["CM_TRITON_SERVER_TORCH_FOLDER"]
    if folder:
        site = probe([python, "-I", "-c", SITE]).stdout.strip()
        Path(site, LINK).write_text(f"{folder}\n", encoding="utf-8")
    answer = probe([python, "-I", "-c", TORCH], timeout=TORCH_TIMEOUT_S)
    there = pythons.installed(python, "torch")
    if answer.ok and there:
        return [there.record] if folder else []
    raise Error(
        "install-failed",
        f"Triton's models cannot compute with the PyTorch of {folder or python}",
        context=answer.tail(4),
        hint="choose a Python with another PyTorch: --adr.triton-python.path=/bin/python3",
        doing=str(answer.command[0]),
    )


def require_old_numpy(python: str) -> None:
    """Raise Error for a numpy that the server's Python backend was not built for."""
    numpy = pythons.installed(python, "numpy")
    if numpy is None or parse(numpy.version) >= parse("2"):
        there = f"numpy {numpy.version}" if numpy else "no numpy"
        raise Error(
            "install-failed",
            f"the server's environment has {there}; its Python backend needs one below 2",
            hint=f'`{python} -m pip install "numpy<2"`',
        )


def put_stub(tree: Path, version: str) -> Path:
    """Put the program that runs models in this very Python where the server looks for it.

    Raises Error when the server has none for it.
    """
    minor = ".".join(version.split(".")[:2])
    stubs = tree / "python_backend_stubs"
    name = "triton_python_backend_stub"
    if not (stubs / minor / name).is_file():
        known = sorted((stub.name for stub in stubs.glob("3.*")), key=parse) or ["none"]
        raise Error(
            "not-available",
            f"this server cannot run models in Python {minor}; it can in {', '.join(known)}",
            hint=f"choose one of them: --adr.triton-python.version={known[-1]}",
        )
    place = tree / "backends" / "python" / name
    shutil.copy(stubs / minor / name, place)
    place.chmod(0o755)
    return place


def write_launcher(path: Path, python: str, libraries: Path, tree: Path) -> Path:
    """A program ``tritonserver`` that starts the server with all that it needs."""
    place = shlex.quote(str(tree))
    plain = PLAIN.fullmatch(str(tree))
    text = LAUNCHER.format(
        scripts=shlex.quote(os.path.dirname(python)),
        libraries=shlex.quote(str(libraries)),
        server=shlex.quote(f"{tree}/bin/{TOOL}"),
        alias="" if plain else ALIAS.format(tree=place),
        tree=place if plain else ALIASED,
    )
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


def prove(launcher: Path, stub: Path, libraries: Path) -> str:
    """Return the server's version; raise Error where it or the stub cannot start."""
    answer = probe([launcher, *ASK])
    match = re.search(VERSION, answer.output)
    loaded = probe([stub], env={"LD_LIBRARY_PATH": str(libraries)})
    # Without arguments the stub complains about that, once its libraries are there.
    if match and "arguments" in loaded.output:
        return match[1]
    failed = loaded if match else answer
    raise Error(
        "install-failed",
        "Triton is installed, but does not start",
        context=failed.tail(4),
        hint=ELSEWHERE,
        doing=str(failed.command[0]),
    )
