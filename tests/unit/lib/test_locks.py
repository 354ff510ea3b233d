"""Locks between processes: exclusive, shared, released with their holder."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from pathlib import Path

import pytest

from cmbench.lib import locks
from support import wait_for


def hold(path: str, ready: str) -> None:
    locks.acquire(path)
    Path(ready).touch()
    time.sleep(60)


def test_a_lock_excludes_others_until_it_is_released(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert not locks.is_held(path)
    handle = locks.acquire(path)
    assert locks.is_held(path)
    other = os.open(path, os.O_RDONLY)
    assert not locks.try_lock(other)
    assert not locks.try_lock(other, shared=True)
    locks.release(path, handle)
    assert locks.try_lock(other, shared=True)
    os.close(other)
    assert not path.exists()


def test_shared_locks_are_held_together(tmp_path: Path) -> None:
    (tmp_path / "lock").touch()
    first, second = (os.open(tmp_path / "lock", os.O_RDONLY) for _ in range(2))
    assert locks.try_lock(first, shared=True)
    assert locks.try_lock(second, shared=True)
    assert not locks.try_lock(second)
    os.close(first)
    assert locks.try_lock(second)
    os.close(second)


def test_a_lock_ends_with_its_process(tmp_path: Path) -> None:
    path, ready = tmp_path / "lock", tmp_path / "ready"
    child = multiprocessing.get_context("fork").Process(target=hold, args=(path, ready))
    child.start()
    wait_for(ready.exists)
    assert locks.is_held(path)
    assert child.pid is not None
    os.kill(child.pid, signal.SIGKILL)
    child.join()
    assert not locks.is_held(path)


def test_a_waiter_locks_the_new_file_where_the_holder_removed_its_own(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    first = locks.acquire(path)
    waits = 0

    def wait(handle: int) -> None:
        nonlocal waits
        waits += 1
        locks.release(path, first)
        locks.lock(handle)

    second = locks.acquire(path, wait)
    assert waits == 1
    assert os.path.samestat(os.fstat(second), os.stat(path))
    locks.release(path, second)


def test_giving_up_leaves_no_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    first = locks.acquire(path)

    def give_up(handle: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        locks.acquire(path, give_up)
    locks.release(path, first)
    assert not locks.is_held(path)
