"""What authors of scripts call: ``cm add``, ``lint``, ``test`` and ``doc script``."""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from itertools import groupby
from typing import TYPE_CHECKING, Any

from cmbench.api import author
from cmbench.api.scripts import show
from cmbench.author.author_session import Workbench
from cmbench.cli.reply import Command, Reply
from cmbench.cli.results import ScriptItem
from cmbench.errors import Error
from cmbench.format.meta import is_true
from cmbench.lib.text_files import counted

if TYPE_CHECKING:
    from cmbench.author.lint import LintFault
    from cmbench.format.model import Script


def _bench(command: Command) -> Workbench:
    tags, name = command.query()
    path, every = str(command.flags.get("path") or ""), bool(command.flags.get("all"))
    return Workbench(command.workspace, tags, name, path, every)


def lint_script(command: Command) -> Reply:
    """``cm lint script``: the faults of scripts; ``--fix`` applies the safe fixes."""
    flags = command.flags
    only, skip = (str(flags.get(key) or "") for key in ("only", "skip"))
    choice = author.CheckSelection(only, skip, is_true(flags.get("strict") or ""))
    report = author.lint(_bench(command), choice, bool(flags.get("fix")))
    errors = [fault for fault in report.faults if fault.binding]
    warnings = len(report.faults) - len(errors)
    parts = [counted(len(report.scripts), "script"), f"{report.checks} checks"]
    parts += [counted(len(errors), "fault"), *([counted(warnings, "warning")] if warnings else [])]
    count = ", ".join(parts)
    lines = [f"{_shown(path)}: meta.yaml corrected" for path in report.fixed]
    lines += map(_fault_text, errors)
    lines += _warnings(report.faults, is_true(flags.get("verbose") or ""))
    answer = {"faults": [asdict(fault) for fault in report.faults], "fixed": list(report.fixed)}
    return _reply(answer, [*lines, count], count if errors else "")


_EXAMPLES = 2
"""So many warnings of a kind are shown."""


def _warnings(faults: Iterable[LintFault], show_all: bool) -> Iterator[str]:
    """Warnings by kind, the commonest first: how many, and where some are; else ``show_all``."""
    kinds: dict[str, list[LintFault]] = {}
    for fault in faults:
        if not fault.binding:
            kinds.setdefault(fault.number, []).append(fault)
    for number, group in sorted(kinds.items(), key=lambda kind: -len(kind[1])):
        if not show_all and len(group) > _EXAMPLES:
            yield f"{len(group)} warnings {number}: {author.title_of(number)}"
        yield from (
            f"  {_fault_text(fault)}" for fault in (group if show_all else group[:_EXAMPLES])
        )
    if not show_all and any(len(group) > _EXAMPLES for group in kinds.values()):
        yield "all of them: cm lint script ... -v"


def _fault_text(fault: LintFault) -> str:
    return str(fault).replace(fault.path, _shown(fault.path), 1)


def _shown(path: str) -> str:
    """``path`` as one would type it from here."""
    near = os.path.relpath(path)
    return path if near.startswith(os.pardir + os.sep + os.pardir) else near


def _reply(answer: dict[str, Any], lines: Iterable[str], failed: str) -> Reply:
    """The end of a command; ``failed`` says what failed, if anything."""
    status = {"error": failed, "return": 1} if failed else {}
    return Reply({**status, **answer}, "\n".join(lines), answer)


def doc_script(command: Command) -> Reply:
    """``cm doc script``: write the generated documentation, or ``--check`` it."""
    only_check = bool(command.flags.get("check"))
    report = author.document(_bench(command), only_check)
    state, key = ("not up to date", "stale") if only_check else ("written", "written")
    end = ": cm doc script" if only_check else ""
    lines = [f"{_shown(path)}: {state}{end}" for path in report.stale]
    lines.append(f"{counted(len(report.pages), 'file')}, {len(report.stale)} {state}")
    failed = lines[-1] if only_check and report.stale else ""
    return _reply({key: list(report.stale)}, lines, failed)


def test_script(command: Command) -> Reply:
    """``cm test script``: plan every variation, run every case of ``detection_test.yaml``."""
    bench = _bench(command)
    tested = author.test(bench)
    lines: list[str] = []
    for alias, items in groupby(tested, lambda item: item.script):
        lines.append(alias)
        for item in items:
            lines.append(f"  {'FAIL' if item.problems else 'ok  '} {item.test}")
            texts = [*item.problems, *(f"warning: {text}" for text in item.warnings)]
            lines += [f"         {line}" for text in texts for line in text.splitlines()]
    failed = sum(bool(item.problems) for item in tested)
    lines.append(
        f"{counted(len(bench.paths), 'script')}, {counted(len(tested), 'test')}, {failed} failed"
    )
    answer = [
        {**asdict(item), "problems": list(item.problems), "warnings": list(item.warnings)}
        for item in tested
    ]
    rows = [ScriptItem(path=path) for path in bench.paths]
    return _reply({"tests": answer, "list": rows}, lines, lines[-1] if failed else "")


def add_script(command: Command) -> Reply:
    """``cm add script``: a new script that passes the linter and its own tests at once.

    Raises ``bad-value`` without a name.
    """
    from cmbench.author import scaffold

    flags = defaultdict(str, {key: str(value or "") for key, value in command.flags.items()})
    repo, _, alias = "".join(command.names[:1]).rpartition(":")
    if not alias:
        raise Error(
            "bad-value",
            "the new script has no name",
            hint="name it <verb>-<thing>:\n`cm add script get-cmake --kind=detect`",
            context=[f"--kind={kind}: {text}" for kind, text in scaffold.KINDS.items()],
        )
    tags = tuple(filter(None, flags["tags"].split(",")))
    if flags["template_tags"]:
        source = show(command.workspace, flags["template_tags"])
        target = f"{flags['repo']}:{alias}" if flags["repo"] else "".join(command.names[:1])
        return _written(source, author.relocate(command.workspace, source, target, tags=tags))
    kind = flags["kind"] or _kind(flags["template"], alias)
    wish = scaffold.ScaffoldRequest(alias, kind, tags, flags["name"], flags["url"], flags["sha256"])
    written = author.add(command.workspace, wish, flags["repo"] or repo)
    lines = [f"{_shown(path)}: written" for path in written]
    lines.append(f"next: cm test script {alias}; cm lint script {alias}; cm run script {alias}")
    return Reply({"path": os.path.dirname(written[0]), "files": written}, "\n".join(lines))


def copy_script(command: Command) -> Reply:
    """``cm copy script``: a script of its own like another; raises ``bad-value``."""
    return _relocated(command, move=False)


def move_script(command: Command) -> Reply:
    """``cm move script``: another name, or another repository; raises ``bad-value``."""
    return _relocated(command, move=True)


def _relocated(command: Command, move: bool) -> Reply:
    from cmbench.index.select import parse_tags

    *sources, target = command.names or [""]
    tags = parse_tags(str(command.flags.get("tags") or ""))
    if not target or len(sources) > 1 or not (sources or tags.wanted):
        raise Error(
            "bad-value",
            "a script and its new name are needed",
            hint="give both: `cm copy script get-cmake mine:get-my-cmake`",
        )
    source = show(command.workspace, tags, "".join(sources))
    made = author.relocate(command.workspace, source, target, move)
    return _written(source, made, "moved" if move else "copied")


def _written(source: Script, made: str, done: str = "copied") -> Reply:
    text = f"{_shown(source.path)}: {done} to {_shown(made)}"
    return Reply({"path": made, "list": [ScriptItem(path=made)]}, text)


def native_run_script(command: Command) -> Reply:
    """``cm native-run script``: run a command line in a shell, with an env; return its status."""
    import subprocess

    variables = command.flags.get("env")
    env = {str(k): str(v) for k, v in variables.items()} if isinstance(variables, dict) else {}
    words = ["bash", "-c", str(command.flags.get("command") or "")]
    done = subprocess.run(words, env={**os.environ, **env}, check=False)
    return Reply({"return_code": done.returncode}, None)


def remove_script(command: Command) -> Reply:
    """``cm rm script``: remove the folder of one script; prompts first unless -f is given.

    Raises ``bad-value`` where no terminal can prompt, ``not-confirmed``.
    """
    from shutil import rmtree

    tags, name = command.query()
    script = show(command.workspace, tags, name)
    if not command.flags.get("force"):
        if not sys.stdin.isatty():
            raise Error("bad-value", "nothing was removed", hint="add -f to skip the question")
        if input(f"Remove {_shown(script.path)}? [y/N] ").strip().lower() not in ("y", "yes"):
            raise Error("not-confirmed", "nothing was removed", hint="answer y to remove it")
    rmtree(script.path)
    return Reply({"path": script.path}, f"{_shown(script.path)}: removed")


def _kind(template: str, alias: str) -> str:
    """The kind of script for a template of CM, else for its name; raises ``bad-value``."""
    if template not in ("", "python", "pytorch"):
        raise Error(
            "bad-value",
            f"--template={template} is not possible",
            hint="choose a kind: `cm add script NAME --kind=KIND`; see: `cm add script`",
        )
    return "detect" if alias.startswith(("get-", "detect-")) and not template else "app"
