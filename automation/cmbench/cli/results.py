"""Shared replies of verbs: the answer of a run, the help of a script, entries by name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from cmbench.cli.reply import Answer, Command, Reply, ReplyItem
from cmbench.errors import Error
from cmbench.format.model import Script
from cmbench.index.scripts import Index
from cmbench.session.call import RunRequest

if TYPE_CHECKING:
    from cmbench.api.running import FinishedRun
    from cmbench.cache.listing import EntrySummary
    from cmbench.cache.store import CacheEntry


class ScriptItem(ReplyItem):
    """One script that was found."""

    @property
    def meta(self) -> dict[str, Any]:
        """Its whole meta."""
        from cmbench.format.meta import read_meta

        return read_meta(self.path)


def request_of(command: Command) -> RunRequest:
    """Return the checked request of a command; its warnings are printed on the console."""
    request = command.request()
    warn(command, request.warnings)
    return request


def warn(command: Command, texts: Iterable[str]) -> None:
    """Print warnings on stderr, away from the results."""
    if command.console:
        for text in texts:
            from cmbench.render.progress import show_warning  # Most commands warn of nothing.

            show_warning(text)


def answer_of(ran: FinishedRun) -> Answer:
    """The answer of a run."""
    outcome = ran.outcome
    return {
        "env": dict(outcome.new_env),
        "new_env": dict(outcome.new_env),
        "state": dict(outcome.new_state),
        "new_state": dict(outcome.new_state),
        "deps": _deps(ran),
        "version": outcome.version,
        "entry": outcome.entry,
        "cached": outcome.cached,
        "record": ran.record,
    }


def _deps(ran: FinishedRun) -> list[Any]:
    """The dependencies as results of the script's dialect hold them."""
    form = ran.request.script.dialect.deps_told
    if form == "steps":
        return [step["step"] for step in ran.steps[:-1]]
    return [{"tags": tags} if form == "entries" else tags for tags in ran.dependency_tags]


def script_help(script: Script, index: Index, whole: bool = False) -> Reply:
    """What one script is for, its inputs and variations; all of them if ``whole``."""
    from cmbench.index.select import short_tags
    from cmbench.render.listing import help_text

    answer = {"meta": dict(script.meta), "path": script.path}
    return Reply(answer, lambda: help_text(script, short_tags(script, index), whole))


def listed_of(command: Command) -> list[EntrySummary]:
    """The entries that a command names, in short; all, where it names none."""
    from cmbench.api import cache

    tags, name = command.query()
    return cache.listed(command.workspace, tags, name)


def names_entries(command: Command) -> bool:
    """Whether a command says which entries it is about."""
    tags, name = command.query()
    return bool(name or str(tags) or command.flags.get("all"))


def named_entries(
    command: Command, verb: str, listed: Sequence[EntrySummary] | None = None
) -> list[CacheEntry]:
    """The entries that a command must name; raises where it names none or none is found.

    ``listed`` are they, where that has been looked up.
    """
    if not names_entries(command):
        raise Error(
            "bad-value",
            "no entry is named",
            hint=f"name one by its tags or its id: `cm {verb} cache --tags=get,python3`",
        )
    from cmbench.api import cache

    entries = cache.complete(command.workspace, listed_of(command) if listed is None else listed)
    if not entries:
        raise Error("entry-not-found", "no cache entry matches", hint="see them: `cm show cache`")
    return entries
