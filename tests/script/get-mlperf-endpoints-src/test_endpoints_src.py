"""The sources of the reference client."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import submission_lab as lab
from support import Home

WORDS = ("run", "script", "--tags=get,mlperf,endpoints-src", "--quiet")


def test_one_revision_comes_from_a_mirror(home: Home) -> None:
    source = home.path / "mirror"
    client = source / "src/inference_endpoint/main.py"
    client.parent.mkdir(parents=True)
    client.write_text("print('client')\n", encoding="utf-8")
    for words in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "x"]):
        subprocess.run(
            ["git", "-C", str(source), *words], check=True, env={**os.environ, **lab.PERSON}
        )
    done = home.cm(*WORDS[:2], f"{WORDS[2]},_branch.main", f"--url=file://{source}", "--out=json")
    env = json.loads(done.ok().stdout)["new_env"]
    place = Path(env["CM_MLPERF_ENDPOINTS_SOURCE"])
    assert (place / "src/inference_endpoint/main.py").read_text() == client.read_text()
    assert len(env["CM_MLPERF_ENDPOINTS_SOURCE_VERSION"]) == 40
    client.write_text("print('faster')\n", encoding="utf-8")
    output = home.cm(*WORDS, f"--path={source}").ok().stdout
    assert "the client was changed; its results cannot be submitted" in output


def test_a_folder_without_the_client(home: Home) -> None:
    done = home.cm(*WORDS, f"--path={home.path}")
    assert done.status
    assert "is not a checkout of mlcommons/endpoints" in done.stdout + done.stderr
