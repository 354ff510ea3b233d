"""What of cmbench itself a container is given: all that a script imports, however it is installed.

The engine here is a stand-in that runs the command: with the mounts of the container below a folder
of its own, and with a Python that has cmbench from there and the image's libraries, nothing else.
"""

from __future__ import annotations

import ast
import os
import shutil
import sys
from pathlib import Path

import pytest

from cmbench.lib import engine_code
from cmbench_sweep import deployment
from lab import Lab
from support import LIB, ROOT, Finished, Home, run

CM = "import sys; sys.path[1:1] = {paths!r}; from cmind.cli import run; run(sys.argv[1:])"
ENGINE = """#!{python} -IS
import csv, os, sys
from pathlib import Path
words = sys.argv[1:]
if "run" not in words:
    print("9.9.9 [name=seccomp] false")
    sys.exit("inspect" in words)
inside = Path({inside!r})
env = dict(os.environ)
for before, word in zip(words, words[1:]):
    if before == "--mount":
        fields = dict(field.partition("=")[::2] for field in next(csv.reader([word])))
        target = inside / (fields.get("target") or fields["destination"]).lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        # A folder in a folder that is mounted is there with that.
        target.exists() or target.symlink_to(fields.get("source") or fields["src"])
(image,) = [at for at, word in enumerate(words) if word.startswith("localhost/cmbench/")]
assert words[image + 1] == "cm", words
home = inside / "cm/home"
env |= {{"HOME": str(home), "CM_REPOS": str(home / "CM")}}
# As in an image: cmind registers the repository that an installed package brings.
env.pop("CM_CORE_SKIP_INTERNAL_REPOS")
program = {program!r}.format(paths=[{libraries!r}, str(inside / "cm/engine")])
os.execve({python!r}, [{python!r}, "-ISc", program, *words[image + 2:]], env)
"""


def imported_modules() -> list[str]:
    """The modules of cmbench and of lib that hooks import, wherever in their text."""
    found: set[str] = set()
    for path in sorted((ROOT / "script").glob("*/*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module)
            elif isinstance(node, ast.Import):
                found.update(name.name for name in node.names)
    ours = ("cmbench", *(path.name for path in LIB.iterdir()))
    return sorted(name for name in found if name.startswith(ours))


def copy_installed(site: Path) -> Path:
    """Put cmbench to ``site`` as pip does, without the scripts; the repository in it."""
    for package in engine_code.packages():
        shutil.copytree(package, site / package.name, ignore=shutil.ignore_patterns("__pycache__"))
    repository = site / "cmbench" / "repo"
    for path in ROOT.glob("automation/*/_cm.json"):
        shutil.copytree(path.parent, repository / "automation" / path.parent.name)
    shutil.copy(ROOT / "automation/entry.py", repository / "automation")
    shutil.copytree(LIB, repository / "lib", ignore=shutil.ignore_patterns("__pycache__"))
    lines = (ROOT / "cmr.yaml").read_text(encoding="utf-8").splitlines(keepends=True)
    text = "".join(line for line in lines if not line.startswith("git:"))
    (repository / "cmr.yaml").write_text(text, encoding="utf-8")
    return repository


@pytest.fixture(params=["checkout", "installed"])
def cm(request: pytest.FixtureRequest, tmp_path: Path) -> list[str]:
    """The words of a ``cm`` that has cmbench in one of two ways, and a stand-in of podman."""
    libraries = str(deployment.laid_out(deployment.libraries(), tmp_path / "libraries"))
    installed = request.param == "installed"
    repository = copy_installed(tmp_path / "site") if installed else ROOT
    lab = Lab(tmp_path)
    modules = imported_modules()
    assert "cmbench_results.result_sources" in modules, "a script does import more than the engine"
    text = "".join(f"    import {name}\n" for name in modules)
    lab.script(
        "import-all",
        "import,all",
        customize=f"def preprocess(i):\n{text}    print('all is there')\n    return {{}}\n",
    )
    (lab.repo / "cmr.yaml").write_text("alias: lab\nuid: 0123456789abcdef\n", encoding="utf-8")
    Home(tmp_path).register(repository, lab.repo)
    podman = tmp_path / "bin" / "podman"
    podman.parent.mkdir()
    podman.write_text(
        ENGINE.format(
            python=os.path.realpath(sys.executable),
            inside=str(tmp_path / "inside"),
            program=CM,
            libraries=libraries,
        )
    )
    podman.chmod(0o755)
    code = str(tmp_path / "site" if installed else ROOT / "automation")
    return [sys.executable, "-ISc", CM.format(paths=[libraries, code])]


def test_what_scripts_import_is_in_the_container(cm: list[str], tmp_path: Path) -> None:
    home = Home(tmp_path, tmp_path / "bin")
    (tmp_path / "work").mkdir()
    words = [*cm, "docker", "script", "--tags=import,all", "--engine=podman"]
    done: Finished = run(words, cwd=tmp_path / "work", env=home.environment())
    assert "all is there" in done.ok().stdout
    # An installed cmbench brings its repository: it would be there twice.
    repositories = (tmp_path / "inside/cm/home/CM/repos.json").read_text(encoding="utf-8")
    assert str(tmp_path / "repo") in repositories
    assert str(tmp_path / "site") not in repositories
    inside = {path.name for path in (tmp_path / "inside/cm/engine").iterdir()}
    assert inside - {"lib"} == {path.name for path in engine_code.packages()}


def test_other_machines_are_given_the_same() -> None:
    brought = {name.partition("/")[0] for name in deployment.engine().files}
    assert brought == {path.name for path in engine_code.travelling()}
    assert {"cmbench", "cmbench_results", "cmbench_sweep"} <= brought


def test_a_repository_without_git_goes_along_with_all_of_its_code(tmp_path: Path) -> None:
    repository = copy_installed(tmp_path / "site")
    for name in ("cache/a/b", "experiment/a/b", "script/x/__pycache__/c"):
        (repository / name).parent.mkdir(parents=True)
        (repository / name).touch()
    names = {str(Path(name).parent) for name in deployment.repository(str(repository)).files}
    automations = {
        str(path.parent.relative_to(ROOT)) for path in ROOT.glob("automation/*/_cm.json")
    }
    assert {"automation/cache", "automation/experiment"} <= automations
    assert {name for name in names if not name.startswith("lib")} == {
        *automations,
        "automation",
        ".",
    }
    assert "lib/mlperf/harness" in names
