"""Verbs and flags that users of the first engines know, beside ours."""

from __future__ import annotations

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
