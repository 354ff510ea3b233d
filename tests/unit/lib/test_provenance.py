"""What a result says of its own making."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cmbench.lib import provenance
from support import run

META: dict[str, Any] = {
    "deps": [
        {"tags": "get,python3", "names": ["python"]},
        {"tags": "get,loadgen", "update_tags_from_env_with_prefix": {"_r": ["ROUND", "NONE"]}},
    ],
    "variations": {
        "big": {
            "deps": [
                {"tags": "get,model", "names": ["model"]},
                {"tags": "get,calibration", "enable_if_env": {"PRECISION": ["int8"]}},
                {"tags": "get,driver", "skip_if_env": {"DEVICE": ["cpu"]}},
            ]
        },
        "large": {"base": ["big"]},
        "tiny": {"add_deps": {"model": {"tags": "_tiny"}}},
        "other": {"deps": [{"tags": "get,other"}]},
    },
}


def test_the_parts_are_those_that_the_variations_take() -> None:
    env = {"ROUND": "6.1", "PRECISION": "float32", "DEVICE": "cpu"}
    assert provenance.steps(META, ["big", "tiny", "unknown"], env) == [
        "cm run script --tags=get,python3",
        "cm run script --tags=get,loadgen,_r6.1",
        "cm run script --tags=get,model,_tiny",
    ]
    other = provenance.steps(META, ["large"], {"PRECISION": "int8", "DEVICE": "cuda"})
    assert other[2:] == [
        "cm run script --tags=get,model",
        "cm run script --tags=get,calibration",
        "cm run script --tags=get,driver",
    ]


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["/x/bin/cm", "run", "script", "--a=b c"], "cm run script '--a=b c'"),
        (["/x/mlcr", "run-mlperf"], "mlcr run-mlperf"),
        (["pytest", "-q"], "cm run script --tags=t,_v --model='a b'"),
        (["cm"], "cm run script --tags=t,_v --model='a b'"),
    ],
)
def test_the_command_is_the_one_that_was_typed(words: list[str], wanted: str) -> None:
    found = provenance.command(words, "t,_v", {"tags": "t,_v", "model": "a b"})
    assert found == wanted.replace("--model='a b'", "'--model=a b'")


def test_the_revision_tells_of_changes(tmp_path: Path) -> None:
    assert provenance.revision(str(tmp_path / "none")) == ("", "")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=n", "-c", "user.email=e"]
    (tmp_path / "a").write_text("1")
    run([*git, "init", "-q"]).ok()
    run([*git, "add", "a"]).ok()
    run([*git, "commit", "-q", "-m", "m"]).ok()
    run([*git, "remote", "add", "origin", "https://example.org/r.git"]).ok()
    repository, revision = provenance.revision(str(tmp_path))
    assert repository == "https://example.org/r.git"
    assert len(revision) == 40
    (tmp_path / "a").write_text("2")
    assert provenance.revision(str(tmp_path))[1] == f"{revision}+changes"
