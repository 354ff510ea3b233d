"""Every field of a request counts: two that differ in one never share what one of them made."""

from __future__ import annotations

from typing import Any

import pytest

from cmbench.format.model import Dependency, Request, RunOptions, Tags
from cmbench.values import names_of
from lab import Lab

Flags = dict[str, Any]

REQUEST: dict[str, tuple[Flags, ...]] = {
    "tags": ({"tags": "app,x,_big"},),
    "uid": ({"tags": "", "artifact": "app-y"},),
    "inputs": ({"size": "1"}, {"size": "2"}, {"word": "a"}, {"word": "b"}),
    "env": ({"env": {"CM_SIZE": "3"}}, {"env": {"CM_SIZE": "4"}}),
    "const": ({"const": {"CM_SIZE": "5"}}, {"const": {"CM_SIZE": "6"}}),
    "state": ({"state": {"colour": "red"}}, {"state": {"colour": "blue"}}),
    "version": ({"version": "1.0"}, {"version": "2.0"}),
    "name": ({"name": "mine"}, {"name": "other"}),
    "path": ({"path": "/opt/a"}, {"path": "/opt/b"}),
    "extra_cache_tags": ({"extra_cache_tags": "a"}, {"extra_cache_tags": "b"}),
    "force_new_env_keys": (
        {"force_new_env_keys": "CM_MORE"},
        {"force_new_env_keys": "CM_MORE,CM_LIB"},
    ),
    "ad": (
        {"ad": {"lib": {"tags": "_fp32"}}},
        {"add_deps": {"lib": {"tags": "_int8"}}},
        {"ad": {"lib": {"env": {"CM_P": "7"}}}},
        {"ad": {"lib": {"version": "8.0"}}},
        {"ad": {"lib": {"kind": "wide"}}},
        {"ad": {"lib": {"adr": {"inner": {"kind": "deep"}}}}},
        {"ad": {"lib": {"ad": {"inner": {"kind": "near"}}}}},
    ),
    "adr": (
        {"adr": {"lib": {"tags": "_fp32"}}},
        {"adr": {"inner": {"kind": "flat"}}},
        {"add_deps_recursive": {"inner": {"kind": "tall"}}},
    ),
}
"""Calls that differ from the plain one, and from each other, in one field of the request."""

REQUEST_UNCOUNTED = {
    "expires": "ages entries, whoever made them: see the test of a limit of age",
    "force_cache": "decides whether a result is kept; hooks that look at it have read the call",
    "skip_cache": "neither uses an entry nor makes one",
    "new": "uses no entry",
    "renew": "uses no entry",
    "modes": "of the first engines only: see the test of a call without dependencies",
    "arguments": "comes with skip_cache",
    "call": "what a hook reads of it counts: test_hook_input.py",
}
"""Fields that need no call of their own here, and why."""

OPTIONS_UNCOUNTED = {
    "quiet": "how much is printed; decision 023 says why CM_QUIET does not count",
    "verbose": "how much is printed",
    "silent": "how much is printed",
    "debug": "how much is printed of a failure",
    "offline": "a step that needs the network fails, and makes nothing",
    "prefetch": "when a download begins",
    "prepared": "where wheels and downloads come from; these are checked by name and checksum",
    "package_files": "where pip finds the packages, whose names and versions count",
    "jobs": "how many steps run at once, not what they make",
    "renew_from": "which entries are not used",
    "out": "in which form the result is printed",
    "command": "what the record of the run says",
}
"""How a run behaves as a whole changes no result, for these reasons."""

OF_LIB: Flags = {"tags": "get,lib", "names": ["lib"]}
ENTRY: dict[str, tuple[Flags, ...]] = {
    "tags": ({"tags": "get,lib,_fp32"}, {"tags": "get,lib,_int8"}),
    "names": ({"names": ["strange"], "adr": {"inner": {"kind": "n"}}},),
    "conditions": ({"enable_if_env": {"CM_NOT_SET": ["yes"]}},),
    "env": ({"env": {"CM_P": "1"}}, {"env": {"CM_P": "2"}}),
    "version": ({"version": "1.0"}, {"version_max": "3.0"}),
    "extra_cache_tags": ({"extra_cache_tags": "a"},),
    "force_env_keys": ({"force_env_keys": ["CM_TMP_HIDDEN"]},),
    "force_new_env_keys": ({"force_new_env_keys": ["CM_MORE"]},),
    "inherit_variation_tags": ({"inherit_variation_tags": True},),
    "reuse_version": ({"reuse_version": True},),
    "tags_from_env": ({"update_tags_from_env": ["CM_TAG"]},),
    "tags_from_env_with_prefix": ({"update_tags_from_env_with_prefix": {"_": ["CM_KIND_OF"]}},),
    "tags_if_env": ({"update_tags_if_env": {"_fp32": {"enable_if_env": {"CM_TAG": ["_int8"]}}}},),
    "ad": ({"ad": {"inner": {"kind": "low"}}}, {"add_deps": {"inner": {"kind": "lower"}}}),
    "adr": ({"adr": {"inner": {"kind": "h"}}}, {"add_deps_recursive": {"inner": {"kind": "hh"}}}),
    "inputs": ({"kind": "broad"}, {"word": "w"}),
}
"""Entries of a dependency list that differ from the plain one in one field."""

ENTRY_UNCOUNTED = {
    "force_cache": "decides whether a result is kept; hooks that look at it have read the call",
    "skip_inherit_variation_groups": "changes nothing but tags",
    "dynamic": "decides when the dependency runs",
    "skip_if_fake_run": "decides whether the dependency runs, in a run that is not kept",
    "continue_on_error": "what was made after a failure is not used again",
    "expires": "ages entries, whoever made them: see the test of a limit of age",
    "inherits_expiration": "the same by the caller's limit",
}

SEES = """
def preprocess(i):
    env, state = i['env'], i['state']
    env['CM_{0}_HOOK'] = [env.get('CM_TMP_PATH'), env.get('CM_VERSION'), env.get('CM_VERSION_MIN'),
        env.get('CM_VERSION_MAX'), env.get('CM_NAME'), env.get('CM_EXTRA_CACHE_TAGS'),
        env.get('CM_TMP_HIDDEN'), state.get('colour'), i['input'].get('word')]
    env['CM_MORE'] = 'more'
    return {{'return': 0}}
"""
KEPT: dict[str, Any] = {
    "cache": True,
    "input_description": {"size": {"desc": "x"}, "word": {"desc": "x"}, "kind": {"desc": "x"}},
    "input_mapping": {"size": "CM_SIZE", "kind": "CM_KIND"},
}


def _write_scripts(lab: Lab) -> None:
    shows = 'echo "CM_{0}=${{CM_P:-}} ${{CM_KIND:-}} ${{CM_SIZE:-}} {1}" > tmp-run-env.out\n'
    kinds = {name: {"env": {"CM_P": name}} for name in ("fp32", "int8", "big")}
    lab.script("get-inner", **_maker("INNER"), run=shows.format("INNER", ""))
    lab.script(
        "get-lib",
        **_maker("LIB"),
        run=shows.format("LIB", "$CM_INNER"),
        variations=kinds,
        deps=[{"tags": "get,inner", "names": ["inner"]}],
    )
    for name in ("app-x", "app-y"):
        lab.script(
            name,
            **_maker("APP"),
            run=shows.format("APP", f"$CM_LIB $CM_LIB_HOOK {name}"),
            variations=kinds,
            deps=[OF_LIB],
        )


def _maker(name: str) -> dict[str, Any]:
    keys = [f"CM_{name}", f"CM_{name}_HOOK"]
    return {**KEPT, "customize": SEES.format(name), "new_env_keys": keys}


def _run(lab: Lab, flags: Flags) -> dict[str, Any]:
    return lab.run(**{"tags": "app,x", **flags}).env


def _fields(kind: object) -> set[str]:
    return set(names_of(kind))


def test_every_field_is_tried_or_says_why_not() -> None:
    assert _fields(Request(Tags())) == {*REQUEST, *REQUEST_UNCOUNTED}
    assert _fields(RunOptions()) == {*OPTIONS_UNCOUNTED}
    assert _fields(Dependency()) == {*ENTRY, *ENTRY_UNCOUNTED}


@pytest.mark.parametrize("name", REQUEST)
def test_calls_that_differ_in_a_field_share_no_entry(lab: Lab, name: str) -> None:
    _write_scripts(lab)
    calls = ({}, *REQUEST[name])
    found = [_run(lab, call) for call in calls]
    assert len({repr(env) for env in found}) == len(calls)
    assert [_run(lab, call) for call in calls] == found


@pytest.mark.parametrize("name", ENTRY)
def test_entries_that_differ_in_a_field_share_no_result(lab: Lab, name: str) -> None:
    _write_scripts(lab)
    entries = [OF_LIB, *({**OF_LIB, **change} for change in ENTRY[name])]
    found = [_run_caller(lab, number, entry) for number, entry in enumerate(entries)]
    assert len({repr(env) for env in found}) == len(entries)
    assert _run_caller(lab, len(entries), OF_LIB) == found[0]


def _run_caller(lab: Lab, number: int, entry: Flags) -> dict[str, Any]:
    """What a script gives back that has ``entry`` as its dependency."""
    lab.script(
        f"use-lib-{number}",
        tags=f"use,lib{number}",
        deps=[entry],
        env={"CM_TAG": "_int8", "CM_KIND_OF": "big", "CM_TMP_HIDDEN": "yes"},
        variations={"fp32": {}},
        new_env_keys=["CM_LIB*", "CM_INNER*", "CM_MORE"],
    )
    return lab.run(f"use,lib{number},_fp32", version="4.0").env


def test_an_explanation_names_the_field(lab: Lab) -> None:
    _write_scripts(lab)
    lab.run("app,x", ad={"lib": {"tags": "_fp32"}})
    why = lab.call("why", "cache", tags="app,x", version="").out
    assert "changes of its own dependency lib was" in why
    lab.run("app,x")
    why = lab.call("why", "cache", tags="app,x", force_new_env_keys="CM_MORE").out
    assert '--force_new_env_keys was not set, is "CM_MORE"' in why


def test_a_dependency_that_limits_the_age_of_an_entry(lab: Lab) -> None:
    lab.script("get-lib", cache=True)
    lab.script("use-lib", deps=[{"tags": "get,lib"}])
    lab.script("use-new", deps=[{"tags": "get,lib", "cache_expiration": "0"}])
    lab.script("use-day", deps=[{"tags": "get,lib", "cache_expiration": "1d"}])
    lab.run("use,lib")
    assert lab.run("use,day").status["get-lib"] == "cached"
    assert lab.run("use,new").status["get-lib"] == "done"


@pytest.mark.parametrize("mode", ["fake_deps", "dirty"])
def test_what_another_kind_of_run_has_made_answers_no_plain_call(lab: Lab, mode: str) -> None:
    keys: dict[str, Any] = {"new_env_keys": ["CM_LIB"]}
    paths = [
        lab.script("get-lib", env={"CM_LIB": "yes"}, **keys),
        lab.script("app-x", cache=True, deps=[{"tags": "get,lib"}], **keys),
    ]
    for path in paths:
        (path / "meta.yaml").rename(path / "_cm.yaml")
    lab.run("app,x", **{mode: True})
    result = lab.run("app,x")
    assert result.status["app-x"] == "done"
    assert result.env == {"CM_LIB": "yes"}
    assert lab.run("app,x", **{mode: True}).status["app-x"] == "cached"
