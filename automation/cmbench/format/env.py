"""What env means: traced reads, pending values, conditions, ``<<<KEY>>>``, ``+PATH`` lists, export.

A step's env is one ``TracedEnv``. It knows three kinds of keys: inherited from the caller, laid
over by the step's own meta and inputs, and written while the step runs. A read of a key that the
step has not written itself is recorded; the recorded reads are what a cache entry depends on.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from cmbench.format.dialect import CM, Dialect
from cmbench.format.model import Condition
from cmbench.lib.secrecy import SIGNS, Secrets, is_secret, masked
from cmbench.lib.text_files import sha256

MISSING = "\0missing"
_NO_TEXT = "\0"
"""Begins the fingerprint of what is no text: ``true`` is another value than ``"true"``."""
_DIGEST = "sha256:"
_WILD = frozenset("*?[")
_REFERENCE = r"<<<([^<>]+)>>>"
_TRUE = frozenset(("1", "yes", "on", "true"))
_FALSE = frozenset(("0", "no", "off", "false"))
_SHELL_PART = r"\\(?P<quoted>[$`\"\\])|\$(?:(?P<name>[A-Za-z_]\w*)|\{(?P<braced>[A-Za-z_]\w*)\})"


class Pending:
    """A value that is unknown before a run; ``producer`` names the step that exports it."""

    __slots__ = ("producer",)

    def __init__(self, producer: str) -> None:
        self.producer = producer

    def __repr__(self) -> str:
        return f"<from {self.producer}>"


class TracedEnv(dict[str, Any]):
    """A real ``dict`` which remembers what was read before the step wrote it.

    ``reads`` maps keys to fingerprints as seen by the step after its own settings were laid over;
    ``outer`` names the keys whose value came from the caller. Writes through ``overlay`` belong to
    the settings; every other write belongs to the run. ``rules`` say how conditions read it.
    ``whole`` says that it was looked at as a whole: then its ``names`` at the start count too.
    """

    __slots__ = (
        "fact_reads",
        "facts",
        "laid",
        "names",
        "outer",
        "reads",
        "rules",
        "running",
        "whole",
        "written",
    )

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        super().__init__(values or {})
        self.reads: dict[str, str] = {}
        self.outer: set[str] = set()
        self.laid: set[str] = set()
        self.written: set[str] = set()
        self.facts: dict[str, str] = {}
        self.fact_reads: dict[str, dict[str, str]] = {}
        self.running = False
        self.whole = False
        self.names: frozenset[str] = frozenset()
        self.rules: Dialect = CM

    def below(self, values: Mapping[str, Any]) -> TracedEnv:
        """The env of a dependency that sees ``values`` of this one."""
        return TracedEnv(values)

    def copy_to(self, other: TracedEnv) -> None:
        """Make ``other`` as this one is now, what has been read of it included."""
        dict.update(other, dict.items(self))
        other.reads, other.outer = dict(self.reads), set(self.outer)
        other.laid, other.written = set(self.laid), set(self.written)
        other.facts, other.fact_reads = dict(self.facts), {**self.fact_reads}
        other.running, other.rules = self.running, self.rules
        other.whole, other.names = self.whole, self.names

    def begin(self) -> None:
        """All settings are laid: from now on the step itself reads and writes."""
        self.running = True
        self.names = frozenset(dict.keys(self))

    def note(self, key: str) -> None:
        """Record a read of ``key``."""
        source = self.facts.get(key)
        if source is not None:
            value = fingerprint(key, dict.get(self, key, MISSING))
            self.fact_reads.setdefault(source, {})[key] = value
            return
        if key in self.written or key in self.reads:
            return
        if key not in self.laid:
            self.outer.add(key)
        if self.running:
            self.reads[key] = fingerprint(key, dict.get(self, key, MISSING))

    def note_each(self, keys: Iterable[str]) -> None:
        """Record reads of all ``keys``."""
        for key in keys:
            self.note(key)

    def overlay(self, key: str, value: Any) -> None:
        """Set ``key`` as part of the step's settings."""
        self.laid.add(key)
        dict.__setitem__(self, key, value)

    def force(self, key: str, value: Any) -> None:
        """Set ``key`` to what a caller has fixed: it counts as the caller's, not as a setting."""
        self.laid.discard(key)
        dict.__setitem__(self, key, value)

    def learn(self, key: str, value: Any, source: str) -> None:
        """Set ``key`` to a fact of this machine, reported by the script ``source``."""
        dict.__setitem__(self, key, value)
        self.facts[key] = source

    def peek(self, key: str, default: Any = None) -> Any:
        """The value of ``key`` without recording a read (for the engine's own bookkeeping)."""
        return dict.get(self, key, default)

    def __getitem__(self, key: str) -> Any:
        self.note(key)
        return dict.__getitem__(self, key)

    def get(self, key: str, default: Any = None) -> Any:
        self.note(key)
        return dict.get(self, key, default)

    def __contains__(self, key: object) -> bool:
        self.note(str(key))
        return dict.__contains__(self, key)

    def __setitem__(self, key: str, value: Any) -> None:
        self.written.add(key)
        self.facts.pop(key, None)
        dict.__setitem__(self, key, value)

    def __delitem__(self, key: str) -> None:
        self.written.add(key)
        dict.__delitem__(self, key)

    def setdefault(self, key: str, default: Any = None) -> Any:
        self.note(key)
        if not dict.__contains__(self, key):
            self[key] = default
        return dict.__getitem__(self, key)

    def pop(self, key: str, *default: Any) -> Any:
        self.note(key)
        self.written.add(key)
        return dict.pop(self, key, *default)

    def update(self, *others: Any, **more: Any) -> None:
        for other in (*others, more):
            pairs = other.items() if isinstance(other, Mapping) else other
            for key, value in pairs:
                self[key] = value

    def popitem(self) -> tuple[str, Any]:
        self.note_all()
        key = next(reversed(list(dict.keys(self))))
        return key, self.pop(key)

    def __iter__(self) -> Iterator[str]:
        self.note_all()
        return dict.__iter__(self)

    def __reversed__(self) -> Iterator[str]:
        self.note_all()
        return dict.__reversed__(self)

    def __repr__(self) -> str:
        self.note_all()
        return dict.__repr__(self)

    def __eq__(self, other: object) -> bool:
        self.note_all()
        return dict.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None

    def __or__(self, other: Any) -> Any:
        return self.copy() | other

    def __ror__(self, other: Any) -> Any:
        return other | self.copy()

    def keys(self) -> Any:
        self.note_all()
        return dict.keys(self)

    def values(self) -> Any:
        self.note_all()
        return dict.values(self)

    def items(self) -> Any:
        self.note_all()
        return dict.items(self)

    def copy(self) -> dict[str, Any]:
        self.note_all()
        return self.plain()

    def written_now(self) -> dict[str, Any]:
        """What the step itself has set so far, for the engine."""
        return {key: dict.get(self, key) for key in tuple(self.written)}

    def plain(self) -> dict[str, Any]:
        """An untraced copy, for the engine."""
        return dict(dict.items(self))

    def note_all(self) -> None:
        """Record a read of every key, and of which there are."""
        self.whole = True
        self.note_each([key for key in dict.keys(self) if "_TMP_" not in key])


def fingerprint(key: str, value: Any) -> str:
    """A short text that differs when ``value`` differs; secrets and long values are hashed."""
    # A text that begins as these do is none of them: it is written out, in quotes.
    is_plain = isinstance(value, str) and (value is MISSING or not value.startswith(_NO_TEXT))
    text = value if is_plain else _NO_TEXT + as_json(value)
    plain = value is text and not any(map(text.__contains__, SIGNS))
    secret = is_secret(key) or not (plain or masked(value) == value)
    # A text that begins as a digest does is hashed, too: it is no other text's digest.
    if secret or len(text) > 200 or text.startswith(_DIGEST):
        return _DIGEST + sha256(text, 32)
    return text


def fingerprints(space: str, keys: Iterable[str], values: Mapping[str, Any]) -> dict[str, str]:
    """What ``values`` has for each of ``keys`` now, as a record names it: ``space:key``."""
    return {f"{space}:{key}": fingerprint(key, values.get(key, MISSING)) for key in keys}


def as_json(value: Any) -> str:
    """``value`` as a text that differs when it differs."""
    return json.dumps(value, sort_keys=True, default=_as_plain)


def _as_plain(value: Any) -> Any:
    from dataclasses import asdict, is_dataclass

    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else repr(value)


def without_secrets(
    values: Mapping[str, Any], secrets: Secrets
) -> tuple[dict[str, Any], dict[str, str]]:
    """What of ``values`` may lie on a disk, and the fingerprints of all else."""
    shown = secrets.values(values)
    kept = {key: value for key, value in values.items() if shown[key] == value}
    return kept, {key: fingerprint(key, v) for key, v in values.items() if key not in kept}


def substitute(value: Any, env: TracedEnv | Mapping[str, Any]) -> Any:
    """``value`` with every ``<<<KEY>>>`` replaced; unknown keys stay, pending ones win."""
    if isinstance(value, str):
        return _substitute_text(value, env) if "<<<" in value else value
    if isinstance(value, list):
        return [substitute(item, env) for item in value]
    return value


def _substitute_text(text: str, env: TracedEnv | Mapping[str, Any]) -> Any:
    pending: Pending | None = None

    def one(match: re.Match[str]) -> str:
        nonlocal pending
        value = env.get(match[1], MISSING)
        if isinstance(value, Pending):
            pending = pending or value
        return match[0] if value is MISSING else as_text(value)

    result = re.sub(_REFERENCE, one, text)
    return pending if pending is not None else result


def unresolved(value: Any) -> bool:
    """Whether a ``<<<KEY>>>`` is left in ``value``."""
    return isinstance(value, str) and "<<<" in value and bool(re.search(_REFERENCE, value))


def as_text(value: Any) -> str:
    """An env value as a process sees it; lists are joined like search paths."""
    if isinstance(value, list | tuple):
        return os.pathsep.join(str(item) for item in value)
    return str(value)


def decide(conditions: Iterable[Condition], env: TracedEnv) -> tuple[bool | None, str]:
    """Return ``True``, ``False`` or ``None`` (unknown before a run) and the deciding reason."""
    open_question = ""
    for condition in conditions:
        answer, reason = _decide_one(condition, env)
        if answer is None:
            open_question = open_question or reason
        elif answer == condition.skip:
            return False, reason
    return (None, open_question) if open_question else (True, "")


def _decide_one(condition: Condition, env: TracedEnv) -> tuple[bool | None, str]:
    """Whether the group matches; all keys must (AND form), or any (OR form)."""
    pending = ""
    for key, wanted in condition.rules:
        value = env.get(key)
        if isinstance(value, Pending):
            pending = pending or f"{key} from {value.producer}"
            continue
        matched = _matches(value, wanted, not condition.any_of, env.rules.gaps_are_unset)
        if matched == condition.any_of:
            return matched, f"{key}={'' if value is None else value}"
    if pending:
        return None, pending
    if condition.any_of:
        return False, "none of " + ", ".join(condition.keys)
    return True, ", ".join(f"{key}={env.peek(key, '')}" for key in condition.keys)


def _matches(
    value: Any, wanted: tuple[str, ...], unset_may_match: bool, gaps_are_unset: bool
) -> bool:
    text = "" if value is None else as_text(value).strip().lower()
    if gaps_are_unset and unresolved(text):
        text = ""
    if _TRUE.intersection(wanted):
        return text != "" and text not in _FALSE
    if _FALSE.intersection(wanted):
        return text in _FALSE or (text == "" and (unset_may_match or value is not None))
    if value is None:
        return unset_may_match and "" in wanted
    return text in wanted or ("" in wanted and not unset_may_match and text in _FALSE)


def is_pattern(text: str) -> bool:
    """Return whether ``text`` is a pattern of keys, and not the name of one."""
    return "*" in text or "?" in text


def select_keys(keys: Iterable[str], patterns: Iterable[str]) -> list[str]:
    """The ``keys`` that match one of ``patterns`` (exact names or globs), in order."""
    match = _matcher(tuple(patterns))
    return [key for key in keys if match(key)]


@lru_cache(maxsize=512)
def _matcher(patterns: tuple[str, ...]) -> Callable[[str], object]:
    globs = [pattern for pattern in patterns if is_pattern(pattern)]
    exact = frozenset(patterns).difference(globs)
    if not globs:
        return exact.__contains__
    heads = tuple(pattern[:-1] for pattern in globs)
    if all(g.endswith("*") and not _WILD.intersection(g[:-1]) for g in globs):
        return lambda key: key.startswith(heads) or key in exact
    import fnmatch

    match = re.compile("|".join(fnmatch.translate(g) for g in globs)).match
    return lambda key: key in exact or match(key)


def merge_value(old: Any, new: Any) -> Any:
    """What a caller's key becomes when a step gives back ``new``: lists grow without repeats."""
    if isinstance(old, list) and isinstance(new, list):
        return old + [item for item in new if item not in old]
    return list(new) if isinstance(new, list) else new


def process_env(env: Mapping[str, Any], base: Mapping[str, str]) -> dict[str, str]:
    """The environment of a child process: ``base`` plus ``env``, with ``+KEY`` lists prepended.

    ``+PATH: [a, b]`` gives ``PATH=a:b:$PATH``; ``+ CFLAGS`` uses the character after ``+`` as
    the separator. Keys that are no names of variables and values that hold a NUL are left out.
    """
    result = dict(base)
    for key, value in env.items():
        if key.startswith("+"):
            continue
        text = as_text(value)
        if key and "=" not in key and "\0" not in key + text:
            result[key] = text
    for key, value in env.items():
        if key.startswith("+") and len(key) > 1:
            _prepend(result, key, value)
    return result


def _prepend(result: dict[str, str], key: str, value: Any) -> None:
    """Put the items of the list ``+KEY`` in front of what ``KEY`` holds."""
    name, separator = (key[1:], os.pathsep) if _is_name(key[1]) else (key[2:], key[1])
    items = [str(v) for v in value] if isinstance(value, list | tuple) else [str(value)]
    if name and "=" not in name and "\0" not in name + "".join(items):
        before = result.get(name, "")
        result[name] = separator.join([*items, before] if before else items)


def expanded_env(env: Mapping[str, Any], base: Mapping[str, str]) -> dict[str, Any]:
    """``env`` as a shell would read its values between double quotes, key after key.

    A backslash before ``$``, a backquote, a double quote or a backslash goes away; ``$KEY`` and
    ``${KEY}`` stand for other values, those of ``base`` included. Nothing else is evaluated.
    """
    result: dict[str, Any] = {}

    def one(match: re.Match[str]) -> str:
        if match["quoted"]:
            return match["quoted"]
        name = match["name"] or match["braced"]
        return as_text(result.get(name, base.get(name, "")))

    for key in sorted(env):
        value = env[key]
        if isinstance(value, str):
            result[key] = re.sub(_SHELL_PART, one, value)
        elif isinstance(value, list):
            result[key] = [re.sub(_SHELL_PART, one, str(item)) for item in value]
        else:
            result[key] = value
    return result


def _is_name(character: str) -> bool:
    return character.isalnum() or character == "_"
