"""What to change about a question that no result answers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from cmbench.errors import did_you_mean
from cmbench_results import query, schema
from cmbench_results.query import Filter
from cmbench_results.store import Store

_NAMING = ("benchmark", "scenario", "organization", "accelerator", "framework", "model", "form")
"""Columns whose values people type as words."""


def suggestions(store: Store, filters: Filter) -> list[str]:
    """Return which condition no result meets, else how many there are without one of several."""
    impossible = [*_unknown_words(store, filters), *_unknown_values(store, filters)]
    return impossible or list(_without_one(store, filters))


def _unknown_words(store: Store, filters: Filter) -> Iterator[str]:
    for word in filters.words:
        if not _count(store, Filter(words=(word,))):
            counts = query.facets(store, Filter(), _NAMING)
            known = {value for values in counts.values() for value, _ in values}
            known |= {part for value in known for part in re.split(r"[\s-]", value)}
            yield _none(f'the word "{word}"', did_you_mean(word, known))


def _unknown_values(store: Store, filters: Filter) -> Iterator[str]:
    for name, values in filters.columns.items():
        for value in values:
            if not value.startswith("!") and not _count(store, Filter({name: (value,)})):
                known = [] if name in schema.COUNTS else _values(store, name)
                yield _none(f"{name} {value}", did_you_mean(value, known))


def _none(condition: str, guess: str) -> str:
    return f"no result has {condition}{': ' if guess else ''}{guess}"


def _values(store: Store, name: str) -> list[str]:
    return [value for value, _ in query.facets(store, Filter(), (name,)).get(name, [])]


def _without_one(store: Store, filters: Filter) -> Iterator[str]:
    """Yield how many results there are without one of the conditions."""
    for word in filters.words:
        rest = tuple(other for other in filters.words if other != word)
        yield from _left(store, word, replace(filters, words=rest))
    for name, values in filters.columns.items():
        yield from _left(store, f"--{name}={','.join(values)}", filters.without(name))
    for name in filters.has:
        rest = tuple(other for other in filters.has if other != name)
        yield from _left(store, f"--has={name}", replace(filters, has=rest))


def _left(store: Store, condition: str, filters: Filter) -> Iterator[str]:
    many = _count(store, filters)
    if many and filters != Filter():
        yield f"without {condition}: {many:,} {'result' if many == 1 else 'results'}"


def _count(store: Store, filters: Filter) -> int:
    return query.find(store, filters, "", 1).total
