"""The verbs: cmind's dictionary in, a CM return dictionary out.

A new verb is a function ``(cmind, i) -> Answer`` in a module of ``cmbench.cli.verbs`` and a line in
``VERBS``; the adapter in ``automation/<thing>/module.py`` lists the words that reach it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from cmbench.errors import Error, internal
from cmbench.session.session import Answer, output_fails

VERBS: Mapping[tuple[str, str], tuple[str, str]] = {
    ("script", "run"): ("run", "run_script"),
    ("script", "plan"): ("plan", "plan_script"),
    ("script", "search"): ("find", "find_script"),
    ("script", "show"): ("find", "show_script"),
    ("script", "add"): ("author", "add_script"),
    ("script", "lint"): ("author", "lint_script"),
    ("script", "test"): ("author", "test_script"),
    ("script", "doc"): ("author", "doc_script"),
    ("script", "complete"): ("complete", "complete_script"),
    ("script", "diff"): ("replay", "diff_script"),
    ("script", "replay"): ("replay", "replay_script"),
    ("script", "doctor"): ("doctor", "doctor_script"),
    ("script", "log"): ("log", "log_script"),
    ("script", "docker"): ("container", "docker_script"),
    ("script", "help"): ("help", "help_script"),
    ("cache", "show"): ("cache", "show_cache"),
    ("cache", "search"): ("cache", "show_cache"),
    ("cache", "delete"): ("cache", "remove_cache"),
    ("cache", "pin"): ("cache", "pin_cache"),
    ("cache", "unpin"): ("cache", "unpin_cache"),
    ("cache", "why"): ("cache", "why_cache"),
    ("cache", "verify"): ("upkeep", "verify_cache"),
    ("cache", "gc"): ("upkeep", "gc_cache"),
    ("cache", "du"): ("upkeep", "du_cache"),
    ("cache", "export"): ("bundle", "export_cache"),
    ("cache", "bundle"): ("bundle", "export_cache"),
    ("cache", "import"): ("bundle", "import_cache"),
    ("cache", "help"): ("help", "help_cache"),
}
"""(thing, verb) to (module in ``cmbench.cli.verbs``, function)."""


def handle(thing: str, verb: str, cmind: Any, i: dict[str, Any]) -> Answer:
    """Do ``cm <verb> <thing>``; failures are printed here and returned with their exit code."""
    console = i.get("out") == "con"
    try:
        _check_call(cmind, i)
        module, function = VERBS[thing, verb]
        do = getattr(import_module(f"cmbench.cli.verbs.{module}"), function)
        answer: Answer = do(cmind, i)
        if console:
            print(end="", flush=True)
        return answer
    except Error as error:
        if i.get("debug"):
            import traceback

            traceback.print_exc()
        return _failure(error, console)
    except KeyboardInterrupt:
        return _failure(Error("interrupted", "stopped by the user"), console)
    except BrokenPipeError:
        # Whoever read the output, such as `head`, has seen enough. Nothing more can be printed.
        _print_no_more()
        return {"return": 0}
    except OSError as problem:
        if console and output_fails():
            _print_no_more()
            return _failure(_cannot_print(problem), console)
        from cmbench.cache.store import disk_error

        return _failure(disk_error(problem, str(problem.filename or "")), console)
    except Exception as problem:
        if i.get("debug"):
            raise
        return _failure(internal(problem), console)


def _print_no_more() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _cannot_print(problem: OSError) -> Error:
    return Error(
        "cannot-print",
        f"the output cannot be written: {problem.strerror}",
        hint="the command has done its work, and only what it says is lost: send it elsewhere",
    )


def _check_call(cmind: Any, i: Mapping[str, Any]) -> None:
    try:
        os.getcwd()
    except OSError:
        raise Error(
            "file-error",
            "the current directory does not exist any more",
            hint="change to one that does: cd ~",
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


def _failure(error: Error, console: bool) -> Answer:
    if console:
        print(error.render(), file=sys.stderr)
    answer: Answer = {"return": error.exit_code, "error": error.message, "code": error.code}
    for key in ("hint", "chain", "context", "doing", "log", "record"):
        if getattr(error, key):
            answer[key] = getattr(error, key)
    return answer
