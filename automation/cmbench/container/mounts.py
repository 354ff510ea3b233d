"""Which folders of this machine a container sees, where, and whether it may write to them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cmbench.container.options import ContainerOptions
from cmbench.errors import Error
from cmbench.format.model import Request, Script

_OUTPUT = re.compile(
    r"(^|_)(out|output|outputs|outdir|outdirname|outbasename|results?|logs?|submissions?|scratch"
    r"|work|save|store|to|dump|download|extract|sut)(_|$)"
)
_FILES = ("lock", "save_to_json")
"""Flags of every run whose value is a file to be written."""

_PATH_KEY = re.compile(r"_(PATH|DIR|FILE|FOLDER)$")
_REFERENCE = re.compile(r"\$\{\{\s*([\w.]+)\s*\}\}")

_OF_THE_IMAGE = (
    *("/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/root", "/run", "/sbin"),
    *("/sys", "/usr/bin", "/usr/lib", "/usr/lib64", "/usr/sbin", "/usr/local/bin"),
    *("/usr/local/lib", "/opt/cmbench", "/cm"),
)
_NEVER_BELOW = ("/proc", "/sys", "/dev", "/opt/cmbench", "/cm")


@dataclass(frozen=True, slots=True)
class Mount:
    """A folder or file of this machine in the container; ``why`` is for the reader."""

    source: str
    target: str
    writable: bool
    why: str = field(compare=False, default="")

    @property
    def mode(self) -> str:
        """``rw`` or ``ro``."""
        return "rw" if self.writable else "ro"


@dataclass(frozen=True, slots=True)
class Folders:
    """Mounts in the order in which they are made, and what the user should know of them.

    ``make`` are folders of the user that must be made before.
    """

    mounts: tuple[Mount, ...]
    make: tuple[str, ...]
    work: str
    notes: tuple[str, ...]


OF_IMAGE = frozenset(["python"])
"""Inputs whose path is one in the image: an interpreter of this machine would not run there."""


def of_inputs(
    request: Request, script: Script, flags: Mapping[str, Any], options: ContainerOptions
) -> Iterator[tuple[str, str, bool]]:
    """(name of the input, absolute path, whether it is written) for every input that is a path."""
    for name, value in _texts(request.inputs):
        if name not in OF_IMAGE and _is_path(name, script, options):
            yield f"--{name}", _absolute(value), _is_output(name, options)
    for path in filter(None, request.path.split(os.pathsep)):
        yield "--path", path, "path" in options.writable
    for name, value in _texts(flags):
        if name in _FILES:
            yield f"--{name}", _absolute(value), True
    for key, value in _texts(request.env):
        if os.path.isabs(value) and _names_path(key, value, script):
            yield f"--env.{key}", os.path.abspath(value), _is_output(key.lower(), options)
    yield from _of_dependencies(flags)


def _of_dependencies(flags: Mapping[str, Any]) -> Iterator[tuple[str, str, bool]]:
    for group in ("adr", "ad"):
        for name, entry in (flags.get(group) or {}).items():
            value = entry.get("path") if isinstance(entry, Mapping) else None
            if isinstance(value, str) and value:
                yield f"--{group}.{name}.path", _absolute(value), False


def _absolute(path: str) -> str:
    return os.path.abspath(os.path.expanduser(path))


def _is_path(name: str, script: Script, options: ContainerOptions) -> bool:
    spec = script.inputs.get(name)
    keys = _path_keys(script)
    mapped = spec is not None and spec.env in keys
    return mapped or name in options.input_mapping or (spec is not None and spec.type == "path")


def _path_keys(script: Script) -> set[str]:
    keys: set[str] = set()
    for name in ("file_path_env_keys", "folder_path_env_keys"):
        value = script.meta.get(name)
        keys.update(map(str, value if isinstance(value, list) else ()))
    return keys


def _texts(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Those of ``values`` that are texts and not empty."""
    return ((key, value) for key, value in values.items() if isinstance(value, str) and value)


def _names_path(key: str, value: str, script: Script) -> bool:
    return key in _path_keys(script) or (bool(_PATH_KEY.search(key)) and os.path.exists(value))


def _is_output(name: str, options: ContainerOptions) -> bool:
    return name in options.writable or bool(_OUTPUT.search(name))


def plan_folders(
    fixed: Sequence[Mount],
    inputs: Iterable[tuple[str, str, bool]],
    extra: Iterable[Mount],
    work: str,
    home: str,
) -> Folders:
    """All mounts, outer folders first; ``work`` is the user's current folder, or empty.

    Raises ``bad-value`` for an input that does not exist, and for one that would hide what the
    image is made of.
    """
    notes: list[str] = []
    make: list[str] = []
    mounts = list(fixed)
    if (work and _hides(work)) or work in _above(os.path.expanduser("~")):
        notes.append(f"the current folder, {work}, is not mounted: it contains too much")
        work = ""
    if work:
        mounts.append(Mount(work, work, True, "current folder"))
    for name, path, written in inputs:
        mounts.append(_of_input(name, path, written, make))
    mounts += extra
    for mount in mounts:
        _check(mount)
    return Folders(tuple(_ordered(mounts)), tuple(make), work or home, tuple(notes))


def _above(path: str) -> set[str]:
    parents = {path}
    while os.path.dirname(path) != path:
        path = os.path.dirname(path)
        parents.add(path)
    return parents


def _of_input(name: str, path: str, written: bool, make: list[str]) -> Mount:
    if os.path.exists(path):
        if written and not os.path.isdir(path):
            # A file is replaced as a whole, which needs the folder that holds it.
            path = os.path.dirname(path)
        return Mount(path, path, written, name)
    if not written:
        raise Error(
            "bad-value",
            f"{name}={path} does not exist on this machine",
            hint="correct the path; if the run is to make it, add --docker_writable="
            + name.lstrip("-").rpartition(".")[2],
        )
    is_file = name.lstrip("-") in _FILES or os.path.splitext(path)[1]
    folder = os.path.dirname(path) if is_file else path
    make.append(folder)
    return Mount(folder, folder, True, name)


def _hides(target: str) -> bool:
    """Whether a mount at ``target`` covers what the container itself is made of."""
    if any(folder in (target, *_above(target)) for folder in _NEVER_BELOW):
        return True
    return any(target in _above(folder) for folder in _OF_THE_IMAGE)


def _check(mount: Mount) -> None:
    if any(ord(character) < 32 for character in mount.source + mount.target):
        raise Error(
            "bad-value", f"{mount.source!r} cannot be mounted: it contains a control character"
        )
    if mount.why.startswith("-") and _hides(mount.target):
        raise Error(
            "bad-value",
            f"{mount.why}={mount.target} would hide part of the image",
            hint="tools of this machine do not work in a container: leave the flag out, or copy "
            "the data to a folder of their own",
        )


def _ordered(mounts: Sequence[Mount]) -> list[Mount]:
    """Without those that others bring along; a writable folder wins over a read-only one."""
    best: dict[str, Mount] = {}
    for mount in mounts:
        before = best.get(mount.target)
        if before is None or (mount.writable and not before.writable):
            best[mount.target] = mount
    ordered: list[Mount] = []
    for mount in sorted(best.values(), key=lambda m: m.target.split("/")):
        around = [m for m in ordered if mount.target.startswith(m.target.rstrip("/") + "/")]
        if not around or not _brings(around[-1], mount):
            ordered.append(mount)
    return ordered


def _brings(outer: Mount, inner: Mount) -> bool:
    """Return whether ``inner``, which lies in ``outer``, is mounted the same way by it."""
    below = os.path.relpath(inner.target, outer.target)
    return outer.mode == inner.mode and inner.source == os.path.join(outer.source, below)


def extra_mounts(
    options: ContainerOptions, values: Mapping[str, str]
) -> tuple[list[Mount], list[str]]:
    """The mounts of flags and meta; those with an unset ``${{ KEY }}`` are left out.

    Raises ``bad-value`` for a folder that does not exist.
    """
    mounts: list[Mount] = []
    unset: list[str] = []
    for text in options.mounts:
        missing = [key for key in _REFERENCE.findall(text) if not values.get(key)]
        if missing:
            unset += missing
            continue
        source, target, mode = _parts(_REFERENCE.sub(lambda m: values[m[1]], text))
        if not os.path.exists(source):
            raise Error("bad-value", f"--docker_mounts: {source} does not exist on this machine")
        mounts.append(Mount(source, target, mode != "ro", "asked for"))
    keys = ", ".join(dict.fromkeys(unset))
    return mounts, [f"mounts with unset keys are left out: {keys}"] if keys else []


def _parts(text: str) -> tuple[str, str, str]:
    words = text.split(":")
    mode = words.pop() if words[-1] in ("ro", "rw") and len(words) > 1 else "ro"
    if len(words) > 2 or not words[0] or not os.path.isabs(words[-1]):
        raise Error(
            "bad-value",
            f"--docker_mounts={text} is not a mount",
            hint="write --docker_mounts=/folder/here:/folder/there:rw",
        )
    return _absolute(words[0]), os.path.normpath(words[-1]), mode
