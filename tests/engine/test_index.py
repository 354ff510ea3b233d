"""The stored index: what keeps it up to date, and that nobody fails for lack of it."""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from cmbench.errors import Error
from cmbench.format import sources as content
from cmbench.index import scripts as index
from lab import Lab


class Read:
    """Counts what is read from the files themselves instead of from the index."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.metas: list[str] = []
        self.contents: list[str] = []
        read_meta, read_content = index.read_meta, content.read_content

        def meta(path: str) -> dict[str, Any]:
            self.metas.append(os.path.basename(path))
            return read_meta(path)

        def files(path: str, names: Any) -> content.Content:
            self.contents.append(os.path.basename(path))
            return read_content(path, names)

        monkeypatch.setattr(index, "read_meta", meta)
        monkeypatch.setattr(content, "read_content", files)

    def during(self, lab: Lab, verb: str, **flags: Any) -> tuple[list[str], list[str]]:
        self.metas.clear()
        self.contents.clear()
        assert lab.call(verb, **flags).answer["return"] == 0
        return sorted(self.metas), sorted(self.contents)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Read:
    return Read(monkeypatch)


@pytest.fixture
def two(lab: Lab) -> Lab:
    lab.script("get-x", deps=[{"tags": "get,y"}])
    lab.script("get-y", cache=True)
    return lab


def test_a_look_up_stores_what_it_has_read(two: Lab, read: Read) -> None:
    assert read.during(two, "search", tags="get") == (["get-x", "get-y"], [])
    assert read.during(two, "search", tags="get") == ([], [])
    two.script("get-y", name="another")
    assert read.during(two, "show", tags="get,x") == (["get-y"], [])
    assert read.during(two, "search", tags="get") == ([], [])
    assert "get-y: another" in two.call("search", tags="get,y").out


def test_a_plan_stores_what_it_has_read(two: Lab, read: Read) -> None:
    assert read.during(two, "plan", tags="get,x") == (["get-x", "get-y"], ["get-x", "get-y"])
    assert read.during(two, "plan", tags="get,x") == ([], [])
    two.script("get-y", run="true")
    assert read.during(two, "plan", tags="get,x") == (["get-y"], ["get-y"])
    assert read.during(two, "run", tags="get,x") == ([], [])


def test_a_run_stores_what_it_has_read(two: Lab, read: Read) -> None:
    assert read.during(two, "run", tags="get,y") == (["get-x", "get-y"], ["get-y"])
    assert read.during(two, "run", tags="get,y") == ([], [])


@pytest.mark.parametrize("new", ["__pycache__/customize.pyc", "notes/README.md"])
def test_what_does_not_count_in_the_folder_of_a_script_makes_nobody_read_it_again(
    two: Lab, read: Read, new: str
) -> None:
    read.during(two, "run", tags="get,y")
    # As the first run does where customize.py is compiled.
    file = two.repo / "script" / "get-y" / new
    file.parent.mkdir()
    file.touch()
    assert read.during(two, "run", tags="get,y") == ([], [])


@pytest.mark.parametrize("counted", ["README.md", "tests/data.txt", "../common/lib.sh"])
def test_what_counts_beside_the_files_of_a_script_is_stored_too(
    lab: Lab, read: Read, counted: str
) -> None:
    script = lab.script("get-x", run=f'cat "$(dirname "$0")/../get-x/{counted}"; . x/../common/y')
    file = script / counted
    file.parent.mkdir(exist_ok=True)
    file.write_text("one")
    assert read.during(lab, "plan", tags="get,x") == (["get-x"], ["get-x"])
    assert read.during(lab, "plan", tags="get,x") == ([], [])
    file.write_text("other")
    assert read.during(lab, "plan", tags="get,x") == ([], ["get-x"])
    assert read.during(lab, "plan", tags="get,x") == ([], [])


def test_a_script_that_is_gone_leaves_the_index(two: Lab) -> None:
    two.call("plan", tags="get,x")
    (two.repo / "script/get-x/meta.yaml").unlink()
    assert [row["alias"] for row in two.call("search", tags="get").answer["list"]] == ["get-y"]
    with sqlite3.connect(two.home / "cmbench/index.db") as database:
        for table in ("scripts", "details"):
            paths = [row[0] for row in database.execute(f"select path from {table}")]
            assert [Path(path).name for path in paths] == ["get-y"]


def test_an_index_that_cannot_be_written_only_costs_time(
    two: Lab, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    two.call("plan", tags="get,x")
    two.script("get-y", name="another")
    place = two.home / "cmbench/index.db"
    before = place.read_bytes()
    connect = sqlite3.connect

    def read_only(path: Any, **how: Any) -> sqlite3.Connection:
        return connect(f"file:{path}?mode=ro", uri=True, **how)

    monkeypatch.setattr(sqlite3, "connect", read_only)
    for _ in range(2):
        assert read.during(two, "plan", tags="get,x") == (["get-y"], ["get-y"])
        assert "get-y: another" in two.call("search", tags="get,y").out
    assert place.read_bytes() == before


def test_a_home_that_cannot_hold_an_index_only_costs_time(two: Lab, read: Read) -> None:
    (two.home / "cmbench").write_text("no folder")
    for _ in range(2):
        assert read.during(two, "search", tags="get,x") == (["get-x", "get-y"], [])
        assert set(read.during(two, "plan", tags="get,x")[0]) == {"get-x", "get-y"}


@pytest.mark.parametrize("damage", ["no database", "of an older engine"])
def test_an_index_that_is_none_is_made_again(damage: str, two: Lab, read: Read) -> None:
    two.call("search", tags="get")
    place = two.home / "cmbench/index.db"
    place.unlink()
    if damage == "no database":
        place.write_bytes(b"not a database" * 100)
        two.call("search", tags="get")
    else:
        with sqlite3.connect(place) as database:
            database.execute("create table scripts(path text primary key, meta text)")
            database.execute("pragma user_version = 1")
    read.during(two, "search", tags="get")
    assert read.during(two, "search", tags="get") == ([], [])


def test_many_look_ups_at_once_leave_a_whole_index(two: Lab) -> None:
    for number in range(40):
        two.script(f"many-{number}")
    found = []
    for _ in range(8):
        pid = os.fork()
        if pid == 0:
            answer = two.call("search", tags="many").answer
            os._exit(len(answer.get("list", ())))
        found.append(pid)
    assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in found] == [40] * 8
    with sqlite3.connect(two.home / "cmbench/index.db") as database:
        assert database.execute("pragma integrity_check").fetchall() == [("ok",)]
        assert database.execute("select count(*) from scripts").fetchone() == (42,)


def test_look_ups_agree_however_many_there_were(two: Lab) -> None:
    """The first go through all scripts, later ones by a table of tags."""
    from cmbench.index.select import parse_tags

    two.script("odd", tags='get,a"b,c\\d')
    looked = index.Index([index.Repository("r", str(two.repo))], os.devnull, write=False)
    queries = ["get", "get,x", 'a"b', "c\\d,get", "a", "get,-x", "-get", "nothing,get", "b"]
    first = [[row.alias for row in looked.find(parse_tags(text))] for text in queries]
    assert first == [
        ["get-x", "get-y", "odd"],
        ["get-x"],
        ["odd"],
        ["odd"],
        [],
        ["get-y", "odd"],
        [],
        [],
        [],
    ]
    for _ in range(3):
        assert [[row.alias for row in looked.find(parse_tags(t))] for t in queries] == first


def test_a_fault_of_our_own_script_is_reported_in_the_place_of_its_name(two: Lab) -> None:
    two.script("bad", name="A name", nonsense=1)
    assert "bad: A name" in two.call("search", tags="bad").out
    result = two.call("search", own=True, tags="bad")
    assert "has 1 fault" in result.out
    with pytest.raises(Error, match="has 1 fault"):
        index.Index([index.Repository("r", str(two.repo), own=True)], os.devnull, False).script(
            str(two.repo / "script/bad")
        )


@pytest.mark.parametrize("alias", ["../../../evil", "a/b", "/tmp/evil"])
def test_an_alias_that_is_a_path_is_refused(lab: Lab, alias: str) -> None:
    path = lab.script("get-x", cache=True)
    meta = json.loads((path / "meta.yaml").read_text())
    (path / "meta.yaml").write_text(json.dumps({**meta, "alias": alias}))
    lab.script("get-y", cache=True)
    for verb in ("run", "plan"):
        failed = lab.call(verb, tags="get,x")
        assert failed.answer["code"] == "bad-meta"
        assert f"{path}/meta.yaml: alias" in failed.err
    assert lab.run("get,y").answer["return"] == 0
    assert lab.call("lint", tags="get,x").answer["return"] == 1


def test_a_meta_without_tags_is_named(lab: Lab) -> None:
    path = lab.script("get-x")
    (path / "meta.yaml").write_text("tags: null\n")
    failed = lab.run("get,x")
    assert failed.answer["code"] in ("bad-meta", "script-not-found")
    failed = lab.call("run", artifact="get-x")
    assert f"{path}/meta.yaml" in failed.err
