"""Tags to one script and an ordered list of variations, with reasons.

The order of the variation list is the order in which their settings are merged, as the CM format
has it: requested ones first, then bases and defaults as they are found.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from cmbench.errors import Error, did_you_mean, nearest
from cmbench.format.dialect import MLC
from cmbench.format.model import Script, Tags, Variation
from cmbench.index.scripts import Index, ScriptRow
from cmbench.lib.text_files import read_or_empty
from cmbench.values import immutable, names_of, replace
from common.problems import Hint

_COLLECTION = "mlcommons@mlperf-automations"
"""Where most tags and variations come from that users type and no script here has."""
_LISTED = 20
"""So many variations of a script an error names at most."""


@immutable(frozen=True, slots=True, eq=False, repr=False)
class ScriptSelection:
    """The selected script, its active variations in merge order, and why these are active."""

    script: Script
    variations: tuple[str, ...]
    reasons: Mapping[str, str]


def parse_tags(text: str | Iterable[str]) -> Tags:
    """``get,python3,_lto,-virtual,-_debug`` to its four parts; ``_-debug`` is as MLC writes it."""
    return _parsed(tuple(text.split(",") if isinstance(text, str) else map(str, text)))


@lru_cache(maxsize=4096)
def _parsed(words: tuple[str, ...]) -> Tags:
    wanted: list[str] = []
    unwanted: list[str] = []
    variations: list[str] = []
    unwanted_variations: list[str] = []
    for word in (w.strip() for w in words):
        if word.startswith(("-_", "_-")):
            unwanted_variations.append(word[2:])
        elif word.startswith("_"):
            variations.append(word[1:])
        elif word.startswith("-") and len(word) > 1:
            unwanted.append(word[1:])
        elif word:
            wanted.append(word)
    return Tags(
        tuple(dict.fromkeys(wanted)),
        tuple(dict.fromkeys(unwanted)),
        tuple(dict.fromkeys(variations)),
        tuple(dict.fromkeys(unwanted_variations)),
    )


def short_tags(script: Script, index: Index, below: str = "") -> tuple[str, ...]:
    """As few of its tags, in their order, as name this script and no other.

    ``below``: no other of that folder, so that what else is registered does not count. All of its
    tags where another script has them too.
    """
    for count in range(1, len(script.tags) + 1):
        rows = index.find(parse_tags(script.tags[:count]))
        paths = {row.path for row in rows if os.path.dirname(row.path) == below or not below}
        if paths == {script.path}:
            return tuple(script.tags[: max(count, min(2, len(script.tags)))])
    return tuple(script.tags)


def choose(index: Index, tags: Tags, uid: str = "", caller: Script | None = None) -> ScriptRow:
    """The script for a query. Raises ``Error`` (``script-not-found``, ``variation-not-found``).

    Those of the caller's own repository go first, then those of its dialect: they speak of the
    same env keys. For a user that is the repository that holds the current directory. Ties go to
    the lowest ``sort``, then to the repository that was registered first, then to the path.
    """
    return candidates(index, tags, uid, caller)[0]


def candidates(
    index: Index, tags: Tags, uid: str = "", caller: Script | None = None
) -> list[ScriptRow]:
    """All scripts that fit a query equally well by what ``choose`` says of repositories.

    Raises ``bad-value`` without tags, ``script-not-found``, and ``bad-meta`` for an unreadable one.
    """
    rows = _named(index, tags, uid) if uid else _tagged(index, tags)
    fitting = _with_variations(rows, tags)
    if not fitting:
        raise _no_variation(index, rows, tags)
    fitting = _nearest(index, fitting, caller)
    if fitting[0].faults and not fitting[0].tags:
        raise _unreadable(fitting[0])
    return fitting


def _named(index: Index, tags: Tags, uid: str) -> list[ScriptRow]:
    rows = index.by_name(uid)
    if not rows:
        names = [row.alias for row in index.rows().values()]
        raise Error("script-not-found", f'no script is named "{uid}"', hint=_hint(uid, names))
    known = {tag for row in rows for tag in row.tags}
    strange = [tag for tag in tags.wanted if tag not in known]
    if strange:
        raise Error(
            "bad-value",
            f'the script "{uid}" has no tag "{strange[0]}"',
            hint="name a script by its tags or by its name",
        )
    return rows


def _tagged(index: Index, tags: Tags) -> list[ScriptRow]:
    if not tags.wanted:
        raise Error("bad-value", "no tags are given", hint="name tags: --tags=get,python3")
    rows = index.find(tags)
    if not rows:
        raise _no_script(index, tags)
    return rows


def _with_variations(rows: Iterable[ScriptRow], tags: Tags) -> list[ScriptRow]:
    return [row for row in rows if all(row.accepts(v) for v in tags.variations)]


def _nearest(index: Index, rows: list[ScriptRow], caller: Script | None) -> list[ScriptRow]:
    if len({row.repo for row in rows}) < 2:
        return rows
    if caller is None:
        here = os.path.realpath(os.curdir)
        return [row for row in rows if index.holds(row.repo, here)] or rows
    prefix = caller.dialect.prefix
    near = [row for row in rows if row.repo == caller.repo]
    return near or [row for row in rows if index.dialect(row).prefix == prefix] or rows


def refuse_ambiguity(index: Index, tags: Tags, uid: str = "") -> None:
    """Refuse a single word that several scripts carry: a user cannot have meant one of them.

    Raises ``ambiguous``.
    """
    if uid or len(tags.wanted) != 1 or tags.unwanted:
        return
    near = _nearest(index, _with_variations(index.find(tags), tags), None)
    rows = [row for row in near if row.repo == near[0].repo]
    if len(rows) > 1:
        names = ", ".join(row.alias for row in rows[:8]) + (" ..." if len(rows) > 8 else "")
        raise Error(
            "ambiguous",
            f'{len(rows)} scripts have the tag "{tags.wanted[0]}"',
            context=(names,),
            hint=f"add tags until one is left: `cm find script --tags={tags.wanted[0]}`",
        )


def _hint(word: str, known: Iterable[str]) -> str:
    if word.isdigit():
        return 'a value follows "=": --jobs=4'
    return did_you_mean(word, known) or "list what exists: `cm find script`"


def _unreadable(row: ScriptRow) -> Error:
    # What a parser says begins with the file and the line.
    fault, file = row.faults[0], f"{row.path}/{row.meta_name}"
    text = fault if fault.startswith(row.path) else f"{file}: {fault}"
    return Error("bad-meta", text, hint=f"correct the meta there: {text.partition(': ')[0]}")


def _meant_but_broken(index: Index, tags: Tags) -> ScriptRow | None:
    """Return a script whose meta cannot be read, and has all requested tags among its words."""
    for row in index.rows().values():
        if row.faults and not row.tags:
            text = read_or_empty(f"{row.path}/{row.meta_name}")
            if {*tags.wanted} <= {*re.findall(r"[\w.+-]+", text), *row.alias.split("-")}:
                return row
    return None


def _no_script(index: Index, tags: Tags) -> Error:
    broken = _meant_but_broken(index, tags)
    if broken is not None:
        return _unreadable(broken)
    known = index.tags()
    strange = [tag for tag in tags.wanted if tag not in known]
    text = ",".join(tags.wanted)
    if strange:
        close = [(tag, nearest(tag, known)) for tag in strange]
        better = ",".join(
            next((n[0] for t, n in close if t == tag and n), tag) for tag in tags.wanted
        )
        message = f'no script has the tags "{text}": "{strange[0]}" is not the tag of any script'
        is_script = better != text and index.find(parse_tags(better))
        hint = f"did you mean --tags={better}?" if is_script else "list: `cm find script`"
        hint = Hint.joined(hint, _of_collection(index))
        return Error("script-not-found", message, hint=hint)
    partial = _most_shared(index, tags)
    return Error(
        "script-not-found",
        f'no script has all the tags "{text}"',
        context=[f"{row.alias}: {','.join(sorted(row.tags))}" for row in partial],
        hint=Hint.joined("the scripts above share most of these tags", _of_collection(index)),
    )


def _of_collection(index: Index) -> str:
    """Return how to register the scripts of MLCommons, or nothing where some are."""
    if any(index.dialect(row) is MLC for row in index.rows().values()):
        return ""
    return f"MLCommons's own scripts run here too: `cm pull repo {_COLLECTION}`, then repeat"


def _most_shared(index: Index, tags: Tags) -> list[ScriptRow]:
    wanted = set(tags.wanted)
    rows = [row for row in index.rows().values() if wanted & row.tags]
    return sorted(rows, key=lambda row: (-len(wanted & row.tags), row.path))[:3]


def _no_variation(index: Index, rows: list[ScriptRow], tags: Tags) -> Error:
    row = rows[0]
    missing = next(v for v in tags.variations if not row.accepts(v))
    error = missing_variation(row.alias, missing, row.variations)
    others = [other.alias for other in _alike(index, tags) if other.accepts(missing)]
    if others:
        names = ", ".join(sorted(others)[:_LISTED])
        error.hint = Hint.joined(error.hint, f"scripts with _{missing}: {names}")
    elif not error.hint.startswith("did you mean"):
        own = error.hint if row.variations else ""
        error.hint = Hint.joined(own, _of_collection(index)) or error.hint
    return error


def _alike(index: Index, tags: Tags) -> list[ScriptRow]:
    """Scripts that have all wanted tags but one, and at least two of them."""
    enough = max(2, len(tags.wanted) - 1)
    wanted = set(tags.wanted)
    return [row for row in index.rows().values() if len(wanted & row.tags) >= enough]


def missing_variation(alias: str, missing: str, names: Iterable[str]) -> Error:
    """Return the error for a variation that a script lacks: its variations, most alike first."""
    head, _, tail = missing.partition(".")
    # Combined variations become active by themselves and are never requested.
    known = {v.removesuffix(".#"): v for v in sorted(names) if "," not in v}
    close = nearest(head, known, 2)
    listed = ["_" + known[name] for name in dict.fromkeys([*close, *known])]
    more = f" and {len(listed) - _LISTED} more" if len(listed) > _LISTED else ""
    has = f"it has: {', '.join(listed[:_LISTED])}{more}" if listed else "it has none"
    meant = " or ".join(f'"_{known[name]}"' for name in close).replace("#", tail or "#")
    return Error(
        "variation-not-found",
        f'the script {alias} has no variation "_{missing}"',
        hint=f"did you mean {meant}?\n{has}" if close else has,
    )


def version_variations(script: Script, version: str) -> tuple[str, ...]:
    """The variation ``version.<version>`` where the dialect has it follow from ``--version``."""
    name = f"version.{version}"
    known = name in script.variations or "version.#" in script.variations
    return (name,) if version and known and script.dialect.version_variations else ()


def expand(script: Script, tags: Tags, extra: Iterable[str] = ()) -> ScriptSelection:
    """All active variations of ``script`` for a query (``extra`` come from a version block)."""
    return _Expansion(script, tags).run(extra)


class _Expansion:
    """The fixpoint over bases, group defaults and default variations of one script."""

    def __init__(self, script: Script, tags: Tags) -> None:
        self.script = script
        self.excluded = set(tags.unwanted_variations)
        self.requested = tags.variations
        self.active: list[str] = []
        self.reasons: dict[str, str] = {}

    def run(self, extra: Iterable[str]) -> ScriptSelection:
        for name in self.requested:
            self._add(name, "requested")
        for name in extra:
            self._add(name, "version")
        if not self.active and self.script.default_variation:
            self._add(self.script.default_variation, "default variation")
        self._grow()
        self._check_groups()
        if self._add_group_defaults():
            self._grow()
        self._check_combinations()
        return ScriptSelection(self.script, tuple(self.active), self.reasons)

    def _add(self, name: str, reason: str, before: str = "") -> bool:
        if name in self.excluded or name in self.active:
            return False
        variation = variation_of(self.script, name)
        position = self.active.index(before) if before else len(self.active)
        self.active.insert(position, name)
        self.reasons[name] = reason
        if variation.alias:
            if variation.alias in self.excluded:
                raise Error("bad-value", f'"_{name}" needs "_{variation.alias}", excluded here')
            self._add(variation.alias, f"alias of _{name}")
        return True

    def _grow(self) -> None:
        """Bases and default variations of every active variation, those found on the way too."""
        combined: set[str] = set()
        done: set[str] = set()
        while waiting := [name for name in self.active if name not in done]:
            name = waiting[0]
            done.add(name)
            self._add_bases(name)
            self._add_defaults(name)
            for other in combinations(self.script, self.active):
                if other not in combined:
                    combined.add(other)
                    self._add_defaults(other)

    def _add_bases(self, name: str) -> None:
        before = name if self.script.dialect.base_first else ""
        for base in variation_of(self.script, name).base:
            if base in self.script.variations or not self._has_dynamic(base):
                self._add(base, f"base of _{name}", before)

    def _has_dynamic(self, name: str) -> bool:
        """Whether a dynamic variation of the same kind (``bs.8`` for ``bs.64``) is active."""
        start = name.partition(".")[0] + "."
        return any(other.startswith(start) for other in self.active)

    def _add_defaults(self, name: str) -> None:
        defaults = variation_of(self.script, name).settings.default_variations
        for group, wanted in defaults.items():
            if self._members(group):
                continue
            # What is named may be in another group, and that group may have its member.
            own = variation_of(self.script, wanted).group
            if not (own and self._members(own)):
                self._add(wanted, f"default of _{name}")

    def _add_group_defaults(self) -> bool:
        changed = False
        for group in self._groups():
            defaults = [
                v.name for v in self.script.variations.values() if v.group == group and v.default
            ]
            if len(defaults) > 1:
                raise Error(
                    "bad-meta",
                    f'{self.script.alias}: group "{group}" has two defaults',
                    context=defaults,
                )
            if defaults and not self._members(group):
                changed |= self._add(defaults[0], f"default of group {group}")
        return changed

    def _groups(self) -> list[str]:
        return list(dict.fromkeys(v.group for v in self.script.variations.values() if v.group))

    def _members(self, group: str) -> list[str]:
        """Active members of a group; several of one dynamic variation count as one."""
        members = {}
        for name in self.active:
            if variation_of(self.script, name).group == group:
                kind = name if name in self.script.variations else name.partition(".")[0] + ".#"
                members[kind] = name
        return list(members.values())

    def _check_groups(self) -> None:
        for group in self._groups():
            members = self._members(group)
            if len(members) > 1:
                raise Error(
                    "bad-value",
                    f"{self.script.alias}: {' and '.join('_' + m for m in members)} exclude"
                    f' each other (group "{group}")',
                    hint=f"name one of them: {_group_members(self.script, group)}",
                )

    def _check_combinations(self) -> None:
        active = set(self.active)
        for combination in self.script.invalid_combinations:
            if active.issuperset(c.removeprefix("_") for c in combination):
                raise Error(
                    "bad-value",
                    f"{self.script.alias}: these variations do not go together: "
                    + ", ".join("_" + c.removeprefix("_") for c in combination),
                )
        valid = self.script.valid_combinations
        if valid and not any(
            active.issuperset(c.removeprefix("_") for c in combination) for combination in valid
        ):
            raise Error(
                "bad-value",
                f"{self.script.alias}: {', '.join('_' + a for a in self.active)} is not a"
                " possible combination",
                context=[", ".join("_" + c.removeprefix("_") for c in v) for v in valid],
            )


def combinations(script: Script, active: Iterable[str]) -> list[str]:
    """Combined variations (``a,b``) whose parts are all active, those of fewer parts first."""
    present = set(active)
    names = [
        name
        for name in script.variations
        if "," in name and present.issuperset(part.strip() for part in name.split(","))
    ]
    return sorted(names, key=lambda name: name.count(","))


def merge_order(choice: ScriptSelection) -> list[str]:
    """The variations in the order in which their settings are laid over each other.

    Combined ones apply after every single one in the CM dialect, so they come after the first and
    after the last; they win over every single one.
    """
    combined = combinations(choice.script, choice.variations)
    singles = list(choice.variations)
    if not combined or len(singles) < 2 or choice.script.dialect.combined_last:
        return singles + combined
    return [singles[0], *combined, *singles[1:], *combined]


def _group_members(script: Script, group: str) -> str:
    return ", ".join("_" + v.name for v in script.variations.values() if v.group == group)


@lru_cache(maxsize=1024)
def variation_of(script: Script, name: str) -> Variation:
    """The variation ``name``, with ``#`` filled in when it is a dynamic one."""
    known = script.variations.get(name)
    if known is not None:
        return known
    head, dot, tail = name.partition(".")
    pattern = script.variations.get(f"{head}.#") if dot and tail else None
    if pattern is None:
        raise missing_variation(script.alias, name, script.variations)
    return replace(pattern, name=name, settings=_fill(pattern.settings, tail))


def _fill(value: Any, suffix: str) -> Any:
    """``value`` with every ``#`` in its texts replaced by ``suffix``."""
    if not value:
        return value
    if isinstance(value, str):
        return value.replace("#", suffix)
    if isinstance(value, list | tuple):
        items = [_fill(item, suffix) for item in value]
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, dict):
        return {_fill(key, suffix): _fill(item, suffix) for key, item in value.items()}
    if names_of(value):
        return _filled(value, suffix)
    return value


def _filled(value: Any, suffix: str) -> Any:
    return replace(value, **{name: _fill(part, suffix) for name, part in _parts(value)})


@lru_cache(maxsize=1024)
def _parts(value: Any) -> list[tuple[str, Any]]:
    """The fields of a data object that hold something."""
    every = ((name, getattr(value, name)) for name in names_of(value))
    return [(name, part) for name, part in every if part]
