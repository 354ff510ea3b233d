"""``customize.py`` as a module: what it may import, whom it may ask, and how its failures read.

Each such module gets names of its own for ``input`` and ``__import__``, so that nothing is changed
for any other code of the process.
"""

from __future__ import annotations

import builtins
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from cmbench.errors import Error
from cmbench.format.env import MISSING, as_text
from cmbench.plan.resolved_step import Frame

Ask = Callable[[str], str]


def load(path: str, frame: Frame, ask: Ask, offered: Mapping[str, ModuleType]) -> ModuleType:
    """The module at ``path``; it finds ``offered`` modules by name, and ``ask`` as ``input``.

    Raises ``Error`` (``customize-crashed``) when it cannot be loaded.
    """
    import importlib.util

    name = f"cm_customize_{frame.script.uid or frame.script.alias}".replace("-", "_")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    names: dict[str, Any] = {**vars(builtins), "input": ask}
    if offered:
        names["__import__"] = _importer(offered)
        if frame.script.path not in sys.path:
            # Scripts of that dialect import helpers that lie beside them.
            sys.path.append(frame.script.path)
    vars(module)["__builtins__"] = names
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Error:
        del sys.modules[name]
        raise
    except (Exception, SystemExit) as problem:
        del sys.modules[name]
        raise crash(problem, frame, "loading customize.py") from problem
    return module


def _importer(offered: Mapping[str, ModuleType]) -> Callable[..., Any]:
    def find(name: str, *place: Any, **named: Any) -> Any:
        """As ``builtins.__import__(name, globals, locals, fromlist, level)``."""
        wanted, level = named.get("fromlist"), named.get("level", 0)
        if len(place) > 2:
            wanted, level = place[2], (*place, 0)[3]
        if level or name not in offered:
            return builtins.__import__(name, *place, **named)
        return offered[name] if wanted else offered[name.partition(".")[0]]

    return find


@contextmanager
def programs(key: str, directory: str) -> Iterator[None]:
    """While ``customize.py`` has the word: an interruption ends the programs that it has started.

    They are known by the private directory of the step, which stands in their env under ``key``.
    """
    before, system = os.environ.get(key, ""), os.system
    os.environ[key] = directory
    vars(os)["system"] = _system
    try:
        yield
    except KeyboardInterrupt:
        from cmbench.lib import orphans

        orphans.stop(directory)
        raise
    finally:
        vars(os)["system"] = system
        # Never taken away: a thread that downloads may be going through the environment.
        os.environ[key] = before


def _system(command: str) -> int:
    """As ``os.system``, which is deaf to Ctrl-C and SIGTERM as long as the program runs.

    An interrupted program would look like one that failed, and many scripts do not look at all.
    """
    import subprocess

    status = subprocess.run(["/bin/sh", "-c", command], check=False).returncode
    return status << 8 if status >= 0 else -status


def crash(problem: BaseException, frame: Frame, doing: str) -> Error:
    """A Python failure of a script's own code, told by its own lines only."""
    import traceback

    own = [
        f"customize.py:{item.lineno} in {item.name}: {item.line}"
        for item in traceback.extract_tb(problem.__traceback__)
        if item.filename.startswith(frame.script.path)
    ]
    if isinstance(problem, EOFError):
        return unanswered("", frame, doing, own)
    if isinstance(problem, SyntaxError) and problem.filename:
        own.append(
            f"{os.path.basename(problem.filename)}:{problem.lineno}: {problem.text}".rstrip()
        )
    return Error(
        "customize-crashed",
        f"customize.py of {frame.script.alias} failed: {type(problem).__name__}: {problem}",
        context=own,
        doing=doing,
        hint=_advice(problem),
    )


def _advice(problem: BaseException) -> str:
    if isinstance(problem, ModuleNotFoundError) and problem.name:
        package = problem.name.partition(".")[0]
        return (
            f"let the script depend on what it imports, or install {package} for the Python of"
            f" cm ({sys.executable})"
        )
    return "correct the script, or see the whole traceback with --debug"


def unanswered(prompt: str, frame: Frame, doing: str, context: Iterable[str] = ()) -> Error:
    """A question of a script that nobody is there to answer, and how to answer it beforehand."""
    question = f': "{" ".join(prompt.split())}"' if prompt.strip() else ""
    return Error(
        "needs-input",
        f"customize.py of {frame.script.alias} asks a question and nobody can answer{question}",
        context=tuple(context),
        doing=doing,
        hint=_answer_beforehand(frame),
    )


def _answer_beforehand(frame: Frame) -> str:
    """The input, or else the env key, that the script looked for last and did not find."""
    dialect = frame.script.dialect
    names = {dialect.prefix + name.upper(): name for name in dialect.inputs}
    for block in frame.blocks:
        names.update({key: name for name, key in block.input_mapping.items()})
    missed = [key for key in reversed(frame.env.reads) if _is_empty(frame.env.peek(key, MISSING))]
    named = [key for key in missed if key in names]
    if not named:
        known = [key for key in missed if key.startswith(dialect.prefix) and "_TMP_" not in key]
        return (
            f"give the answer with the call: --env.{known[0]}=VALUE"
            if known
            else "repeat the command on a terminal, without --quiet"
        )
    name = names[named[0]]
    if frame.parent is None:
        return f"give the answer with the call: --{name}=VALUE"
    tags = ",".join([*frame.script.tags, *("_" + v for v in frame.request.tags.variations)])
    return f"run this step first, with the answer: cm run script --tags={tags} --{name}=VALUE"


def _is_empty(value: Any) -> bool:
    return value is MISSING or as_text(value) == ""
