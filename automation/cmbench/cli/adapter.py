"""Between cmind and the engine: verbs, help and failures the way a user of ``cm`` should see them.

cmind calls the method ``any`` of an automation (``automation/<thing>/module.py``) with one dict and
turns the dict that comes back into printed text and an exit status. Everything that works around
cmind's habits on that way is here.
"""

from __future__ import annotations

import gc
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from cmbench.errors import Error, did_you_mean

if TYPE_CHECKING:
    from cmbench.cli.verb import Verb


def answer(thing: str, automation: Any, i: dict[str, Any]) -> dict[str, Any]:
    """Answer one request.

    ``thing`` is the automation's alias. ``automation`` is the cmind object that got the request:
    verbs that only its base class knows (``load`` ...) stay cmind's. Returns a CM return dict;
    raises nothing of its own.
    """
    if "cmd" in i:
        # What is there by now, cmind's own index above all, stays until the process ends with this
        # command: every collection that looked at it again would do so in vain. Most of what is
        # made from here on stays as well.
        gc.freeze()
        gc.set_threshold(1_000_000)
    cmind = automation.cmind
    word = str(i.get("action", ""))
    verb = word.replace("-", "_")
    verb = cmind.cfg["action_substitutions"].get(verb, verb)
    asks_help = bool(i.pop("h", False)) or bool(i.get("help", False))
    if asks_help:
        i["help"] = i.get("help") or True
        if _helped_by_ours(_declared(thing, verb), bool(i.get("tags") or i.get("artifact"))):
            i["help_of"], verb = verb, "help"
    # The newer command `cmx` adds its own settings; nothing below this line uses them.
    i.pop("control", None)

    if _declared(thing, verb) is not None:
        from cmbench.cli import dispatch as cli

        with _output(i):
            result = cli.handle(thing, verb, cmind, i)
    else:
        inherited = _inherited(automation, verb)
        if inherited is not None and not asks_help:
            answered: dict[str, Any] = inherited(i)
            return answered
        result = _refuse(thing, word, i)

    if asks_help:
        result["skip_delayed_help"] = True
    if result.get("return", 0) > 0:
        keep_cmind_quiet(cmind, i)
    if "cmd" in i:
        # The process ends: Python need not search all of this for unused objects.
        gc.freeze()
    return result


def _helped_by_ours(verb: Verb | None, named: bool) -> bool:
    """Whether ``cm help`` answers for a verb that does not do so itself."""
    return verb is not None and verb.own_help not in (("always", "named") if named else ("always",))


@contextmanager
def _output(i: dict[str, Any]) -> Iterator[None]:
    """Of a command line: the standard streams are there, and JSON is alone on the output.

    Programs that ``customize.py`` starts write there too, past Python.
    """
    if "cmd" not in i:
        yield
        return
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # Closed by the caller. The next file to be opened would get its number, and programs
            # would print into it. In this order, so is the one that is opened here.
            descriptor = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(descriptor, True)
            setattr(sys, name, os.fdopen(descriptor, mode, encoding="utf-8"))
    # What the encoding of the terminal lacks is shown as an escape, and ends no run.
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")
    if i.get("out") != "json":
        yield
        return
    sys.stdout.flush()
    answers = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(answers, 1)
        os.close(answers)
        _end_with_the_reader()


def _end_with_the_reader() -> None:
    """What cmind prints from here on may meet a reader, such as ``head``, that has gone."""
    import signal

    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)


def keep_cmind_quiet(cmind: Any, i: dict[str, Any]) -> None:
    """Stop the ``cm`` command from printing, in its own form, a failure that was printed already.

    ``cm`` prints the returned error when the output of the first request of the process was the
    console, and exits with the returned code in any case. Only a request that came from a command
    line (it carries its words in ``cmd``) may be silenced: inside a larger program, whoever called
    us has its own failure to report.
    """
    if cmind.output == "con" and "cmd" in i:
        cmind.output = ""


def _inherited(automation: Any, verb: str) -> Any:
    """The method of that name in cmind's base class, or None."""
    if verb.startswith("_") or verb == "any":
        return None
    return getattr(super(type(automation), automation), verb, None)


def _declared(thing: str, word: str) -> Verb | None:
    from cmbench.cli import commands

    return next((verb for verb in commands.verbs_of(thing) if word in verb.words), None)


_COMMANDS_OF_TASKS = {
    "plot": "`cm gui results` draws plots;",
    "report": "`cm show results last` names the page that a run has written;",
}
"""Verbs of other tools, and what does their task."""


def _refuse(thing: str, word: str, i: dict[str, Any]) -> dict[str, Any]:
    from cmbench.cli import commands
    from cmbench.cli.usage import same_verb

    guess = _COMMANDS_OF_TASKS.get(word) or did_you_mean(word, commands.words_of(thing))
    if not guess and (lines := same_verb(thing, word)):
        guess = f"there is {lines};"
    error = Error(
        "unknown-verb",
        f'"cm {word} {thing}" is not a command',
        hint=f"{guess + ' ' if guess else ''}`cm help {thing}` lists the commands",
    )
    if i.get("out") == "con":
        from cmbench.cli.failure import show

        show(error)
    return {"return": error.exit_code, "error": error.message}
