"""Recorded runs: what they printed, how two differ, and one once more."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from cmbench.api.events import OnEvent
from cmbench.api.resolving import open_lock
from cmbench.api.running import FinishedRun, run_locked
from cmbench.errors import Error
from cmbench.record import find_record, load_record, steps_back
from cmbench.repeat.figures import figure_differences
from cmbench.repeat.lockfile import lock_data, lock_from
from cmbench.repeat.replay import differences, flags_to_repeat, obstacles
from cmbench.run.executor import Executor
from cmbench.session.call import Call, RunRequest
from cmbench.session.workspace import Workspace
from cmbench.values import immutable

_TROUBLE = re.compile(
    r"\b(error|errors|warning|warn|fatal|failed|failure|traceback|exception|denied|killed)\b"
    r"|\b[A-Z]\w+(Error|Exception|Warning)\b|not found|no such file",
    re.IGNORECASE,
)

_LISTED = 12
"""So many steps a message lists at most."""

_END = re.compile(r"== .*: \w+ in [\d.]+ s")


@immutable(frozen=True, slots=True, eq=True, repr=True)
class RecordedCall:
    """A recorded run that is to be repeated, and the obstacles to that.

    ``path`` is that of its record; ``out`` is how it prints its result; the record has its former
    value.
    """

    workspace: Workspace
    path: str
    record: Mapping[str, Any]
    obstacles: Sequence[str]
    flags: Mapping[str, Any]
    out: str = ""

    def request(self) -> RunRequest:
        """The recorded call; changes the current directory to that of the run, where it is left."""
        folder = self.record.get("directory", "")
        if folder and os.path.isdir(folder):
            os.chdir(folder)
        return Call(self.workspace, {**self.flags, "out": self.out}).request()


@immutable(frozen=True, slots=True, eq=True, repr=True)
class ReplayedRun:
    """A repeated run: what could not be as it was, and what differs in the results."""

    ran: FinishedRun
    obstacles: Sequence[str]
    differences: Mapping[str, Any]


@immutable(frozen=True, slots=True, eq=True, repr=True)
class RecordComparison:
    """Two records, and what differs between them by section."""

    one: Mapping[str, Any]
    other: Mapping[str, Any]
    differences: Mapping[str, Any]


@immutable(frozen=True, slots=True, eq=True, repr=True)
class LogLines:
    """The requested lines of the log at ``path``."""

    path: str
    lines: Sequence[str]


def record(workspace: Workspace, run: str = "last") -> dict[str, Any]:
    """Return the record of a run, named by its id, the path of its record, or ``last``."""
    return load_record(find_record(workspace.root, run))


def diff(workspace: Workspace, one: str, other: str) -> RecordComparison:
    """Return what differs between two recorded runs, with the figures of both."""
    paths = [find_record(workspace.root, run) for run in (one, other)]
    first, second = map(load_record, paths)
    return RecordComparison(first, second, _all_differences(first, second, *paths))


def _all_differences(
    first: Mapping[str, Any], second: Mapping[str, Any], one: str, other: str
) -> dict[str, Any]:
    """Return what differs between two records, at the paths ``one`` and ``other``, and figures."""
    figures = figure_differences(os.path.dirname(one), os.path.dirname(other))
    others = differences(first, second)
    return {"figures": figures, **others} if figures else others


def recall(
    workspace: Workspace,
    run: str = "last",
    flags: Mapping[str, Any] | None = None,
    out: str = "",
) -> RecordedCall:
    """Return what is needed to repeat a recorded run; ``flags`` change it, ``out`` as ``--out``."""
    path = find_record(workspace.root, run)
    old = load_record(path)
    new_flags = {key: value for key, value in (flags or {}).items() if key != "out"}
    in_the_way = obstacles(old, workspace.index, workspace.repositories)
    return RecordedCall(workspace, path, old, in_the_way, flags_to_repeat(old, new_flags), out)


def replay(
    recalled: RecordedCall,
    request: RunRequest | None = None,
    *,
    executor: Executor | None = None,
    on_event: OnEvent | None = None,
) -> ReplayedRun:
    """Repeat a run with the versions that it had; ``request`` is what ``recalled`` makes.

    A call with ``lock`` obeys its lock again, and refuses what the lock refuses.
    """
    request = request or recalled.request()
    old, workspace = recalled.record, recalled.workspace
    data = lock_data(old, workspace.index, workspace.store)
    lock = open_lock(request) or lock_from(data, f"the record {old['run']}", strict=False)
    ran = run_locked(request, lock, executor, on_event)
    changed = _all_differences(old, load_record(ran.record), recalled.path, ran.record)
    return ReplayedRun(ran, recalled.obstacles, changed)


def log(
    workspace: Workspace, run: str = "last", step: str = "", only_trouble: bool = False
) -> LogLines:
    """Return what a run has printed; ``step`` is a text in the names of the wanted steps.

    ``only_trouble`` leaves the lines that look like trouble, with their numbers.
    """
    path = _log_of(workspace.root, run)
    lines = list(_chosen(path, step, only_trouble))
    if step and not lines:
        _refuse_unknown_step(path, step)
    return LogLines(path, lines)


def is_trouble(line: str) -> bool:
    """Return whether a line of a log looks like trouble: an error, a warning, something missing."""
    return _TROUBLE.search(line) is not None


def _refuse_unknown_step(path: str, step: str) -> None:
    with open(path, encoding="utf-8", errors="replace") as stream:
        chains = [chain for chain, _ in _by_step(text.rstrip("\n") for text in stream)]
    names = list(dict.fromkeys(chain[-1] for chain in chains if chain))
    if not any(step in name for name in names):
        raise Error(
            "entry-not-found",
            f'no step of this run has "{step}" in its name',
            context=names[-_LISTED:],
            hint="its last steps are shown above",
        )


def _log_of(root: str, word: str) -> str:
    """Return the log of a run; one that was killed has a log and no record."""
    runs = os.path.join(root, "runs")
    back = steps_back(word)
    if back is not None:
        paths = sorted(glob.glob(os.path.join(glob.escape(runs), "*", "log.txt")), reverse=True)
        if not paths:
            raise Error("entry-not-found", f"there are no runs yet: {runs} is empty")
        if back >= len(paths):
            problem = f"there is no {word}: {len(paths)} runs have a log"
            raise Error("entry-not-found", problem, hint="see them: `cm show runs`")
        return paths[back]
    for candidate in (word, os.path.join(word, "log.txt"), os.path.join(runs, word, "log.txt")):
        if os.path.basename(candidate) == "log.txt" and os.path.isfile(candidate):
            return os.path.abspath(candidate)
    path = os.path.join(os.path.dirname(find_record(root, word)), "log.txt")
    if not os.path.isfile(path):
        raise Error("entry-not-found", f"{path} is gone")
    return path


def _chosen(path: str, step: str, only_trouble: bool) -> Iterator[str]:
    """Yield the requested lines of a log; trouble below the name of its step."""
    last_chain: tuple[str, ...] = ()
    with open(path, encoding="utf-8", errors="replace") as stream:
        lines = [text.rstrip("\n") for text in stream]
    for number, (chain, line) in enumerate(_by_step(lines), 1):
        if not any(step in name for name in chain[-1:] or [""]):
            continue
        if not only_trouble:
            yield line
        elif is_trouble(line):
            if chain != last_chain:
                yield f"== {' > '.join(chain)}"
            last_chain = chain
            yield f"{number}: {line}"


def _by_step(lines: Iterable[str]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield lines with their chains of steps; after the end of a step its caller continues."""
    chain: tuple[str, ...] = ()
    for line in lines:
        ended = _END.fullmatch(line)
        if line.startswith("== ") and not ended:
            chain = tuple(line.removeprefix("== ").split(" > "))
        yield chain, line
        if ended:
            chain = chain[:-1]
