"""A call in the words of the command line, and the checked request that it becomes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from cmbench.errors import Error, did_you_mean
from cmbench.format.model import Request, RunOptions, Script, Tags
from cmbench.index.scripts import ScriptRow
from cmbench.index.select import candidates, parse_tags, refuse_ambiguity
from cmbench.lib.yes_no import is_no, is_yes
from cmbench.session import request as requests_in
from cmbench.session.workspace import Workspace
from cmbench.values import immutable, replace
from common.problems import Hint


@immutable(frozen=True, slots=True, eq=False, repr=False)
class RunRequest:
    """A checked request of one script, which can be planned and run.

    ``flags`` are those of the command line, without their dashes; a record keeps them. ``command``
    is the line that was typed, if any. ``warnings`` are for the user.
    """

    workspace: Workspace
    request: Request
    script: Script
    flags: Mapping[str, Any]
    options: RunOptions
    command: Sequence[str]
    warnings: tuple[str, ...] = ()

    @property
    def call_data(self) -> dict[str, Any]:
        """The call as data, for the record: all that is needed to make it again."""
        uid = {"artifact": self.request.uid} if self.request.uid else {}
        others = {key: v for key, v in self.flags.items() if key not in ("tags", "out")}
        return {"tags": str(self.request.tags), **uid, **others}


class Call:
    """A call of a user: a name or tags, and flags; of a script, of cache entries or of runs."""

    def __init__(self, workspace: Workspace, arguments: Mapping[str, Any]) -> None:
        self.workspace = workspace
        self.flags = requests_in.flags_of(arguments)
        everywhere = requests_in.extra_flags(os.environ)
        self.options = requests_in.options_of(
            {**self.flags, **everywhere}, arguments.get("cmd") or ()
        )
        self._arguments = arguments
        self._picked = ""

    @property
    def names(self) -> list[str]:
        """The words that are no flags."""
        words = [self._arguments.get("artifact"), *(self._arguments.get("artifacts") or ())]
        return [str(word) for word in words if word]

    def query(self) -> tuple[Tags, str]:
        """Return the tags, and the name of a script or of a cache entry; raises ``bad-value``."""
        if words := self.names:
            # Most commands have flags alone.
            from cmbench.session.typing_slips import refuse_slips

            tags = self._arguments.get("tags") or ""
            refuse_slips(list(map(str, tags if isinstance(tags, list) else [tags])), words)
        return requests_in.tags_of(self._arguments)

    def search(self) -> tuple[Tags, str]:
        """As ``query``; several words without quotes are one text to look for."""
        if len(self.names) < 2 or self._arguments.get("tags"):
            return self.query()
        from cmbench.session.typing_slips import refuse_slips

        refuse_slips([], self.names)
        return requests_in.tags_of({})[0], " ".join(self.names)

    def _meant(self) -> tuple[Tags, str]:
        """As ``query``; a word that names no script is a tag where scripts of others carry it."""
        tags, uid = self.query()
        if not uid or tags.wanted or ":" in uid or self.workspace.index.by_name(uid):
            return tags, uid
        name = str(self._arguments.get("artifact") or "")
        if "," in name:
            hint = f"tags stand in a flag: --tags={name}"
            raise Error("script-not-found", f'no script is named "{name}"', hint=hint)
        word = parse_tags(uid)
        rows = self.workspace.index.find(word)
        foreign = rows and not self.workspace.index.dialect(rows[0]).inputs_bind
        return (word, "") if foreign else (tags, uid)

    def take_extra_flags(self) -> None:
        """Lay the flags that the user wants for every run over those of this call, which is one."""
        self.flags = requests_in.merge_flags(self.flags, requests_in.extra_flags(os.environ))

    def request(self) -> RunRequest:
        """The requested script and the checked request; raises ``Error`` where there is none."""
        self.take_extra_flags()
        index = self.workspace.index
        tags, uid = self._meant()
        if not (uid or tags.wanted):
            _refuse_misspelt_tags(self.flags)
        rows = candidates(index, tags, uid)
        near = [row for row in rows if row.repo == rows[0].repo]
        if index.dialect(near[0]).inputs_bind and not self.can_ask:
            refuse_ambiguity(index, tags, uid)
        picked = self.pick(near) if len(near) > 1 else None
        self._picked = picked.uid if picked else ""
        warnings = [*(() if picked else _others_that_fit(near)), *_other_repositories(rows)]
        script = index.script((picked or near[0]).path)
        run_request = self._request_or_elsewhere(rows, script, tuple(warnings))
        request = run_request.request
        if (request.ad or request.adr) and script.dialect.inputs_bind:
            from cmbench.plan.names import refuse_unknown

            refuse_unknown(request, index)
        return run_request

    def asks_for_container(self) -> bool:
        """Return whether a run is to be in a container, as ``--docker`` says in CM and MLC.

        Those engines leave the flag to their scripts, and so does this one to theirs; of all others
        it is taken off, so that they get the rest. Raises ``bad-value`` for what is neither yes nor
        no.
        """
        if not self._is_of_engine("docker"):
            return False
        value = self.flags.pop("docker")
        if not (is_yes(value) or is_no(value) or value == ""):
            raise Error("bad-value", f"--docker={value} is neither yes nor no")
        return is_yes(value)

    def names_site(self) -> bool:
        """Return whether a run is to be at a site, which ``--site`` names."""
        return self._is_of_engine("site")

    def _is_of_engine(self, name: str) -> bool:
        """Return whether a flag of the call is none that its script takes itself."""
        if name not in self.flags:
            return False
        rows = candidates(self.workspace.index, *self._meant())
        script = self.workspace.index.script(rows[0].path)
        return script.dialect.inputs_bind and name not in script.inputs

    @property
    def can_ask(self) -> bool:
        """Return whether a user can choose among several scripts."""
        return False

    def pick(self, rows: Sequence[ScriptRow]) -> ScriptRow | None:
        """Return the user's choice among scripts that fit equally well; ``None`` without one."""
        return None

    def _request_or_elsewhere(
        self, rows: Sequence[ScriptRow], script: Script, warnings: tuple[str, ...]
    ) -> RunRequest:
        """Return the request of ``script``, or of a script of others that takes what it refuses."""
        try:
            return self.request_of(script, self.flags, warnings)
        except Error as error:
            if error.code not in ("bad-value", "unknown-flag"):
                raise
            from cmbench.session.foreign_flags import fits_better

            others = [self.workspace.index.script(r.path) for r in rows if r.repo != script.repo]
            declared_flags = {*requests_in.FLAGS, *requests_in.MODES}
            for other in others:
                if fits_better(other, script, self.flags, declared_flags):
                    note = f"note: {error.message}: the script of {other.repo} runs in its place"
                    self._picked = f"{other.repo}:{other.alias}"
                    return self.request_of(other, self.flags, (note,))
            error.hint = Hint.joined(
                error.hint, *_hints_at_other_scripts(others, script, self.flags)
            )
            raise

    def request_of(
        self, script: Script, flags: Mapping[str, Any], warnings: tuple[str, ...] = ()
    ) -> RunRequest:
        """Return the request that ``flags`` make of ``script``, whatever it was named by."""
        tags, uid = self._meant()
        words, twice = self._arguments.get("cmd"), list[str]()
        if isinstance(words, list) and len({str(w).partition("=")[0] for w in words}) < len(words):
            from cmbench.session.repeated_inputs import with_repeated

            flags, twice = with_repeated(flags, words, script)
        if "adr" in flags and "python" in script.inputs:
            from cmbench.session.chosen_python import with_chosen_python

            flags = with_chosen_python(flags, script, self.workspace.store)
        notes: tuple[str, ...] = ()
        if not flags.keys() <= {*requests_in.FLAGS, *script.inputs}:
            from cmbench.session.foreign_flags import without_foreign_flags

            flags, notes = without_foreign_flags(flags, script)
        request = requests_in.request_of(flags, tags, uid or self._picked, script)
        call = requests_in.call_of(self._arguments, requests_in.extra_flags(os.environ))
        request = replace(request, call=call)
        words = requests_in.arguments_of(self._arguments)
        if words:
            request = requests_in.with_arguments(request, words, script)
        unknown = requests_in.unknown_inputs(request.inputs, script)
        texts = [
            Hint(f"warning: {script.alias} knows no flag --{k}; {v}") for k, v in unknown.items()
        ]
        return RunRequest(
            workspace=self.workspace,
            request=request,
            script=script,
            flags=flags,
            options=self.options,
            command=_command(self._arguments.get("cmd"), flags),
            warnings=(*warnings, *twice, *notes, *texts),
        )


def request(workspace: Workspace, name: str = "", *, tags: str = "", **flags: Any) -> RunRequest:
    """The checked request for one script: by its name or words, or by ``tags`` with variations.

    ``flags`` are those of the command line with ``_`` for ``-``: inputs of the script,
    ``version_min="3.9"``, ``env={"KEY": "value"}``, ``adr={"python": {"version": "3.11"}}``,
    ``jobs=4``, ``offline=True``. Raises ``Error``: ``script-not-found``, ``unknown-flag``,
    ``bad-value`` and others.
    """
    return Call(workspace, {"artifact": name, "tags": tags, **flags}).request()


def _others_that_fit(rows: Sequence[ScriptRow]) -> Iterator[str]:
    """Return notes on which script is used, why, and its alternatives, without a user's choice."""
    taken = rows[0]
    if len(rows) > 1:
        why = "it has the highest priority" if taken.sort < rows[1].sort else "the first by name"
        names = ", ".join(row.alias for row in rows[1:_MOST_LISTED])
        more = f" and {len(rows) - _MOST_LISTED} more" if len(rows) > _MOST_LISTED else ""
        yield Hint(
            f"note: {len(rows)} scripts have these tags; {taken.alias} is taken, {why}; also:"
            f" {names}{more} (name one, or add tags: `cm run script {rows[1].alias}`)"
        )


_MOST_LISTED = 8
"""The most scripts that a note names, the one that is taken among them."""


def _hints_at_other_scripts(
    others: Iterable[Script], script: Script, flags: Mapping[str, Any]
) -> Iterator[str]:
    """Yield a hint for every script in ``others`` that accepts a value that ``script`` refuses."""
    refused = {
        name: value
        for name, value in flags.items()
        if name in script.inputs and value not in (script.inputs[name].choices or (value,))
    }
    for other in others:
        for name in filter(other.inputs.__contains__, refused):
            word = _accepted_value(other.inputs[name].choices, refused[name])
            if word is not None:
                line = f"cm run script {other.repo}:{other.alias} --{name}={word}"
                yield f"the script of {other.repo} takes it:\n`{line}`"


def _accepted_value(choices: Sequence[str], value: Any) -> Any:
    """Return the choice that ``value`` is or begins, as edge does edge-1; None where none is."""
    fitting = (c for c in choices if c == value or c.startswith(f"{value}-"))
    return next(fitting, None) if choices else value


def _other_repositories(rows: Sequence[ScriptRow]) -> Iterator[str]:
    """Whose script is taken, where several repositories have one that fits."""
    names = list(dict.fromkeys(row.repo for row in rows))
    if len(names) > 1:
        places, other = ", ".join(names[1:]), next(r for r in rows if r.repo != names[0])
        yield (
            f"note: {names[0]}'s script is used; also in: {places} (to use theirs: cd"
            f" {os.path.dirname(os.path.dirname(other.path))}, or name {other.repo}:{other.alias})"
        )


def _command(words: Any, flags: Mapping[str, Any]) -> Sequence[str]:
    if words:
        # cmind removes the first two words from the list that it passes.
        return ["cm", "run", "script", *map(str, words)] if isinstance(words, list) else [words]
    return ["cm", "run", "script", *(f"--{k}={v}" for k, v in _plain(flags).items())]


def _plain(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Return flags as on a command line: ``env.KEY`` instead of nested dictionaries."""
    plain_flags: dict[str, Any] = {}
    for key, value in flags.items():
        if isinstance(value, Mapping):
            plain_flags.update({f"{key}.{name}": v for name, v in _plain(value).items()})
        elif isinstance(value, str | int | float | bool) and key != "out":
            plain_flags[key] = value
    return plain_flags


def _refuse_misspelt_tags(flags: Iterable[str]) -> None:
    for name in flags:
        hint = did_you_mean(name, ["tags"]) if name != "tags" else ""
        if hint:
            raise Error("unknown-flag", f"there is no flag --{name}", hint=hint)
