"""Dependencies: their kinds and order, conditions, names, what passes down and what comes back."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lab import Lab

TRACE = """
import os
def note(i, word):
    with open({path!r}, 'a') as f:
        f.write(word + ' ')
    return {{'return': 0}}
def preprocess(i):
    return note(i, {pre!r})
def postprocess(i):
    return note(i, {post!r}) if {post!r} else {{'return': 0}}
"""


def tracing(path: Path, pre: str, post: str = "") -> str:
    return TRACE.format(path=str(path), pre=pre, post=post)


def test_order_of_one_run_and_of_a_cached_one(lab: Lab, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    for name in ("static", "dynamic", "pre", "posth", "post"):
        lab.script(f"c-{name}", customize=tracing(trace, name.upper()))
    lab.script(
        "p-deprun",
        cache=True,
        customize=tracing(trace, "preprocess", "postprocess"),
        run=f"printf 'RUN ' >> {trace}",
        deps=[{"tags": "c,static"}, {"tags": "c,dynamic", "dynamic": True}],
        prehook_deps=[{"tags": "c,pre"}],
        posthook_deps=[{"tags": "c,posth"}],
        post_deps=[{"tags": "c,post"}],
    )
    assert lab.run("p,deprun").answer["return"] == 0
    assert trace.read_text().split() == [
        "STATIC",
        "DYNAMIC",
        "preprocess",
        "PRE",
        "RUN",
        "POSTH",
        "postprocess",
        "POST",
    ]
    trace.unlink()
    assert lab.run("p,deprun").answer["cached"]
    assert trace.read_text().split() == ["DYNAMIC"]


def test_conditions_on_keys_that_a_step_sets_while_it_runs(lab: Lab) -> None:
    lab.script("install-x", new_env_keys=["X"], env={"X": "installed"})
    lab.script(
        "get-x",
        new_env_keys=["X"],
        input_mapping={"have": "HAVE"},
        customize="""
def preprocess(i):
    env = i['env']
    if env.get('HAVE') == 'yes':
        env['X'] = 'found'
    else:
        env['CM_REQUIRE_INSTALL'] = 'yes'
    return {'return': 0}
""",
        prehook_deps=[{"tags": "install,x", "enable_if_env": {"CM_REQUIRE_INSTALL": ["yes"]}}],
    )
    assert lab.run("get,x").env["X"] == "installed"
    assert lab.run("get,x", have=True).env["X"] == "found"


def test_a_path_for_a_dependency_is_meant_from_where_the_user_is(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.script(
        "get-leaf",
        cache=True,
        input_mapping={"file": "CM_LEAF_FILE", "word": "CM_LEAF_WORD"},
        input_description={
            "file": {"desc": "a file", "type": "path"},
            "word": {"desc": "a word", "type": "str"},
        },
        new_env_keys=["CM_LEAF_*"],
    )
    deps = [{"tags": "get,leaf", "names": ["leaf"]}]
    lab.script("p-top", deps=[{"tags": "get,mid"}], new_env_keys=["CM_LEAF_*"])
    lab.script("get-mid", cache=True, deps=deps, new_env_keys=["CM_LEAF_*"])
    asked = {"leaf": {"file": "x.json", "word": "x.json"}}
    for name in ("one", "another"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        (tmp_path / name / "x.json").touch()
        for _ in range(2):
            found = lab.run("p,top", adr=asked).env
            assert found["CM_LEAF_FILE"] == str(tmp_path / name / "x.json")
            assert found["CM_LEAF_WORD"] == "x.json"
    asked["leaf"]["file"] = "folder/that-will-be-made"
    found = lab.run("p,top", adr=asked).env
    assert found["CM_LEAF_FILE"] == str(tmp_path / "another/folder/that-will-be-made")


def test_names_and_adr_reach_any_depth_and_the_user_wins(lab: Lab) -> None:
    lab.script(
        "c-leaf",
        new_env_keys=["LEAF", "V"],
        input_mapping={"colour": "LEAF"},
        variations={"v": {"env": {"V": "yes"}}},
    )
    lab.script("c-mid", new_env_keys=["LEAF", "V"], deps=[{"tags": "c,leaf", "names": ["leaf"]}])
    lab.script(
        "p-top",
        new_env_keys=["LEAF", "V"],
        deps=[{"tags": "c,mid"}],
        adr={"leaf": {"colour": "red"}},
    )
    assert lab.run("p,top").env["LEAF"] == "red"
    changed = lab.run("p,top", adr={"leaf": {"colour": "blue", "tags": "_v"}})
    assert changed.env == {"LEAF": "blue", "V": "yes"}


def test_tags_from_env_inherited_variations_and_reused_version(lab: Lab) -> None:
    lab.script(
        "c-child",
        new_env_keys=["GOT_*"],
        customize="""
def preprocess(i):
    env = i['env']
    env['GOT_VERSION'] = env.get('CM_VERSION', '')
    return {'return': 0}
""",
        variations={
            "pkg.#": {"env": {"GOT_PKG": "#"}},
            "lto": {"env": {"GOT_LTO": "yes"}},
        },
    )
    lab.script(
        "p-parent",
        new_env_keys=["GOT_*"],
        env={"PACKAGE": "numpy"},
        variations={"lto": {}},
        deps=[
            {
                "tags": "c,child",
                "update_tags_from_env_with_prefix": {"_pkg.": ["PACKAGE", "UNSET"]},
                "inherit_variation_tags": True,
                "reuse_version": True,
            }
        ],
    )
    env = lab.run("p,parent,_lto", version="3.1").env
    assert env == {"GOT_PKG": "numpy", "GOT_LTO": "yes", "GOT_VERSION": "3.1"}


def test_what_a_dependency_sees_and_gives_back(lab: Lab) -> None:
    lab.script(
        "c-child",
        new_env_keys=["CM_C_*"],
        customize="""
def preprocess(i):
    env = i['env']
    seen = [k for k in ('CM_OPEN', 'CM_TMP_X', 'CM_VERSION', 'CM_NAME', 'CM_LOCAL', 'CM_GIT_URL')
            if env.get(k)]
    env['CM_C_SEEN'] = ' '.join(seen)
    env['CM_SECRET'] = 'stays here'
    return {'return': 0}
""",
    )
    lab.script(
        "p-parent",
        new_env_keys=["CM_C_SEEN", "CM_SECRET"],
        env={
            "CM_OPEN": "1",
            "CM_TMP_X": "1",
            "CM_LOCAL": "1",
            "CM_GIT_URL": "1",
            "CM_UNSET": "<<<Z>>>",
        },
        local_env_keys=["CM_LOCAL"],
        variations={"force": {"deps": []}},
        deps=[{"tags": "c,child", "force_env_keys": ["CM_GIT_URL"]}],
    )
    env = lab.run("p,parent", version="1", name="n").env
    assert env == {"CM_C_SEEN": "CM_OPEN CM_GIT_URL"}


def test_a_variation_replaces_a_dependency_of_the_same_names(lab: Lab) -> None:
    lab.script("c-one", new_env_keys=["WHO"], env={"WHO": "one"})
    lab.script("c-two", new_env_keys=["WHO"], env={"WHO": "two"})
    lab.script(
        "p-parent",
        new_env_keys=["WHO"],
        deps=[{"tags": "c,one", "names": ["c"]}],
        variations={"two": {"deps": [{"tags": "c,two", "names": ["c"]}]}},
    )
    assert lab.run("p,parent").env["WHO"] == "one"
    assert lab.run("p,parent,_two").env["WHO"] == "two"


def test_lists_of_search_paths_grow_without_repeats(lab: Lab) -> None:
    lab.script("c-one", new_env_keys=["+PATH"], env={"+PATH": ["/a", "/b"]})
    lab.script("c-two", new_env_keys=["+PATH"], env={"+PATH": ["/b", "/c"]})
    lab.script("p-parent", new_env_keys=["+PATH"], deps=[{"tags": "c,one"}, {"tags": "c,two"}])
    assert lab.run("p,parent").env["+PATH"] == ["/a", "/b", "/c"]


def test_an_uncached_dependency_works_in_the_entry_of_its_caller(lab: Lab) -> None:
    lab.script(
        "c-where",
        new_env_keys=["WHERE"],
        customize="""
from __future__ import annotations
import os
from dataclasses import dataclass
@dataclass(frozen=True)
class Place:
    path: str
def preprocess(i):
    i['env']['WHERE'] = Place(os.getcwd()).path
    return {'return': 0}
""",
    )
    lab.script("get-x", cache=True, new_env_keys=["WHERE"], deps=[{"tags": "c,where"}])
    assert lab.run("get,x").env["WHERE"] == lab.store.entries()[0].path
    assert lab.run("c,where").env["WHERE"] == os.getcwd()


def test_a_script_that_depends_on_itself_is_refused(lab: Lab) -> None:
    lab.script("p-a", deps=[{"tags": "p,b"}])
    lab.script("p-b", deps=[{"tags": "p,a"}])
    refused = lab.run("p,a")
    assert refused.answer["code"] == "dependency-cycle"
    assert "p-a > p-b > p-a > p-b" in refused.err


def test_native_script_of_the_flavour_comes_first(lab: Lab) -> None:
    path = lab.script(
        "p-native",
        cache=True,
        new_env_keys=["WHO"],
        env={"CM_HOST_OS_FLAVOR": "debian"},
        run="echo WHO=generic > tmp-run-env.out",
        files={"run-debian.sh": "echo WHO=debian > tmp-run-env.out"},
    )
    assert lab.run("p,native").env["WHO"] == "debian"
    (path / "run-debian.sh").unlink()
    assert lab.run("p,native").env["WHO"] == "generic"


def test_script_prefix_lines_are_sourced_before_the_native_script(lab: Lab) -> None:
    lab.script("c-venv", new_state_keys=["script_prefix"], state={"script_prefix": ["WHO=venv"]})
    lab.script(
        "p-native",
        cache=True,
        new_env_keys=["GOT"],
        deps=[{"tags": "c,venv"}],
        run="echo GOT=$WHO > tmp-run-env.out",
    )
    assert lab.run("p,native").env["GOT"] == "venv"


def test_updates_of_a_script_win_over_its_callers_and_the_users_over_all(lab: Lab) -> None:
    lab.script("c-leaf", new_env_keys=["LEAF"], input_mapping={"colour": "LEAF"}, cache=True)
    lab.script(
        "c-mid",
        cache=True,
        new_env_keys=["LEAF"],
        deps=[{"tags": "c,leaf", "names": ["leaf"]}],
        variations={"green": {"adr": {"leaf": {"colour": "green"}}}},
    )
    for colour in ("red", "blue"):
        lab.script(
            f"p-{colour}",
            new_env_keys=["LEAF"],
            deps=[{"tags": "c,mid", "names": ["mid"]}],
            adr={"leaf": {"colour": colour}},
        )
    assert lab.run("p,red").env["LEAF"] == "red"
    assert lab.run("p,blue").env["LEAF"] == "blue"
    assert lab.run("p,red").status["c-mid"] == "cached"
    assert lab.run("p,red", adr={"mid": {"tags": "_green"}}).env["LEAF"] == "green"
    chosen = {"mid": {"tags": "_green"}, "leaf": {"colour": "white"}}
    assert lab.run("p,red", adr=chosen).env["LEAF"] == "white"
    assert lab.run("p,red", adr={"mid": {"tags": "_green"}}).env["LEAF"] == "green"
