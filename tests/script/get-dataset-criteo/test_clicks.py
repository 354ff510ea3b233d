"""The made-up clicks, and the check of the folder of the real ones."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

import benchmark_forms as forms
import benchmark_lab as lab
from cmbench.errors import Error
from modelzoo.datasets.criteo import clicks

SCRIPT = forms.SCRIPT / "get-dataset-criteo"
customize = lab.module_of(SCRIPT / "customize.py")


def test_the_day_is_what_its_facts_say_and_looks_like_criteos() -> None:
    folder = forms.clicks_day()
    facts = json.loads((folder / "dataset.json").read_text())
    data = (folder / "day_23").read_bytes()
    assert hashlib.sha256(data).hexdigest() == facts["files"]["day_23"]["sha256"]
    lines = data.decode("ascii").splitlines()
    assert len(lines) == facts["pairs"] == 64_000
    words = lines[0].split("\t")
    assert len(words) == 40
    assert words[0] in "01"
    assert all(len(word) == 8 for word in words[14:])
    assert any(line.split("\t")[1] == "" for line in lines[:200]), "some counts are missing"


def test_the_truth_scores_better_than_any_half_of_it() -> None:
    drawn = clicks.draw(20_000, 5)
    best = clicks.auc(drawn.label, drawn.probability)
    random = np.random.default_rng(0)
    noisy = drawn.probability + random.normal(0, 0.2, len(drawn.label))
    assert clicks.auc(drawn.label, noisy) < best - 0.02
    assert 0.85 < best < 0.92


def test_without_a_folder_it_says_where_to_get_the_logs() -> None:
    with pytest.raises(Error, match="licence has to be accepted") as caught:
        customize.preprocess({"env": {}})
    assert "ailab.criteo.com" in caught.value.hint


def test_a_folder_is_checked_file_by_file(tmp_path: Path) -> None:
    for day in customize.DAYS[:-1]:
        (tmp_path / day).write_text("\t".join(["0"] * 40) + "\n")
    with pytest.raises(Error, match="23 of the 24 files") as caught:
        customize.check(str(tmp_path))
    assert "day_23" in caught.value.hint
    (tmp_path / "day_23").write_text("no clicks\n")
    with pytest.raises(Error, match="1 columns in its first line"):
        customize.check(str(tmp_path))
    (tmp_path / "day_23").write_text("\t".join(["0"] * 40) + "\n")
    assert len(customize.check(str(tmp_path))) == 24
