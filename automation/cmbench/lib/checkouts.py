"""What git says of a checkout: where it comes from and at which revision it is."""

from __future__ import annotations

import subprocess


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
