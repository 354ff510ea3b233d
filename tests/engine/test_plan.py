"""Plans: what they show, that they agree with what a run then does, and that they write nothing."""

from __future__ import annotations

import json
import sys
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


REFUSES = """
from cmbench.errors import Error

def preprocess(i):
    refuse(i)
    return {'return': 0}

def refuse(i):
    if i['env'].get('CM_COLOUR') == 'red':
        raise Error('not-available', 'there is no red', hint='take blue')
    if i['env'].get('CM_COLOUR') == 'odd':
        raise ValueError('no colour')
"""


def test_a_plan_refuses_what_the_script_says_that_a_run_refuses(lab: Lab) -> None:
    lab.script("paint", input_mapping={"colour": "CM_COLOUR"}, customize=REFUSES)
    planned, made = (go("paint", colour="red").answer for go in (lab.plan, lab.run))
    assert planned["code"] == made["code"] == "not-available"
    assert planned["error"] == made["error"] == "there is no red"
    assert lab.plan("paint", colour="blue").answer["return"] == 0
    assert lab.plan("paint", colour="odd").answer["code"] == "customize-crashed"


def test_a_run_refuses_what_a_later_step_is_sure_to_refuse_before_it_begins(lab: Lab) -> None:
    lab.script("install", run="echo installed")
    lab.script("paint", input_mapping={"colour": "CM_COLOUR"}, customize=REFUSES, cache=True)
    # Whether it is asked for at all, or with what, is known once others have run.
    skipped = {"tags": "paint", "enable_if_env": {"CM_LATER": ["yes"]}}
    later = {"tags": "paint", "env": {"CM_COLOUR": "<<<CM_LATER>>>"}}
    decide = "def preprocess(i):\n    i['env']['CM_LATER'] = 'no'\n    return {'return': 0}\n"
    lab.script("decide", new_env_keys=["CM_LATER"], customize=decide)
    lab.script("house", deps=[{"tags": "install"}, {"tags": "paint"}])
    lab.script("shed", deps=[{"tags": "decide"}, skipped])
    lab.script("hut", deps=[{"tags": "decide"}, later])
    env = {"CM_COLOUR": "red"}
    made = lab.run("house", env=env)
    assert made.answer["code"] == "not-available"
    assert "house > paint" in made.err
    assert [step["script"] for step in made.record["steps"]] == []
    planned = lab.plan("house", env=env)
    assert planned.answer["return"] == 0
    told = "a run stops here: there is no red; take blue"
    assert told in " ".join((planned.out + planned.err).split())
    assert lab.run("shed", env=env).answer["return"] == 0
    assert lab.run("hut").answer["return"] == 0
    assert lab.run("house").answer["return"] == 0


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


def test_a_plan_writes_nothing_but_the_index(tree: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    # The first use of a customize.py leaves its bytecode beside it, which the index notes once.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
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
    shown = lab.plan("build,app").out
    assert "3 steps: 1 to make, 1 to run, 1 made above" in shown


def test_the_counts_of_a_plan_fit_80_columns(lab: Lab) -> None:
    lab.script("get-x", cache=True)
    lab.script("get-z", cache=True)
    assert lab.run("get,z").answer["return"] == 0
    lab.script("detect-y", host_facts=True)
    needs = ("get,x", "get,x", "get,z", "detect,y")
    lab.script("build-app", deps=[{"tags": tags} for tags in needs])
    lines = lab.plan("build,app").out.splitlines()
    assert [line for line in lines if line.startswith("5 steps: 1 from the cache")]
    assert max(map(len, lines)) <= 80


def test_what_another_value_was_asked_for_is_not_made_above(lab: Lab) -> None:
    lab.script("get-x", cache=True, fetches=["<<<CM_URL>>>"])
    asked = ({"CM_URL": "a"}, {"CM_URL": "b"}, {"CM_URL": "a"}, {"CM_URL": "b", "CM_OTHER": "c"})
    lab.script("build-app", deps=[{"tags": "get,x", "env": env} for env in asked])
    children = lab.plan("build,app").answer["plan"]["root"]["children"]
    assert [node["cached"] for node in children] == ["miss", "miss", "above", "above"]


def test_tags_that_are_known_at_run_time_only(lab: Lab) -> None:
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


OWN_TAGS = {
    "from env": {"tags": "get,x", "update_tags_from_env": ["WANTED"]},
    "with prefix": {"tags": "get,x", "update_tags_from_env_with_prefix": {"_v.": ["WANTED"]}},
    "if": {"tags": "get,x", "update_tags_if_env": {"_big": {"enable_if_env": {"WANTED": ["_1"]}}}},
}


@pytest.mark.parametrize("default", [{}, {"WANTED": ""}], ids=["not set", "empty"])
@pytest.mark.parametrize("entry", OWN_TAGS.values(), ids=OWN_TAGS)
def test_tags_that_the_steps_own_code_will_set(
    lab: Lab, entry: dict[str, Any], default: dict[str, str]
) -> None:
    lab.script("get-x", variations={"v.#": {}, "big": {}, "1": {}})
    sets = "def preprocess(i):\n    i['env']['WANTED'] = '_1'\n    return {'return': 0}\n"
    app = {"default_env": default, "prehook_deps": [entry]}
    lab.script("build-app", customize=sets, **app)
    plan = lab.plan("build,app")
    child = plan.answer["plan"]["root"]["children"][0]
    assert (child["script"], child["when"]) == ("get-x", "tags from build-app")
    assert "`- get-x" in plan.out
    assert "run, tags from build-app" in plan.out
    given = lab.plan("build,app", env={"WANTED": "_1"}).answer["plan"]["root"]["children"][0]
    assert given["when"] == ""
    lab.script("build-app", customize=sets.replace("['WANTED'] =", ".get('WANTED') =="), **app)
    child = lab.plan("build,app").answer["plan"]["root"]["children"][0]
    assert child["when"] == "", "code that only looks at the key leaves nothing open"


@pytest.mark.parametrize("key", ["WANTED", "+WANTED"])
def test_tags_that_several_scripts_have_leave_the_step_open(lab: Lab, key: str) -> None:
    for name in "ab":
        lab.script(f"get-{name}", tags=f"get,one,{name}")
    sets = f"def preprocess(i):\n    i['env']['{key}'] = 'a'\n    return {{'return': 0}}\n"
    dep = {"tags": "get,one", "update_tags_from_env": [key]}
    lab.script("build-app", customize=sets, prehook_deps=[dep])
    plan = lab.plan("build,app")
    child = plan.answer["plan"]["root"]["children"][0]
    assert (child["script"], child["when"]) == ("", "tags from build-app")
    assert "? tags from build-app" in plan.out


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
    assert root["children"][1]["why"].startswith("it refers back to a step above")
    assert lab.run("get,x").answer["return"] == 0
    assert lab.run("get,x", env={"WANT": "yes"}).answer["code"] == "script-not-found"


def test_a_place_that_is_not_there_is_a_warning_of_a_plan_and_refuses_a_run(lab: Lab) -> None:
    lab.script("first-step", run="touch ran\n", cache=True)
    lab.script(
        "get-thing",
        deps=[{"tags": "first,step"}],
        input_mapping={"data": "CM_DATA"},
        input_description={"data": {"desc": "it", "type": "path", "must_be": "folder"}},
    )
    planned = lab.plan("get,thing", data="/none/there")
    assert planned.answer["return"] == 0, planned.err
    assert "a run stops here: there is no folder /none/there" in planned.err
    ran = lab.run("get,thing", data="/none/there")
    assert ran.answer["code"] == "file-not-found"
    assert "check the path given as --data" in ran.err
    assert ran.record["steps"] == []
    assert lab.run("get,thing", data=str(lab.home)).answer["return"] == 0


@pytest.mark.parametrize(
    "typed",
    [
        {"adr": {"thing": {"data": "/none/there"}}},
        {"adr": {"thing": {"env": {"CM_DATA": "/none/there"}}}},
        {"ad": {"thing": {"data": "/none/there"}}},
    ],
)
def test_a_place_for_a_dependency_is_looked_at_before_a_run(
    typed: dict[str, Any], lab: Lab
) -> None:
    lab.script("first-step", run="touch ran\n", cache=True)
    lab.script(
        "get-thing",
        input_mapping={"data": "CM_DATA"},
        input_description={"data": {"desc": "it", "type": "path", "must_be": "folder"}},
    )
    sets = "def preprocess(i):\n    i['env']['CM_NEED'] = 'yes'\n"
    lab.script("may-need", customize=sets, new_env_keys=["CM_NEED"])
    maybe = {"tags": "get,thing", "names": ["thing"], "enable_if_env": {"CM_NEED": ["yes"]}}
    lab.script("use-thing", deps=[{"tags": "first,step"}, {"tags": "may,need"}, maybe])
    assert "a run stops here: there is no folder /none/there" in lab.plan("use,thing", **typed).err
    ran = lab.run("use,thing", **typed)
    assert ran.answer["code"] == "file-not-found"
    assert "thing." in ran.err
    assert ran.record["steps"] == []


def test_what_a_step_hands_down_need_not_be_there_yet(lab: Lab) -> None:
    place = lab.home / "made"
    lab.script("make-place", run=f"mkdir '{place}'\n")
    lab.script(
        "get-thing",
        input_mapping={"data": "CM_DATA"},
        input_description={"data": {"desc": "it", "type": "path", "must_be": "folder"}},
    )
    entry = {"tags": "get,thing", "env": {"CM_DATA": str(place)}}
    lab.script("use-thing", deps=[{"tags": "make,place"}, entry])
    assert lab.run("use,thing").answer["return"] == 0


def _bound(lab: Lab, **spec: Any) -> None:
    lab.script(
        "get-thing",
        input_mapping={"kind": "CM_KIND", "more": "CM_MORE", "on": "CM_ON"},
        input_description={
            "kind": {"desc": "it", "type": "str", "default": "a"},
            "more": {"desc": "it", "type": "str", "default": "usual", **spec},
            "on": {"desc": "it", "type": "bool"},
        },
        default_env={"CM_KIND": "a", "CM_MORE": "usual"},
        variations={"big": {"env": {"CM_BIG": "yes"}}, "bigger": {"base": ["big"]}},
    )


@pytest.mark.parametrize(
    ("condition", "typed", "shown"),
    [
        ("_big", {"tags": "get,thing,_bigger"}, "_big"),
        ("kind=b", {"kind": "b"}, "--kind=b"),
        ("on", {"on": True}, "--on"),
    ],
)
def test_an_input_that_has_no_effect_alone_is_refused(
    lab: Lab, condition: str, typed: dict[str, Any], shown: str
) -> None:
    _bound(lab, only_with=[condition])
    for call in (lab.plan, lab.run):
        alone = call("get,thing", more="x")
        assert alone.answer["code"] == "bad-value"
        assert f"--more has no effect without {shown}" in alone.err
        assert f"leave out --more, or add {shown}" in alone.err
        assert call("get,thing", more="usual").answer["return"] == 0, "nothing else is asked for"
        given = {"more": "x", **typed}
        assert call(given.pop("tags", "get,thing"), **given).answer["return"] == 0


def test_an_input_that_another_one_makes_idle_is_refused(lab: Lab) -> None:
    _bound(lab, not_with=["on"])
    assert "--more has no effect with --on" in lab.run("get,thing", more="x", on=True).err
    assert lab.run("get,thing", more="x", on=False).answer["return"] == 0


def test_an_idle_input_of_a_dependency_is_refused_as_it_was_typed(lab: Lab) -> None:
    _bound(lab, only_with=["_big"])
    lab.script("use-thing", deps=[{"tags": "get,thing", "names": ["thing"]}])
    ran = lab.run("use,thing", adr={"thing": {"more": "x"}})
    assert "--adr.thing.more has no effect without _big" in ran.err
    assert ran.record["steps"] == []
    both = {"thing": {"more": "x", "tags": "_big"}}
    assert lab.run("use,thing", adr=both).answer["return"] == 0
