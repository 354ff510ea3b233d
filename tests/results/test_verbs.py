"""``cm … results`` as it is typed."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from samples import BATCHES, NEWER_ROW, ROW, THREADS, experiments, own_run, sweep

import benchmark_lab
from cmbench.errors import Error
from cmbench.session.workspace import Workspace
from cmbench_results import python_api
from support import HANG_S, ROOT, Finished, Home

Cm = Callable[..., Finished]


@pytest.fixture
def published(tmp_path: Path) -> Path:
    fast = {**ROW, "Platform": "box_9", "SystemName": "Box Nine", "Result": 5000}
    return experiments(tmp_path / "published", ROW, fast, NEWER_ROW, {"version": "v1"})


def test_add_find_show_compare_export_remove(cm: Cm, published: Path, tmp_path: Path) -> None:
    own_run(tmp_path / "run")
    done = cm("add", "results", str(published), str(tmp_path / "run"))
    assert "3 results from" in done.stdout
    assert "1 row could not be read" in done.stdout
    found = json.loads(cm("find", "results", "bert-99", "--json").ok().stdout)
    assert found["total"] == 2
    first, second = (row["uid"] for row in found["list"])
    for sort, order in (("throughput", [first, second]), ("-throughput", [second, first])):
        listing = cm("find", "results", "bert-99", f"--sort={sort}", "--json").ok().stdout
        assert [row["uid"] for row in json.loads(listing)["list"]] == order
    text = cm("find", "results", "bert-99").ok().stdout
    assert all(len(line) <= 80 for line in text.splitlines())
    assert "5,000 samples/s" in text
    assert "published by MLCommons" in cm("show", "results", first).ok().stdout
    shown = cm("show", "results", "last").ok().stdout
    assert "cm run script x" in shown
    assert "report.html" not in shown
    (tmp_path / "run" / "report.html").touch()
    words = "".join(cm("show", "results", "last").ok().stdout.split())
    assert f"report{tmp_path}/run/report.html" in words
    assert "x0.2" in cm("compare", "results", first, second).ok().stdout
    for words, hint in (
        (["brt-99", "Offline"], 'the word "brt-99": did you mean "bert-99"'),
        (["Nine", "--round=9.9"], "no result has round 9.9"),
        (["Nine", "--tier=local"], "without --tier=local: 1 result"),
    ):
        assert hint in cm("find", "results", *words).ok().stdout
    priced = cm("find", "results", "Nine", "--price_per_hour=18").ok().stdout
    assert "$1 a million samples" in priced
    assert "bert-99 (2)" in cm("find", "results", "--facets").ok().stdout
    assert (
        "2 results in"
        in cm("export", "results", "bert-99", "--csv", f"--output={tmp_path}/t.csv").ok().stdout
    )
    assert (tmp_path / "t.csv").read_text(encoding="utf-8").count("\n") == 3
    assert "1 result removed" in cm("rm", "results", first).ok().stdout
    assert "2 results removed" in cm("rm", "results", str(published)).ok().stdout
    assert "1 result in the database" in cm("reindex", "results").ok().stdout
    assert str(tmp_path / "run") in cm("show", "results").ok().stdout


def test_results_from_python_are_those_of_the_command_line(
    cm: Cm, home: Home, published: Path, tmp_path: Path
) -> None:
    own_run(tmp_path / "run")
    cm("add", "results", str(published), str(tmp_path / "run")).ok()
    workspace = Workspace.open(str(home.cm_repos), [])
    found = json.loads(cm("find", "results", "bert-99", "--json").ok().stdout)["list"]
    typed = python_api.results("bert-99", workspace=workspace)
    assert [result.uid for result in typed] == [row["uid"] for row in found]
    assert [result.value for result in typed] == [row["value"] for row in found]
    cm("export", "results", "--csv", f"--output={tmp_path}/all.csv").ok()
    with (tmp_path / "all.csv").open(encoding="utf-8", newline="") as stream:
        exported = list(csv.DictReader(stream))
    table = python_api.rows(workspace=workspace)
    assert [list(row) for row in table] == [list(row) for row in exported]
    assert len(python_api.rows(workspace=workspace, organization="none")) == 0
    with pytest.raises(Error, match="results have no colour"):
        python_api.results(workspace=workspace, colour="red")


def test_each_point_of_a_sweep_has_its_repeats(cm: Cm, tmp_path: Path) -> None:
    sweep(tmp_path / "sweep")
    cm("add", "results", str(tmp_path / "sweep")).ok()
    cm("export", "results", "--csv", f"--output={tmp_path}/t.csv").ok()
    with open(tmp_path / "t.csv", encoding="utf-8", newline="") as stream:
        exported = list(csv.DictReader(stream))
    assert sorted(Counter(row["series"] for row in exported).values()) == [3] * 6
    assert {(row["settings.batch"], row["settings.threads"]) for row in exported} == {
        (str(batch), str(threads)) for batch in BATCHES for threads in THREADS
    }
    assert {row["measured_at"][:13] for row in exported} == {f"2026-11-2{n}T10" for n in range(3)}
    shown = cm("show", "results", exported[0]["uid"]).ok().stdout
    assert "3, median 612, spread 9.8%" in shown
    again = cm("export", "results", "--csv", f"--output={tmp_path}/t.csv")
    assert "exists already" in again.stderr
    assert "--force" in again.stderr


def test_results_of_ones_own_are_told_apart_in_the_table(cm: Cm, tmp_path: Path) -> None:
    sweep(tmp_path / "sweep")
    cm("add", "results", str(tmp_path / "sweep")).ok()
    text = cm("find", "results").ok().stdout
    assert all(len(line) <= 80 for line in text.splitlines())
    assert "local: lab, m, onnxruntime, float32, 2026-11-22 10:05" in text
    assert "threads 2, batch 64" in text
    assert "330 per core" in text
    found = json.loads(cm("find", "results", "--json").ok().stdout)["list"]
    assert found[0]["settings"]["batch"] == "64"


def test_a_comparison_says_first_which_is_faster(cm: Cm, tmp_path: Path) -> None:
    sweep(tmp_path / "sweep")
    cm("add", "results", str(tmp_path / "sweep")).ok()
    found = json.loads(cm("find", "results", "--json").ok().stdout)["list"]
    assert cm("show", "results", "last~1").ok().stdout[:16] in {row["uid"] for row in found}
    best, other = found[0]["uid"], found[-1]["uid"]
    line = cm("diff", "results", other, best).ok().stdout.splitlines()
    assert line[0].startswith(
        "B is 6 times as fast as A, beyond the noise (spread: A 9.8% of 3 runs"
    )
    assert "slower than A, x 0.167" in cm("compare", "results", best, other).ok().stdout


def test_where_there_is_no_result_yet_it_is_said_how_one_gets_there(
    cm: Cm, published: Path
) -> None:
    cm("version").ok()  # the first command of a home says that it is one
    for words in ((), ("bert-99",), ("--facets",), ("--frontier=throughput,energy_per_sample",)):
        (line,) = cm("find", "results", *words).ok().stdout.splitlines()
        assert line == "no results yet; add some: cm add results DIR"
    assert json.loads(cm("find", "results", "--json").ok().stdout) == {"total": 0, "list": []}
    cm("add", "results", str(published)).ok()
    assert cm("find", "results", "no-such").ok().stdout == (
        'no result matches\nno result has the word "no-such"\n'
    )


@pytest.mark.parametrize("damage", ["text", "holes"])
def test_a_damaged_database_is_moved_aside_and_made_anew(
    cm: Cm, home: Home, published: Path, damage: str
) -> None:
    cm("add", "results", str(published)).ok()
    file = home.cm_repos / "cmbench" / "results" / "index.sqlite"
    for log in file.parent.glob("index.sqlite-*"):
        log.unlink()
    whole = bytearray(file.read_bytes())
    whole[4096 : len(whole) // 2] = bytes(len(whole) // 2 - 4096)
    file.write_bytes(b"no database" * 999 if damage == "text" else whole)
    assert "cm reindex results" in cm("find", "results").stderr
    done = cm("reindex", "results").ok()
    assert "3 results in the database" in done.stdout
    [moved] = file.parent.glob("index.sqlite.damaged-*")
    assert moved.name in "".join(done.stderr.split())
    assert json.loads(cm("find", "results", "--json").ok().stdout)["total"] == 3
    cm("reindex", "results").ok()
    assert [*file.parent.glob("*.damaged-*")] == [moved], "what is whole stays"


def test_what_stands_where_an_export_goes_keeps_its_kind(
    cm: Cm, published: Path, tmp_path: Path
) -> None:
    cm("add", "results", str(published)).ok()
    target, link, pipe = tmp_path / "target", tmp_path / "link", tmp_path / "pipe"
    target.write_text("before", encoding="utf-8")
    link.symlink_to(target)
    os.mkfifo(pipe)
    read: list[str] = []
    reading = lambda: read.append(pipe.read_text(encoding="utf-8"))  # noqa: E731
    reader = threading.Thread(target=reading, daemon=True)
    reader.start()
    for place in (link, pipe):
        done = cm("export", "results", "--csv", f"--output={place}", "--force").ok()
        assert "3 results in" in done.stdout
    reader.join(HANG_S)
    assert link.is_symlink()
    assert pipe.is_fifo()
    assert target.read_text(encoding="utf-8").count("\n") == 4
    assert read == [target.read_text(encoding="utf-8")]
    assert list(tmp_path.glob(".*new")) == []


def place_files(home: Home) -> dict[str, Path]:
    """The files of places, by the name of the folder that was added."""
    found = home.cm_repos.rglob("results/places/*.jsonl")
    return {Path(json.loads(f.read_text("utf-8").split("\n")[0])["path"]).name: f for f in found}


@pytest.mark.parametrize("damage", ["cut", "shorter", "nuls", "empty", "text", "one line"])
def test_a_damaged_file_of_a_place_is_in_nobodys_way(
    cm: Cm, home: Home, tmp_path: Path, published: Path, damage: str
) -> None:
    cm("add", "results", str(own_run(tmp_path / "a")), str(published)).ok()
    broken = place_files(home)["published"]
    whole = broken.read_bytes()
    lines = whole.splitlines(keepends=True)
    broken.write_bytes(
        {
            "cut": whole[:-9],
            "shorter": b"".join(lines[:-1]),
            "nuls": b"\0" * len(whole),
            "empty": b"",
            "text": b"[1]\n" + whole,
            "one line": lines[0] + lines[1] + b"null\n",
        }[damage]
    )
    done = cm("reindex", "results").ok()
    assert "1 result in the database" in done.stdout
    assert f"left out: {broken} cannot be read" in done.stdout
    assert cm("rm", "results", str(tmp_path / "a")).ok().stdout.startswith("1 result removed")
    assert f"cm rm results {broken.stem}" in done.stdout
    cm("rm", "results", str(published)).ok()
    assert not broken.exists()
    assert cm("find", "results", "--json").ok().stderr == ""
    assert json.loads(cm("find", "results", "--json").ok().stdout)["total"] == 0


def test_what_a_broken_place_shares_with_another_is_the_others_alone(
    cm: Cm, home: Home, tmp_path: Path
) -> None:
    cm("add", "results", str(experiments(tmp_path / "a", ROW))).ok()
    cm("add", "results", str(experiments(tmp_path / "b", ROW, NEWER_ROW))).ok()
    broken = place_files(home)["b"]
    broken.write_bytes(b"\0" * 99)
    done = cm("find", "results", "--json").ok()
    assert f"warning: {broken} cannot be read" in done.stderr
    assert "warning" in cm("show", "results").ok().stderr
    cm("rm", "results", broken.stem).ok()
    found = json.loads(cm("find", "results", "--json").ok().stdout)
    assert [row["benchmark"] for row in found["list"]] == ["bert-99"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["add", "results"], "what to add"),
        (["add", "results", "/not/there"], "does not exist"),
        (["find", "results", "x", "--csv"], "cm export results x --csv"),
        (["diff", "runs", "last"], "cm diff script last~1 last"),
        (["find", "results", "--benchmrk=x"], 'did you mean "benchmark"'),
        (["find", "results", "--limit=many"], "not a number"),
        (["find", "results", "--limit=²"], "not a number"),
        (["find", "results", "--sort"], "--sort needs a value"),
        (["export", "results", "--csv", "--output"], "--output needs a value"),
        (["show", "results", "a" * 60_000], "there is no result aaa"),
        (["compare", "results", "\udcff", "a"], "too short for the id"),
        (["find", "results", *"abcdefghij" * 7], "the filter is too long"),
        (["find", "results", "--facets=benchmrk"], 'did you mean "benchmark"'),
        (["find", "results", "--frontier=value"], "not name two figures"),
        (["find", "results", "--frontier=value,speed"], "speed is not a figure"),
        (["show", "results", "abc"], "too short for the id"),
        (["compare", "results", "abc"], "two or more results"),
        (["export", "results"], "one format"),
        (["export", "results", "--csv"], "no result matches"),
        (["export", "results", "--csv=t.csv"], "with --output: --csv --output=t.csv"),
        (["rm", "results"], "which results"),
        (["find", "results", "--db=mysql://x"], "not an address"),
        (["fly", "results"], "is not a command"),
        (["plot", "results"], "cm gui results draws plots"),
        (["report", "results"], "cm show results last names the page"),
    ],
)
def test_what_cannot_be_done_is_told(cm: Cm, words: list[str], told: str) -> None:
    done = cm(*words)
    assert done.status not in (0, None)
    assert told in done.stderr.replace("\n          ", " ")


def test_help_lists_every_command(cm: Cm) -> None:
    told = cm("help", "results").ok().stdout
    for verb in ("add", "find", "show", "compare", "export", "rm", "reindex"):
        assert f"cm {verb} results" in told
    assert "--frontier=X,Y" in cm("find", "results", "--help").ok().stdout
    usage = cm("export", "results", "--help").ok().stdout
    assert "print the result as JSON" not in usage
    assert cm("help", "results", "export").ok().stdout == usage


@pytest.mark.parametrize(
    ("verb", "package", "code"),
    [("find", "sqlalchemy", "extra-missing"), ("serve", "starlette", "tool-missing")],
)
def test_without_the_extra_one_sentence_says_what_to_install(
    home: Home, verb: str, package: str, code: str
) -> None:
    code = (
        f"import sys; sys.modules[{package!r}] = None\n"
        "from cmind.core import CM\n"
        f"found = CM().access({{'action': {verb!r}, 'automation': 'results', 'out': 'con'}})\n"
        f"assert found['code'] == {code!r}, found"
    )
    env = home.environment()
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert f"-m pip install --editable '{ROOT}[gui]'" in done.stderr


def test_a_run_registers_itself_unless_told_not_to(tmp_path: Path) -> None:
    customize: Any = benchmark_lab.module_of(ROOT / "script/run-mlperf-inference-app/customize.py")
    folder = str(own_run(tmp_path / "run"))
    automation = SimpleNamespace(cmind=SimpleNamespace(repos_path=str(tmp_path)))
    customize.keep({"env": {"CM_MLPERF_REGISTER": "no"}, "automation": automation}, folder)
    assert not (tmp_path / "cmbench").exists()
    customize.keep({"env": {}, "automation": automation}, folder)
    assert len(list((tmp_path / "cmbench" / "results" / "places").iterdir())) == 1


def test_a_run_whose_result_cannot_be_kept_is_told_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    customize: Any = benchmark_lab.module_of(ROOT / "script/run-mlperf-inference-app/customize.py")
    (tmp_path / "cmbench").write_text("in the way", encoding="utf-8")
    automation = SimpleNamespace(cmind=SimpleNamespace(repos_path=str(tmp_path)))
    customize.keep({"env": {}, "automation": automation}, str(own_run(tmp_path / "run")))
    assert "not kept for cm find results" in capsys.readouterr().out
