"""What git says when it fails, as a cause and what to do next."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GitFailure:
    """A kind of failure: the pattern of git's message, its meaning, and the remedy."""

    said: str
    what: str
    hint: str


IDENTITY = (
    '`git config --global user.name "YOUR NAME"`; `git config --global user.email YOU@EXAMPLE.ORG`'
)
CREDENTIALS = "log in with git's own credential helper, or put a token into {token}"
# The first that fits counts.
CAUSES: tuple[GitFailure, ...] = (
    GitFailure(
        r"[Aa]uthor identity unknown|[Cc]ommitter identity unknown|empty ident name"
        r"|unable to auto-detect email|tell me who you are",
        "git does not know who commits",
        IDENTITY,
    ),
    GitFailure(
        r"No space left on device|disk quota exceeded",
        "the disk is full",
        "make room where temporary files go (TMPDIR), and run the same command again",
    ),
    GitFailure(
        r"Could not resolve|Name or service not known|Connection (refused|timed out|reset)"
        r"|Failed to connect|Couldn't connect|Network is unreachable|Operation timed out"
        r"|No route to host",
        "the host cannot be reached",
        "check the network, the proxy (https_proxy) and the host in --repo_url",
    ),
    GitFailure(
        r"hook declined|protected branch|\[remote rejected\]",
        "the repository refuses this push by a rule of its own",
        "push to a branch or a fork of yours (--branch=NAME), and open a pull request",
    ),
    GitFailure(
        r"Authentication failed|could not read (Username|Password)|terminal prompts disabled"
        r"|Permission denied|Permission to .* denied|returned error: 40[13]|access denied"
        r"|Write access to repository not granted|unable to create temporary object directory",
        "the rights for this repository are missing",
        CREDENTIALS,
    ),
    GitFailure(
        r"[Rr]epository .*not found|does not appear to be a git repository|does not exist"
        r"|returned error: 404|not found",
        "there is no such repository, or it is hidden from you",
        "check --repo_url; of a private one: " + CREDENTIALS,
    ),
)
# Lines with information, the most useful first.
TELLING = (r"^remote: (?:error|fatal)?:?\s*(\S.*)", r"^(?:fatal|error): (.*)", r"^(.*\S.*)$")


def cause(said: str) -> GitFailure | None:
    """The cause of a failure; None where it is another one."""
    return next((failure for failure in CAUSES if re.search(failure.said, said)), None)


def telling(said: str) -> str:
    """Return the most useful line of git's output."""
    for pattern in TELLING:
        matches: Sequence[str] = re.findall(pattern, said, re.MULTILINE)
        if matches:
            return matches[0].strip()
    return "git said nothing"
