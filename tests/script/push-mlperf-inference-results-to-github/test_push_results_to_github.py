"""Pushing as a user does it."""

from __future__ import annotations

import subprocess
from dataclasses import replace

import submission_lab as lab
from support import Home


def test_pushing_to_a_repository(home: Home) -> None:
    tree = lab.make(home.path / "tree")
    bare = home.path / "remote.git"
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(bare)], check=True)
    words = (
        "run",
        "script",
        "--tags=push,github,mlperf,inference,submission",
        f"--submission_dir={tree.root}",
        f"--repo_url={bare}",
        "--commit_message=Results of a test",
    )
    teller = replace(home, extra_env=lab.PERSON)
    dry = teller.cm(*words, "--dry_run").ok()
    assert "nothing was pushed" in dry.stdout
    done = teller.cm(*words).ok()
    assert "pushed commit" in done.stdout
    told = subprocess.run(
        ["git", "-C", str(bare), "log", "-1", "--format=%s", "main"], capture_output=True, text=True
    )
    assert told.stdout.strip() == "Results of a test"
    assert "nothing to push" in teller.cm(*words).ok().stdout
