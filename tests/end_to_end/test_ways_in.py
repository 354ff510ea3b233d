"""Every way to get cmbench, each with an empty home and nothing installed beforehand."""

from __future__ import annotations

import os
import shlex
import sys
from importlib import metadata
from pathlib import Path

import pytest

from support import Home, copy_checkout, run

pytestmark = [pytest.mark.slow, pytest.mark.needs_index]


@pytest.fixture(scope="session")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of this checkout: what is built or registered leaves no trace in the real one."""
    return copy_checkout(tmp_path_factory.mktemp("sources") / "cmbench")


@pytest.fixture(scope="session")
def cmind_only(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of commands of an environment with nothing but cmind and what cmind needs."""
    return new_environment(tmp_path_factory.mktemp("cmind-only"), "cmind>=4.2,<5")


@pytest.fixture(scope="session")
def cmbench_installed(tmp_path_factory: pytest.TempPathFactory, sources: Path) -> Path:
    """The folder of commands of an environment with `pip install <checkout>` in it."""
    return new_environment(tmp_path_factory.mktemp("installed"), str(sources))


def new_environment(path: Path, requirement: str) -> Path:
    """Make a virtual environment, install one requirement; the folder of its commands."""
    run([sys.executable, "-m", "venv", "--without-pip", str(path)]).ok()
    run([*pip_install(path), requirement], timeout=600).ok()
    return path / "bin"


def pip_install(environment: Path) -> list[str]:
    """The pip of this interpreter serves the other: that is twice as fast as a pip of its own."""
    # Most modules are never imported: those that are, are compiled then.
    flags = ["--quiet", "--no-compile"]
    return [sys.executable, "-m", "pip", "--python", str(environment), "install", *flags]


def assert_usable(home: Home) -> None:
    """A script runs and tells its facts, and the cache of the new home is there and empty."""
    detected = home.cm("run", "script", "--tags=detect,os", "--out=json").ok().json
    assert detected["return"] == 0
    assert detected["new_env"]["CM_HOST_OS_TYPE"] == "linux"
    home.cm("show", "cache").ok()
    assert home.cm("show", "cache", "--out=json").ok().json["return"] == 0


def test_pip_install(tmp_path: Path, cmbench_installed: Path) -> None:
    home = Home(tmp_path, cmbench_installed, installed_repositories=True)
    assert_usable(home)
    found = home.cm("find", "repo", "cmbench").ok().stdout
    assert "site-packages/cmbench/repo" in found


def test_the_crowd_server_comes_with_its_extra_only(
    tmp_path: Path, cmbench_installed: Path, sources: Path
) -> None:
    home = Home(tmp_path, cmbench_installed, installed_repositories=True)
    (site,) = cmbench_installed.parent.glob("lib/python*/site-packages")
    assert "cmbench_crowd" in {path.name for path in site.iterdir()}
    assert not list(site.rglob("*crowd_server*"))
    refused = home.cm("serve", "results")
    assert "[extra-missing]" in refused.stderr
    command = f"{cmbench_installed}/python -m pip install {shlex.quote(f'{sources}[crowd-server]')}"
    assert command in refused.stderr.replace("\n          ", " ")
    # What the extra adds for the server's dependencies is not asked for: they are large.
    with_server = [*pip_install(cmbench_installed.parent), "--no-deps"]
    (requirement,) = crowd_server_requirements(site)
    run([*with_server, requirement], timeout=600).ok()
    assert "[extra-missing]" not in home.cm("serve", "results", "--address=10.0.0.1").stderr
    shipped = {path.name for path in (site / "cmbench_crowd_server").iterdir()}
    assert {"verbs.py", "templates"} <= shipped
    assert "pyproject.toml" not in shipped
    python = str(cmbench_installed / "python")
    uninstall = ["uninstall", "--quiet", "--yes", "cmbench-crowd-server"]
    run([sys.executable, "-m", "pip", "--python", python, *uninstall]).ok()


def crowd_server_requirements(site: Path) -> list[str]:
    """The requirements that the extra adds to an installation."""
    (facts,) = site.glob("cmbench-*.dist-info")
    needed = metadata.Distribution.at(facts).requires or ()
    return [text.partition(";")[0] for text in needed if 'extra == "crowd-server"' in text]


def test_pip_install_brings_scripts_without_leftovers(cmbench_installed: Path) -> None:
    (repository,) = cmbench_installed.parent.glob("lib/python*/site-packages/cmbench/repo")
    names = {path.name for path in repository.rglob("*")}
    assert {"cmr.yaml", "detect-os", "meta.yaml", "customize.py"} <= names
    assert "tests" not in names
    # A pulled repository is marked as one that git updates; an installed one must not be.
    assert "git:" not in (repository / "cmr.yaml").read_text(encoding="utf-8")


def test_checkout_registered_with_cm_init(tmp_path: Path, cmind_only: Path, sources: Path) -> None:
    home = Home(tmp_path, cmind_only, installed_repositories=True)
    home.cm("init", "repo", cwd=sources).ok()
    assert_usable(home)


def test_clone_made_by_cm_pull(tmp_path: Path, cmind_only: Path, sources: Path) -> None:
    home = Home(tmp_path, cmind_only, installed_repositories=True)
    origin = copy_checkout(tmp_path / "origin" / "cmbench")
    commit_everything(origin)
    home.cm("pull", "repo", f"--url=file://{origin}").ok()
    assert list((home.cm_repos / "repos").glob("*@cmbench/cmr.yaml"))
    assert_usable(home)


def commit_everything(path: Path) -> None:
    git = ["git", "-c", "user.name=Test", "-c", "user.email=test@example.invalid"]
    env = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    for words in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "-m", "all of it"]):
        run([*git, *words], cwd=path, env=env).ok()


def test_unknown_verb_is_answered_once(home: Home) -> None:
    done = home.cm("paln", "script")
    assert done.status == 4
    assert done.stderr.count("paln") == 1
    assert 'did you mean "plan"?' in done.stderr
    assert "CM error" not in done.stderr


def test_help_is_ours_alone(home: Home) -> None:
    done = home.cm("run", "script", "--tags=detect,os", "--help").ok()
    assert "Python API" not in done.stdout
    assert "detect-os" in done.stdout
    assert "--quiet" in done.stdout
    listed = home.cm("help", "script").ok().stdout
    assert "cm plan script" in listed
    of_one = home.cm("run", "script", "-h").ok().stdout
    assert "--version_min" in of_one
    assert "cm lint script" not in of_one


def test_failure_is_reported_once_and_keeps_its_status(home: Home) -> None:
    done = home.cm("run", "script", "--tags=no,such,script")
    assert done.status == 16
    assert "error [script-not-found]" in done.stderr
    assert "CM error" not in done.stderr
    as_json = home.cm("run", "script", "--tags=no,such,script", "--out=json")
    assert as_json.status == 16
    assert as_json.json["return"] == 16
