"""Which script is meant where several repositories have one for the same tags."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cmbench.errors import Error
from cmbench.format.meta import read_meta
from cmbench.index.select import choose, parse_tags
from cmbench.session.call import Call
from cmbench.session.workspace import Workspace
from lab import Lab

META = {"automation_alias": "script", "automation_uid": "5b4e0237da074764"}


def add(root: Path, alias: str, tags: str, who: str, **more: Any) -> None:
    """A script that tells whose it is."""
    path = root / "script" / alias
    path.mkdir(parents=True, exist_ok=True)
    (root / "cmr.yaml").write_text(f"alias: {root.name}\n")
    meta = {**META, "alias": alias, "uid": os.urandom(8).hex(), "tags": tags.split(",")}
    meta |= {"env": {f"CM_{alias[4].upper()}": who}, "new_env_keys": ["CM_X", "CM_Y"], **more}
    (path / "meta.yaml").write_text(json.dumps(meta))


@pytest.fixture
def two(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """``lab`` and another repository, which comes first by its path, have the same scripts."""
    other = tmp_path / "another"
    for root, who in ((lab.repo, "lab"), (other, "another")):
        add(root, "get-x", "get,x", who, deps=[{"tags": "get,y"}])
        add(root, "get-y", "get,y", who)
    lab.others.append(other)
    monkeypatch.chdir(lab.home)
    return lab


def test_a_dependency_comes_from_the_repository_of_its_caller(
    two: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert two.run("get,x").env == {"CM_X": "lab", "CM_Y": "lab"}
    monkeypatch.chdir(two.others[0] / "script")
    assert two.run("get,x").env == {"CM_X": "another", "CM_Y": "another"}


def test_a_dependency_that_its_caller_has_not_comes_from_elsewhere(two: Lab) -> None:
    add(two.others[0], "get-z", "get,z", "another")
    add(two.repo, "get-x", "get,x", "lab", deps=[{"tags": "get,z"}])
    assert two.run("get,x").env["CM_X"] == "lab"


@pytest.mark.parametrize("flags", [{"tags": "get,x"}, {"artifact": "get-x"}])
def test_the_one_registered_first_is_taken_and_it_is_said(
    flags: dict[str, str], two: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = two.call("run", **flags)
    assert result.env["CM_X"] == "lab"
    assert result.err.startswith("note: lab's script is used; also in: another (to use theirs: cd")
    monkeypatch.chdir(two.others[0])
    result = two.call("run", **flags)
    assert result.env["CM_X"] == "another"
    assert "note:" not in result.err


def test_a_search_says_whose_each_script_is(two: Lab) -> None:
    out = two.call("search", tags="get,x").out
    assert "get-x (lab)" in out
    assert "get-x (another)" in out
    two.others.clear()
    assert two.call("search", tags="get,x").out.startswith("get-x\n")


def test_a_word_that_each_repository_has_once_is_clear(two: Lab) -> None:
    assert two.run("x").env["CM_X"] == "lab"
    result = two.run("get")
    assert result.answer["return"] != 0
    assert "get-x, get-y" in result.err


def test_a_fork_with_the_same_alias_is_another_repository(
    two: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    fork = two.home / "fork" / "lab"
    for name in ("get-x", "get-y"):
        add(fork, name, name.replace("-", ","), "fork", deps=[{"tags": "get,y"}][: name == "get-x"])
    repos = two.cmind().repos.lst
    repos[1] = SimpleNamespace(path_with_prefix=str(fork), meta=repos[0].meta)
    cmind = SimpleNamespace(repos_path=str(two.home), repos=SimpleNamespace(lst=repos))
    first = Call(Workspace.of_cmind(cmind, write=False), {"tags": "get,x"})
    assert first.request().script.path == str(two.repo / "script/get-x")
    monkeypatch.chdir(fork)
    second = Call(Workspace.of_cmind(cmind, write=False), {"tags": "get,x"})
    caller = second.request().script
    assert caller.path == str(fork / "script/get-x")
    assert choose(second.workspace.index, parse_tags("get,y"), "", caller).path == str(
        fork / "script/get-y"
    )


def test_a_checkout_stands_before_the_copy_of_an_installed_package(two: Lab) -> None:
    copy = two.home / "site-packages" / "cmbench" / "repo"
    add(copy, "get-x", "get,x", "copy")
    (copy.parent / "__init__.py").touch()
    installed, checkout = (
        SimpleNamespace(path_with_prefix=str(path), meta={"alias": "cmbench"})
        for path in (copy, two.repo)
    )
    for repos, expected in (([installed, checkout], [two.repo]), ([installed], [copy])):
        cmind = SimpleNamespace(repos_path=str(two.home), repos=SimpleNamespace(lst=repos))
        workspace = Workspace.of_cmind(cmind, write=False)
        assert [repo.path for repo in workspace.repositories] == list(map(str, expected))


def test_the_first_command_says_which_engine_runs(lab: Lab, tmp_path: Path) -> None:
    other = tmp_path / "them@theirs"
    (other / "automation" / "script").mkdir(parents=True)
    (other / "automation" / "script" / "module.py").touch()
    (other / "script").mkdir()
    lab.others.append(other)
    lab.script("detect-x")
    first, second = lab.run("detect,x"), lab.run("detect,x")
    assert "note: cmbench runs the scripts of them@theirs here: cm run script" in first.err
    assert "cm rm repo cmbench" in first.err
    assert "cmbench runs" not in second.err
    later = tmp_path / "mlc@theirs"
    shutil.copytree(other, later)
    (later / "meta.yaml").write_text("alias: mlc@theirs\nuid: '1'\n")
    lab.others.append(later)
    third, fourth = lab.run("detect,x"), lab.run("detect,x")
    assert "runs the scripts of mlc@theirs" in third.err
    assert "mlcr" in third.err
    assert "them@theirs" not in third.err
    assert "cmbench runs" not in fourth.err


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("env: &x {A: *x}", "in itself"),
        ("env: " + "[" * 3000 + "]" * 3000, "nest(ed|ing)"),
        (
            "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
            + "\n".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)),
            "values",
        ),
    ],
)
def test_one_bad_meta_is_one_diagnostic(lab: Lab, text: str, why: str) -> None:
    lab.script("get-x", run="true")
    folder = lab.repo / "script/bad"
    folder.mkdir()
    (folder / "meta.yaml").write_text(text)
    assert lab.run("get,x").answer["return"] == 0
    with pytest.raises(Error, match=why):
        read_meta(str(folder))
