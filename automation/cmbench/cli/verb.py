"""What a command is: its words, its flags and what does it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from cmbench.errors import Error
from cmbench.values import field, immutable
from common.problems import Hint

if TYPE_CHECKING:
    from cmbench.cli.reply import Command, Reply

Flags = Mapping[str, str]

OUTPUT = ("out", "json", "quiet", "silent", "verbose")
OF_ENTRIES = ("tags", *OUTPUT, "force", "all", "debug")
"""Flags of every command about cache entries."""
JSON = {"json": "print the result as JSON"}
DATABASE = {"db=URL": "a shared PostgreSQL database instead of the one in this home"}


@immutable(frozen=True, slots=True, eq=False, repr=False)
class Verb:
    """One command.

    ``word`` is what users write, ``cmind`` the words that cmind uses, where they differ.
    ``does`` is ``module:function``; a module without a dot is one of ``cmbench.cli.verbs``.
    ``usage`` says what command lines are for. ``flags`` are those that help tells of, with
    ``name=VALUE`` for one that takes a value; ``takes`` are the others that it accepts, and without
    it the verb itself refuses flags. ``of_scripts``: it takes the flags of runs and the inputs of
    the script. ``own_help``: ``--help`` is answered by the verb, ``always`` or where a script is
    ``named``. ``writes``: it keeps the index up to date, but not under the flag ``only_looks``.
    ``extra``: the extra of cmbench that brings ``does``. ``at_site`` does it where ``--site`` names
    a system other than this machine.
    """

    thing: str
    word: str
    does: str
    usage: Flags = field(default_factory=dict)
    flags: Flags | Callable[[], Flags] = field(default_factory=dict)
    takes: Collection[str] | None = None
    cmind: tuple[str, ...] = ()
    of_scripts: bool = False
    own_help: str = ""
    writes: bool = False
    only_looks: str = ""
    extra: str = ""
    at_site: str = ""

    @property
    def words(self) -> tuple[str, ...]:
        """Return the words that cmind uses for it."""
        return self.cmind or (self.word,)

    @property
    def flag_meanings(self) -> Flags:
        """What its flags do."""
        return self.flags() if callable(self.flags) else self.flags

    @property
    def accepted(self) -> set[str] | None:
        """Names of the flags that it knows; ``None`` where the verb itself looks."""
        if self.takes is None:
            return None
        return {*self.takes, *(f.partition("=")[0].replace("-", "_") for f in self.flag_meanings)}

    def function(self, at_site: bool = False) -> Callable[[Command], Reply]:
        """Return what does it; raise ``extra-missing`` where its ``extra`` is not installed."""
        module_name, _, name = (self.at_site if at_site else self.does).partition(":")
        path = module_name if "." in module_name else f"cmbench.cli.verbs.{module_name}"
        try:
            module = import_module(path)
        except ModuleNotFoundError as missing:
            if not self.extra or missing.name not in (path, path.partition(".")[0]):
                raise
            raise _extra_missing(self) from None
        function: Callable[[Command], Reply] = getattr(module, name)
        return function


def gui_verb(thing: str, usage: Flags, flags: Flags) -> Verb:
    """A verb that serves pages, which another package does."""
    shared = {
        "port=N": "8501, or the next free one; 0 takes any",
        "address=HOST": "127.0.0.1 by default: only this machine can reach it",
        "title=TEXT": "title of the pages",
        "no_browser": "open no browser; only print the address",
        "no_run": "compose and show, but run nothing",
        **DATABASE,
    }
    return Verb(thing, "gui", f"cmbench_gui.verbs:gui_{thing}", usage, {**flags, **shared})


def _extra_missing(verb: Verb) -> Error:
    from cmbench.lib.installation import install_command

    return Error(
        "extra-missing",
        f"cm {verb.word} {verb.thing} needs the extra {verb.extra}, which is not installed",
        hint=Hint.of_command(install_command(verb.extra)),
    )
