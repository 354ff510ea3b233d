"""The error of a dependency names options of the command that was typed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab import Lab

FAILS = """
from cmbench.errors import Error
def preprocess(i):
    raise Error("not-detected", "no archive", hint={hint!r})
"""
INPUT = {"tar_file": {"desc": "archive", "type": "path"}}


def archive(lab: Lab, hint: str) -> None:
    """A script that fails, and says so in words of its own."""
    lab.script(
        "get-archive",
        customize=FAILS.format(hint=hint),
        input_mapping={"tar_file": "CM_ARCHIVE_FILE"},
        input_description=INPUT,
    )


def fails(lab: Lab, tags: str, **flags: Any) -> str:
    result = lab.run(tags, **flags)
    assert result.answer["return"] != 0
    return " ".join(result.err.split())


def test_a_step_that_is_called_itself_keeps_its_words(lab: Lab) -> None:
    archive(lab, "give one: --tar_file=/folder, or `--tags=get,archive,_pip`")
    assert "give one: --tar_file=/folder, or --tags=get,archive,_pip" in fails(lab, "get,archive")


def test_an_input_of_the_typed_command_that_sets_the_same_key(lab: Lab) -> None:
    archive(lab, "give one: --tar_file=/folder")
    lab.script(
        "run-app",
        deps=[{"tags": "get,archive"}],
        input_mapping={"archive_tar_file": "CM_ARCHIVE_FILE"},
        input_description={"archive_tar_file": INPUT["tar_file"]},
    )
    assert "give one: --archive_tar_file=/folder" in fails(lab, "run,app")


def test_a_step_that_refuses_before_anything_runs_has_those_words_too(lab: Lab) -> None:
    refuses = FAILS.replace("preprocess", "refuse")
    lab.script(
        "get-archive",
        customize=refuses.format(hint="give one: --tar_file=/folder"),
        input_mapping={"tar_file": "CM_ARCHIVE_FILE"},
        input_description=INPUT,
    )
    lab.script("run-middle", deps=[{"tags": "get,archive", "names": ["archive"]}])
    lab.script("run-app", deps=[{"tags": "run,middle"}])
    text = fails(lab, "run,app")
    assert "give one: --adr.archive.tar_file=/folder" in text
    assert "step: run-app > run-middle > get-archive" in text


def test_of_two_dependencies_on_one_script_the_one_that_failed_is_named(lab: Lab) -> None:
    lab.script(
        "get-archive",
        customize=FAILS.format(hint="give one: --tar_file=/folder"),
        input_mapping={"tar_file": "CM_ARCHIVE_FILE"},
        input_description=INPUT,
        variations={"large": {}, "small": {}},
    )
    other = {"tags": "get,archive,_small", "names": ["small"], "enable_if_env": {"CM_NO": ["1"]}}
    deps = [other, {"tags": "get,archive,_large", "names": ["large"]}]
    lab.script("run-app", deps=deps)
    assert "give one: --adr.large.tar_file=/folder" in fails(lab, "run,app")


def test_the_option_with_which_the_value_was_typed(lab: Lab, tmp_path: Path) -> None:
    archive(lab, "check the path given with --tar_file")
    entry = {"tags": "get,archive", "tar_file": "<<<CM_PLACE>>>"}
    lab.script(
        "run-app",
        deps=[{"tags": "run,middle"}],
        input_mapping={"place": "CM_PLACE"},
        input_description={"place": INPUT["tar_file"]},
    )
    lab.script("run-middle", deps=[entry])
    file = tmp_path / "some archive"
    file.touch()
    assert "check the path given with --place" in fails(lab, "run,app", place=str(file))


@pytest.mark.parametrize("middle", [False, True])
def test_a_dependency_with_a_name_is_reached_by_it(lab: Lab, middle: bool) -> None:
    archive(lab, "one of: --tar_file=/folder, --version=1.2 or --device=cpu, not X--tar_file")
    entry = {"tags": "get,archive", "names": ["the-archive"]}
    lab.script("run-middle", deps=[entry])
    lab.script("run-app", deps=[{"tags": "run,middle"} if middle else entry])
    told = fails(lab, "run,app")
    wanted = "--adr.the-archive.tar_file=/folder, --adr.the-archive.version=1.2 or --device=cpu"
    assert wanted in told
    assert "not X--tar_file" in told
    again = fails(lab, "run,app", adr={"the-archive": {"tar_file": "x"}})
    assert "knows no flag" not in again


def test_one_without_a_name_gets_a_command_of_its_own(lab: Lab) -> None:
    archive(lab, "give one: --tar_file=/folder; or `--tags=get,archive,_pip --version=3`")
    lab.script("run-app", deps=[{"tags": "get,archive"}])
    told = fails(lab, "run,app")
    assert "cm run script --tags=get,archive,_pip --version=3" in told
    assert "--tar_file is an option of this step alone; run it first" in told
    assert "cm run script --tags=get,archive ..." in told


def test_commands_stay_as_they_are(lab: Lab) -> None:
    archive(lab, "give --tar_file, or `cm run script --tags=make,archive --tar_file=x`")
    lab.script("run-app", deps=[{"tags": "get,archive", "names": ["the-archive"]}])
    told = fails(lab, "run,app")
    assert "give --adr.the-archive.tar_file, or" in told
    assert "cm run script --tags=make,archive --tar_file=x" in told


def test_commands_in_words_of_others_stay_too(lab: Lab) -> None:
    says = "def preprocess(i):\n    return {'return': 1, 'error': 'no', 'hint': {hint!r}}\n"
    hint = "make `one`: cm run script --tags=make,archive --tar_file=x\ngive --tar_file"
    lab.script(
        "get-archive",
        customize=says.replace("{hint!r}", repr(hint)),
        input_mapping={"tar_file": "CM_ARCHIVE_FILE"},
        input_description=INPUT,
    )
    lab.script("run-app", deps=[{"tags": "get,archive", "names": ["the-archive"]}])
    told = fails(lab, "run,app")
    assert "make `one`: cm run script --tags=make,archive --tar_file=x" in told
    assert "give --adr.the-archive.tar_file" in told


def test_advice_of_a_program_is_translated_too(lab: Lab) -> None:
    lab.script(
        "get-archive",
        run="echo 'next: give --tar_file=FILE' >&2\nexit 1\n",
        input_mapping={"tar_file": "CM_ARCHIVE_FILE"},
        input_description=INPUT,
    )
    lab.script("run-app", deps=[{"tags": "get,archive", "names": ["the-archive"]}])
    assert "give --adr.the-archive.tar_file=FILE" in fails(lab, "run,app")
