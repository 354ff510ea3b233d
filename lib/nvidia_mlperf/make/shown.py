"""What the cache of cm holds, shown in the scratch space: folders there are the user's own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from nvidia_mlperf.make.flow import FlowRunner


def show(runner: FlowRunner, target: Path, source: Path) -> str:
    """Show at ``target`` what a script has made; return how, in words.

    A folder of the cache becomes a folder of the user's with a link per file: what is written
    beside them stays when the entry is removed. What the user has put there stays as it is.
    """
    renewed = withdraw(runner, target)
    target.parent.mkdir(parents=True, exist_ok=True)
    if os.path.lexists(target) and not renewed and not _is_empty(target):
        return "there already"
    if source.is_dir() and runner.in_cache(source):
        count = sum(_link(runner, target / name, source / name) for name in _files(source))
        return f"links to {count} files of {source}"
    return f"-> {source}" if _link(runner, target, source) else "there already"


def withdraw(runner: FlowRunner, target: Path) -> int:
    """Remove the links into a cache at or below ``target``; return how many there were."""
    links = [path for path in _below(target) if path.is_symlink() and runner.in_cache(path)]
    for path in links:
        path.unlink()
    return len(links)


def _below(target: Path) -> Iterator[Path]:
    yield target
    for above, folders, names in [] if target.is_symlink() else os.walk(target):
        yield from (Path(above, name) for name in (*folders, *names))


def _is_empty(target: Path) -> bool:
    return target.is_dir() and not target.is_symlink() and not any(target.iterdir())


def _files(source: Path) -> Iterator[str]:
    for above, _, names in os.walk(source, followlinks=True):
        yield from (os.path.relpath(os.path.join(above, name), source) for name in sorted(names))


def _link(runner: FlowRunner, link: Path, source: Path) -> bool:
    """Make a link to a file or to a folder of the user's; false where the user has one there."""
    link.parent.mkdir(parents=True, exist_ok=True)
    if _is_empty(link):
        link.rmdir()
    try:
        link.symlink_to(source)
    except FileExistsError:
        return False
    _protect(runner, source)
    return True


def _protect(runner: FlowRunner, source: Path) -> None:
    """Make a cached file read-only, as users see it through a link."""
    real = source.resolve()
    if real.is_file() and runner.in_cache(real):
        # A cache of another user cannot be written anyway.
        with suppress(OSError):
            real.chmod(real.stat().st_mode & ~0o222)
