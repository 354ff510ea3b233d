"""Inferring scenarios as a step of its own."""

from __future__ import annotations

import submission_lab as lab
from support import Home


def test_missing_scenarios_are_added_once(home: Home) -> None:
    tree = lab.make(home.path / "tree", lab.Example(scenarios=("SingleStream",)))
    words = ("run", "script", "--tags=preprocess,submission", f"--input={tree.root}")
    assert "box-cpu resnet: Offline inferred from SingleStream" in home.cm(*words).ok().stdout
    assert (tree.root / "closed/Tester/results/box-cpu/resnet/offline/TEST01").is_dir()
    assert "nothing to infer" in home.cm(*words).ok().stdout
