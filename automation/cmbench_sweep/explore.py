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
    found = exploration(command.rest, command.flags)
    return _explored(command, found, _entry(command), command.flags, command.rest)


def replay(command: Command) -> Reply:
    """``cm replay experiment``: run the line of an experiment again, with the values it had then.

    It is the line of the last folder, of ``--dir``, or of the one with the result ``--uid``. Raises
    ``sweep-not-found`` and what ``explore`` raises.
    """
    entry = _entry(command, make=False)
    told = _recorded(entry, command.flags)
    words = tuple(map(str, told.pop("unparsed_cmd", ())))
    return _explored(command, exploration(words, told), entry, told, words)


def _recorded(entry: Path, flags: Mapping[str, Any]) -> dict[str, Any]:
    """What was asked for in a folder of an experiment; raises ``sweep-not-found``."""
    for path in sorted(entry.glob(f"{flags.get('dir') or '*'}/{INPUT}"), reverse=True):
        if (path.parent / str(flags.get("uid") or ".")).is_dir():
            found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            return {key: value for key, value in found.items() if key not in ("dir", "rerun")}
    raise Error(
        "sweep-not-found",
        f"{entry} has nothing like that to run again",
        hint=f"its folders: {', '.join(sorted(os.listdir(entry))[:8])}",
    )


def _explored(
    command: Command, found: Exploration, entry: Path, flags: Mapping[str, Any], rest: Sequence[str]
) -> Reply:
    steps = list(itertools.product(*found.axes.values()))
    folder = _folder(entry, flags)
    command.say(f"Path to CM experiment artifact: {entry}")
    command.say(f"Path to experiment: {folder}")
    told = {k: v for k, v in flags.items() if k not in ("out", "json")}
    write(folder / INPUT, {**told, "unparsed_cmd": list(rest)})
    failed = []
    here = os.getcwd()
    for number, values in enumerate(steps, 1):
        command.say(f"Experiment step: {number} out of {len(steps)}")
        place = folder / os.urandom(8).hex()
        named = dict(zip(found.axes, map(str, values), strict=True))
        own = {"CD": here, "CM_EXPERIMENT_STEP": str(number), "CM_EXPERIMENT_PATH": str(entry)}
        own |= {"CM_EXPERIMENT_PATH2": str(folder), "CM_EXPERIMENT_PATH3": str(place)}
        line = filled(found.command, {**own, **found.env, **named})
        for name, value in named.items():
            command.say(f"  {name} = {value}")
        status = _run(line, place, {**found.env, **named})
        _keep(folder / RESULT, _result(place, named, status))
        if status:
            failed.append(f"{_text(named)}: exit status {status}")
    data = {"experiment_path": str(entry), "experiment_path2": str(folder), "steps": len(steps)}
    return Reply(data, "", data, _failure(failed, len(steps), folder))


def exploration(words: Sequence[str], flags: Mapping[str, Any]) -> Exploration:
    """The command line and its values; raises ``needs-input``, ``bad-value``."""
    if not words:
        raise Error(
            "needs-input",
            "there is nothing to run",
            hint="name a sweep (--sweep=FILE), or add a command after -- : cm run experiment"
            " --tags=mine -- cm run script --tags=detect,os",
        )
    given = flags.get("explore") or {}
    if not isinstance(given, Mapping):
        raise Error("bad-value", "--explore needs a name", hint="write --explore.VAR=[1,2]")
    texts = dict(given)
    line = " ".join(map(_word, _rejoined(words)))
    texts |= dict(_INLINE.findall(line))
    line = _INLINE.sub(r"{{\1}}", line)
    axes = {name: _values(name, value) for name, value in texts.items()}
    env = flags.get("env") or {}
    found = Exploration(line, axes, {str(k): str(v) for k, v in dict(env).items()})
    known = {*axes, *found.env, *_PATHS}
    for name in _NAMED.findall(line):
        if name not in known:
            hint = did_you_mean(name, known) or f"give its values: --explore.{name}=[1,2]"
            hint = hint if name.isidentifier() else _APART
            raise Error("bad-value", f"{{{{{name}}}}} has no values", hint=hint)
    return found


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
    """The words as they were typed: bash makes ``{{X[1}} {{X2]}}`` of ``{{X{[1,2]}}}``."""
    left = list(words)
    while left:
        word = left.pop(0)
        found = _FIRST.fullmatch(word)
        if found is None:
            yield word
            continue
        start, value, end = found.groups()
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
    """A list of values that bash has divided; it has eaten the quotes of texts."""
    text = ",".join(values)
    try:
        evaluate(text, {})
    except ExpressionError:
        return f"[{','.join(repr(value.strip('[]')) for value in values)}]"
    return text


def _word(word: str) -> str:
    """A word as CM hands it to the shell, which may fill in variables: in quotes for blanks."""
    return '"' + word.replace('"', '\\"') + '"' if " " in word else word


def _values(name: str, value: Any) -> list[Any]:
    if isinstance(value, list):
        return value
    try:
        found = evaluate(str(value), {})
    except ExpressionError as problem:
        raise Error(
            "bad-value",
            f"--explore.{name}: {problem}",
            hint=f"write a list: --explore.{name}=[1,2,4]",
        ) from None
    if not isinstance(found, list) or len(found) > _MOST:
        raise Error(
            "bad-value",
            f"--explore.{name}={value} is not a list of values",
            hint=f"write a list: --explore.{name}=[1,2,4]",
        )
    return found


def filled(line: str, values: Mapping[str, str]) -> str:
    """A command line with its values in their places."""
    return _NAMED.sub(lambda found: values[found[1]], line)


def _entry(command: Command, make: bool = True) -> Path:
    """The folder of the experiment by its name or tags; made, or refused, where it is not there."""
    cmind = command.workspace.cmind
    tags, names = command.flags.get("tags"), command.names
    asked: dict[str, Any] = {"automation": "experiment,a0a2d123ef064bcb"}
    asked |= {"artifact": names[0]} if names else {}
    by_name = bool(names) and not names[0].endswith(":")
    by_tags = {"tags": tags} if tags else {}
    found: list[Any] = []
    if names or tags:
        query = {**asked, "action": "find", **({} if by_name else by_tags)}
        found = _asked(cmind, query)["list"]
    if len(found) > 1:
        places = sorted(each.path for each in found)
        raise Error(
            "ambiguous",
            f"{len(places)} experiments match",
            context=places[:10],
            hint="name one: cm run experiment NAME -- COMMAND",
        )
    if found:
        return Path(found[0].path)
    if not make:
        raise Error(
            "sweep-not-found",
            "no experiment has this name or these tags",
            hint="cm find experiment lists them",
        )
    return Path(_asked(cmind, {**asked, "action": "add", **by_tags})["path"])


def _asked(cmind: Any, i: dict[str, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = cmind.access(i)
    if answer["return"]:
        raise Error("bad-value", str(answer.get("error")), hint="check the name of the experiment")
    return answer


def _folder(entry: Path, flags: Mapping[str, Any]) -> Path:
    """A new folder by the time; that of ``--dir``; with ``--rerun`` the last one."""
    if flags.get("dir"):
        return entry / str(flags["dir"])
    last = max(entry.glob(f"*/{RESULT}"), default=None)
    if flags.get("rerun") and last is not None:
        return last.parent
    now = time.time()
    stamp = time.strftime("%Y-%m-%d.%H-%M-%S", time.localtime(now))
    return entry / f"{stamp}.{int(now % 1 * 1e6):06d}"


def _run(line: str, place: Path, env: Mapping[str, str]) -> int:
    """Run a command line where its results are kept; its exit status."""
    place.mkdir(parents=True, exist_ok=True)
    write(place / INPUT, {"action": "native-run", "command": line, "env": dict(env)})
    done = subprocess.run(["bash", "-c", line], cwd=place, env={**os.environ, **env}, check=False)
    return done.returncode


def _result(place: Path, values: Mapping[str, str], status: int) -> dict[str, Any]:
    """What a run has left in its file, with its name, its time and its values."""
    found: dict[str, Any] = {}
    for path in (place / "cm-output.json", place / RESULT):
        found |= _values_in(path)
    now = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime())
    own = {"uid": place.name, "iso_datetime": now, **{f"explore.{k}": v for k, v in values.items()}}
    return {**found, **own, **({"error": f"exit status {status}"} if status else {})}


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
        known = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        known = []
    write(path, [*known, result])


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
