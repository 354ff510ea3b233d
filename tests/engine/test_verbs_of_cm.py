"""Verbs and flags that users of the first engines know, beside ours."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from lab import Lab
from support import Home, copy_checkout


def test_the_folders_of_scripts(lab: Lab) -> None:
    path = lab.script("get-tool")
    assert lab.call("search", tags="get,tool", p=True).out == f"{path}\n"


def test_what_entries_give(lab: Lab) -> None:
    lab.script("get-x", cache=True, env={"X": "1"}, new_env_keys=["X"])
    lab.run("get,x")
    shown = lab.call("search", "cache", tags="get,x", env=True).out
    assert "  X=1\n" in shown


def test_a_run_of_all_but_the_script(lab: Lab) -> None:
    (lab.repo / "meta.yaml").write_text("alias: lab\nuid: '1'\n")
    lab.script("get-b", run="echo b >> ran.txt\n")
    lab.script("get-a", run="echo a >> ran.txt\n", deps=[{"tags": "get,b"}])
    assert lab.call("prepare", tags="get,a").answer["return"] == 0
    assert Path("ran.txt").read_text() == "b\n"


def test_a_new_script_here_by_a_template(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(lab.repo)
    made = lab.call("add", artifact=".:run-thing", template="python")
    assert made.answer["return"] == 0, made.err
    assert (lab.repo / "script" / "run-thing" / "meta.yaml").exists()
    assert lab.call("add", artifact=".:run-other", template="java").answer["code"] == "bad-value"


@pytest.mark.slow
def test_cminds_own_verbs_see_a_new_script(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.cm("init", "repo", cwd=copy_checkout(tmp_path / "cmbench")).ok()
    home.cm("add", "repo", "mine").ok()
    home.cm("add", "script", "mine:get-thing").ok()
    assert "get-thing" in home.cm("load", "script", "get-thing", "--json").ok().stdout
    home.cm("rm", "script", "get-thing", "-f").ok()


def test_what_is_not_found_is_an_empty_list(lab: Lab) -> None:
    lab.script("get-tool")
    found = lab.call("search", artifact="get-tol")
    assert (found.answer["return"], found.answer["list"]) == (0, [])
    assert "get-tool" in found.err


def test_a_script_under_another_name(lab: Lab) -> None:
    path = lab.script("get-tool", env={"X": "1"}, new_env_keys=["X"])
    uid = lab.call("load", artifact="get-tool").answer["meta"]["uid"]
    copied = lab.call("copy", artifact="get-tool", artifacts=["lab:get-other"]).answer
    assert Path(copied["path"]).parent == path.parent
    assert [item.meta["alias"] for item in copied["list"]] == ["get-other"]
    assert lab.call("run", artifact="get-other").env == {"X": "1"}
    assert lab.call("load", artifact="get-other").answer["meta"]["uid"] != uid
    assert lab.call("move", artifact="get-tool", artifacts=["get-mine"]).answer["return"] == 0
    assert not path.exists()
    assert lab.call("load", artifact="get-mine").answer["meta"]["uid"] == uid
    for names in (["get-other"], ["../get-else"], [".:get-else"], []):
        refused = lab.call("copy", artifact="get-mine", artifacts=names).answer
        assert refused["code"] == "bad-value", refused
    assert sorted(p.name for p in path.parent.iterdir()) == ["get-mine", "get-other"]


@pytest.mark.parametrize(
    "tags", ["tags: [get, tool]", "tags:\n- get\n- tool", "tags:\n  - get\n  - tool"]
)
def test_a_new_script_like_another(tags: str, lab: Lab) -> None:
    path = lab.script("get-tool")
    meta = f"# mine\nalias: get-tool\nuid: 0123456789abcdef\n{tags}\nenv:\n  X: '1'\n"
    (path / "meta.yaml").write_text(f"{meta}new_env_keys: [X]\n")
    lab.call("add", artifact="lab:mine2", tags="b,mine", template_tags="get,tool")
    assert lab.run("b,mine").env == {"X": "1"}
    assert "# mine" in (path.parent / "mine2" / "meta.yaml").read_text()
    assert lab.run("get,tool").env == {"X": "1"}


def test_a_command_with_an_env(lab: Lab) -> None:
    done = lab.call("native_run", command="echo $A > a.txt; exit 3", env={"A": "b"})
    assert (done.answer["return"], done.answer["return_code"]) == (0, 3)
    assert Path("a.txt").read_text() == "b\n"


def test_entries_that_are_set_aside_or_expired(lab: Lab) -> None:
    mlc = lab
    (mlc.repo / "meta.yaml").write_text("alias: lab\nuid: '1'\n")
    mlc.script("get-x", cache=True, run="echo x >> ran.txt\n")
    mlc.script("get-y", cache=True, cache_expiration="1m")
    for script in ("get,x", "get,x", "get,y"):
        first = mlc.run(script)
    marked = mlc.call("mark_tmp", "cache", tags="get,x").answer
    assert [item["tags"][-1] for item in marked["list"]] == ["tmp"]
    assert not mlc.run("get,x").answer["cached"]
    assert mlc.run("get,x").answer["cached"]
    assert mlc.call("prune", "cache").answer["pruned"] == 0
    assert mlc.call("mark_tmp", "cache", tags="no,such").answer["list"] == []
    assert mlc.call("mark_tmp", "cache").answer["code"] == "bad-value"
    entry = mlc.call("search", "cache", tags="get,y").answer["list"][0]
    late = time.time() + 3600
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "time", lambda: late)
        assert mlc.call("prune", "cache").answer["removed"] == [entry["uid"]]
    assert first.answer["return"] == 0


def test_all_entries_go_without_a_question(lab: Lab) -> None:
    lab.script("get-x", cache=True)
    lab.run("get,x")
    assert lab.call("delete", "cache").answer["code"] == "bad-value"
    assert len(lab.call("delete", "cache", f=True).answer["removed"]) == 1


def test_any_name_for_a_script_of_ones_own(lab: Lab) -> None:
    assert lab.call("add", artifact="lab:mine2", tags="a,mine").answer["return"] == 0
    assert (lab.repo / "script" / "mine2" / "src" / "main.py").exists(), "no tool to be found"
    found = lab.call("search", tags="a,mine").answer["list"]
    assert [item["alias"] for item in found] == ["mine2"]


def test_the_help_of_a_script(lab: Lab) -> None:
    lab.script("get-x", input_mapping={"size": "SIZE"})
    assert "--size" in lab.call("help", artifact="get-x").out
