"""``--help`` of each command, and that the commands take the flags that it names."""

from __future__ import annotations

import io
import json
import re
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from cmbench import __version__
from cmbench.cli import adapter
from cmbench.cli.commands import THINGS, flags_of_verb, usage_of, verbs_of
from cmbench.cli.usage import usage_text
from cmbench.errors import nearest
from cmbench.index.scripts import Index, Repository
from cmbench.index.select import parse_tags, short_tags
from cmbench.lib import installation
from lab import Lab
from support import ROOT

ENGINE_WORDS = {"find": "search", "rm": "delete"}
VERBS = [verb for thing in THINGS for verb in verbs_of(thing)]
EACH = [(v.thing, v.word) for v in VERBS if v.word != "help" and not v.of_scripts]


@pytest.mark.parametrize(("thing", "verb"), EACH)
def test_a_command_takes_the_flags_that_its_help_names(
    thing: str, verb: str, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What serves until somebody ends it would never come back.
    monkeypatch.setattr("cmbench_gui.server.serve", lambda *_: None)
    monkeypatch.setattr("cmbench_crowd_server.app.serve", lambda *_: None)
    monkeypatch.setattr("cmbench_gui.verbs._open", lambda *_: None)
    assert flags_of_verb(thing, verb)
    for flag in flags_of_verb(thing, verb):
        name, equals, _ = flag.partition("=")
        if name != "INPUT":
            given = {name: "x" if equals else True}
            answer = lab.call(ENGINE_WORDS.get(verb, verb), thing, **given).answer
            assert answer.get("code") != "unknown-flag", (name, answer)
    answer = lab.call(ENGINE_WORDS.get(verb, verb), thing, nonsense=True).answer
    assert answer.get("code") in ("unknown-flag", "bad-value"), answer


@pytest.mark.parametrize("verb", ["serve", "review"])
def test_a_verb_of_an_extra_names_the_command_that_installs_it(
    verb: str, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "cmbench_crowd_server.verbs", raising=False)
    monkeypatch.setitem(sys.modules, "cmbench_crowd_server", None)
    done = lab.call(verb, "results")
    assert done.answer["code"] == "extra-missing"
    assert f"cm {verb} results needs the extra crowd-server" in done.err
    assert f"-m pip install --editable '{ROOT}[crowd-server]'" in done.err


def test_help_of_one_verb_reports_its_flags(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    class Automation:
        cmind = lab.cmind()

    Automation.cmind.cfg = {"action_substitutions": {"rm": "delete", "find": "search"}}
    for word, wanted in (("gc", "--max-size=20GB"), ("rm", "--force"), ("bundle", "--output=FILE")):
        i = {"action": word, "automation": "cache", "out": "con", "h": True}
        assert adapter.answer("cache", Automation(), i)["return"] == 0
        text = capsys.readouterr().out
        assert wanted in text
        assert f"cm {word} cache" in text
        assert "cm du cache" not in text
        assert max(map(len, text.splitlines())) <= 80
    i = {"action": "help", "automation": "cache", "out": "con"}
    adapter.answer("cache", Automation(), i)
    *lines, _, last = capsys.readouterr().out.splitlines()
    assert len(lines) == len(usage_of("cache"))
    assert last == "flags of one of them: cm help cache VERB"


def test_version_says_what_is_ours_and_what_is_cminds(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cmbench, cmind, python = lab.call("version", "script").out.splitlines()
    assert re.fullmatch(
        rf"cmbench {__version__}, revision [\w.-]+, in {re.escape(str(ROOT))}", cmbench
    )
    assert cmind == f"cmind {metadata.version('cmind')}, which brings the command cm"
    assert python.startswith("Python 3.")
    monkeypatch.setattr(installation, "__file__", str(tmp_path / "a" / "b" / "c" / "d.py"))
    for origin, end in (
        ({"url": "file:///src", "dir_info": {}}, ", from file:///src"),
        (
            {"url": "https://host/x.git", "vcs_info": {"vcs": "git", "commit_id": "f" * 40}},
            f", revision {'f' * 12}, from https://host/x.git",
        ),
        ({}, ""),
    ):
        monkeypatch.setattr(installation, "_origin", lambda origin=origin: origin)
        assert installation.installed_version() == f"{__version__}{end}"


def test_help_shows_the_groups_and_leaves_the_rest_to_all(lab: Lab) -> None:
    names = {"size": "CM_SIZE", "rare": "CM_RARE", "a_name_of_24_characters_": "CM_LONG"}
    lab.script(
        "get-x",
        input_mapping=names,
        input_description={name: {"desc": f"the {name}"} for name in names},
        help={
            "groups": {"Essentials": ["size", "a_name_of_24_characters_"]},
            "examples": {"A large one": "cm run script --tags=get,x --size=9"},
        },
        variations={"fast": {"desc": "less accurate"}, "slow": {}},
    )
    short = lab.call("run", tags="get,x", help=True).out
    assert "A large one:\n  cm run script --tags=get,x --size=9\n" in short
    assert "Essentials:\n  --size                  the size\n" in short
    assert "  --a_name_of_24_characters_\n                          the a_name" in short
    assert "  _fast                   less accurate\n  _slow\n" in short
    assert "1 more input, and the flags of every script:" in short
    assert short.endswith("cm run script --tags=get,x --help=all\n")
    assert "--rare" not in short
    assert "--quiet" not in short
    whole = lab.call("run", tags="get,x", help="all").out
    assert "Inputs:\n  --rare                  the rare\n" in whole
    assert "--quiet" in whole


def test_a_synonym_is_the_choice_it_stands_for(lab: Lab) -> None:
    lab.script(
        "get-x",
        input_mapping={"device": "CM_X_DEVICE"},
        input_description={"device": {"choices": ["cuda"], "synonyms": {"gpu": "cuda"}}},
        new_env_keys=["CM_X_*"],
    )
    assert lab.run("get,x", device="GPU").env["CM_X_DEVICE"] == "cuda"
    assert lab.run("get,x", device="tpu").answer["code"] == "bad-value"


def test_scripts_as_json(lab: Lab) -> None:
    lab.script("get-x", name="the x")
    found = json.loads(lab.call("search", tags="get,x", json=True).out)
    assert [item["alias"] for item in found] == ["get-x"]
    shown = json.loads(lab.call("show", tags="get,x", json=True).out)
    assert shown["meta"]["name"] == "the x"


def test_a_misspelt_tags_is_reported(lab: Lab) -> None:
    lab.script("get-x")
    result = lab.call("run", tag="get,x")
    assert result.answer["code"] == "unknown-flag"
    assert 'did you mean "tags"?' in result.err


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        ({"artifact": "get tool", "artifacts": [" "]}, "must be its last character"),
        ({"tags": "get,tool", "artifact": "\\"}, "must be its last character"),
        ({"artifact": "\u201cget", "artifacts": ["tool\u201d"]}, '"get tool"'),
        ({"artifact": "\u2014tags=get,tool"}, "two hyphens: --tags=get,tool"),
        ({"artifact": "get tool --name=x"}, '"get tool" --name=x'),
        ({"tags": "get,", "artifact": "tool"}, "--tags=get,tool"),
    ],
)
def test_a_slip_of_a_copied_line_is_refused(lab: Lab, call: dict[str, Any], hint: str) -> None:
    lab.script("get-tool")
    done = lab.call("run", **call)
    assert done.answer["code"] == "bad-value"
    assert hint in done.err.replace("\n          ", " ")


def test_tags_without_a_flag_are_no_name(lab: Lab) -> None:
    lab.script("get-tool")
    done = lab.call("run", artifact="get,tool")
    assert done.answer["code"] == "script-not-found"
    assert "--tags=get,tool" in done.err


def test_a_variation_is_taken_back_as_mlc_writes_it(lab: Lab) -> None:
    variations = {"x": {"env": {"CM_OUT": "x"}}, "y": {"base": ["x"]}}
    lab.script("get-tool", variations=variations, new_env_keys=["CM_OUT"])
    assert parse_tags("get,tool,_-x") == parse_tags("get,tool,-_x")
    assert lab.run("get,tool,_-x").env == {}


def test_a_dry_run_wins_over_yes(lab: Lab) -> None:
    lab.script("get-x", cache=True)
    lab.run("get,x")
    asked = {"older_than": "0d", "keep_runs": "0d", "yes": True}
    assert lab.call("gc", "cache", **asked, dry_run=True).answer["would_remove"]
    assert lab.call("gc", "cache", **asked).answer["removed"]


@pytest.mark.parametrize(
    ("verb", "thing", "call", "wanted"),
    [
        (
            "run",
            "script",
            {"artifact": "get-x", "artifacts": ["get-y"]},
            "only one name can be given",
        ),
        ("run", "script", {"artifact": "get", "artifacts": ["x"]}, '"get x" or --tags=get,x'),
        (
            "delete",
            "cache",
            {"artifact": "get-x", "artifacts": ["get-y"]},
            "only one name can be given",
        ),
        ("run", "script", {"tags": "get,x", "artifact": "4"}, "--jobs=4"),
        ("run", "script", {"tags": "get,x", "artifact": "get-y"}, 'has no tag "x"'),
        ("run", "script", {"tags": "get,x", "quiet": "maybe"}, "--quiet=maybe is neither"),
        ("run", "script", {"tags": "get,x", "env": {"": "v"}}, "--env. needs a key"),
        ("run", "script", {"tags": "get,x", "save_to_json": "/no/such/r.json"}, "no such folder"),
        ("run", "script", {"tags": "get,x", "save_to_json": True}, "it names no file"),
        ("run", "script", {"tags": "get,x", "save_to_json": "/"}, "that is a folder"),
    ],
)
def test_what_would_have_been_overlooked(
    verb: str, thing: str, call: dict[str, Any], wanted: str, lab: Lab
) -> None:
    lab.script("get-x")
    lab.script("get-y")
    result = lab.call(verb, thing, **call)
    assert result.answer["return"] in (4, 16)
    assert wanted in result.err
    assert "get-" not in result.out


def test_a_name_may_stand_beside_its_tags_and_variations(lab: Lab) -> None:
    lab.script("get-x", variations={"v": {"env": {"X": "v"}}}, new_env_keys=["X"])
    assert lab.call("run", artifact="get-x", tags="get,_v").env == {"X": "v"}


def test_help_names_a_command_that_means_no_other_script(lab: Lab) -> None:
    lab.script("get-model", tags="get,ml,model,resnet50")
    lab.script("get-model-bert", tags="get,ml,model,bert")
    assert "--tags=get,ml,model,bert [flags]" in lab.run("get,bert", help=True).out
    assert "--tags=get,ml,model,resnet50 [flags]" in lab.run("get,resnet50", help=True).out


def test_the_command_in_the_help_of_every_script_means_it_alone(tmp_path: Path) -> None:
    index = Index([Repository("cmbench", str(ROOT))], str(tmp_path / "index.db"), True)
    assert len(index.rows()) > 50
    for row in index.rows().values():
        script = index.script(row.path)
        found = index.find(parse_tags(short_tags(script, index)))
        assert [other.path for other in found] == [row.path], script.alias


def test_a_misspelt_out_is_told(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    class Automation:
        cmind = lab.cmind()

    Automation.cmind.cfg = {"action_substitutions": {}}
    i = {"action": "du", "automation": "cache", "out": "jsn"}
    assert adapter.answer("cache", Automation(), i)["return"] == 4
    assert "--out=jsn is not possible" in capsys.readouterr().err


def test_one_letter_of_three_is_not_near() -> None:
    assert nearest("gpu", ["cpu", "cuda"]) == []
    assert nearest("resnet5", ["resnet50", "bert"]) == ["resnet50"]


def test_a_beginning_and_letters_in_another_order_are_near() -> None:
    assert nearest("onnx", ["openvino", "onnxruntime"]) == ["onnxruntime"]
    assert nearest("rnu", ["rm", "run", "find"]) == ["run"]


@pytest.fixture
def alike(lab: Lab) -> Lab:
    """Three scripts with two tags in common, one of which goes first."""
    for name, sort in (("get-a", 0), ("get-b", -5), ("get-c", 0)):
        meta = {"sort": sort, "env": {"TAKEN": name}, "new_env_keys": ["TAKEN"]}
        lab.script(name, f"get,thing,{name}", **meta)
    return lab


def test_without_a_terminal_it_says_which_of_several_is_taken(alike: Lab) -> None:
    ran = alike.run("get,thing")
    assert ran.env == {"TAKEN": "get-b"}
    said = " ".join(ran.err.split())
    assert "get-b is taken, it has the highest priority; also: get-a, get-c" in said
    assert "cm run script get-a" in said
    assert "is taken" not in alike.run("get,thing,get-a").err


@pytest.mark.parametrize(
    ("typed", "taken"), [("2\n", "get-a"), ("\n", "get-b"), ("x\n9\n3\n", "get-c"), ("", "get-b")]
)
def test_on_a_terminal_it_asks(
    typed: str, taken: str, alike: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("sys.stdin", Terminal(typed))
    monkeypatch.setattr("cmbench.cli.reply._is_terminal", lambda stream: stream.isatty() or True)
    assert alike.run("get,thing").env == {"TAKEN": taken}
    monkeypatch.setattr("sys.stdin", Terminal("3\n"))
    assert alike.run("get,thing", quiet=True).env == {"TAKEN": "get-b"}


def test_one_word_takes_the_first_script_of_others(alike: Lab) -> None:
    assert alike.run("thing").answer["code"] == "ambiguous"
    (alike.repo / "meta.yaml").write_text("alias: lab\nuid: '1'\n")
    assert alike.run("thing").env == {"TAKEN": "get-b"}


def test_a_value_that_another_repository_takes(lab: Lab, tmp_path: Path) -> None:
    lab.script("run-app", **way("ours"))
    (tmp_path / "other").mkdir()
    other = Lab(tmp_path / "other")
    other.script("run-app", **way("nvidia-original", "mlcommons"))
    lab.others.append(other.repo)
    refused = lab.run("run,app", way="nvidia")
    assert refused.answer["code"] == "bad-value"
    assert "cm run script repo:run-app --way=nvidia-original" in " ".join(refused.err.split())
    assert "repo" not in lab.run("run,app", way="amd").answer["hint"]


def way(*choices: str) -> dict[str, Any]:
    return {
        "input_mapping": {"way": "WAY"},
        "input_description": {"way": {"desc": "how", "choices": list(choices)}},
    }


def test_a_word_that_is_a_tag_of_others_is_one(alike: Lab) -> None:
    alike.script("get-d", "get,other")
    assert alike.call("run", artifact="other").answer["code"] == "script-not-found"
    (alike.repo / "meta.yaml").write_text("alias: lab\nuid: '1'\n")
    assert alike.call("run", artifact="other").answer["return"] == 0
    assert alike.call("run", artifact="get-d").answer["return"] == 0
    assert alike.call("delete", artifact="other", f=True).answer["code"] == "script-not-found"


def test_words_behind_tags_are_for_the_script(lab: Lab) -> None:
    hook = """
def preprocess(i):
    i['env']['NAMES'] = ','.join(i['input'].get('artifacts', []))
    return {'return': 0}
"""
    lab.script("set-venv", customize=hook, new_env_keys=["NAMES"], cache=True)
    words = {"artifact": "set venv", "artifacts": ["one", "two"]}
    refused = lab.call("run", **words)
    assert refused.answer["code"] == "bad-value"
    assert "takes no words" in refused.err
    (lab.repo / "meta.yaml").write_text("alias: lab\nuid: '1'\n")
    assert lab.call("run", **words).env == {"NAMES": "one,two"}
    assert lab.call("run", artifact="set venv").env == {"NAMES": ""}


def test_a_flag_of_plans_is_an_input_where_the_script_has_one_of_that_name(lab: Lab) -> None:
    lab.script("get-x", input_mapping={"explain": "X"}, new_env_keys=["X"])
    assert lab.run("get,x", explain=True).answer["new_env"]["X"] == "yes"
    lab.script("get-y")
    assert lab.run("get,y", explain=True).answer["code"] == "unknown-flag"


@pytest.mark.parametrize(
    "thing", ["script", "cache", "repo", "results", "runs", "experiment", "site"]
)
def test_a_command_and_its_meaning_stand_apart(thing: str) -> None:
    for command, meaning in usage_of(thing):
        shown = usage_text(thing)
        words = r"\s+".join(map(re.escape, meaning.split()))
        apart = re.search(rf"(?m)^ +{re.escape(command)}(?: +|\n +){words}$", shown)
        assert apart, command


@pytest.mark.parametrize("thing", THINGS)
def test_help_fits_80_columns(thing: str) -> None:
    """Only a command, which is there to be copied, may be longer."""
    commands = [f"  {command}" for command, _ in usage_of(thing)]
    shown = [line for line in usage_text(thing).splitlines() if line not in commands]
    assert [line for line in shown if len(line) > 80] == []
