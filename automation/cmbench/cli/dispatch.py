"""From cmind's dictionary to a verb; from its reply to the console and a CM return dictionary."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from cmbench.cli.commands import verb_of
from cmbench.cli.reply import Answer, Command, refuse_unknown
from cmbench.cli.verb import Verb
from cmbench.errors import Error, coloured, internal, visible
from cmbench.lib.caller import Caller
from cmbench.lib.secrecy import without_values
from cmbench.lib.text_files import read_or_empty
from cmbench.session.workspace import Workspace
from common.problems import Hint


def handle(thing: str, word: str, cmind: Any, i: dict[str, Any]) -> Answer:
    """Do ``cm <verb> <thing>``; failures are printed here and returned with their exit code."""
    # An --out that is not possible is refused on the console.
    console = i.get("out") not in (None, "", "json")
    caller = Caller.take_from(os.environ)
    try:
        _check_call(cmind, i)
        with caller.end_with_it():
            return _run_verb(thing, word, cmind, i)
    except Error as error:
        if i.get("debug"):
            _print_traceback(error, i)
        return _failure(_without_bare_secrets(error, i.get("cmd")), console, caller)
    except KeyboardInterrupt:
        return _failure(Error("interrupted", "stopped by the user"), console, caller)
    except BrokenPipeError:
        # The reader, such as `head`, has closed the pipe. Nothing more can be printed.
        _print_no_more()
        return {"return": 0}
    except OSError as problem:
        if console and _output_fails():
            _print_no_more()
            return _failure(_cannot_print(problem), console, caller)
        from cmbench.cache.store import disk_error

        failed = disk_error(problem, str(problem.filename or ""), cmind.repos_path)
        return _failure(failed, console, caller)
    except Exception as problem:
        if i.get("debug"):
            _print_traceback(problem, i)
        return _failure(internal(problem), console, caller)


def _print_traceback(problem: Exception, i: Mapping[str, Any]) -> None:
    """Print where ``problem`` came from, without the secrets of the call and of the run."""
    import traceback

    text = "".join(traceback.format_exception(problem))
    if isinstance(problem, Error) and problem.conceal is not None:
        text = problem.conceal(text)
    print(without_values(text, i, os.environ), end="", file=sys.stderr)


def _without_bare_secrets(error: Error, words: Any) -> Error:
    """``error``, or one that does not show what was meant as the value of a secret flag."""
    from cmbench.lib.secrecy import bare

    said = json.dumps([error.message, error.hint, error.context], default=str)
    for flag, word in bare(map(str, words)) if isinstance(words, list) else ():
        if word in said:
            hint = f'a value follows "=": {flag}=...'
            return Error("bad-value", f"{flag} has no value", hint=hint)
    return error


def _run_verb(thing: str, word: str, cmind: Any, i: dict[str, Any]) -> Answer:
    """Run the function of a verb and print its reply; return the reply as a CM dictionary."""
    verb = verb_of(thing, word)
    assert verb is not None
    write = verb.writes and not (verb.only_looks and i.get(verb.only_looks))
    command = Command(thing, Workspace.of_cmind(cmind, write), i)
    if (thing, verb.word) == ("script", "run") and command.asks_for_container():
        verb = verb_of("script", "docker")
        assert verb is not None
    at_site = bool(verb.at_site) and command.names_site()
    if command.console:
        _note_other_engines(command.workspace)
    with _other_command_named(verb, command):
        if verb.accepted is not None:
            refuse_unknown(command.flags, verb.accepted)
        reply = verb.function(at_site)(command)
    if command.console:
        shown = reply.shown(command.as_json)
        text = without_values(visible(shown or ""), command.flags, os.environ)
        _print(text, "" if shown is None else "\n")
    if reply.error is not None:
        raise reply.error
    return {"return": 0, **reply.answer}


@contextmanager
def _other_command_named(verb: Verb, command: Command) -> Iterator[None]:
    """Let the refusal of a flag name the command that has it."""
    try:
        yield
    except Error as error:
        if error.code == "unknown-flag":
            from cmbench.cli.usage import command_with_flag

            error.hint = Hint(command_with_flag(verb, command, error.message) or error.hint)
        raise


def _print(text: str, end: str) -> None:
    """Print what a command has to say, all of it at once."""
    try:
        print(coloured(text, sys.stdout), end=end, flush=True)
    except BrokenPipeError:
        raise
    except OSError as problem:
        # Whether a write failed cannot be queried later: Python may have dropped it.
        _print_no_more()
        raise _cannot_print(problem) from problem


def _note_other_engines(workspace: Workspace) -> None:
    """Print once of each repository with an engine of its own that cmbench runs its scripts."""
    mark = os.path.join("automation", "script", "module.py")
    others = [
        repository
        for repository in workspace.repositories
        if not repository.own and os.path.isfile(os.path.join(repository.path, mark))
    ]
    path = os.path.join(workspace.root, "engines-told")
    news = [r for r in others if r.path not in read_or_empty(path).splitlines()]
    if news:
        from cmbench.render.progress import show_warning
    for repository in news:
        # The root of a repository of MLC has a meta.yaml: its engine has commands of its own.
        is_mlc = os.path.isfile(os.path.join(repository.path, "meta.yaml"))
        own = "`mlcr TAGS`" if is_mlc else _REMOVAL
        note = (
            f"note: cmbench runs the scripts of {repository.alias} here: `cm run script"
            f" --tags=TAGS`; its own engine runs them with {own}"
        )
        show_warning(Hint(note))
    if news:
        with suppress(OSError):
            os.makedirs(workspace.root, exist_ok=True)
            with open(path, "a", encoding="utf-8") as stream:
                stream.writelines(f"{repository.path}\n" for repository in news)


# How to come back to the engine of another repository.
_REMOVAL = "cm after: `cm rm repo cmbench` (or `pip uninstall cmbench`), then `cm reindex repo`"


def _output_fails() -> bool:
    """Whether it is standard output that an ``OSError`` came from: it still cannot be written."""
    try:
        print(end="", flush=True)
    except OSError:
        return True
    return False


def _print_no_more() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _cannot_print(problem: OSError) -> Error:
    return Error(
        "cannot-print",
        f"the output cannot be written: {problem.strerror}",
        hint="the command finished, only its output is lost: redirect it elsewhere",
    )


def _check_call(cmind: Any, i: Mapping[str, Any]) -> None:
    try:
        os.getcwd()
    except OSError:
        raise Error(
            "file-error",
            "the current directory no longer exists",
            hint="change to another one: cd ~",
        ) from None
    if i.get("out") not in (None, "", "con", "json"):
        raise Error("bad-value", f"--out={i['out']} is not possible", hint="write --out=json")
    _check_target(cmind, i.get("save_to_json"))
    if i.get("tags") is True:
        raise Error("bad-value", "--tags needs a value", hint="write --tags=get,python3")


def _check_target(cmind: Any, target: Any) -> None:
    """Refuse before anything runs a file for the result that cmind could not write at its end."""
    if not target:
        return
    path = os.path.abspath(str(target))
    if target is True:
        why = "it names no file"
    elif os.path.isdir(path):
        why = "that is a folder"
    elif not os.path.isdir(os.path.dirname(path)):
        why = "there is no such folder"
    else:
        return
    cmind.save_to_json = ""
    value = "" if target is True else f"={target}"
    raise Error(
        "bad-value",
        f"--save_to_json{value} is not possible: {why}",
        hint="name a file in a folder that exists: --save_to_json=result.json",
    )


def _failure(error: Error, console: bool, caller: Caller) -> Answer:
    answer: Answer = {"return": error.exit_code, "error": error.message, "code": error.code}
    for key in ("hint", "chain", "context", "doing", "log", "record"):
        if getattr(error, key):
            answer[key] = getattr(error, key)
    if error.hint.commands:
        answer["commands"] = list(error.hint.commands)
    if not caller.send_error(answer) and console:
        from cmbench.cli.failure import show

        show(error)
    return answer
