"""Options in the error of a dependency, in words of the command that was typed.

A script writes its errors for a user who calls it. As a dependency its options do not exist in the
user's command: there the same value has another name, is reached as ``--adr.NAME.OPTION``, or
needs a command of its own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from cmbench.errors import Error
from cmbench.format.merge import USER
from cmbench.format.model import Dependency, PathArgument
from cmbench.plan.step_run import StepRun
from common.problems import Hint

_VERSIONS = ("version", "version_min", "version_max")
_PLACES = ("path", "input")
"""Inputs of all scripts that a user may name a place with."""
_OPTION = re.compile(r"(?<![\w.-])--([a-z]\w*)(?![\w.-])")


def add_step(error: Error, step_run: StepRun) -> None:
    """Put a step in front of the chain of ``error``, which the step or one below it has raised.

    The options in the texts of the step that has raised it are translated.
    """
    if not error.chain and step_run.parent is not None:
        translation = _Translation(step_run)
        error.message = translation.text(error.message)
        error.hint = error.hint.changed(translation.text, _whole)
        if translation.own:
            command = f"cm run script --tags={step_run.request.tags or step_run.script.alias}"
            names = " and ".join(f"--{name}" for name in translation.own)
            verb = "are options" if len(translation.own) > 1 else "is an option"
            note = f"{names} {verb} of this step alone; run it first:\n`{command} ...`"
            error.hint = Hint.joined(error.hint, note)
    error.within(step_run.step.label)


def add_steps(error: Error, step_run: StepRun) -> None:
    """Put a step and those above it in front, for an error that did not come up through them."""
    for each in _upwards(step_run):
        add_step(error, each)


class _Translation:
    """The translation of one step's texts; ``own`` are the options that only the step has."""

    def __init__(self, step_run: StepRun) -> None:
        self._step_run = step_run
        self._root = next(each for each in _upwards(step_run) if each.parent is None)
        self.own: list[str] = []

    def text(self, text: str) -> str:
        """Return prose with its options translated, but for lines of others that have a command."""
        return "".join(
            line if " cm " in f" {line}" else _OPTION.sub(self._word, line)
            for line in text.splitlines(keepends=True)
        )

    def _word(self, match: re.Match[str]) -> str:
        name = match[1]
        names = (*self._step_run.script.inputs, *_VERSIONS, *_PLACES)
        return f"--{self._typed(name)}" if name in names else match[0]

    def _typed(self, name: str) -> str:
        """Return the option of the typed command that reaches an input of the step."""
        keys = _keys(self._step_run, name)
        env = self._step_run.env.plain()
        typed = _by_value(self._root, {str(env.get(key) or "") for key in keys})
        typed = typed or _by_key(self._root, keys)
        if not typed and (label := _name_of(self._step_run)):
            typed = f"adr.{label}.{name}"
        if not typed:
            self.own += [name] if name not in self.own else []
        return typed or name


def _whole(command: str) -> str:
    """Return a command; options alone are those of another script, and are run by themselves."""
    return f"cm run script {command}" if command.startswith("--tags=") else command


def _upwards(step_run: StepRun) -> Iterator[StepRun]:
    each: StepRun | None = step_run
    while each is not None:
        yield each
        each = each.parent


def _keys(step_run: StepRun, name: str) -> list[str]:
    """Return the env keys that an input of a step may set."""
    spec, prefix = step_run.script.inputs.get(name), step_run.script.dialect.prefix
    if spec is not None and spec.env:
        return [spec.env]
    return [prefix + ("TMP_PATH" if name == "path" else name.upper())]


def _by_value(root: StepRun, values: set[str]) -> str:
    """Return the option with which the user typed one of ``values``; empty where none was."""
    values = {os.path.abspath(os.path.expanduser(value)) for value in values - {""}}
    for flag, word in _typed_words(root):
        full = word.full if isinstance(word, PathArgument) else os.path.expanduser(str(word))
        if word not in ("", None) and os.path.abspath(full) in values:
            return flag
    return ""


def _typed_words(root: StepRun) -> Iterator[tuple[str, Any]]:
    request = root.request
    yield from request.inputs.items()
    groups: Mapping[str, Mapping[str, Dependency]] = {"adr": request.adr, "ad": request.ad}
    for group, updates in groups.items():
        for name, update in updates.items():
            for key, word in update.inputs.items():
                yield f"{group}.{name.removeprefix(USER)}.{key}", word


def _by_key(root: StepRun, keys: list[str]) -> str:
    """Return the input of the typed script that sets one of ``keys``; empty where none does."""
    inputs = root.script.inputs.values()
    return next((spec.name for spec in inputs if spec.env and spec.env in keys), "")


def _name_of(step_run: StepRun) -> str:
    """Return a name under which ``--adr`` reaches a dependency; empty where it has none."""
    if step_run.parent is None:
        return ""
    requested = set(str(step_run.request.tags).split(","))
    entries = (entry for phase in step_run.parent.step.deps.values() for entry in phase)
    for entry in entries:
        words = {word for word in entry.tags.split(",") if word}
        # Several dependencies may be one script: then their variations tell them apart.
        others = [word for word in requested - words if word[0] not in "_-"]
        if entry.names and words <= requested and not others:
            return entry.names[0]
    return ""
