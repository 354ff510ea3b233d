"""``cm run experiment … -- COMMAND``: a command line over values, spelt and kept as CM does.

``{{VAR}}`` in the command stands for a value of ``explore.VAR``; ``{{VAR{[1, 2]}}}`` gives the
values on the spot. Every run has a folder in the entry of the experiment, with the names of files
that CM's tools read: ``cm-input.json``, and ``cm-result.json``, a list with what the runs have left
in files of that name.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cmbench.cli.reply import Command, Reply
from cmbench.errors import Error, did_you_mean
from cmbench.lib.text_files import counted
from cmbench_sweep.expressions import ExpressionError, evaluate
from cmbench_sweep.kept_secrets import refuse_secret_words, refuse_secrets
from cmbench_sweep.points import flat_flags
from cmbench_sweep.store import write

RESULT, INPUT = "cm-result.json", "cm-input.json"
_INLINE = re.compile(r"\{\{(\w+)\{(.*?)\}\}\}", re.DOTALL)
_NAMED = re.compile(r"\{\{(.*?)\}\}")
_MOST = 100_000


@dataclass(frozen=True, slots=True)
class Exploration:
    """A command line, the values that its names go through, and the env of all its runs."""

    command: str
    axes: Mapping[str, Sequence[Any]]
    env: Mapping[str, str]


def explore(command: Command) -> Reply:
    """Run a command line for every combination of its values; a failed one stops no other.

    Raises ``needs-input``, ``bad-value``, ``points-failed``.
    """
    refuse_secret_words(command.rest)
    refuse_secrets(flat_flags(command.flags), {})
    grid = exploration(command.rest, command.flags)
    return _explored(command, grid, _entry(command), command.flags, command.rest)


def replay(command: Command) -> Reply:
    """``cm replay experiment``: run the line of an experiment again, with the values it had then.

    It is the line of the last folder, of ``--dir``, or of the one with the result ``--uid``. Raises
    ``sweep-not-found`` and what ``explore`` raises.
    """
    entry = _entry(command, make=False)
    settings = _recorded(entry, command.flags)
    words = tuple(map(str, settings.pop("unparsed_cmd", ())))
    return _explored(command, exploration(words, settings), entry, settings, words)


def _recorded(entry: Path, flags: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings in a folder of an experiment; raise ``sweep-not-found``."""
    for path in sorted(entry.glob(f"{flags.get('dir') or '*'}/{INPUT}"), reverse=True):
        if (path.parent / str(flags.get("uid") or ".")).is_dir():
            settings: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            return {key: value for key, value in settings.items() if key not in ("dir", "rerun")}
    raise Error(
        "sweep-not-found",
        f"{entry} has nothing like that to run again",
        hint=f"its folders: {', '.join(sorted(os.listdir(entry))[:8])}",
    )


def _explored(
    command: Command, grid: Exploration, entry: Path, flags: Mapping[str, Any], rest: Sequence[str]
) -> Reply:
    steps = list(itertools.product(*grid.axes.values()))
    folder = _folder(entry, flags)
    command.say(f"Path to CM experiment artifact: {entry}")
    command.say(f"Path to experiment: {folder}")
    settings = {k: v for k, v in flags.items() if k not in ("out", "json")}
    write(folder / INPUT, {**settings, "unparsed_cmd": list(rest)})
    failed = []
    directory = os.getcwd()
    for number, values in enumerate(steps, 1):
        command.say(f"Experiment step: {number} out of {len(steps)}")
        step_folder = folder / os.urandom(8).hex()
        named = dict(zip(grid.axes, map(str, values), strict=True))
        own = {"CD": directory, "CM_EXPERIMENT_STEP": str(number), "CM_EXPERIMENT_PATH": str(entry)}
        own |= {"CM_EXPERIMENT_PATH2": str(folder), "CM_EXPERIMENT_PATH3": str(step_folder)}
        line = filled(grid.command, {**own, **grid.env, **named})
        for name, value in named.items():
            command.say(f"  {name} = {value}")
        status = _run(line, step_folder, {**grid.env, **named})
        _keep(folder / RESULT, _result(step_folder, named, status))
        if status:
            failed.append(f"{_text(named)}: exit status {status}")
    data = {"experiment_path": str(entry), "experiment_path2": str(folder), "steps": len(steps)}
    return Reply(data, "", data, _failure(failed, len(steps), folder))


def exploration(words: Sequence[str], flags: Mapping[str, Any]) -> Exploration:
    """Return the command line and its values; raise ``needs-input``, ``bad-value``."""
    if not words:
        raise Error(
            "needs-input",
            "there is nothing to run",
            hint="name a sweep (--sweep=FILE), or add a command after -- : `cm run experiment"
            " --tags=mine -- cm run script --tags=detect,os`",
        )
    axes_texts = flags.get("explore") or {}
    if not isinstance(axes_texts, Mapping):
        raise Error("bad-value", "--explore needs a name", hint="write --explore.VAR=[1,2]")
    texts = dict(axes_texts)
    line = " ".join(map(_word, _rejoined(words)))
    texts |= dict(_INLINE.findall(line))
    line = _INLINE.sub(r"{{\1}}", line)
    axes = {name: _values(name, value) for name, value in texts.items()}
    env = flags.get("env") or {}
    grid = Exploration(line, axes, {str(k): str(v) for k, v in dict(env).items()})
    names = {*axes, *grid.env, *_PATHS}
    for name in _NAMED.findall(line):
        if name not in names:
            hint = did_you_mean(name, names) or f"give its values: --explore.{name}=[1,2]"
            hint = hint if name.isidentifier() else _APART
            raise Error("bad-value", f"{{{{{name}}}}} has no values", hint=hint)
    return grid


_PATHS = (
    "CD",
    "CM_EXPERIMENT_STEP",
    "CM_EXPERIMENT_PATH",
    "CM_EXPERIMENT_PATH2",
    "CM_EXPERIMENT_PATH3",
)


_APART = "the shell may have expanded its braces: quote the word with '…'"
_FIRST = re.compile(r"(.*\{\{[A-Za-z]\w*?)(\[.*)(\}\}.*)", re.DOTALL)


def _rejoined(words: Sequence[str]) -> Iterator[str]:
    """Yield the words as they were typed: bash makes ``{{X[1}} {{X2]}}`` of ``{{X{[1,2]}}}``."""
    left = list(words)
    while left:
        word = left.pop(0)
        match = _FIRST.fullmatch(word)
        if match is None:
            yield word
            continue
        start, value, end = match.groups()
        values = [value]
        while not values[-1].endswith("]") and left and _is_between(left[0], start, end):
            values.append(left.pop(0)[len(start) : -len(end)])
        if values[-1].endswith("]"):
            yield f"{start}{{{_list(values)}}}{end}"
        else:
            yield from (f"{start}{value}{end}" for value in values)


def _is_between(word: str, start: str, end: str) -> bool:
    return word.startswith(start) and word.endswith(end) and len(word) > len(start) + len(end)


def _list(values: Sequence[str]) -> str:
    """Return a list of values that bash has divided; it has eaten the quotes of texts."""
    text = ",".join(values)
    try:
        evaluate(text, {})
    except ExpressionError:
        return f"[{','.join(repr(value.strip('[]')) for value in values)}]"
    return text


def _word(word: str) -> str:
    """Return a word as CM passes it to the shell, which may expand variables: blanks in quotes."""
    return '"' + word.replace('"', '\\"') + '"' if " " in word else word


def _values(name: str, value: Any) -> list[Any]:
    if isinstance(value, list):
        return value
    try:
        values = evaluate(str(value), {})
    except ExpressionError as problem:
        raise Error(
            "bad-value",
            f"--explore.{name}: {problem}",
            hint=f"write a list: --explore.{name}=[1,2,4]",
        ) from None
    if not isinstance(values, list) or len(values) > _MOST:
        raise Error(
            "bad-value",
            f"--explore.{name}={value} is not a list of values",
            hint=f"write a list: --explore.{name}=[1,2,4]",
        )
    return values


def filled(line: str, values: Mapping[str, str]) -> str:
    """Return a command line with its values filled in."""
    return _NAMED.sub(lambda match: values[match[1]], line)


def _entry(command: Command, make: bool = True) -> Path:
    """Return the folder of the experiment by its name or tags; make or refuse a missing one."""
    cmind = command.workspace.cmind
    tags, names = command.flags.get("tags"), command.names
    artifact: dict[str, Any] = {"automation": "experiment,a0a2d123ef064bcb"}
    artifact |= {"artifact": names[0]} if names else {}
    by_name = bool(names) and not names[0].endswith(":")
    by_tags = {"tags": tags} if tags else {}
    entries: list[Any] = []
    if names or tags:
        query = {**artifact, "action": "find", **({} if by_name else by_tags)}
        entries = _call_cm(cmind, query)["list"]
    if len(entries) > 1:
        places = sorted(entry.path for entry in entries)
        raise Error(
            "ambiguous",
            f"{len(places)} experiments match",
            context=places[:10],
            hint="name one: `cm run experiment NAME -- COMMAND`",
        )
    if entries:
        return Path(entries[0].path)
    if not make:
        raise Error(
            "sweep-not-found",
            "no experiment has this name or these tags",
            hint="`cm find experiment` lists them",
        )
    return Path(_call_cm(cmind, {**artifact, "action": "add", **by_tags})["path"])


def _call_cm(cmind: Any, i: dict[str, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = cmind.access(i)
    if answer["return"]:
        raise Error("bad-value", str(answer.get("error")), hint="check the name of the experiment")
    return answer


def _folder(entry: Path, flags: Mapping[str, Any]) -> Path:
    """Return a new folder by the time; that of ``--dir``; with ``--rerun`` the last one."""
    if flags.get("dir"):
        return entry / str(flags["dir"])
    last = max(entry.glob(f"*/{RESULT}"), default=None)
    if flags.get("rerun") and last is not None:
        return last.parent
    now = time.time()
    stamp = time.strftime("%Y-%m-%d.%H-%M-%S", time.localtime(now))
    return entry / f"{stamp}.{int(now % 1 * 1e6):06d}"


def _run(line: str, folder: Path, env: Mapping[str, str]) -> int:
    """Run a command line where its results are kept; its exit status."""
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / INPUT, {"action": "native-run", "command": line, "env": dict(env)})
    done = subprocess.run(["bash", "-c", line], cwd=folder, env={**os.environ, **env}, check=False)
    return done.returncode


def _result(folder: Path, values: Mapping[str, str], status: int) -> dict[str, Any]:
    """Return what a run has left in its file, with its name, its time and its values."""
    outputs: dict[str, Any] = {}
    for path in (folder / "cm-output.json", folder / RESULT):
        outputs |= _values_in(path)
    now = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime())
    own = {
        "uid": folder.name,
        "iso_datetime": now,
        **{f"explore.{k}": v for k, v in values.items()},
    }
    return {**outputs, **own, **({"error": f"exit status {status}"} if status else {})}


def _values_in(path: Path) -> dict[str, Any]:
    try:
        return dict(_flat(json.loads(path.read_text(encoding="utf-8"))))
    except (OSError, ValueError, AttributeError):
        return {}


def _flat(data: Any, start: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in data.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{start}{key}.")
        else:
            yield f"{start}{key}", value


def _keep(path: Path, result: Mapping[str, Any]) -> None:
    """Add a result to the list of them."""
    try:
        results = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        results = []
    write(path, [*results, result])


def _text(values: Mapping[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in values.items()) or "the command"


def _failure(failed: Sequence[str], steps: int, folder: Path) -> Error | None:
    if not failed:
        return None
    return Error(
        "points-failed",
        f"{len(failed)} of {counted(steps, 'step')} failed",
        context=failed[:20],
        hint=f"their files are in {folder}",
    )
