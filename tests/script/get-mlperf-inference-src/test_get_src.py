"""The sources of the official checker."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import submission_lab as lab
from support import Home


def test_the_sources_come_from_a_mirror(home: Home) -> None:
    source = lab.checkout(home.path / "inference")
    for words in (["init", "-q", "-b", "master"], ["add", "."], ["commit", "-q", "-m", "x"]):
        subprocess.run(
            ["git", "-C", str(source), *words], check=True, env={**os.environ, **lab.PERSON}
        )
    words_ = ("run", "script", "--tags=get,mlperf,inference,src", f"--url=file://{source}")
    first = home.cm(*words_, "--out=json").ok()
    env = json.loads(first.stdout)["new_env"]
    place = Path(env["CM_MLPERF_INFERENCE_SOURCE"])
    assert (place / "tools/submission/submission_checker.py").read_text() == lab.CHECKER
    assert len(env["CM_MLPERF_INFERENCE_SOURCE_VERSION"]) == 40
    again = home.cm(*words_).ok()
    assert "from the cache" in again.stdout
