"""All orders in which processes can do their file operations, with the store's real functions.

Each actor is a thread that stops before every operation on a file or a lock until it is told to go
on. A search tries every order and, as often as it may, ends an actor at that point the way a kill
does: its files are closed, nothing else of it runs. Orders that lead to the same files and the same
answers are gone on with once; how many there are is counted all the same.
"""

from __future__ import annotations

import builtins
import fcntl
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cmbench.cache import disk, records, staging, store
from cmbench.lib import locks

Key = tuple[Any, ...]
Choice = tuple[int, bool]
"""The number of an actor, and whether it is killed instead of going on."""

_STEPS = ("open", "unlink", "rename", "listdir", "rmdir", "pread", "pwrite", "mkdir")


class Killed(BaseException):
    """What ends an actor at the point where it stands."""


def _closed() -> threading.Lock:
    """Return a lock that is held: who acquires it waits until another thread releases it."""
    lock = threading.Lock()
    lock.acquire()
    return lock


class Actor:
    """A process: a function in a thread that stops before each of its operations."""

    def __init__(self, number: int, work: Callable[[], None]) -> None:
        self.number = number
        self.trace: list[Any] = []
        self.ended = self.killed = False
        self.failed: BaseException | None = None
        self._handles: set[int] = set()
        self._go, self._stopped = _closed(), _closed()
        self._thread = threading.Thread(target=self._run, args=(work,), daemon=True)
        self._thread.start()
        self._stopped.acquire()

    def _run(self, work: Callable[[], None]) -> None:
        _HERE.actor = self
        try:
            work()
        except Killed:
            pass
        except BaseException as problem:
            self.failed = problem
        for handle in self._handles:
            with suppress(OSError):
                os.close(handle)
        self.ended = True
        self._stopped.release()

    def stop(self) -> None:
        """Wait until it is this actor's turn."""
        if self.killed:
            raise Killed
        self._stopped.release()
        self._go.acquire()
        if self.killed:
            raise Killed

    def go(self, kill: bool) -> None:
        """Let it do one operation and stop before the next, or end it."""
        self.killed = kill
        self._go.release()
        self._stopped.acquire()

    def do(self, name: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """One operation: what it gave is what the actor knows from then on."""
        self.stop()
        try:
            found = function(*args, **kwargs)
        except OSError as problem:
            self.trace.append((name, problem.errno))
            raise
        if name == "open":
            self._handles.add(found)
            self.trace.append(name)
        elif name == "close":
            self._handles.discard(args[0])
            self.trace.append(name)
        else:
            self.trace.append((name, repr(found)))
        return found

    def flock(self, handle: int, kind: int) -> None:
        """Lock; where it would have to wait, it stops before it and has learnt nothing."""
        while True:
            self.stop()
            try:
                fcntl.flock(handle, kind | fcntl.LOCK_NB)
            except BlockingIOError:
                if kind & fcntl.LOCK_NB:
                    self.trace.append("busy")
                    raise
            else:
                self.trace.append("locked")
                return


_HERE = threading.local()


def _step(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def act(*args: Any, **kwargs: Any) -> Any:
        actor: Actor | None = getattr(_HERE, "actor", None)
        return actor.do(name, function, *args, **kwargs) if actor else function(*args, **kwargs)

    return act


def _flock(handle: int, kind: int) -> None:
    actor: Actor | None = getattr(_HERE, "actor", None)
    return actor.flock(handle, kind) if actor else fcntl.flock(handle, kind)


def _urandom(count: int) -> bytes:
    actor: Actor | None = getattr(_HERE, "actor", None)
    return bytes([actor.number + 1 if actor else 0] * count)


def _remove_tree(path: str) -> None:
    """In two steps, so that others can see a half of it."""
    names = sorted(os.listdir(path)) if os.path.isdir(path) else []
    for name in names[:1]:
        _step("unlink", os.unlink)(os.path.join(path, name))
    _step("rmtree", shutil.rmtree)(path, ignore_errors=True)


def patch(patched: pytest.MonkeyPatch) -> None:
    """Let the store's modules stop before each operation of theirs."""
    there = {name: getattr(os.path, name) for name in dir(os.path) if not name.startswith("__")}
    paths = {name: _step(name, there[name]) for name in ("isfile", "exists", "samestat")}
    everything = {name: getattr(os, name) for name in dir(os) if not name.startswith("__")}
    steps = {name: _step(name, everything[name]) for name in (*_STEPS, "close")}
    steps |= {"urandom": _urandom, "path": SimpleNamespace(**{**there, **paths})}
    # Nothing here is about power cuts.
    patched.setattr(disk.os, "fsync", lambda handle: None)
    for module in (store, staging, records, locks):
        patched.setattr(module, "os", SimpleNamespace(**{**everything, **steps}))
    patched.setattr(locks, "fcntl", SimpleNamespace(**{**vars(fcntl), "flock": _flock}))
    for module in (store, staging, records):
        patched.setattr(module, "open", _step("write", builtins.open), raising=False)
    patched.setattr(staging, "remove_tree", _remove_tree)
    patched.setattr(records, "owner", lambda: {"host": "here", "pid": 1, "since": 0})


def _contents(folder: str) -> Iterator[tuple[str, bytes | None]]:
    """Return what is below a folder, in order, with the bytes of files."""
    for item in sorted(os.scandir(folder), key=attrgetter("name")):
        if item.is_dir(follow_symlinks=False):
            yield item.path, None
            yield from _contents(item.path)
        else:
            handle = os.open(item.path, os.O_RDONLY)
            yield item.path, os.read(handle, 1 << 20)
            os.close(handle)


@dataclass
class Search:
    """``make`` fills an empty folder and gives its actors; ``check`` is asked after each step.

    ``finish`` is asked when all have ended. ``kills`` is how many may be killed on one way.
    """

    make: Callable[[Path], Sequence[Callable[[], None]]]
    check: Callable[[Path], None]
    finish: Callable[[Path, Sequence[Actor]], None]
    place: Path
    kills: int = 1
    runs: int = 0
    _next: dict[Key, list[Key]] = field(default_factory=dict)
    _open: list[tuple[list[Choice], Key]] = field(default_factory=list)

    def all(self) -> int:
        """Try everything; the number of different orders."""
        self._follow([], ())
        start = next(iter(self._next))
        while self._open:
            self._follow(*self._open.pop())
        return self._ways(start)

    @property
    def states(self) -> int:
        """How many different states were met."""
        return len(self._next)

    def _follow(self, choices: list[Choice], before: Key) -> None:
        """Do ``choices``, the last one in state ``before``; then what is new, to a known state."""
        self.runs += 1
        shutil.rmtree(self.place, ignore_errors=True)
        self.place.mkdir()
        actors = [Actor(n, work) for n, work in enumerate(self.make(self.place))]
        try:
            for number, kill in choices[:-1]:
                actors[number].go(kill)
            done = choices[:-1]
            last = choices[-1:]
            before = before or self._state(actors)
            while last or before not in self._next:
                choice = last.pop() if last else self._chosen(actors, done, before)
                if choice is None:
                    return
                actors[choice[0]].go(choice[1])
                done = [*done, choice]
                state = self._state(actors)
                if state != before:
                    self._next[before].append(state)
                before = state
                self._ask(actors, done)
        finally:
            for actor in actors:
                while not actor.ended:
                    actor.go(True)

    def _chosen(self, actors: Sequence[Actor], done: list[Choice], state: Key) -> Choice | None:
        """What to do first in a new state; the rest is kept for later."""
        self._next[state] = []
        alive = [actor.number for actor in actors if not actor.ended]
        left = self.kills - sum(actor.killed for actor in actors)
        choices = [(n, False) for n in alive] + [(n, True) for n in alive if left > 0]
        self._open += [([*done, choice], state) for choice in choices[1:]]
        return choices[0] if choices else None

    def _ask(self, actors: Sequence[Actor], done: list[Choice]) -> None:
        for actor in actors:
            assert actor.failed is None, (actor.number, actor.failed, done)
        try:
            self.check(self.place)
            if all(actor.ended for actor in actors):
                self.finish(self.place, actors)
        except AssertionError as problem:
            raise AssertionError(f"{problem} after {done}") from problem

    def _state(self, actors: Sequence[Actor]) -> Key:
        return (
            tuple(_contents(str(self.place))),
            *((tuple(a.trace), a.ended, a.killed) for a in actors),
        )

    def _ways(self, start: Key) -> int:
        """How many different ways lead from ``start`` to an end."""
        known: dict[Key, int] = {}
        pending = [start]
        while pending:
            state = pending[-1]
            new = [to for to in self._next[state] if to not in known]
            if new:
                pending += new
                continue
            pending.pop()
            known[state] = sum(known[to] for to in self._next[state]) or 1
        return known[start]
