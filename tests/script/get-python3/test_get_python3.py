"""get-python3: which interpreter is chosen, why, and what is never run."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cmbench.errors import Error
from steps import Step, fake_python, tool

CM = Callable[..., Any]


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Sets PATH to folders of the test, named by their last parts."""

    def path(*names: str) -> None:
        folders = [name if name.startswith(("/", ".")) else str(tmp_path / name) for name in names]
        monkeypatch.setenv("PATH", os.pathsep.join(folders))

    return path


def find(tmp_path: Path, variations: tuple[str, ...] = (), **env: str) -> tuple[Step, Any]:
    step = Step("get-python3", tmp_path / "entry", dict(env), variations)
    return step, step.call("preprocess")


def refusal(tmp_path: Path, **env: str) -> Error:
    with pytest.raises(Error) as caught:
        find(tmp_path, **env)
    return caught.value


def test_the_first_along_path_is_taken(
    tmp_path: Path, path: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    first = fake_python(tmp_path / "a/python3", "3.11.7")
    later = fake_python(tmp_path / "b/python3", "3.12.1")
    path("a", "b")
    step, answer = find(tmp_path)
    assert answer["version"] == "3.11.7"
    assert answer["relies_on"] == [str(first)]
    assert answer["add_extra_cache_tags"] == ["version-3.11.7", "non-virtual"]
    assert step.env["CM_PYTHON_BIN_WITH_PATH"] == str(first)
    assert step.env["CM_PYTHON_BIN"] == "python3"
    assert step.env["CM_PYTHON_BIN_PATH"] == str(tmp_path / "a")
    assert step.env["CM_PYTHON_CACHE_TAGS"] == "version-3.11.7,non-virtual"
    numbers = [step.env[f"CM_PYTHON_{n}_VERSION"] for n in ("MAJOR", "MINOR", "PATCH")]
    assert numbers == ["3", "11", "7"]
    assert "+PATH" not in step.env
    assert capsys.readouterr().out == (
        f"{first}: 3.11.7, chosen\nnot checked, because the one above fits:\n  {later}\n"
    )


@pytest.mark.parametrize(
    ("bounds", "chosen"),
    [
        ({}, "3.11.7"),
        ({"CM_VERSION": "3.12"}, "3.12.1"),
        ({"CM_VERSION": "3.12.1"}, "3.12.1"),
        ({"CM_VERSION_MIN": "3.12"}, "3.13.0"),
        ({"CM_VERSION_MIN": "3.12", "CM_VERSION_MAX": "3.12.9"}, "3.12.1"),
        ({"CM_VERSION_MAX": "3.10.99"}, "3.9.2"),
    ],
)
def test_versions(
    tmp_path: Path, path: Callable[..., None], bounds: dict[str, str], chosen: str
) -> None:
    fake_python(tmp_path / "a/python3", "3.11.7")
    fake_python(tmp_path / "a/python3.12", "3.12.1")
    fake_python(tmp_path / "b/python3.13", "3.13.0")
    fake_python(tmp_path / "b/python3.9", "3.9.2")
    path("a", "b")
    assert find(tmp_path, **bounds)[1]["version"] == chosen


def test_a_name_that_cannot_fit_is_not_run(tmp_path: Path, path: Callable[..., None]) -> None:
    for name in ("python3.8", "python3.13"):
        tool(tmp_path / "a" / name, f"touch {tmp_path}/ran-{name}")
    path("a")
    error = refusal(tmp_path, CM_VERSION="3.11")
    assert error.context == (
        f"{tmp_path}/a/python3.13: by its name a 3.13",
        f"{tmp_path}/a/python3.8: by its name a 3.8",
    )
    assert not list(tmp_path.glob("ran*"))


def test_nothing_fits(tmp_path: Path, path: Callable[..., None]) -> None:
    fake_python(tmp_path / "a/python3", "3.8.1")
    tool(tmp_path / "b/python3", "echo 'Unknown option: -I' >&2; exit 2")
    tool(tmp_path / "c/python3", "echo '{'")
    (tmp_path / "d").mkdir()
    (tmp_path / "d/python3").symlink_to("/nowhere")
    path("a", "b", "c", "d", "missing")
    error = refusal(tmp_path, CM_VERSION_MIN="3.10")
    assert error.exit_code == 16
    # Where the lines break depends on the length of the path.
    assert " ".join(error.render().split()) == (
        "error [not-detected]: no Python 3 that fits was found (at least 3.10) "
        f"cause: {tmp_path}/a/python3: 3.8.1 is below the minimum 3.10 "
        f"{tmp_path}/b/python3: does not run as Python 3: Unknown option: -I "
        f"{tmp_path}/c/python3: does not run as Python 3: {{ "
        "next: install one, as with: pyenv install 3.10, or: uv python install 3.10; "
        "or name the folder it is in: "
        'cm run script "get python3" --path=/folder/with/python3'
    )


def test_no_python_at_all(tmp_path: Path, path: Callable[..., None]) -> None:
    path("empty")
    assert refusal(tmp_path).context == ("there is no python3 in any folder of PATH",)


def test_the_current_directory_is_never_searched(
    tmp_path: Path, path: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    tool(tmp_path / "entry/python3", f"touch {tmp_path}/ran")
    tool(tmp_path / "entry/bin/python3", f"touch {tmp_path}/ran")
    good = fake_python(tmp_path / "good/python3", "3.11.7")
    monkeypatch.setenv("PATH", f".::bin:./bin:{tmp_path}/good")
    step, _ = find(tmp_path)
    assert step.env["CM_PYTHON_BIN_WITH_PATH"] == str(good)
    assert not (tmp_path / "ran").exists()


def test_modules_of_the_current_directory_are_not_imported(tmp_path: Path) -> None:
    (tmp_path / "entry").mkdir()
    for name in ("json", "sysconfig", "platform", "struct"):
        (tmp_path / f"entry/{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    find(tmp_path, CM_PYTHON_BIN_WITH_PATH=sys.executable)
    assert not (tmp_path / "ran").exists()


def test_a_launcher_is_replaced_by_what_it_leads_to(
    tmp_path: Path, path: Callable[..., None]
) -> None:
    real = fake_python(tmp_path / "versions/3.12/bin/python3", "3.12.1")
    tool(tmp_path / "shims/python3", f'exec {real} "$@"')
    path("shims")
    step, answer = find(tmp_path)
    assert step.env["CM_PYTHON_BIN_WITH_PATH"] == str(real)
    assert answer["relies_on"] == [str(real)]
    assert step.env["+PATH"] == [str(real.parent)]


def test_the_same_python_is_listed_once(tmp_path: Path, path: Callable[..., None]) -> None:
    fake_python(tmp_path / "a/python3", "3.8.1")
    for name in ("python", "python3.8"):
        (tmp_path / "a" / name).symlink_to("python3")
    (tmp_path / "b").symlink_to("a")
    path("a", "b")
    assert len(refusal(tmp_path, CM_VERSION_MIN="3.9").context) == 1


def test_an_environment_goes_first_on_path(tmp_path: Path, path: Callable[..., None]) -> None:
    (tmp_path / "venv").mkdir()
    (tmp_path / "venv/pyvenv.cfg").touch()
    python = fake_python(tmp_path / "venv/bin/python3", "3.11.7", virtual=True)
    path("venv/bin")
    step, answer = find(tmp_path)
    assert answer["add_extra_cache_tags"] == ["version-3.11.7", "virtual"]
    assert answer["relies_on"] == [str(python), str(tmp_path / "venv/pyvenv.cfg")]
    assert step.env["CM_PYTHON_VIRTUAL"] == "yes"
    assert step.env["+PATH"] == [str(python.parent)]


@pytest.mark.parametrize("given", ["o", "o/python3", "missing-first:o"])
def test_a_path_decides_alone(tmp_path: Path, path: Callable[..., None], given: str) -> None:
    fake_python(tmp_path / "a/python3", "3.11.7")
    chosen = fake_python(tmp_path / "o/python3", "3.10.2")
    (tmp_path / "missing-first").mkdir()
    path("a")
    places = os.pathsep.join(str(tmp_path / part) for part in given.split(":"))
    step, _ = find(
        tmp_path, CM_TMP_PATH=places, CM_PYTHON_BIN_WITH_PATH=str(tmp_path / "a/python3")
    )
    assert step.env["CM_PYTHON_BIN_WITH_PATH"] == str(chosen)
    assert step.env["+PATH"] == [str(chosen.parent)]
    assert refusal(tmp_path, CM_TMP_PATH=places, CM_VERSION="3.11").code == "not-detected"


def test_what_an_earlier_step_chose_is_kept(tmp_path: Path, path: Callable[..., None]) -> None:
    fake_python(tmp_path / "a/python3", "3.11.7")
    given = fake_python(tmp_path / "b/python3.10", "3.10.2")
    path("a")
    step, _ = find(tmp_path, CM_PYTHON_BIN_WITH_PATH=str(given))
    assert step.env["CM_PYTHON_BIN_WITH_PATH"] == str(given)
    error = refusal(tmp_path, CM_PYTHON_BIN_WITH_PATH=str(given), CM_VERSION_MIN="3.11")
    assert error.context == (f"{given}: 3.10.2 is below the minimum 3.11",)
    error = refusal(tmp_path, CM_PYTHON_BIN_WITH_PATH=str(tmp_path / "gone"))
    assert "gone: does not run as Python 3" in error.context[0]


@pytest.mark.parametrize("given", ["bin", "./python3"])
def test_relative_paths_are_refused(tmp_path: Path, given: str) -> None:
    error = refusal(tmp_path, CM_TMP_PATH=given)
    assert error.code == "bad-value"
    assert error.hint == f"give the whole path: --path=$PWD/{given}"
    assert refusal(tmp_path, CM_TMP_PATH=f"{tmp_path}/nowhere").message == (
        f"--path: {tmp_path}/nowhere does not exist"
    )


def test_a_name_that_is_not_registered(tmp_path: Path, path: Callable[..., None]) -> None:
    python = fake_python(tmp_path / "a/python3", "3.11.7")
    path("a")
    error = refusal(tmp_path, CM_NAME="mlperf", CM_PYTHON_BIN_WITH_PATH=str(python))
    assert error.message == 'no Python is registered under the name "mlperf"'
    assert error.hint == (
        'make an environment of that name:\ncm run script "install python-venv" --name=mlperf'
    )
    error = refusal(tmp_path, CM_NAME="x", CM_VERSION="3.10")
    assert error.message == 'no Python of version 3.10 is registered under the name "x"'
    assert error.hint.endswith("--name=x --version=3.10")
    # A path, a variation or the installer of environments may register a new name.
    find(tmp_path, CM_NAME="x", CM_TMP_PATH=str(tmp_path / "a"))
    find(
        tmp_path, ("custom-path." + str(python),), CM_NAME="x", CM_PYTHON_BIN_WITH_PATH=str(python)
    )
    find(
        tmp_path, CM_NAME="x", CM_EXTRA_CACHE_TAGS="virtual,y", CM_PYTHON_BIN_WITH_PATH=str(python)
    )


def test_the_real_python_of_these_tests(tmp_path: Path) -> None:
    step, answer = find(tmp_path, CM_PYTHON_BIN_WITH_PATH=sys.executable)
    assert answer["version"] == ".".join(map(str, sys.version_info[:3]))
    assert step.env["CM_PYTHON_BIN_WITH_PATH"] == sys.executable
    assert step.env["CM_PYTHON_IMPLEMENTATION"] == "CPython"
    assert step.env["CM_PYTHON_CAN_MAKE_VENV"] in ("yes", "no")


# ---------------------------------------------------------------- through the engine


def run(cm: CM, *words: str, **options: Any) -> dict[str, Any]:
    result: dict[str, Any] = cm("run", "script", *words, "--out=json", **options).json
    return result


def test_it_is_cached_until_something_that_matters_changes(home: Any, tmp_path: Path) -> None:
    python = fake_python(tmp_path / "bin/python3", "3.11.7")
    home.extra_env["PATH"] = f"{tmp_path}/bin:{home.bin}:/usr/bin:/bin"
    first = run(home.cm, "get python3")
    assert (first["cached"], first["version"]) == (False, "3.11.7")
    assert first["new_env"]["CM_PYTHON_BIN_WITH_PATH"] == str(python)
    assert run(home.cm, "--tags=get,python3")["cached"]
    fake_python(tmp_path / "bin/python3", "3.11.10")
    changed = run(home.cm, "get python3")
    assert (changed["cached"], changed["version"]) == (False, "3.11.10")
    newer = fake_python(tmp_path / "newer/python3", "3.12.1")
    home.extra_env["PATH"] = f"{tmp_path}/newer:" + home.extra_env["PATH"]
    assert run(home.cm, "get python3")["new_env"]["CM_PYTHON_BIN_WITH_PATH"] == str(newer)
    assert run(home.cm, "get python3", "--version=3.11")["version"] == "3.11.10"
    assert run(home.cm, "get python3", f"--path={tmp_path}/bin")["version"] == "3.11.10"


def test_a_custom_path_and_a_name(home: Any, tmp_path: Path) -> None:
    python = fake_python(tmp_path / "own/python3", "3.10.4")
    tags = f"--tags=get,python3,_custom-path.{python}"
    assert run(home.cm, tags)["new_env"]["CM_PYTHON_BIN_WITH_PATH"] == str(python)
    missing = run(home.cm, "get python3", "--name=own")
    assert (missing["return"], missing["code"]) == (16, "not-detected")
    run(home.cm, "get python3", "--name=own", f"--path={python.parent}")
    found = run(home.cm, "get python3", "--name=own")
    assert found["cached"]
    assert found["new_env"]["CM_PYTHON_BIN_WITH_PATH"] == str(python)


def test_another_path_is_not_answered_by_an_older_name(home: Any, tmp_path: Path) -> None:
    old = fake_python(tmp_path / "old/python3", "3.10.4")
    new = fake_python(tmp_path / "env/bin/python3", "3.11.5")
    run(home.cm, "get python3", "--name=own", f"--path={old}")
    # An environment is named by its own folder too.
    answer = run(home.cm, "get python3", "--name=own", f"--path={tmp_path}/env")
    assert answer["new_env"]["CM_PYTHON_BIN_WITH_PATH"] == str(new)
    answer = run(home.cm, "get python3", "--name=own")
    assert answer["new_env"]["CM_PYTHON_BIN_WITH_PATH"] == str(new)
    assert run(home.cm, "get python3", "--name=own", f"--path={tmp_path}/env")["cached"]
