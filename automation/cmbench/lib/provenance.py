"""What a result must say of its own making, so that another person can repeat it."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

YES = ("yes", "true", "on", "1")


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


def command(words: Sequence[str], tags: str, inputs: Mapping[str, Any]) -> str:
    """The command line that was typed, or one that asks the same where none was.

    ``words`` is the process's argument list, secrets already hidden.
    """
    if len(words) > 1 and os.path.basename(words[0]) in ("cm", "cmr", "mlc", "mlcr"):
        return shlex.join([os.path.basename(words[0]), *words[1:]])
    flags = [f"--{name}={value}" for name, value in inputs.items() if name != "tags"]
    return shlex.join(["cm", "run", "script", f"--tags={tags}", *flags])


def steps(meta: Mapping[str, Any], variations: Sequence[str], env: Mapping[str, Any]) -> list[str]:
    """A command for each dependency that a script with these variations takes."""
    known = meta.get("variations") or {}
    names = list(dict.fromkeys(each for name in variations for each in _with_bases(known, name)))
    chosen = [known[name] for name in names]
    deps = [*meta.get("deps", []), *(dep for each in chosen for dep in each.get("deps", []))]
    extra: dict[str, list[str]] = {}
    for each in chosen:
        for name, update in (each.get("add_deps") or each.get("ad") or {}).items():
            extra.setdefault(name, []).append(str(update.get("tags", "")))
    commands = [
        f"cm run script --tags={','.join(_tags(dep, extra, env))}"
        for dep in deps
        if _taken(dep, env)
    ]
    return list(dict.fromkeys(commands))


def _with_bases(known: Mapping[str, Any], name: str) -> Iterator[str]:
    """A variation after those that it is based on; nothing for an unknown one."""
    if name in known:
        for base in known[name].get("base") or ():
            yield from _with_bases(known, base)
        yield name


def _tags(
    dep: Mapping[str, Any], extra: Mapping[str, Sequence[str]], env: Mapping[str, Any]
) -> Iterator[str]:
    yield str(dep["tags"])
    for name in dep.get("names", []):
        yield from (tags for tags in extra.get(name, ()) if tags)
    for prefix, keys in (dep.get("update_tags_from_env_with_prefix") or {}).items():
        yield from (f"{prefix}{env[key]}" for key in keys if env.get(key))


def _taken(dep: Mapping[str, Any], env: Mapping[str, Any]) -> bool:
    wanted, unwanted = dep.get("enable_if_env") or {}, dep.get("skip_if_env") or {}
    if not all(_matches(env.get(key), values) for key, values in wanted.items()):
        return False
    return not (
        unwanted and all(_matches(env.get(key), values) for key, values in unwanted.items())
    )


def _matches(value: Any, wanted: Any) -> bool:
    texts = [str(each).lower() for each in (wanted if isinstance(wanted, list) else [wanted])]
    found = str(value or "").lower()
    return found in texts or (found in YES and any(text in YES for text in texts))
