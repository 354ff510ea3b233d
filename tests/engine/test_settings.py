"""In which order settings are laid over each other, as the CM format has it."""

from __future__ import annotations

from typing import Any

import pytest

from lab import Lab

SHOW = """
def preprocess(i):
    env = i['env']
    env['CM_SEEN_A'] = str(env.get('A'))
    env['CM_SEEN_B'] = str(env.get('B'))
    return {'return': 0}
"""


@pytest.fixture
def order(lab: Lab) -> Lab:
    lab.script(
        "p-order",
        customize=SHOW,
        default_env={"A": "def", "B": "def"},
        env={"A": "env"},
        input_mapping={"a": "A", "b": "B"},
        new_env_keys=["CM_SEEN_*"],
        variations={
            "v1": {"env": {"A": "v1"}},
            "v2": {"env": {"A": "v2"}},
            "v1,v2": {"env": {"A": "v12"}},
            "c": {"const": {"A": "constv"}},
            "d": {"default_env": {"B": "vdef"}},
        },
    )
    return lab


@pytest.mark.parametrize(
    ("tags", "flags", "a", "b"),
    [
        ("p,order", {}, "env", "def"),
        ("p,order", {"a": "cli", "b": "cli"}, "cli", "cli"),
        ("p,order,_v1", {}, "v1", "def"),
        ("p,order,_v1", {"a": "cli"}, "cli", "def"),
        ("p,order,_v2,_v1", {}, "v12", "def"),
        ("p,order,_c", {"a": "cli"}, "constv", "def"),
        ("p,order", {"env": {"A": "e1", "B": "e2"}}, "env", "e2"),
        ("p,order,_v1", {"const": {"A": "k"}}, "k", "def"),
        ("p,order,_d", {}, "env", "def"),
    ],
)
def test_order_of_settings(order: Lab, tags: str, flags: dict[str, Any], a: str, b: str) -> None:
    env = order.run(tags, **flags).env
    assert (env["CM_SEEN_A"], env["CM_SEEN_B"]) == (a, b)


def test_base_is_merged_after_the_variation_that_names_it(lab: Lab) -> None:
    lab.script(
        "p-base",
        new_env_keys=["K"],
        variations={"a": {"env": {"K": "a"}, "base": ["b"]}, "b": {"env": {"K": "b"}}},
    )
    assert lab.run("p,base,_a").env["K"] == "b"


def test_references_are_filled_in_wherever_they_stand(lab: Lab) -> None:
    lab.script("c-child", new_env_keys=["C_*"], env={"C_OUT": "<<<GIVEN>>>!"})
    lab.script(
        "p-ref",
        new_env_keys=["P_*", "C_*", "<<<P_NAME>>>"],
        env={"P_A": "1", "P_B": "<<<P_A>>>2", "P_C": "<<<P_B>>>3", "P_NAME": "Q", "Q": "named"},
        deps=[{"tags": "c,child", "env": {"GIVEN": "<<<P_C>>>"}}],
    )
    env = lab.run("p,ref").env
    assert env["P_C"] == "123"
    assert env["C_OUT"] == "123!"
    assert env["Q"] == "named"


def test_dynamic_variation_fills_env_and_dependencies(lab: Lab) -> None:
    lab.script("c-child", new_env_keys=["N"], variations={"n.#": {"env": {"N": "#"}}})
    lab.script(
        "p-dyn",
        new_env_keys=["PD_BS", "N"],
        variations={
            "bs.#": {"env": {"PD_BS": "#"}},
            "m.#": {"deps": [{"tags": "c,child,_n.#"}]},
        },
    )
    assert lab.run("p,dyn,_bs.8").env["PD_BS"] == "8"
    assert lab.run("p,dyn,_m.foo.1").env["N"] == "foo.1"


def test_groups_defaults_and_default_variations(lab: Lab) -> None:
    lab.script(
        "p-group",
        new_env_keys=["DEVICE", "PRECISION"],
        variations={
            "cpu": {"group": "device", "default": True, "env": {"DEVICE": "cpu"}},
            "cuda": {
                "group": "device",
                "env": {"DEVICE": "cuda"},
                "default_variations": {"precision": "fp16"},
            },
            "fp32": {"group": "precision", "default": True, "env": {"PRECISION": "fp32"}},
            "fp16": {"group": "precision", "env": {"PRECISION": "fp16"}},
        },
    )
    assert lab.run("p,group").env == {"DEVICE": "cpu", "PRECISION": "fp32"}
    assert lab.run("p,group,_cuda").env == {"DEVICE": "cuda", "PRECISION": "fp16"}
    assert lab.run("p,group,_cuda,_fp32").env == {"DEVICE": "cuda", "PRECISION": "fp32"}
    refused = lab.run("p,group,_cuda,_cpu")
    assert refused.answer["return"] == 4
    assert "_cuda and _cpu exclude each other" in refused.err
    assert lab.run("p,group,-_cpu").env == {"PRECISION": "fp32"}


def test_lists_reach_a_native_script_as_search_paths(lab: Lab) -> None:
    lab.script(
        "p-list",
        env={"+PATH": ["/zz/bin"], "+ CFLAGS": ["-O2", "-g"], "ITEMS": ["a", "b"]},
        new_env_keys=["GOT_*"],
        run='{ echo "GOT_PATH=${PATH%%:*}"; echo "GOT_CFLAGS=$CFLAGS"; echo "GOT_ITEMS=$ITEMS"; }'
        " > $CM_TMP_RUN_DIR/out; cp $CM_TMP_RUN_DIR/out tmp-run-env.out",
        cache=True,
    )
    assert lab.run("p,list").env == {
        "GOT_PATH": "/zz/bin",
        "GOT_CFLAGS": "-O2 -g",
        "GOT_ITEMS": "a:b",
    }


@pytest.mark.parametrize("value", ['a"b', "$HOME `id`", "two  blanks", "x=y=z", "';rm -rf /'"])
def test_values_reach_a_native_script_unchanged(lab: Lab, value: str) -> None:
    lab.script(
        "p-quote",
        input_mapping={"value": "V"},
        new_env_keys=["GOT"],
        cache=True,
        run='printf "GOT=%s\\n" "$V" > tmp-run-env.out',
    )
    assert lab.run("p,quote", value=value).env["GOT"] == value


def test_versions(lab: Lab) -> None:
    lab.script(
        "p-ver",
        cache=True,
        new_env_keys=["WORD"],
        default_version="2.0",
        versions={"1.0": {"env": {"WORD": "one"}}, "2.0": {"env": {"WORD": "two"}}},
    )
    words = [
        lab.run("p,ver", **flags).env["WORD"]
        for flags in (
            {},
            {"version": "1.0"},
            {},
            {"version_min": "1.5"},
            {"version_max": "1.2", "version_max_usable": "1.0"},
        )
    ]
    assert words == ["two", "one", "two", "two", "one"]


def test_sort_decides_between_scripts_with_the_same_tags(lab: Lab) -> None:
    lab.script("a-first", tags="p,multi", new_env_keys=["WHO"], env={"WHO": "a"}, sort=0)
    lab.script("b-second", tags="p,multi", new_env_keys=["WHO"], env={"WHO": "b"}, sort=-5)
    assert lab.run("p,multi").env["WHO"] == "b"


def test_state_goes_down_and_only_named_keys_come_back(lab: Lab) -> None:
    lab.script(
        "c-child",
        new_state_keys=["made"],
        customize="""
def preprocess(i):
    state = i['state']
    state['made'] = {'from': state.get('given')}
    state['hidden'] = 1
    return {'return': 0}
""",
    )
    lab.script("p-state", deps=[{"tags": "c,child"}], state={"given": 7}, new_state_keys=["*"])
    state = lab.run("p,state").answer["new_state"]
    assert state == {"given": 7, "made": {"from": 7}}
