"""Flags that only other collections' scripts of the same tags have: ignored, refused, handed on."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from lab import Lab

FOREIGN = {
    "pip_x": {"ignored": "it is installed anyway"},
    "power": {"refused": "power is not measured here", "instead": "measure it outside"},
    "sut": {"refused": "there are no such settings"},
}


@pytest.fixture
def app(lab: Lab) -> Lab:
    lab.script(
        "run-app",
        foreign_flags=FOREIGN,
        input_mapping={"model": "MODEL"},
        input_description={"model": {"desc": "what", "type": "str", "choices": ["one", "two"]}},
        env={"WHOSE": "ours"},
        new_env_keys=["WHOSE", "MODEL"],
    )
    return lab


@pytest.fixture
def both(app: Lab, tmp_path: Path) -> Lab:
    """The same with another collection behind it, which has a script of these tags too."""
    other = tmp_path / "other"
    folder = other / "script" / "run-app"
    shutil.copytree(app.repo / "script" / "run-app", folder)
    meta = json.loads((folder / "meta.yaml").read_text())
    meta |= {"uid": "00000000000000aa", "env": {"WHOSE": "theirs"}, "foreign_flags": {}}
    meta["input_mapping"] |= {"power": "POWER", "docker": "DOCKER", "size": "SIZE"}
    meta["input_description"] = {"model": {"choices": ["two", "three"]}}
    (folder / "meta.yaml").rename(folder / "_cm.yaml")
    (folder / "_cm.yaml").write_text(json.dumps(meta))
    app.others.append(other)
    return app


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"pip_x": "yes"}, "note: --pip_x has no effect: it is installed anyway"),
        ({"pip_x": True}, "note: --pip_x has no effect"),
        ({"pip_x": "no"}, ""),
        ({"power": "no"}, ""),
        ({"power": False, "sut": ""}, ""),
        ({"time": True}, "note: --time has no effect: the result says"),
        ({"repro": True}, "note: --repro has no effect"),
        ({"print_env": True, "dump_version_info": True}, "the record of the run has the env"),
        ({"docker": "no"}, ""),
    ],
)
def test_flags_without_effect_are_said(app: Lab, flags: dict[str, Any], said: str) -> None:
    result = app.run("run,app", **flags)
    assert result.env["WHOSE"] == "ours"
    assert (said in result.err) if said else "note" not in result.err


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"power": "yes"}, ("--power is not possible for run-app: power is not", "measure it")),
        ({"sut": "x"}, ("there are no such settings", "leave out --sut")),
        ({"nonsense": "1"}, ("knows no flag --nonsense", "--help")),
    ],
)
def test_what_cannot_be_is_refused_with_a_remedy(
    app: Lab, flags: dict[str, Any], said: tuple[str, str]
) -> None:
    for verb in ("run", "plan"):
        result = app.call(verb, tags="run,app", **flags)
        assert result.answer["return"]
        assert all(text in result.err for text in said), result.err


@pytest.mark.parametrize(
    ("flags", "whose"),
    [
        ({}, "ours"),
        ({"model": "two"}, "ours"),
        ({"pip_x": "yes"}, "ours"),
        ({"power": "no"}, "ours"),
        ({"power": "yes"}, "theirs"),
        ({"size": "3", "quiet": True}, "theirs"),
        ({"model": "three"}, "theirs"),
        ({"model": "three", "size": "3", "env": {"A": "1"}}, "theirs"),
        ({"model": "one", "size": "3"}, "theirs"),
    ],
)
def test_what_only_the_other_script_takes_is_run_by_it(
    both: Lab, flags: dict[str, Any], whose: str
) -> None:
    result = both.run("run,app", **flags)
    assert result.env["WHOSE"] == whose
    assert ("the script of other runs in its place" in result.err) == (whose == "theirs")


@pytest.mark.parametrize(
    "flags", [{"model": "four"}, {"sise": "3"}, {"model": "four", "size": "3"}]
)
def test_what_neither_takes_is_refused_by_ours(both: Lab, flags: dict[str, Any]) -> None:
    result = both.run("run,app", **flags)
    assert result.answer["return"]
    assert "run-app" in result.err
    assert "in its place" not in result.err


@pytest.mark.parametrize("value", [True, "yes"])
def test_docker_asks_for_a_container(
    app: Lab, value: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """There is no engine here; what is said is what ``cm docker script`` says."""
    for name in ("bash", "git", "python3"):
        (tmp_path / name).symlink_to(str(shutil.which(name)))
    monkeypatch.setenv("PATH", str(tmp_path))
    result = app.run("run,app", docker=value, docker_it=True, model="two")
    assert result.answer["code"] == "no-engine", result.err
    assert result.answer == app.call("docker", tags="run,app", docker_it=True, model="two").answer
    refused = app.run("run,app", docker=value, docker_mlc_repo="me@mine")
    assert "the repositories that are registered here are mounted" in refused.err
    assert os.environ["PATH"] == str(tmp_path)


def test_a_script_of_others_gets_its_docker_flag(both: Lab) -> None:
    folder = both.repo / "script" / "run-app"
    shutil.rmtree(folder)
    assert both.run("run,app", docker="yes").env["WHOSE"] == "theirs"
