"""Checkouts of git: one revision cloned, and where one comes from and at which revision it is."""

from __future__ import annotations

import os
import subprocess

from cmbench.errors import Error
from cmbench.lib.secrecy import mask

LONGEST_S = 1800
LAST_LINES = 5


def clone(url: str, revision: str, folder: str, hint: str) -> None:
    """Get one revision without its history into a new folder.

    Raises Error with git's own words, and ``hint`` for where there is no network.
    """
    os.makedirs(folder)
    _fetch(folder, hint, "init", "--quiet")
    _fetch(folder, hint, "fetch", "--quiet", "--depth", "1", "--", url, revision)
    _fetch(folder, hint, "checkout", "--quiet", "--detach", "FETCH_HEAD")


def _fetch(folder: str, hint: str, *words: str) -> None:
    git_env = {**os.environ, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            ["git", "-C", folder, *words],
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
        message = f"git {words[0]} failed: {said[-1]}"
        raise Error("network", message, hint=hint, context=tuple(said[-LAST_LINES:]))


def revision(folder: str) -> tuple[str, str]:
    """Where the repository of ``folder`` comes from and its revision; empty where git knows none.

    A revision ends with ``+changes`` when files differ from it.
    """
    head = _git(folder, "rev-parse", "HEAD")
    if not head:
        return "", ""
    changed = _git(folder, "status", "--porcelain", "--untracked-files=no", "--", ".")
    return _git(folder, "remote", "get-url", "origin"), head + ("+changes" if changed else "")


def _git(folder: str, *words: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", folder, *words], capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
