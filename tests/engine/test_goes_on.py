"""A run goes on from its plan: what the plan has settled is not found out again, all else is."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from cmbench.plan.cache_lookup import CacheLookup
from cmbench.plan.resolve import Resolver
from lab import Lab

Counted = Counter[str]


@pytest.fixture
def resolved(monkeypatch: pytest.MonkeyPatch) -> Counted:
    """How often each script was resolved, from now on; ``look ALIAS`` counts looks in the cache."""
    counts: Counted = Counter()
    resolve, look_up = Resolver.resolve, CacheLookup.look_up

    def counted(self: Resolver, request: Any, parent: Any) -> Any:
        step_run = resolve(self, request, parent)
        counts[step_run.script.alias] += 1
        return step_run

    def looked_up(self: CacheLookup, step_run: Any) -> Any:
        counts[f"look {step_run.script.alias}"] += 1
        return look_up(self, step_run)

    monkeypatch.setattr(Resolver, "resolve", counted)
    monkeypatch.setattr(CacheLookup, "look_up", looked_up)
    return counts


def kept(lab: Lab, alias: str, value: str = "1", **meta: Any) -> None:
    """A script that is cached and gives back a key of its own name."""
    key = "CM_" + alias.upper().replace("-", "_")
    body = f"def preprocess(i):\n    i['env']['{key}'] = '{value}'\n    return {{'return': 0}}\n"
    lab.script(alias, cache=True, new_env_keys=[key], customize=body, **meta)


@pytest.mark.parametrize("jobs", ["1", "4"])
def test_a_cached_dependency_is_resolved_once_for_plan_and_run(
    lab: Lab, resolved: Counted, jobs: str
) -> None:
    for name in ("get-a", "get-b", "get-c"):
        kept(lab, name)
    lab.script("app", deps=[{"tags": f"get,{name}"} for name in "abc"])
    lab.run("app")
    resolved.clear()
    result = lab.run("app", jobs=jobs)
    assert set(result.status.values()) == {"cached", "done"}
    steps = ("get-a", "get-b", "get-c")
    assert resolved == dict.fromkeys(("app", *steps, *(f"look {name}" for name in steps)), 1)


def test_a_step_that_is_made_is_resolved_once_as_long_as_nothing_is_open(
    lab: Lab, resolved: Counted
) -> None:
    kept(lab, "get-a")
    lab.script("app", deps=[{"tags": "get,a"}])
    assert lab.run("app").status["get-a"] == "done"
    assert (resolved["app"], resolved["get-a"]) == (1, 1)


def test_what_waits_for_a_step_that_works_is_resolved_again(lab: Lab, resolved: Counted) -> None:
    kept(lab, "get-a", "big")
    lab.script(
        "get-b",
        variations={"big": {"env": {"CM_B": "big"}}, "small": {"env": {"CM_B": "small"}}},
        new_env_keys=["CM_B"],
    )
    wants = {"tags": "get,b", "update_tags_from_env_with_prefix": {"_": ["CM_GET_A"]}}
    lab.script("app", deps=[{"tags": "get,a"}, wants], new_env_keys=["CM_B"])
    assert lab.run("app").env["CM_B"] == "big"
    assert resolved["get-b"] == 2
    resolved.clear()
    assert lab.run("app").env["CM_B"] == "big"
    assert resolved["get-b"] == 1


def test_a_constant_that_a_dependency_has_overwritten_counts_for_the_next_one(lab: Lab) -> None:
    kept(lab, "get-a", "theirs")
    lab.script("get-b", env={"CM_SEEN": "<<<CM_GET_A>>>"}, new_env_keys=["CM_SEEN"])
    lab.script(
        "app",
        variations={"v": {"const": {"CM_GET_A": "ours"}}},
        deps=[{"tags": "get,a"}, {"tags": "get,b"}],
        new_env_keys=["CM_SEEN"],
    )
    assert lab.run("app,_v").env["CM_SEEN"] == "ours"
    assert lab.run("app,_v").env["CM_SEEN"] == "ours"


def test_the_state_that_a_cached_step_gives_back_reaches_the_next_one(lab: Lab) -> None:
    lab.script(
        "get-a",
        cache=True,
        new_state_keys=["found"],
        customize="def preprocess(i):\n    i['state']['found'] = 'a'\n    return {'return': 0}\n",
    )
    lab.script(
        "get-b",
        cache=True,
        new_env_keys=["CM_B"],
        customize="def preprocess(i):\n"
        "    i['env']['CM_B'] = i['state'].get('found', 'nothing')\n"
        "    return {'return': 0}\n",
    )
    lab.script("app", deps=[{"tags": "get,a"}, {"tags": "get,b"}], new_env_keys=["CM_B"])
    assert lab.run("app").env["CM_B"] == "a"
    assert lab.run("app").env["CM_B"] == "a"


def test_an_entry_is_looked_at_again_once_a_step_has_worked(lab: Lab, tmp_path: Path) -> None:
    tool = tmp_path / "tool"
    tool.write_text("1")
    lab.script(
        "get-tool",
        cache=True,
        new_env_keys=["CM_TOOL"],
        customize=f"def preprocess(i):\n"
        f"    i['env']['CM_TOOL'] = open({str(tool)!r}).read()\n"
        f"    return {{'return': 0, 'relies_on': [{str(tool)!r}]}}\n",
    )
    write = f"open({str(tool)!r}, 'w').write('22')"
    update = f"def preprocess(i):\n    {write}\n    return {{'return': 0}}\n"
    lab.run("get,tool")
    lab.script("update-tool", customize=update)
    deps = [{"tags": "update,tool"}, {"tags": "get,tool"}]
    lab.script("app", deps=deps, new_env_keys=["CM_TOOL"])
    assert lab.run("app").env["CM_TOOL"] == "22"


def test_a_hook_that_changes_the_env_counts_for_what_comes_after_it(lab: Lab) -> None:
    kept(lab, "get-a")
    lab.script(
        "get-b",
        cache=True,
        new_env_keys=["CM_B"],
        customize="def preprocess(i):\n"
        "    i['env']['CM_B'] = i['env'].get('CM_MODE', 'none')\n"
        "    return {'return': 0}\n",
    )
    lab.script(
        "app",
        deps=[{"tags": "get,a"}],
        prehook_deps=[{"tags": "get,b"}],
        new_env_keys=["CM_B"],
        customize="def preprocess(i):\n    i['env']['CM_' + 'MODE'] = 'fast'\n"
        "    return {'return': 0}\n",
    )
    lab.run("get,b")
    assert lab.run("app").env["CM_B"] == "fast"
    assert lab.run("app").env["CM_B"] == "fast"
