"""Which commands are taken from a collection, and when two runs of one are the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import as_typed
import pytest
from documented import Session, from_file, sample, sessions
from sandbox import Ran

from support import link_engine, python_env

META = """
alias: get-x
uid: 0123456789abcdef
tags: [get, x]
input_mapping: {size: SIZE}
input_description: {size: {choices: [small, big]}}
variations: {fast: {}, "of.#": {}, "fast,of.#": {}}
tests:
  run_inputs:
  - variations_list: ["fast,of.1"]
    env: {A: "b c"}
"""
PAGE = """
    mlcr get,x --size=big \\
        --quiet
$ mlcr get,x[,variations] [--input_flags]
mlcr get,x --size=<size>
mlcr push,x --quiet
mlc pull repo someone@scripts
"""
FLOW = """
jobs:
  one:
    steps:
    - run: |
        pip install mlcflow
        mlcr get,x --quiet
        test -f x || exit 1
    - run: mlcr get,x --size=${{ matrix.size }}
    - run: echo nothing of ours
"""


@pytest.fixture
def collection(tmp_path: Path) -> Path:
    for name, text in (
        ("script/get-x/meta.yaml", META),
        ("README.md", PAGE),
        (".github/workflows/a.yml", FLOW),
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_what_a_collection_tells_its_users_to_type(collection: Path) -> None:
    found = sessions("mlc", collection)
    lines = {kind: [session.lines for session in listed] for kind, listed in found.items()}
    assert lines["pages"] == [
        ("mlcr get,x --size=big --quiet",),
        ("mlcr get,x --quiet",),
        ("mlcr get,x --size=given --quiet",),
    ]
    assert lines["workflows"] == [("mlcr get,x --quiet\ntest -f x || exit 1",)]
    assert lines["tests"] == [("mlcr get,x,_fast,_of.1 --env.A='b c' --quiet",)]
    assert lines["scripts"] == [], "it is among the pages"
    assert lines["variations"] == [
        ("mlcr get,x,_fast --quiet",),
        ("mlcr get,x,_of.1 --quiet",),
    ]
    assert lines["inputs"] == [("mlcr get,x --size=small --quiet",)]
    assert ("mlcr get,x --env.MLC_TRIED=1 --quiet",) in lines["flags"]
    copied = next(each for each in lines["verbs"] if " cp " in each[0])
    assert copied[1:] == ("mlc find script get-x", "mlc find script mine-too")
    drawn = sample(found, {"flags": 5, "verbs": 5}, 3)
    assert drawn == sample(found, {"flags": 5, "verbs": 5}, 3)
    assert len(drawn) == 10


def test_what_another_projects_pages_tell_to_type(
    collection: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    pages = tmp_path_factory.mktemp("other")
    lines = "    mlcr get,x --outdirname=<Download path> -j\n    mlcr get,x --quiet\n"
    (pages / "a.md").write_text(lines)
    found = sessions("mlc", collection, pages)
    assert [s.lines for s in found["documents"]] == [
        ("mlcr get,x --outdirname=given -j --quiet",)
    ], "the other line is among the collection's own pages"


def test_sessions_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_text("# no\n{run} get,x --env.{P}_A=1 ;; ls\ncm: cm version\n")
    assert [s.lines for s in from_file(path, "mlc")] == [("mlcr get,x --env.MLC_A=1", "ls")]
    assert len(from_file(path, "cm")) == 2


def test_the_engine_alone_brings_its_libraries(tmp_path: Path) -> None:
    engine = link_engine(tmp_path / "engine")
    told = subprocess.run(
        [sys.executable, "-c", "import cmbench; print(cmbench.LIBRARIES)"],
        env=python_env(engine / "automation"),
        capture_output=True,
        text=True,
        check=True,
    )
    assert Path(told.stdout.strip()) == engine / "lib"


def ran(*records: dict[str, object], **more: object) -> Ran:
    return Ran(tuple({"status": 0, **each} for each in records), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("theirs", "ours", "said"),
    [
        (ran({"new_env": {"A": "1"}}), ran({"new_env": {"A": "1"}}), ""),
        (ran({"new_env": {"A": "1"}}), ran({"new_env": {}}), "new_env A: '1' and None"),
        (ran({}), ran({"status": 16}), "status 0 and 16"),
        (ran({"status": 1}), ran({}), ""),
        (ran({"status": 1}, {}), ran({"status": 2}, {"status": 1}), "1: status 0 and 1"),
        (ran({}), ran({}, {}), "commands: 1 and 2"),
        (ran({}, files=("a",)), ran({}), "file of theirs alone: a"),
        (ran({}, entries=(("x",),)), ran({}, entries=(("x", "y"), ("x", "z"))), ""),
        (ran({}, entries=(("x", "y"),)), ran({}, entries=(("x",),)), "entry of theirs alone: x,y"),
        (ran({}), ran({}, entries=(("x",),)), "entry of ours alone: x"),
        (ran({"status": 1}, {}), ran({"status": 2}, {}, entries=(("x",),)), ""),
        (ran({"deps": ["a,b,"]}), ran({"deps": ["a,b", "c"]}), ""),
        (ran({"deps": [{"tags": "a"}]}), ran({"deps": ["a"]}), "deps"),
        (ran({"list": ["/x/get-a"]}), ran({"list": ["/y/get-a"]}), ""),
        (ran({"list": ["/x/get-a"]}), ran({"list": []}), "list"),
        (ran({"list": ["/x/get-a"]}), ran({"list": None}), ""),
    ],
)
def test_when_two_runs_are_the_same(theirs: Ran, ours: Ran, said: str) -> None:
    found = list(as_typed.differences(theirs, ours))
    assert (said in found[0]) if said else not found, found


THEIRS = "Portable CM script failed (name = download-file, return code = 1024)"
CRASH = "customize.py of run-app failed: TypeError: 'NoneType' object is not iterable"


@pytest.mark.parametrize(
    ("theirs", "ours", "verdict"),
    [
        (THEIRS, "run.sh of download-file exited with status 4", "theirs fails, ours too"),
        (THEIRS, CRASH, "both fail, elsewhere"),
        (THEIRS, "there is no way to the network", "theirs fails, ours too"),
        ("no scripts were found", CRASH, "theirs fails, ours too"),
        (THEIRS, "", "theirs fails, ours does not"),
    ],
)
def test_where_both_fail_the_step_is_compared(theirs: str, ours: str, verdict: str) -> None:
    one = ran({"status": 1, "error": theirs})
    other = ran({"status": int(bool(ours)), "error": ours})
    session = Session("pages", "README.md", ("cm run script --tags=x",))
    assert as_typed.Compared(session, one, other, ()).verdict == verdict
