"""Our checks beside the official ones, where a checkout of mlcommons/inference is pointed at."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import submission_table

import power_lab
import submission_lab as lab
from mlperf.submission import official

VARIABLE = "MLPERF_INFERENCE"
OLDER = "MLPERF_INFERENCE_4_1"


@pytest.fixture(scope="module")
def source() -> Path:
    if not os.environ.get(VARIABLE):
        pytest.skip(f"{VARIABLE} names no checkout of mlcommons/inference")
    return Path(os.environ[VARIABLE])


@pytest.mark.parametrize(
    "example",
    [
        lab.Example(),
        lab.Example("6.0"),
        lab.Example("5.1"),
        lab.Example("5.0"),
        lab.Example("5.0", scenarios=("Server", "Offline"), category="datacenter"),
        lab.Example(
            division="network",
            category="datacenter",
            benchmarks=("3d-unet-99",),
            scenarios=("Offline",),
        ),
        lab.Example(benchmarks=("bert-99",), scenarios=("SingleStream", "Offline")),
        lab.Example(division="open", benchmarks=("resnet", "bert-99"), scenarios=("Offline",)),
    ],
    ids=str,
)
def test_the_official_checkers_accept_what_ours_accept(
    source: Path, tmp_path: Path, example: lab.Example
) -> None:
    tree = lab.make(tmp_path / "tree", example)
    for outcome in official.run(sys.executable, source, tree.root, example.round, tmp_path):
        assert outcome.accepted, outcome.complaints


@pytest.mark.parametrize("name", ["6.1", "5.0"])
def test_a_measured_power_is_accepted_by_both(source: Path, tmp_path: Path, name: str) -> None:
    tree = lab.make(tmp_path / "tree", lab.Example(name))
    _, _, root = tree.submitters()[0]
    for cell in lab.layouts.cells(root, tree.layout):
        power_lab.measure(tree, cell, source)
    for outcome in official.run(sys.executable, source, tree.root, name, tmp_path):
        assert outcome.accepted, outcome.complaints


@pytest.mark.parametrize(
    "example",
    [
        lab.Example("4.1"),
        lab.Example("4.1", scenarios=("Server", "Offline"), category="datacenter"),
        lab.Example("4.1", division="open", scenarios=("Offline",)),
    ],
    ids=str,
)
def test_the_checker_of_an_older_round(tmp_path: Path, example: lab.Example) -> None:
    if not os.environ.get(OLDER):
        pytest.skip(f"{OLDER} names no checkout of mlcommons/inference at the tag v4.1")
    tree = lab.make(tmp_path / "tree", example)
    source = Path(os.environ[OLDER])
    for outcome in official.run(sys.executable, source, tree.root, example.round, tmp_path):
        assert outcome.accepted, outcome.complaints


def test_ours_refuse_whatever_they_refuse(source: Path, tmp_path: Path) -> None:
    tree = lab.make(tmp_path / "tree")
    for judged in submission_table.judge(tree.root, "6.1", source):
        wrong = bool(judged.mutation.rule)
        assert bool(judged.rules) == wrong, judged.mutation.name
        if not wrong:
            assert all(each.accepted for each in judged.outcomes), judged.mutation.name
