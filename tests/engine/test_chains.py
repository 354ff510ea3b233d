"""Long chains and wide fans of dependencies, in every command that follows them."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from cmbench.errors import internal
from lab import Lab

LONG, WIDE = 500, 2_000
OTHER = 250
"""Steps of a chain where that of 500 has shown the commands: Python's own limit is far below."""

HOOK = """
def preprocess(i):
    i['env']['CM_SEEN'] = '1'
    return {'return': 0}
"""


def chain(lab: Lab, phase: str, length: int = LONG, **meta: Any) -> None:
    for number in range(length):
        below = {phase: [{"tags": f"link-{number + 1}"}]} if number < length - 1 else {}
        env = {f"CM_LINK_{number}": "yes"}
        lab.script(
            f"chain-{number}",
            tags=f"link-{number}",
            customize=HOOK,
            env=env,
            new_env_keys=["CM_LINK_*"],
            **below,
            **meta,
        )


def test_a_chain_of_500_in_every_command(lab: Lab) -> None:
    chain(lab, "deps", cache=True)
    home = str(lab.home.parent)
    done = lab.run("link-0", jobs="4", lock=f"{home}/chain.lock")
    assert done.answer["return"] == 0, done.err
    assert done.env[f"CM_LINK_{LONG - 1}"] == "yes"
    assert len(done.record["steps"]) == LONG
    for verb, thing, flags in (
        ("run", "script", {"tags": "link-0", "lock": f"{home}/chain.lock"}),
        ("plan", "script", {"tags": "link-0"}),
        ("why", "cache", {"tags": "link-0"}),
        ("docker", "script", {"tags": "link-0", "print": True}),
        ("export", "cache", {"tags": "link-0", "output": f"{home}/chain.tar"}),
        ("replay", "script", {"artifact": "last"}),
        ("gc", "cache", {}),
    ):
        said = lab.call(verb, thing, **flags)
        assert said.answer["return"] == 0, f"{verb}: {said.err}"
    assert "internal" not in lab.call("lint", artifact="chain-3").err


@pytest.mark.parametrize("phase", ["prehook_deps", "posthook_deps"])
def test_a_chain_of_250_in_other_phases(lab: Lab, phase: str) -> None:
    chain(lab, phase, OTHER)
    assert lab.plan("link-0").answer["return"] == 0
    assert len(lab.run("link-0").record["steps"]) == OTHER


def test_a_fan_of_2000(lab: Lab) -> None:
    for number in range(1, WIDE + 1):
        lab.script(f"ray-{number}", tags=f"ray-{number}")
    deps = [{"tags": f"ray-{number}"} for number in range(1, WIDE + 1)]
    lab.script("fan", deps=deps)
    assert lab.plan("fan").answer["return"] == 0
    assert len(lab.run("fan").record["steps"]) == WIDE + 1


def test_a_chain_that_is_too_long_is_one_clear_error(lab: Lab, monkeypatch: Any) -> None:
    limit = sys.getrecursionlimit()
    monkeypatch.setattr("cmbench.session.workspace._CALLS", 1_000)
    sys.setrecursionlimit(1_000)
    try:
        chain(lab, "deps", 300)
        failed = lab.run("link-0")
    finally:
        sys.setrecursionlimit(limit)
    assert (failed.answer["code"], failed.answer["return"]) == ("chain-too-long", 4)
    assert internal(RecursionError()).code == "chain-too-long"


@pytest.mark.parametrize("text", ["x: " + "[" * 100_000, "x: " + "{a: " * 100_000, "- " * 100_000])
def test_a_meta_that_is_nested_too_deep_for_its_reader(lab: Lab, text: str) -> None:
    path = lab.script("deep", tags="deep,one")
    (path / "meta.json").unlink(missing_ok=True)
    (path / "meta.yaml").write_text(text)
    lab.script("sound", tags="sound,one")
    assert lab.run("sound,one").answer["return"] == 0
    listed = lab.call("search", tags="sound,one")
    assert listed.answer["return"] == 0, json.dumps(listed.answer, default=str)
