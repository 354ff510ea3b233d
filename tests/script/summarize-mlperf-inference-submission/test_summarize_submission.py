"""The report of a tree as a step of its own."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import submission_lab as lab
from support import Home

TAGS = "--tags=summarize,mlperf,inference,submission"


def test_the_command(home: Home, tmp_path: Path) -> None:
    tree = lab.make(tmp_path / "tree", lab.Example(benchmarks=("resnet", "bert-99")))
    other = lab.make(tmp_path / "other", lab.Example(round="5.1"))
    words = ("run", "script", TAGS, f"--submission_dir={tree.root}", "--quiet")
    first = sorted(tree.root.rglob("*"))
    done = home.cm(*words, f"--compare={other.root}", f"--report_dir={tmp_path}/report").ok()
    assert "verdict: submittable" not in done.stdout  # bert has no MultiStream
    told = done.stdout.partition("tree:")[2].splitlines()
    assert max(len(line) for line in told if "/" not in line) <= 80
    rows = list(csv.DictReader((tmp_path / "report/summary.csv").open(encoding="utf-8")))
    assert [row["benchmark"] for row in rows] == ["bert-99"] * 3 + ["resnet"] * 3
    same = json.loads((tmp_path / "report/summary.json").read_text("utf-8"))
    assert [str(row["value"]) for row in same] == [row["value"] for row in rows]
    page = (tmp_path / "report/report.html").read_text("utf-8")
    assert "times as fast as Tester" in page
    assert sorted(tree.root.rglob("*")) == first
    home.cm(*words).ok()
    assert (tmp_path / "tree-report/report.html").is_file()


def test_what_the_official_checker_said_stays_with_the_same_tree(tmp_path: Path) -> None:
    from mlperf.submission import official, steps

    tree = lab.make(tmp_path / "tree")
    said = official.read("submission_checker", ("python",), 1, "x ERROR] a seed is wrong\n")
    steps.check(tree.root, "", "", [said])
    page = tmp_path / "report/report.html"
    steps.summarize(tree.root, folder=page.parent)
    assert "a seed is wrong" in page.read_text("utf-8")
    lab.put(tree.root / "closed/Tester/documentation/more.md", "new\n")
    steps.summarize(tree.root, folder=page.parent)
    assert "a seed is wrong" not in page.read_text("utf-8")


def test_no_tree(home: Home, tmp_path: Path) -> None:
    done = home.cm("run", "script", TAGS, f"--submission_dir={tmp_path}/none", "--quiet")
    assert done.status
    assert "there is no folder" in done.stdout + done.stderr
    done = home.cm("run", "script", TAGS, f"--submission_dir={tmp_path}", "--quiet")
    assert "holds no results" in done.stdout + done.stderr
