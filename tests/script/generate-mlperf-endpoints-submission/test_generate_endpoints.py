"""From runs of the client and a disclosure to a tree."""

from __future__ import annotations

from pathlib import Path

import pytest

import mlperf_endpoints_lab as lab
from common.problems import Problem
from mlperf.endpoints import checks, tree
from support import Home

GENERATE = ("run", "script", "--tags=generate,mlperf,endpoints-submission", "--quiet")
INPUTS = (f"--model={lab.MODEL}", "--cmax=256", "--cmin=4", f"--cohort={lab.COHORT}")


def test_the_client_s_files_are_copied_as_they_are(tmp_path: Path) -> None:
    made = lab.make_tree(tmp_path)
    for name in (
        "config.yaml",
        "performance/result_summary.json",
        "accuracy/accuracy_results.json",
    ):
        copied = made.curve / "r7" / name.rpartition("/")[2]
        assert copied.read_bytes() == (tmp_path / "runs/r7" / name).read_bytes()
    point = lab.get(made.curve / "r256/point.yaml")
    assert (point["offline"], point["region"]) == ("elected", "high_concurrency")
    assert point["runtime_settings"]["runtime"]["model_seed"] == 9315206023656308754


def test_a_template_has_to_be_filled_in(tmp_path: Path) -> None:
    path = tmp_path / "disclosure.yaml"
    path.write_text(tree.TEMPLATE, encoding="utf-8")
    with pytest.raises(Problem, match="organization is still <name of"):
        tree.read_disclosure(path)
    said = lab.get(path)
    assert set(said) == {
        "organization",
        "submission",
        "implementation",
        "points",
        "system",
        "power",
    }


@pytest.mark.parametrize("name", ["../x", ".git", ""])
def test_names_that_leave_the_tree(tmp_path: Path, name: str) -> None:
    path = tmp_path / "disclosure.yaml"
    lab.disclosure(path)
    document = lab.get(path) | {"submission": name}
    lab.put(path, document)
    with pytest.raises(Problem, match="cannot be a folder"):
        tree.read_disclosure(path)


def test_the_commands(home: Home, tmp_path: Path) -> None:
    said = tmp_path / "said.yaml"
    template = (*GENERATE[:2], f"{GENERATE[2]},_template", "--quiet", f"--disclosure={said}")
    home.cm(*template).ok()
    assert "organization: <" in said.read_text("utf-8")
    assert "is there already" in home.cm(*template).stderr

    curve = lab.curve_plan()
    lab.write_runs(tmp_path / "out/runs", curve)
    lab.disclosure(said)
    (tmp_path / "own").mkdir()
    (tmp_path / "own/README.md").write_text("Start it.\n", encoding="utf-8")
    words = (f"--disclosure={said}", f"--sources={tmp_path}/own", f"--output_dir={tmp_path}/out")
    made = (*GENERATE, *INPUTS, *words, f"--submission_dir={tmp_path}/sub")
    done = home.cm(*made).ok()
    assert "by our reading of the rules: accepted, 0 errors, 0 warnings" in done.stdout
    assert checks.check(tmp_path / "sub/Tester") == []
    check = ("run", "script", "--tags=run,mlperf,endpoints-submission-checker", "--official=no")
    judged = home.cm(*check, f"--submission_dir={tmp_path}/sub/Tester", "--quiet").ok()
    assert "accepted, 0 errors" in judged.stdout
