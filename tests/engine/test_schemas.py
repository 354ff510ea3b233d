"""What a plan and a record hold is what ``schema/`` says that they hold, neither more nor less."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from lab import Lab
from support import ROOT


def schema(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / f"schema/{name}.schema.json").read_text("utf-8"))
    return found


def validator(name: str) -> jsonschema.Draft202012Validator:
    jsonschema.Draft202012Validator.check_schema(schema(name))
    return jsonschema.Draft202012Validator(schema(name))


@pytest.fixture
def world(lab: Lab) -> Lab:
    """Scripts that together make every kind of node and of step."""
    lab.script("detect-host", host_facts=True, new_env_keys=["HOST"], customize=_FACT)
    lab.script("get-made", cache=True, env={"MADE": "1"}, new_env_keys=["MADE"])
    lab.script(
        "install-tool",
        cache=True,
        fetches=["https://example.org/tool.tar"],
        required_disk_space="5",
        privileges=["a package"],
        licence=["MIT"],
    )
    lab.script(
        "get-tool",
        cache=True,
        customize=_DETECT,
        new_env_keys=["TOOL"],
        prehook_deps=[{"tags": "install,tool", "enable_if_env": {"CM_REQUIRE_INSTALL": ["yes"]}}],
        variations={"fast": {"group": "kind", "default": True}, "large": {"group": "kind"}},
    )
    lab.script(
        "app-all",
        default_version="1.2",
        deps=[
            {"tags": "detect,host"},
            {"tags": "get,made"},
            {"tags": "get,tool,_large", "version_min": "1"},
            {"tags": "get,tool,_large", "version_min": "1"},
        ],
    )
    lab.script("app-broken", deps=[{"tags": "get,made"}], run="echo no; exit 3")
    return lab


_FACT = "def preprocess(i):\n    i['env']['HOST'] = 'x'\n    return {'return': 0}\n"
_DETECT = """
def preprocess(i):
    i['env'].setdefault('TOOL', 'x')
    if i['env'].get('WANTED'):
        i['env']['CM_REQUIRE_INSTALL'] = 'yes'
    return {'return': 0}
"""


def nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node["children"]:
        yield from nodes(child)


def printed_plan(lab: Lab, tags: str) -> dict[str, Any]:
    plan: dict[str, Any] = json.loads(lab.plan(tags, json=True).out)
    return plan


def test_plans_are_as_the_schema_says(world: Lab) -> None:
    check = validator("plan")
    kinds = set()
    for _ in range(2):
        for tags in ("app,all", "get,tool", "app,broken"):
            plan = printed_plan(world, tags)
            check.validate(plan)
            kinds |= {node["cached"] for node in nodes(plan["root"])}
        world.run("app,all")
    assert kinds >= {"hit", "miss", "no", "fact", "above"}


def test_records_are_as_the_schema_says(world: Lab) -> None:
    check = validator("record")
    kinds = set()
    for tags in ("app,all", "app,all", "app,broken"):
        record = json.loads(Path(world.run(tags).answer["record"]).read_text("utf-8"))
        check.validate(record)
        kinds |= {step["status"] for step in record["steps"]}
        assert (record["error"] is None) == (record["status"] == "done")
    assert kinds == {"done", "cached", "fact", "failed"}


@pytest.mark.parametrize("name", ["plan", "record"])
def test_the_schemas_refuse_what_is_not_there(world: Lab, name: str) -> None:
    made = world.run("app,all")
    data = printed_plan(world, "app,all") if name == "plan" else made.record
    check = validator(name)
    part = data["root"] if name == "plan" else data["steps"][0]
    for key in list(part):
        value = part.pop(key)
        assert not check.is_valid(data) or key == "error", key
        part[key] = value
    part["new"] = 1
    assert not check.is_valid(data)
