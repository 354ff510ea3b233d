"""Use a checkout that is there, or clone one; either way know its revision."""

from __future__ import annotations

import os
import subprocess
from typing import Any

from cmbench.errors import Error
from cmbench.lib import checkouts
from cmbench.lib.secrecy import mask

FOLDER = "inference"
CHECKER = os.path.join("tools", "submission")
LONGEST_S = 1800


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Find or clone the sources; raises Error when there is no checker in them."""
    env = i["env"]
    own_path = env.get("CM_MLPERF_INFERENCE_SRC_PATH")
    if own_path:
        folder = os.path.abspath(os.path.expanduser(own_path))
        relies_on = [os.path.join(folder, CHECKER)]
    else:
        folder = os.path.join(os.getcwd(), FOLDER)
        clone(env["CM_GIT_URL"], requested_revision(env), folder)
        relies_on = []
    if not os.path.isdir(os.path.join(folder, CHECKER)):
        raise Error(
            "no-checker",
            f"{folder} is not a checkout of mlcommons/inference: it has no {CHECKER}",
            hint="give a checkout of github.com/mlcommons/inference: --inference_src=FOLDER",
        )
    revision = checkouts.revision(folder)[1] or "unknown"
    env["CM_MLPERF_INFERENCE_SOURCE"] = folder
    env["CM_MLPERF_INFERENCE_SOURCE_VERSION"] = revision
    return {"return": 0, "version": revision[:12], "relies_on": relies_on}


def requested_revision(env: dict[str, Any]) -> str:
    """Return the requested branch, tag or revision; a version is one of them too."""
    return str(env.get("CM_VERSION") or env["CM_GIT_CHECKOUT"])


def clone(url: str, checkout: str, place: str) -> None:
    """Get one revision without its history."""
    os.makedirs(place)
    git(place, "init", "--quiet")
    git(place, "fetch", "--quiet", "--depth", "1", "--", url, checkout)
    git(place, "checkout", "--quiet", "--detach", "FETCH_HEAD")


def git(place: str, *words: str) -> None:
    """One git command; raises Error with git's own words."""
    git_env = {**os.environ, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            ["git", "-C", place, *words],
            env=git_env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LONGEST_S,
            check=False,
        )
    except FileNotFoundError as error:
        raise Error("no-tool", "git is not installed", hint="install git") from error
    except subprocess.TimeoutExpired as error:
        raise Error("network", f"git {words[0]} took too long") from error
    if done.returncode:
        said = mask(done.stderr).strip().splitlines() or ["git said nothing"]
        raise Error(
            "network",
            f"git {words[0]} failed: {said[-1]}",
            hint="without a network, give a checkout: --inference_src=FOLDER, or a mirror: "
            "--adr.inference-src.env.CM_GIT_URL=URL",
            context=tuple(said[-5:]),
        )
