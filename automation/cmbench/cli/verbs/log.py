"""``cm log script``: what a run has printed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from typing import Any

from cmbench.author.author_session import refuse_unknown
from cmbench.errors import Error
from cmbench.record import find_record
from cmbench.session.session import Answer, Session

_TROUBLE = re.compile(
    r"\b(error|errors|warning|warn|fatal|failed|failure|traceback|exception|denied|killed)\b"
    r"|\b[A-Z]\w+(Error|Exception|Warning)\b|not found|no such file",
    re.IGNORECASE,
)

_LISTED = 12
"""So many steps a message lists at most."""

_END = re.compile(r"== .*: \w+ in [\d.]+ s")


def log_script(cmind: Any, i: dict[str, Any]) -> Answer:
    """``cm log script [run]``: the whole log of a run, the newest if none is named.

    ``--errors`` leaves the lines that look like trouble, with their numbers, ``--step=TEXT`` those
    of the steps with that text in their names.
    """
    session = Session(cmind, i, write=False)
    refuse_unknown(session.flags, {"errors", "step", "out", "quiet", "verbose", "silent"})
    words = [str(w) for w in (i.get("artifact"), *(i.get("artifacts") or ())) if w]
    if len(words) > 1:
        raise Error("bad-value", "one log is shown at a time", hint="name one: cm log script last")
    path = _log_of(session.root, words[0] if words else "last")
    step = str(session.flags.get("step") or "")
    lines = list(_chosen(path, step, bool(session.flags.get("errors"))))
    if step and not lines:
        _refuse_unknown_step(path, step)
    if i.get("out") == "con":
        print("\n".join([*lines, f"log: {path}"]))
    return {"return": 0, "log": path, "lines": lines}


def _refuse_unknown_step(path: str, step: str) -> None:
    with open(path, encoding="utf-8", errors="replace") as stream:
        chains = [chain for chain, _ in _by_step(text.rstrip("\n") for text in stream)]
    names = list(dict.fromkeys(chain[-1] for chain in chains if chain))
    if not any(step in name for name in names):
        raise Error(
            "entry-not-found",
            f'no step of this run has "{step}" in its name',
            context=names[-_LISTED:],
            hint="its last steps stand above",
        )


def _log_of(root: str, word: str) -> str:
    """The log of a run; one that was killed has a log and no record."""
    runs = os.path.join(root, "runs")
    if word == "last":
        names = sorted(os.listdir(runs), reverse=True) if os.path.isdir(runs) else []
        found = [n for n in names if os.path.isfile(os.path.join(runs, n, "log.txt"))]
        if not found:
            raise Error("entry-not-found", f"there was no run yet: nothing is in {runs}")
        return os.path.join(runs, found[0], "log.txt")
    for place in (word, os.path.join(word, "log.txt"), os.path.join(runs, word, "log.txt")):
        if os.path.basename(place) == "log.txt" and os.path.isfile(place):
            return os.path.abspath(place)
    path = os.path.join(os.path.dirname(find_record(root, word)), "log.txt")
    if not os.path.isfile(path):
        raise Error("entry-not-found", f"{path} is gone")
    return path


def _chosen(path: str, step: str, only_trouble: bool) -> Iterator[str]:
    """The wanted lines of a log; trouble stands below the name of its step."""
    told: tuple[str, ...] = ()
    with open(path, encoding="utf-8", errors="replace") as stream:
        lines = [text.rstrip("\n") for text in stream]
    for number, (chain, line) in enumerate(_by_step(lines), 1):
        if not any(step in name for name in chain[-1:] or [""]):
            continue
        if not only_trouble:
            yield line
        elif _TROUBLE.search(line):
            if chain != told:
                yield f"== {' > '.join(chain)}"
            told = chain
            yield f"{number}: {line}"


def _by_step(lines: Iterable[str]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Each line with the chain of steps that it belongs to; after a step its caller goes on."""
    chain: tuple[str, ...] = ()
    for line in lines:
        ended = _END.fullmatch(line)
        if line.startswith("== ") and not ended:
            chain = tuple(line.removeprefix("== ").split(" > "))
        yield chain, line
        if ended:
            chain = chain[:-1]
