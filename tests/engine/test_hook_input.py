"""The dictionary of hooks, key by key and type by type, as the first engines hand it over.

What is listed here was seen in those engines: a script that wrote down its ``i`` in each phase,
as the requested one and as a dependency, was run by both.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lab import Lab

HOOKS = """
import copy, json

def kinds(values):
    def kind(value):
        for known in (bool, int, str, list, dict):
            if isinstance(value, known):
                return known.__name__
        return "none" if value is None else "object"
    return {key: kind(value) for key, value in values.items()}

def write(phase, i):
    step = i["run_script_input"]
    seen = {
        "i": kinds(i),
        "input": kinds(i["input"]),
        "run_script_input": kinds(step),
        "run_state": kinds(step["run_state"]),
        "customize_common_input": kinds(step["customize_common_input"]),
        "artifact": kinds({k: getattr(i["artifact"], k, None) for k in ("path", "meta")}),
        "os_info": kinds(i["os_info"]),
        "values": copy.deepcopy(
            {
                "customize": i["customize"],
                "call": dict(i["input"]).get("adr", dict(i["input"]).get("add_deps_recursive")),
                "ad": i["input"].get("ad"),
                "updates": step["add_deps_recursive"],
                "recursion": step["recursion"],
                "parent": step["run_state"]["parent"],
                "found": [step["env"] is i["env"], step["meta"] is i["meta"]],
            }
        ),
    }
    with open(i["env"]["SEEN"] + "/" + phase + ".json", "w") as stream:
        json.dump(seen, stream)
    return {"return": 0}

def predeps(i):
    return write("predeps", i)

def preprocess(i):
    write("preprocess", i)
    return i["automation"].detect_version_using_script(
        {"env": i["env"], "run_script_input": i["run_script_input"]}
    )

def detect_version(i):
    return {**write("detect_version", i), "version": "1"}

def postprocess(i):
    return write("postprocess", i)
"""


def table(**names: str) -> dict[str, str]:
    """Keys by the name of their type, the other way round."""
    return {name: kind for kind, listed in names.items() for name in listed.split()}


COMMON = table(
    str="recursion_spaces",
    list="script_tags variation_tags",
    dict="input customize os_info",
    object="automation artifact",
)
INPUT = {**COMMON, **table(dict="env state meta run_script_input")}
RUN_SCRIPT_INPUT = table(
    str="path bat_ext variation_tags_string debug_script_tags recursion_spaces"
    " tmp_file_run tmp_file_run_env tmp_file_run_state tmp_file_state",
    bool="reuse_cached recursion found_cached",
    list="remembered_selections local_env_keys local_env_keys_from_meta posthook_deps"
    " found_script_tags",
    dict="os_info const state const_state meta run_state add_deps_recursive customize_common_input",
    object="self customize_code",
)
RUN_STATE = table(
    str="script_id script_repo_alias",
    bool="fake_deps script_repo_git",
    list="deps script_tags script_variation_tags version_info update_meta_if_env",
    dict="variation_groups",
)
OF_THE_CALL = table(
    str="script_entry_repo_alias script_entry_repo_to_report_errors", bool="script_entry_repo_git"
)
OF_MLC = table(
    bool="cache cache_expiration",
    list="full_deps new_env_keys new_state_keys prehook_deps posthook_deps post_deps"
    " file_path_env_keys folder_path_env_keys",
    dict="apptainer docker input_mapping remote_run",
)
CALL = table(str="tags foo", bool="quiet docker_it print_env", dict="env ad adr")
CALL_OF_CM = table(str="action automation out", list="cmd parsed_automation")
ENTRY = table(
    str="tags automation recursion_spaces version_min debug_script_tags",
    int="foo",
    bool="recursion time",
    list="names",
    dict="env state const const_state local_env local_state local_const local_const_state"
    " run_state adr add_deps_recursive",
)
ENTRY_OF_CM = table(
    str="action", bool="silent verbose", list="parsed_automation remembered_selections"
)
OS_INFO = table(
    str="platform bits python_bits bat_ext bat_rem set_env set_exec_file env_separator env_var"
    " run_bat run_local_bat run_local_bat_from_python",
    list="start_script",
    dict="env",
)
PHASES = ("preprocess", "detect_version", "postprocess")


def place(lab: Lab, dialect: str) -> None:
    path = lab.script("app", customize=HOOKS, run="true\n")
    meta = json.loads((path / "meta.yaml").read_text())
    meta |= {
        "customize": {"own": 1},
        "input_mapping": {"foo": "FOO"},
        "deps": [{"tags": "get,part", "names": ["part"]}],
        "variations": {
            "low": {"add_deps_recursive": {"python": {"version_min": "3.8"}}},
            "x": {"adr": {"python": {"tags": "_x", "enable_if_env": {"FOO": ["1"]}}}},
        },
    }
    (path / "meta.yaml").write_text(json.dumps(meta))
    lab.script("get-part")
    entry = {"tags": "app,_low", "names": ["app"], "foo": 7, "version_min": "0.5"}
    entry |= {"env": {"OF_ENTRY": "1"}, "adr": {"python": {"version_max": "9"}}}
    lab.script("above", deps=[entry])
    if dialect == "_cm.yaml":
        for folder in (lab.repo / "script").iterdir():
            (folder / "meta.yaml").rename(folder / dialect)
    elif dialect == "mlc":
        (lab.repo / "meta.yaml").write_text("alias: lab\nuid: '1'\n")


def seen_by(lab: Lab, tmp_path: Path, tags: str, **flags: Any) -> dict[str, dict[str, Any]]:
    result = lab.run(
        tags,
        env={"SEEN": str(tmp_path)},
        quiet=True,
        action="run",
        automation="script",
        parsed_automation=[("script", "5b4e0237da074764")],
        cmd=[f"--tags={tags}"],
        **flags,
    )
    assert result.answer["return"] == 0, result.err
    return {path.stem: json.loads(path.read_text()) for path in tmp_path.glob("*.json")}


def lacks(expected: dict[str, str], seen: dict[str, str]) -> dict[str, Any]:
    return {key: seen.get(key) for key, kind in expected.items() if seen.get(key) != kind}


@pytest.mark.parametrize("dialect", ["_cm.yaml", "mlc"])
def test_the_keys_of_a_requested_script(lab: Lab, tmp_path: Path, dialect: str) -> None:
    place(lab, dialect)
    flags = {"foo": "1", "docker_it": True, "print_env": True, "ad": {"part": {"env": {"Q": "1"}}}}
    phases = seen_by(lab, tmp_path, "app,_low", adr={"python": {"name": "nm1"}}, **flags)
    is_mlc = dialect == "mlc"
    assert set(phases) == {*PHASES, *(("predeps",) if is_mlc else ())}
    for phase, seen in phases.items():
        assert not lacks(INPUT, seen["i"]), phase
        assert not lacks(COMMON, seen["customize_common_input"])
        assert not lacks({"path": "str", "meta": "dict"}, seen["artifact"])
        assert not lacks(OS_INFO, seen["os_info"])
        step = RUN_SCRIPT_INPUT if is_mlc else {**RUN_SCRIPT_INPUT, "verbose": "bool"}
        assert not lacks(step, seen["run_script_input"])
        own = OF_MLC if is_mlc else {"default_version": "str"}
        assert not lacks({**RUN_STATE, **OF_THE_CALL, **own, "parent": "none"}, seen["run_state"])
        typed = {"details": "str", "mlc_run_cmd": "str"} if is_mlc else CALL_OF_CM
        assert not lacks({**CALL, **typed}, seen["input"])
        assert not (is_mlc and {"cmd", "out"} & set(seen["input"]))
        python = {"version_min": "3.8", "name": "nm1"}
        assert seen["values"] == {
            "customize": {"own": 1},
            "call": {"python": python},
            "ad": {"part": {"env": {"Q": "1"}}},
            "updates": {"python": python},
            "recursion": False,
            "parent": None,
            "found": [True, True],
        }
    later = phases["postprocess"]
    assert lacks({"env": "dict"}, later["run_script_input"]) == {}
    assert not is_mlc or not lacks({"const": "dict", "const_state": "dict"}, later["i"])


@pytest.mark.parametrize("dialect", ["_cm.yaml", "mlc"])
def test_the_keys_of_a_dependency(lab: Lab, tmp_path: Path, dialect: str) -> None:
    place(lab, dialect)
    phases = seen_by(lab, tmp_path, "above", adr={"python": {"name": "nm1"}})
    is_mlc = dialect == "mlc"
    for phase in PHASES:
        seen = phases[phase]
        assert not lacks(ENTRY if is_mlc else {**ENTRY, **ENTRY_OF_CM}, seen["input"]), phase
        assert not lacks({**RUN_STATE, "parent": "str"}, seen["run_state"])
        python = {"version_min": "3.8", "version_max": "9", "name": "nm1"}
        assert seen["values"]["updates"] == {"python": python}
        assert seen["values"]["call"] == {"python": python}
        assert seen["values"]["recursion"]
        assert seen["values"]["parent"].startswith("above,")


@pytest.mark.parametrize(
    ("tags", "flags", "updates"),
    [
        ("app", {}, {}),
        ("app,_low", {}, {"python": {"version_min": "3.8"}}),
        ("app,_x", {}, {"python": {"tags": "_x", "enable_if_env": {"FOO": ["1"]}}}),
        ("app", {"add_deps_recursive": {"c": {"tags": "gcc"}}}, {"c": {"tags": "gcc"}}),
        (
            "app",
            {"adr": {"c": {"tags": "gcc"}}, "add_deps_recursive": {"c": {"version": "1"}}},
            {"c": {"tags": "gcc", "version": "1"}},
        ),
        (
            "app,_low",
            {"adr": {"python": {"tags": "_y", "env": {"A": "1"}, "version_min": "3.9"}}},
            {"python": {"tags": "_y", "env": {"A": "1"}, "version_min": "3.9"}},
        ),
        ("app", {"adr": {"a": {"extra_cache_tags": "q"}}}, {"a": {"extra_cache_tags": "q"}}),
        (
            "app",
            {"adr": {"a": {"adr": {"b": {"tags": "_z"}}}}},
            {"a": {"adr": {"b": {"tags": "_z"}}}},
        ),
    ],
)
def test_the_updates_of_dependencies_that_a_hook_finds(
    lab: Lab, tmp_path: Path, tags: str, flags: dict[str, Any], updates: dict[str, Any]
) -> None:
    place(lab, "_cm.yaml")
    assert seen_by(lab, tmp_path, tags, **flags)["preprocess"]["values"]["updates"] == updates


HAND_ON = """
def preprocess(i):
    call = i["input"]
    ask = {"action": "run", "automation": "script", "tags": "get,inner", "quiet": True}
    answer = i["automation"].cmind.access({**ask, **{k: call.get(k, {}) for k in KEYS}})
    if answer["return"]:
        return answer
    i["env"]["MADE"] = answer["new_env"]["MADE"]
    return {"return": 0}
"""


def nested(lab: Lab, keys: tuple[str, ...], cache: bool) -> None:
    """A script that starts another, which keeps what its dependency has made."""
    lab.script("lib", cache=True, env={"MADE": "<<<MADE_WITH>>>"}, new_env_keys=["MADE"])
    lab.script("get-inner", deps=[{"tags": "lib", "names": ["lib"]}], new_env_keys=["MADE"])
    text = f"KEYS = {keys!r}\n{HAND_ON}"
    lab.script("outer", customize=text, cache=cache, new_env_keys=["MADE"])
    lab.script("above", cache=cache, deps=[{"tags": "outer"}], new_env_keys=["MADE"])
    for folder in (lab.repo / "script").iterdir():
        (folder / "meta.yaml").rename(folder / "_cm.yaml")


@pytest.mark.parametrize("cache", [False, True])
@pytest.mark.parametrize(
    ("tags", "flag", "keys"),
    [
        ("outer", "adr", ("adr",)),
        ("outer", "adr", ("adr", "ad", "add_deps", "add_deps_recursive")),
        ("outer", "add_deps_recursive", ("add_deps_recursive",)),
        ("outer", "ad", ("ad",)),
        ("outer", "add_deps", ("add_deps",)),
        ("above", "adr", ("add_deps_recursive",)),
    ],
)
def test_updates_reach_what_a_hook_starts(
    lab: Lab, tags: str, flag: str, keys: tuple[str, ...], cache: bool
) -> None:
    nested(lab, keys, cache)
    for value in ("one", "two", "one"):
        result = lab.run(tags, **{flag: {"lib": {"env": {"MADE_WITH": value}}}})
        assert result.env["MADE"] == value, "another value is another result"
        assert "reached no dependency" not in result.err
    if cache:
        again = lab.run(tags, **{flag: {"lib": {"env": {"MADE_WITH": "one"}}}})
        assert again.status[tags] == "cached"


def test_how_a_run_is_shown_makes_no_other_entry(lab: Lab) -> None:
    hooks = "def preprocess(i):\n    i['env']['N'] = len([k for k in i['input']])\n"
    lab.script("get-x", customize=hooks + "    return {'return': 0}\n", cache=True)
    lab.run("get,x")
    assert lab.run("get,x", quiet=True, v=True, cmd=["--tags=get,x"]).status["get-x"] == "cached"
