"""Files between the engine and a native script: its results, and how it is repeated."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress

from cmbench.plan.step_run import StepRun
from cmbench.run.cm_objects import StepFolders

_ENV_FILE, _STATE_FILE = "tmp-run-env.out", "tmp-run-state.json"
"""What a native script leaves for the engine, where it works."""


def remove_leftovers(cwd: str) -> None:
    """Remove the files that another step, ended by force, has left in ``cwd``.

    The script of this step may write none: it must not be taken for theirs.
    """
    for name in (_ENV_FILE, _STATE_FILE):
        with suppress(OSError):
            os.unlink(os.path.join(cwd, name))


def read_results(step_run: StepRun, cwd: str) -> None:
    """Set the env and state keys that a native script left in files, and remove the files."""
    path = os.path.join(cwd, _ENV_FILE)
    with suppress(FileNotFoundError):
        with open(path, encoding="utf-8", errors="replace") as stream:
            for text in stream:
                key, equals, value = text.rstrip("\n").partition("=")
                if equals and key.strip():
                    step_run.env[key.strip()] = value
        os.unlink(path)
    path = os.path.join(cwd, _STATE_FILE)
    with suppress(FileNotFoundError):
        with open(path, encoding="utf-8") as stream:
            for key, value in json.load(stream).items():
                step_run.state[key] = value
        os.unlink(path)


def changed_values(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the values that differ from those of this process."""
    return {k: v for k, v in environment.items() if os.environ.get(k) != v}


def with_package_files(variables: Mapping[str, str], place: str) -> dict[str, str]:
    """Return the variables of a process, with a folder or page of wheels for all that calls pip."""
    if not place:
        return dict(variables)
    from pathlib import Path

    # pip separates several by blanks, which a path may have.
    link = place if "://" in place else Path(place).as_uri()
    links = f"{link} {variables.get('PIP_FIND_LINKS', '')}".rstrip()
    return {**variables, "PIP_FIND_LINKS": links}


def write_repeat_file(
    step_run: StepRun, place: StepFolders, command: list[str], changed: Mapping[str, str]
) -> str:
    """Return a shell file that repeats a failed step, with the ``changed`` keys of its env."""
    import shlex

    path = os.path.join(place.scratch, f"{step_run.script.alias}.sh")
    lines = ["#!/usr/bin/env bash", f"cd {shlex.quote(place.cwd)}"]
    # A shell passes on a variable with another name, but it cannot set one.
    named = [key for key in sorted(changed) if re.fullmatch(r"[A-Za-z_]\w*", key, re.ASCII)]
    lines += [f"export {key}={shlex.quote(str(changed[key]))}" for key in named]
    lines.append(shlex.join(command))
    with (
        suppress(OSError),
        open(path, "w", encoding="utf-8", errors="surrogateescape") as stream,
    ):
        stream.write("\n".join(lines) + "\n")
    return path
