"""Plans: what they show, that they agree with what a run then does, and that they write nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lab import Lab


def nodes(plan: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """All nodes of a plan by script alias (tags where the script is open)."""
    found: dict[str, dict[str, Any]] = {}

    def walk(node: dict[str, Any]) -> None:
        found[node["script"] or node["tags"]] = node
        for child in node["children"]:
            walk(child)

    walk(plan["root"])
    return found


def snapshot(root: Path) -> dict[str, int]:
    return {str(p): p.stat().st_mtime_ns for p in root.rglob("*")}


@pytest.fixture
def tree(lab: Lab) -> Lab:
    lab.script(
        "detect-os",
        host_facts=True,
        new_env_keys=["CM_HOST_*"],
        customize="""
def preprocess(i):
    i['env']['CM_HOST_OS'] = 'linux'
    return {'return': 0}
""",
    )
    lab.script(
        "install-tool",
        new_env_keys=["TOOL"],
        env={"TOOL": "installed"},
        cache=True,
        fetches=["tool <<<WANTED>>>"],
    )
    lab.script(
        "get-tool",
        cache=True,
        new_env_keys=["TOOL"],
        env={"WANTED": "1.2"},
        deps=[{"tags": "detect,os"}],
        customize="""
def preprocess(i):
    i['env']['CM_REQUIRE_INSTALL'] = 'yes'
    return {'return': 0}
""",
        prehook_deps=[{"tags": "install,tool", "enable_if_env": {"CM_REQUIRE_INSTALL": ["yes"]}}],
    )
    lab.script(
        "build-app",
        deps=[
            {"tags": "get,tool"},
            {"tags": "detect,os", "enable_if_env": {"CM_HOST_OS": ["windows"]}},
            {"tags": "get,tool", "enable_if_env": {"TOOL": ["installed"]}},
        ],
    )
    return lab


def test_both_arms_and_open_questions_before_a_run_and_none_after(tree: Lab) -> None:
    plan = tree.plan("build,app").answer["plan"]
    found = nodes(plan)
    assert found["install-tool"]["when"] == "CM_REQUIRE_INSTALL from get-tool"
    assert found["install-tool"]["cached"] == "miss"
    assert found["install-tool"]["fetches"] == ("tool 1.2",)
    assert found["detect-os"]["cached"] == "fact"
    again = plan["root"]["children"][-1]
    assert again["when"] == "TOOL from install-tool"
    assert tree.run("build,app").answer["return"] == 0
    after = nodes(tree.plan("build,app").answer["plan"])
    assert after["get-tool"]["cached"] == "hit"
    assert after["get-tool"]["when"] == ""
    assert "install-tool" not in after


def test_text_of_a_plan(tree: Lab) -> None:
    text = tree.plan("build,app").out
    assert max(map(len, text.splitlines())) <= 80
    assert "make if CM_REQUIRE_INSTALL from get-tool" in text
    assert "tool 1.2" in text
    assert "to fetch from the network" in text
    tree.run("build,app")
    assert "nothing to fetch from the network" in tree.plan("build,app").out


def test_json_of_a_plan(tree: Lab) -> None:
    plan = json.loads(tree.plan("build,app", json=True).out)
    assert plan["steps"] == len(list(nodes(plan))) + 1
    assert plan["seconds"] < 5


def test_a_plan_writes_nothing_but_the_index(tree: Lab) -> None:
    tree.plan("build,app")
    before = snapshot(tree.home)
    tree.plan("build,app")
    assert snapshot(tree.home) == before
    tree.run("build,app")
    before = snapshot(tree.home)
    tree.plan("build,app")
    tree.call("show", "cache")
    tree.call("search", tags="get")
    assert snapshot(tree.home) == before


def test_a_run_refuses_what_its_plan_cannot_resolve_before_anything_runs(
    lab: Lab, tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    lab.script("get-first", run=f"touch {mark}")
    lab.script("build-app", deps=[{"tags": "get,first"}, {"tags": "get,fisrt"}])
    refused = lab.run("build,app")
    assert refused.answer["code"] == "script-not-found"
    assert "build-app" in refused.err
    assert not mark.exists()


def test_an_entry_made_above_is_not_planned_twice(lab: Lab) -> None:
    lab.script("get-x", cache=True)
    lab.script("build-app", deps=[{"tags": "get,x"}, {"tags": "get,x"}])
    plan = lab.plan("build,app").answer["plan"]
    assert [node["cached"] for node in plan["root"]["children"]] == ["miss", "above"]


def test_tags_that_only_a_run_can_tell(lab: Lab) -> None:
    lab.script(
        "get-x",
        new_env_keys=["KIND"],
        customize="""
def preprocess(i):
    i['env']['KIND'] = 'b'
    return {'return': 0}
""",
    )
    lab.script("make-b", new_env_keys=["DONE"], env={"DONE": "b"})
    lab.script(
        "build-app",
        new_env_keys=["DONE"],
        deps=[
            {"tags": "get,x"},
            {"tags": "make", "update_tags_from_env_with_prefix": {"": ["KIND"]}},
        ],
    )
    root = lab.plan("build,app").answer["plan"]["root"]
    assert root["children"][1]["when"] == "tags from get-x"
    assert lab.run("build,app").env["DONE"] == "b"


def test_a_branch_that_cannot_be_resolved_is_shown_not_fatal(lab: Lab) -> None:
    customize = "def preprocess(i):\n    i['env']['CM_NEED'] = i['env'].get('WANT', 'no')\n"
    lab.script(
        "get-x",
        customize=customize + "    return {'return': 0}\n",
        post_deps=[
            {"tags": "no,such", "enable_if_env": {"CM_NEED": ["yes"]}},
            {"tags": "get,x", "enable_if_env": {"CM_NEED": ["yes"]}},
        ],
    )
    root = lab.plan("get,x").answer["plan"]["root"]
    assert [node["when"] for node in root["children"]] == ["CM_NEED from get-x"] * 2
    assert root["children"][0]["why"].startswith("if so: no script has the tags")
    assert root["children"][1]["why"].startswith("it leads back to a step above")
    assert lab.run("get,x").answer["return"] == 0
    assert lab.run("get,x", env={"WANT": "yes"}).answer["code"] == "script-not-found"
