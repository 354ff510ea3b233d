"""What existing ``customize.py`` files expect of the dictionary they get and of its methods."""

from __future__ import annotations

import json
import os
import pty
import time
from pathlib import Path
from typing import Any

import pytest

from cmbench.record import load_record
from lab import Lab, command
from support import HANG_S, readable

FIND = """
def preprocess(i):
    automation = i['automation']
    start = i['env']['START']
    deep = automation.find_file_deep({'paths': [start], 'file_name': 'tool'})
    some = automation.find_file_deep(
        {'paths': [start], 'file_name': 'tool', 'restrict_paths': ['x64', 'arm']})
    back = automation.find_file_back({'path': start + '/a/x64/bin', 'file_name': 'LICENSE'})
    none = automation.find_file_back({'path': start + '/a', 'file_name': 'nothing-like-it'})
    i['env']['DEEP'] = ' '.join(sorted(p.replace(start, '') for p in deep['found_paths']))
    i['env']['SOME'] = ' '.join(p.replace(start, '') for p in some['found_paths'])
    i['env']['BACK'] = back['found_path'].replace(start, '') + '|' + none['found_path']
    return {'return': 0}
"""


def test_files_are_found_downwards_and_upwards(lab: Lab, tmp_path: Path) -> None:
    start = tmp_path / "start"
    for place in ("a/x64/bin", "a/x86/bin", "b"):
        (start / place).mkdir(parents=True)
        (start / place / "tool").touch()
    (start / "a" / "LICENSE").touch()
    lab.script("get-x", customize=FIND, new_env_keys=["DEEP", "SOME", "BACK"])
    assert lab.run("get,x", env={"START": str(start)}).env == {
        "DEEP": "/a/x64/bin /a/x86/bin /b",
        "SOME": "/a/x64/bin",
        "BACK": "/a|",
    }


def test_a_variation_is_missing(lab: Lab) -> None:
    lab.script(
        "get-x",
        customize="def preprocess(i):\n"
        "    return i['automation']._available_variations({'meta': i['meta']})\n",
        variations={"two": {}, "one.#": {}},
    )
    result = lab.run("get,x")
    assert result.answer["return"] == 1
    assert "get-x needs a variation" in result.err
    assert "_one.# _two" in result.err


def test_another_native_script_is_named_by_the_hook(lab: Lab) -> None:
    customize = """
def preprocess(i):
    i['run_script_input']['script_name'] = i['env'].get('WHICH', 'none')
    i['run_script_input']['mine'] = i['artifact'].path.split('/')[-1]
    return {'return': 0}
def postprocess(i):
    i['env']['MINE'] = i['run_script_input']['mine'] + i['run_script_input']['path'][-6:]
    i['env']['ID'] = i['run_script_input']['run_state']['script_id'].split(',')[0]
    return {'return': 0}
"""
    lab.script(
        "get-x",
        customize=customize,
        run="echo RAN=run > tmp-run-env.out\n",
        files={"other.sh": "echo RAN=other > tmp-run-env.out\n"},
        cache=True,
        new_env_keys=["RAN", "MINE", "ID"],
    )
    rest = {"MINE": "get-x/get-x", "ID": "get-x"}
    assert lab.run("get,x", env={"WHICH": "other"}).env == {"RAN": "other", **rest}
    assert lab.run("get,x").env == rest  # a name without a file: no native script at all


@pytest.mark.parametrize("cache", [False, True])
def test_a_step_hands_over_to_another_script(lab: Lab, cache: bool) -> None:
    skip = """
def preprocess(i):
    i['env']['X'] = 'from x'
    return {'return': 0, 'skip': True, 'script': {'tags': 'install,x,_v', 'env': {'E': 'e'}}}
def postprocess(i):
    raise AssertionError('not called')
"""
    lab.script(
        "install-x",
        variations={"v": {"env": {"V": "v"}}},
        run='echo "Y=$E$V" > tmp-run-env.out\n',
        new_env_keys=["Y"],
        cache=True,
    )
    lab.script("get-x", customize=skip, run="exit 1\n", cache=cache, new_env_keys=["X"])
    lab.script("app-x", deps=[{"tags": "get,x"}], new_env_keys=["X", "Y"])
    for _ in range(2):
        assert lab.run("get,x").env == {"X": "from x", "Y": "ev"}
    assert lab.run("app,x").env == {"X": "from x", "Y": "ev"}


def test_a_skipped_step_goes_no_further(lab: Lab) -> None:
    lab.script(
        "get-x",
        customize="def preprocess(i):\n    return {'return': 0, 'skip': True}\n",
        run="exit 1\n",
        prehook_deps=[{"tags": "get,none"}],
        post_deps=[{"tags": "get,none"}],
    )
    lab.script("get-none", run="exit 1\n")
    assert lab.run("get,x").answer["return"] == 0


ASKS = """
def preprocess(i):
    name = i['env'].get('CM_NAME', '')
    i['env'].get('OTHER')
    if name == '':
        name = input('Enter a name for it: ')
    i['env']['CHOSEN'] = name
    return {'return': 0}
"""


def test_nobody_answers_a_question(lab: Lab) -> None:
    lab.script("get-x", customize=ASKS, new_env_keys=["CHOSEN"])
    result = lab.run("get,x")
    assert result.answer["code"] == "needs-input"
    assert '"Enter a name for it:"' in result.err
    assert "--name=VALUE" in result.err
    assert "Traceback" not in result.err
    assert lab.run("get,x", name="n").env == {"CHOSEN": "n"}
    lab.script("app-x", deps=[{"tags": "get,x"}])
    text = lab.run("app,x").err
    assert "app-x > get-x" in text
    assert "cm run script --tags=get,x --name=VALUE" in text


def test_a_question_names_the_input_or_the_key(lab: Lab) -> None:
    asks = "def preprocess(i):\n    i['env'].get('CM_PLACE')\n    input('Where? ')\n"
    lab.script("get-x", customize=asks, input_mapping={"place": "CM_PLACE"})
    assert "--place=VALUE" in lab.run("get,x").err
    lab.script("get-x", customize=asks)
    assert "--env.CM_PLACE=VALUE" in lab.run("get,x").err
    lab.script("get-x", customize="def preprocess(i):\n    input()\n")
    assert "on a terminal" in lab.run("get,x").err
    reads = "import sys\ndef preprocess(i):\n    raise EOFError\n"
    lab.script("get-x", customize=reads)
    assert lab.run("get,x").answer["code"] == "needs-input"


@pytest.mark.parametrize("quiet", [False, True])
def test_a_question_is_answered_on_a_terminal(lab: Lab, quiet: bool) -> None:
    lab.script("get-x", customize=ASKS, new_env_keys=["CHOSEN"], cache=True)
    text = _typed(command(lab, "get,x", quiet=quiet), "Enter a name", "mine\n")
    if quiet:
        assert "needs-input" in text
    else:
        assert lab.store.entries()[0].new_env == {"CHOSEN": "mine"}


def _typed(words: list[str], prompt: str, answer: str, seconds: float = HANG_S) -> str:
    """What a program prints on a terminal where ``answer`` is typed once ``prompt`` is seen."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(words[0], words)
    data, typed = b"", False
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if prompt.encode() in data and not typed:
            os.write(terminal, answer.encode())
            typed = True
        if readable(terminal, 0.2):
            try:
                data += os.read(terminal, 65536)
            except OSError:
                break
    os.close(terminal)
    os.waitpid(pid, 0)
    return data.decode()


def test_other_code_keeps_its_own_input_and_imports(lab: Lab) -> None:
    import builtins

    before = (builtins.input, builtins.__import__)
    lab.script("get-x", customize=ASKS)
    lab.run("get,x", name="n")
    assert (builtins.input, builtins.__import__) == before


def test_the_version_hook_gets_the_whole_dictionary(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "tool").write_text("#!/bin/sh\necho tool 4.5.6\n")
    (tmp_path / "tool").chmod(0o755)
    customize = """
def preprocess(i):
    r = i['automation'].find_artifact({
        'file_name': 'tool', 'env': i['env'], 'os_info': i['os_info'],
        'default_path_env_key': 'PATH', 'detect_version': True,
        'env_path_key': 'TOOL', 'run_script_input': i['run_script_input'],
        'recursion_spaces': i['recursion_spaces']})
    return r
def detect_version(i):
    assert i['os_info']['platform'] and i['state'] is not None and 'meta' in i
    r = i['automation'].parse_version({
        'match_text': r'tool ([\\d.]+)', 'group_number': 1,
        'env_key': 'TOOL_VERSION', 'which_env': i['env']})
    return r if r['return'] else {'return': 0, 'version': r['version']}
def postprocess(i):
    i['const']['FIXED'] = i['env']['TOOL_VERSION']
    return {'return': 0, 'version': i['env']['TOOL_VERSION']}
"""
    lab.script(
        "get-x",
        customize=customize,
        run='"$TOOL" > tmp-ver.out\n',
        new_env_keys=["TOOL_VERSION", "FIXED"],
    )
    result = lab.run("get,x", path=str(tmp_path))
    assert result.env == {"TOOL_VERSION": "4.5.6", "FIXED": "4.5.6"}
    assert result.answer["version"] == "4.5.6"


def test_constants_reach_every_step_below(lab: Lab) -> None:
    lab.script("get-z", env={"K": "own"}, new_env_keys=["K"])
    seen = "def preprocess(i):\n    i['env']['SEEN'] = i['env']['K']\n    return {'return': 0}\n"
    lab.script(
        "get-y",
        deps=[{"tags": "get,z"}],
        customize=seen,
        env={"K": "own"},
        new_env_keys=["K", "SEEN"],
        cache=True,
    )
    lab.script(
        "app-x", deps=[{"tags": "get,y"}], input_mapping={"k": "K"}, new_env_keys=["K", "SEEN"]
    )
    assert lab.run("app,x").env == {"K": "own", "SEEN": "own"}
    assert lab.run("app,x", k="given").env == {"K": "given", "SEEN": "given"}
    assert lab.run("app,x", const={"K": "fixed"}).env == {"K": "fixed", "SEEN": "fixed"}
    assert lab.run("app,x").env == {"K": "own", "SEEN": "own"}
    assert lab.run("app,x", k="given").status["get-y"] == "cached"


@pytest.mark.parametrize(
    ("value", "rule", "wanted", "runs"),
    [
        (None, "enable_if_env", [""], True),
        ("", "enable_if_env", [""], True),
        ("v", "enable_if_env", [""], False),
        ("", "enable_if_any_env", ["no"], True),
        (None, "enable_if_any_env", ["no"], False),
        ("off", "enable_if_any_env", [""], True),
        ("off", "skip_if_any_env", [""], False),
        ("off", "skip_if_env", [""], True),
    ],
)
def test_empty_values_in_conditions(
    lab: Lab, value: str | None, rule: str, wanted: list[str], runs: bool
) -> None:
    lab.script("get-y", env={"GOT": "y"}, new_env_keys=["GOT"])
    lab.script("get-x", deps=[{"tags": "get,y", rule: {"K": wanted}}], new_env_keys=["GOT"])
    env = {} if value is None else {"K": value}
    assert lab.run("get,x", env=env).env == ({"GOT": "y"} if runs else {})


def test_what_asks_for_an_installation_is_handed_down_once(lab: Lab) -> None:
    wanted = {"enable_if_env": {"CM_REQUIRE_INSTALL": ["yes"]}}
    lab.script(
        "get-base",
        prehook_deps=[{"tags": "install,base", **wanted}],
        env={"BASE": "found"},
        new_env_keys=["BASE"],
        cache=True,
    )
    lab.script("install-base", env={"BASE": "installed"}, new_env_keys=["BASE"])
    lab.script(
        "install-x",
        deps=[{"tags": "get,base"}],
        post_deps=[{"tags": "get,x", "skip_if_env": wanted["enable_if_env"]}],
        new_env_keys=["BASE"],
    )
    lab.script(
        "get-x",
        deps=[{"tags": "get,base"}],
        prehook_deps=[{"tags": "install,x", **wanted}],
        customize="def preprocess(i):\n    i['env']['CM_REQUIRE_INSTALL'] = 'yes'\n"
        "    return {'return': 0}\n",
        new_env_keys=["BASE"],
    )
    result = lab.run("get,x")
    assert result.env == {"BASE": "found"}
    steps = [step["step"] for step in result.record["steps"]]
    assert steps == ["get-base", "get-base", "install-x", "get-x"]
    assert lab.run("get,base", env={"CM_REQUIRE_INSTALL": "yes"}).env == {"BASE": "installed"}


def test_an_input_may_have_the_name_of_a_flag(lab: Lab) -> None:
    lab.script(
        "get-x", input_mapping={"path": "PLACE", "new": "NEW"}, new_env_keys=["PLACE", "NEW"]
    )
    assert lab.run("get,x", path="/a", new="b").env == {"PLACE": "/a", "NEW": "b"}
    lab.script("app-x", deps=[{"tags": "get,x", "path": "/c", "name": "d"}], new_env_keys=["PLACE"])
    assert lab.run("app,x").env == {"PLACE": "/c"}


def test_work_is_done_in_a_named_directory(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = 'echo old > out.txt\necho "AT=$PWD" > tmp-run-env.out\n'
    lab.script("get-x", run=run, new_env_keys=["AT"])
    assert lab.run("get,x", outdirname="results/one").env == {"AT": f"{tmp_path}/results/one"}
    assert (tmp_path / "results/one/out.txt").is_file()
    lab.script("get-x", run=run, new_env_keys=["AT"], cache=True)
    inside = lab.run("get,x", outdirname="sub").env["AT"]
    assert inside == f"{lab.store.entries()[0].path}/sub"
    (lab.repo / "meta.yaml").write_text("alias: lab\n")
    assert lab.run("get,x", outdirname="sub").env == {"AT": f"{tmp_path}/sub"}


def test_files_before_the_run_and_of_a_failure(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "old.txt").write_text("left from before")
    lab.script(
        "get-x",
        run="test ! -e old.txt\necho the real cause > deep.log\nexit 3\n",
        clean_output_files=["old.txt"],
        print_files_if_script_error=["deep.log", "none.log"],
        warnings=["this takes long"],
    )
    result = lab.run("get,x")
    assert "the real cause" in result.err
    assert "get-x: this takes long" in result.out


def test_a_script_validates_its_entries_itself(lab: Lab, tmp_path: Path) -> None:
    tool = tmp_path / "version"
    tool.write_text("1.0")
    lab.script(
        "get-x",
        cache=True,
        customize="def detect_version(i):\n"
        "    r = i['automation'].parse_version({'match_text': '(.+)'})\n"
        "    return {'return': 0, 'version': r['version']}\n"
        "def postprocess(i):\n    return detect_version(i)\n",
        run='cat "$TOOL" > tmp-ver.out\n',
        files={"validate_cache.sh": 'cat "$TOOL" > tmp-ver.out\n'},
        env={"TOOL": str(tool)},
        new_env_keys=["TOOL"],
    )
    assert lab.run("get,x").answer["version"] == "1.0"
    assert lab.run("get,x").answer["cached"]
    tool.write_text("1.1")
    second = lab.run("get,x").answer
    assert (second["version"], second["cached"]) == ("1.1", False)
    tool.unlink()
    assert lab.run("get,x").answer["code"] == "script-failed"


def test_flags_for_every_run_come_from_the_environment(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CM_SCRIPT_EXTRA_CMD", "--adr.base.tags=_v --quiet --env.K=k")
    lab.script("get-y", variations={"v": {"env": {"Y": "v"}}}, new_env_keys=["Y"])
    lab.script("get-x", deps=[{"tags": "get,y", "names": ["base"]}], new_env_keys=["Y", "K"])
    result = lab.run("get,x", env={"K": "mine", "L": "l"}, adr={"base": {"version": "1"}})
    assert result.env == {"Y": "v", "K": "k"}
    assert not result.out.startswith("ok")
    asked = load_record(result.answer["record"])["flags"]
    assert asked["env"] == {"K": "k", "L": "l"}
    assert asked["adr"] == {"base": {"version": "1", "tags": "_v"}}


def test_they_are_no_flags_of_what_runs_nothing(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CM_SCRIPT_EXTRA_CMD", "--adr.base.tags=_v --quiet")
    lab.script("get-x")
    for verb, thing, flags in (
        ("show", "cache", {}),
        ("search", "script", {"tags": "get,x"}),
        ("doctor", "script", {}),
        ("gc", "cache", {}),
    ):
        assert lab.call(verb, thing, **flags).answer.get("code") is None


TELL = """
import json

def preprocess(i):
    state = i['run_script_input']['run_state']
    i['env']['CM_DEPS'] = json.dumps(state['deps'])
    i['env']['CM_COMMANDS'] = json.dumps(state['commands'])
    i['env']['CM_COMMAND'] = state['command']
    return {'return': 0}
"""


@pytest.mark.parametrize(
    "conditions",
    [
        {"enable_if_env": {"X": ["yes"]}},
        {"skip_if_env": {"X": ["yes"]}},
        {"enable_if_env": {"X": ["no"]}},
        {"enable_if_env": {"X": [""]}},
        {"skip_if_any_env": {"X": ["on"], "Y": ["no"]}},
    ],
)
@pytest.mark.parametrize("env", [{"X": "4"}, {"X": "Off"}, {"X": ""}, {}, {"X": "<<<GAP>>>"}])
def test_a_hook_sees_the_dependencies_that_the_run_has_taken(
    lab: Lab, conditions: dict[str, Any], env: dict[str, str]
) -> None:
    lab.script("get-part")
    deps = [{"tags": "get,part", **conditions}]
    lab.script("app", deps=deps, customize=TELL, new_env_keys=["CM_DEPS", "CM_COMMANDS"])
    result = lab.run("app", env=env)
    taken = "get-part" in result.status
    assert json.loads(result.env["CM_DEPS"]) == ["get,part"] * taken
    assert json.loads(result.env["CM_COMMANDS"]) == ["cm run script --tags=get,part"] * taken


def test_what_was_asked_of_dependencies_by_name_is_in_the_commands(lab: Lab) -> None:
    lab.script("get-part", variations={"fast": {}}, versions={"3.1": {}})
    deps = [{"tags": "get,part", "names": ["part"], "env": {"CM_MODE": "a b", "CM_TOKEN": "t0p"}}]
    keys = ["CM_DEPS", "CM_COMMANDS", "CM_COMMAND"]
    lab.script("app", deps=deps, customize=TELL, new_env_keys=keys)
    result = lab.run("app", adr={"part": {"tags": "_fast", "version": "3.1"}})
    assert json.loads(result.env["CM_COMMANDS"]) == [
        "cm run script --tags=get,part,_fast --version=3.1 '--env.CM_MODE=a b' '--env.CM_TOKEN=***'"
    ]
    asked = "--tags=app --adr.part.tags=_fast --adr.part.version=3.1"
    assert result.env["CM_COMMAND"] == f"cm run script {asked}"
    assert " ".join(result.record["command"]) == result.env["CM_COMMAND"]


DETECT_OR_INSTALL = """
def preprocess(i):
    automation, env = i['automation'], i['env']
    ask = {'run_script_input': i['run_script_input'], 'env': env, 'script_name': 'detect'}
    r = automation.run_native_script(ask)
    env['DETECT'] = str(r['return'])
    if r['return'] == 0:
        return r
    env['ERROR'] = r['error']
    own = dict(env, GIVEN='yes')
    r = automation.run_native_script({**ask, 'env': own, 'script_name': 'install'})
    if r['return']:
        return r
    env['TMP'] = r['env_tmp']['INSTALLED'] + own['INSTALLED'] + env.get('INSTALLED', '-')
    return {'return': 0}
"""


def test_a_hook_detects_or_else_installs(lab: Lab, tmp_path: Path) -> None:
    lab.script(
        "get-x",
        customize=DETECT_OR_INSTALL,
        files={
            "detect.sh": f'test -e "{tmp_path}/tool" || exit 3\n',
            "install.sh": f'touch "{tmp_path}/tool"\necho INSTALLED=$GIVEN > tmp-run-env.out\n',
        },
        new_env_keys=["DETECT", "ERROR", "TMP"],
    )
    first = lab.run("get,x").env
    assert first["DETECT"] != "0"
    assert "detect.sh" in first["ERROR"]
    assert first["TMP"] == "yesyes-"
    assert lab.run("get,x").env == {"DETECT": "0"}


def test_a_failure_that_a_hook_hands_back_keeps_its_cause(lab: Lab) -> None:
    lab.script(
        "get-x",
        customize="def preprocess(i):\n"
        "    return i['automation'].run_native_script({'script_name': 'detect', 'env': i['env'],"
        " 'run_script_input': i['run_script_input']})\n",
        files={"detect.sh": "echo why it failed\nexit 3\n"},
    )
    result = lab.run("get,x")
    assert result.answer["code"] == "script-failed"
    assert "why it failed" in result.err


MOVES = """
import os
def preprocess(i):
    os.makedirs(i['env']['TARGET'], exist_ok=True)
    os.chdir(i['env']['TARGET'])
    with open('tmp-ver.out', 'w') as stream:
        stream.write('9.8')
    r = i['automation'].parse_version({'match_text': '(.+)'})
    i['automation'].run_native_script({'run_script_input': i['run_script_input'],
        'env': i['env'], 'script_name': 'early'})
    i['env']['FOUND'] = r['version']
    return {'return': 0}
def postprocess(i):
    i['env']['HERE'] = os.getcwd()
    return {'return': 0}
"""


@pytest.mark.parametrize("cache", [False, True])
def test_a_step_goes_on_where_its_hook_went(lab: Lab, tmp_path: Path, cache: bool) -> None:
    lab.script(
        "get-below",
        customize="import os\n\ndef preprocess(i):\n"
        "    i['env']['BELOW'] = os.getcwd()\n    return {'return': 0}\n",
        new_env_keys=["BELOW"],
    )
    lab.script(
        "get-x",
        cache=cache,
        customize=MOVES,
        run="pwd > native.txt\necho NATIVE=$PWD > tmp-run-env.out\n",
        files={"early.sh": "echo EARLY=$PWD > tmp-run-env.out\n"},
        prehook_deps=[{"tags": "get,below"}],
        new_env_keys=["HERE", "NATIVE", "EARLY", "FOUND", "BELOW"],
    )
    here, target = os.getcwd(), str(tmp_path / "target")
    env = lab.run("get,x", env={"TARGET": target}).env
    assert os.getcwd() == here
    assert env.pop("FOUND") == "9.8"
    assert set(env.values()) == {target}
    assert (tmp_path / "target" / "native.txt").exists()
    assert not os.listdir(here)
