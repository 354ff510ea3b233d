"""Env semantics: tracing, conditions, references, keys by pattern, what a process gets."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cmbench.format.env import (
    MISSING,
    Pending,
    TracedEnv,
    decide,
    fingerprint,
    merge_value,
    process_env,
    select_keys,
    substitute,
    unresolved,
)
from cmbench.format.meta import conditions
from cmbench.lib.secrecy import mask, mask_word

KEYS = st.sampled_from(["A", "B", "C", "CM_X", "+PATH"])
VALUES = st.one_of(st.text(max_size=8), st.booleans(), st.integers(), st.lists(st.text(max_size=3)))


@given(st.lists(st.tuples(st.sampled_from(["get", "set", "del", "in", "pop"]), KEYS, VALUES)))
def test_a_traced_env_is_a_dict_that_remembers_first_reads(steps: list[Any]) -> None:
    start = {"A": "1", "B": "2"}
    plain: dict[str, Any] = dict(start)
    env = TracedEnv(start)
    env.running = True
    read_before_write: set[str] = set()
    written: set[str] = set()
    for verb, key, value in steps:
        if verb in ("get", "in", "pop") and key not in written:
            read_before_write.add(key)
        if verb == "get":
            assert env.get(key) == plain.get(key)
        elif verb == "in":
            assert (key in env) == (key in plain)
        elif verb == "set":
            env[key] = plain[key] = value
        elif verb == "pop":
            assert env.pop(key, None) == plain.pop(key, None)
        elif key in plain:
            del env[key], plain[key]
        if verb in ("set", "pop") or (verb == "del" and key in start):
            written.add(key)
    assert env.plain() == plain
    assert read_before_write <= set(env.reads)
    for key, seen in env.reads.items():
        assert seen == fingerprint(key, start.get(key, MISSING))


def test_iteration_counts_as_reading_everything() -> None:
    env = TracedEnv({"A": "1", "CM_TMP_X": "2"})
    env.running = True
    assert dict(env.items()) == {"A": "1", "CM_TMP_X": "2"}
    assert set(env.reads) == {"A"}


def test_settings_laid_over_hide_the_callers_value() -> None:
    env = TracedEnv({"A": "caller"})
    env.overlay("A", "meta")
    env.running = True
    assert env["A"] == "meta"
    assert env.reads == {"A": "meta"}
    assert env.outer == set()


@pytest.mark.parametrize(
    ("entry", "env", "expected"),
    [
        ({"enable_if_env": {"A": ["yes"]}}, {"A": "anything"}, True),
        ({"enable_if_env": {"A": ["yes"]}}, {"A": "no"}, False),
        ({"enable_if_env": {"A": ["yes"]}}, {"A": ""}, False),
        ({"enable_if_env": {"A": ["yes"]}}, {}, False),
        ({"enable_if_env": {"A": ["no"]}}, {}, True),
        ({"enable_if_env": {"A": ["no"]}}, {"A": "off"}, True),
        ({"enable_if_env": {"A": ["no"]}}, {"A": "x"}, False),
        ({"enable_if_env": {"A": [True]}}, {"A": True}, True),
        ({"enable_if_env": {"A": ["x", "y"], "B": ["1"]}}, {"A": " Y ", "B": "0"}, False),
        ({"enable_if_env": {"A": ["x", "y"], "B": ["1"]}}, {"A": " Y ", "B": "2"}, True),
        ({"skip_if_env": {"A": ["x"]}}, {"A": "x"}, False),
        ({"skip_if_env": {"A": ["x"]}}, {}, True),
        ({"enable_if_any_env": {"A": ["x"], "B": ["y"]}}, {"B": "y"}, True),
        ({"skip_if_any_env": {"A": ["no"]}}, {}, True),
        ({"skip_if_any_env": {"A": ["no"]}}, {"A": "no"}, False),
        ({"enable_if_env": {"A": ["x"]}, "skip_if_env": {"B": ["y"]}}, {"A": "x", "B": "y"}, False),
        ({"enable_if_env": {"A": ["x"]}}, {"A": Pending("p")}, None),
        ({"enable_if_env": {"A": ["x"], "B": ["y"]}}, {"A": Pending("p"), "B": "n"}, False),
        ({"enable_if_any_env": {"A": ["x"], "B": ["y"]}}, {"A": Pending("p"), "B": "y"}, True),
        (
            {"enable_if_env": {"A": ["x"]}, "skip_if_env": {"B": ["y"]}},
            {"A": Pending("p"), "B": "y"},
            False,
        ),
        ({}, {}, True),
    ],
)
def test_conditions(entry: dict[str, Any], env: dict[str, Any], expected: bool | None) -> None:
    assert decide(conditions(entry), TracedEnv(env))[0] is expected


@given(st.dictionaries(KEYS, st.text("abcABC019", max_size=5)), st.text(max_size=30))
def test_references(env: dict[str, str], text: str) -> None:
    if "<<<" not in text:
        assert substitute(text, env) == text
    filled = substitute("".join(f"[<<<{key}>>>]" for key in env) + "<<<UNKNOWN>>>", env)
    assert filled == "".join(f"[{value}]" for value in env.values()) + "<<<UNKNOWN>>>"
    assert unresolved(filled)


def test_pending_references() -> None:
    value = substitute("a<<<K>>>", {"K": Pending("get-k")})
    assert isinstance(value, Pending)
    assert value.producer == "get-k"


def test_keys_by_pattern() -> None:
    keys = ["CM_A", "CM_AB", "+PATH", "X.Y"]
    assert select_keys(keys, ["CM_A*"]) == ["CM_A", "CM_AB"]
    assert select_keys(keys, ["CM_A", "+PATH"]) == ["CM_A", "+PATH"]
    assert select_keys(keys, ["CM_?"]) == ["CM_A"]
    assert select_keys(keys, []) == []


@given(st.lists(st.text(max_size=3)), st.lists(st.text(max_size=3)))
def test_merged_lists_keep_order_and_hold_everything(one: list[str], other: list[str]) -> None:
    merged = merge_value(one, other)
    assert merged[: len(one)] == one
    assert set(merged) == {*one, *other}


@given(st.dictionaries(st.text(max_size=5), VALUES))
def test_a_process_env_is_always_acceptable(env: dict[str, Any]) -> None:
    result = process_env(env, {"PATH": "/bin"})
    for key, value in result.items():
        assert key
        assert "=" not in key
        assert "\0" not in key + value


def test_search_paths_are_put_in_front() -> None:
    made = process_env(
        {"+PATH": ["/a", "/b"], "+ FLAGS": ["-O2"], "+,LIST": ["x", "y"]},
        {"PATH": "/bin", "FLAGS": "-g"},
    )
    assert made["PATH"] == os.pathsep.join(["/a", "/b", "/bin"])
    assert made["FLAGS"] == "-O2 -g"
    assert made["LIST"] == "x,y"


def test_secrets_are_masked() -> None:
    assert mask("https://me:pw@h/x?token=abc&b=1") == "https://***@h/x?token=***&b=1"
    assert mask("git@host:path and plain text") == "git@host:path and plain text"
    assert mask_word("--env.CM_HF_TOKEN=abc") == "--env.CM_HF_TOKEN=***"
    assert mask_word("--model=resnet50") == "--model=resnet50"
    assert fingerprint("CM_HF_TOKEN", "abc").startswith("sha256:")
