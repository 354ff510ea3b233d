"""The columns of all results in memory, for the questions that every page of the table asks.

To count thirteen facets of 100,000 rows takes a database half a second. Here each value of a column
knows its rows; a filter is a number with a bit for each row, and a count is one operation on two
such numbers. All of it takes about 25 MB of memory for 100,000 results. What it does not know is
asked of the database, whose answers it equals.
"""

from __future__ import annotations

import re
import threading
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import islice

from cmbench_results import query, schema
from cmbench_results.query import Filter, Page
from cmbench_results.store import Store

KNOWN = tuple(name for name in schema.WORDS if name not in ("series", "system_id", "figures_from"))
"""The columns with values that many rows share."""
_ANYWHERE = ("benchmark", "model", "scenario", "system", "organization", "cpu")
_ANYWHERE += ("accelerator", "framework", "round")
_COUNTED = 400
"""Values of a facet, the most frequent ones, that are counted."""
_KEPT_BITS, _KEPT_WORDS, _KEPT_ORDERS = 600, 60, 8
_BITS = tuple(tuple(bit for bit in range(8) if byte >> bit & 1) for byte in range(256))
_SORTING = 4
"""To sort a row takes so many times what it takes to look whether a row is chosen."""
SELECTIVE = 16
"""A filter that leaves less than this part of all rows has few enough to sort."""


class Columns:
    """The columns of the results of a database at one moment."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._rows: dict[str, dict[str, array[int]]] = {name: {} for name in KNOWN}
        self._uids = array("Q")
        self._bits: dict[tuple[str, str], int] = {}
        self._words: dict[str, int] = {}
        self._orders: dict[str, tuple[array[int], array[int]]] = {}
        self._lock = threading.Lock()
        self._sorting: dict[str, threading.Lock] = {}
        for number, (uid, *values) in enumerate(query.columns_by_uid(store, KNOWN)):
            self._uids.append(int(uid, 16))
            for name, value in zip(KNOWN, values, strict=True):
                if value:
                    self._rows[name].setdefault(value, array("I")).append(number)
        self._all = (1 << len(self._uids)) - 1

    def prepare(self, facets: Sequence[str], sorts: Sequence[str]) -> None:
        """Make now what the first pages would wait for: these orders, and the bits of facets."""
        for sort in sorts:
            self._order(sort)
        for name in facets:
            self._facet(self._all >> 1, name)

    def knows(self, wanted: Filter) -> bool:
        """Whether a filter is one of these columns alone."""
        return not wanted.has and all(name in self._rows for name in wanted.columns)

    def find(self, wanted: Filter, sort: str, limit: int, offset: int) -> Page:
        """What ``query.find`` answers."""
        mask = self._mask(wanted)
        order, ranks = self._order(sort)
        chosen = _inside(mask, order, ranks, slice(offset, offset + limit))
        uids = [f"{self._uids[number]:016x}" for number in chosen]
        return Page(tuple(query.of_uids(self._store, uids)), mask.bit_count())

    def facets(self, wanted: Filter, names: Sequence[str]) -> dict[str, list[tuple[str, int]]]:
        """What ``query.facets`` answers, of the most frequent values."""
        same = self._mask(wanted)
        free = {name: self._mask(wanted.without(name)) for name in names if name in wanted.columns}
        return {name: self._facet(free.get(name, same), name) for name in names}

    def _facet(self, mask: int, name: str) -> list[tuple[str, int]]:
        known = self._rows[name]
        largest = sorted(known, key=lambda value: (-len(known[value]), value))[:_COUNTED]
        if mask == self._all:
            return [(value, len(known[value])) for value in largest]
        counted = [(value, (mask & self._of(name, value)).bit_count()) for value in largest]
        found = [each for each in counted if each[1]]
        return sorted(found, key=lambda each: (-each[1], each[0]))

    def _mask(self, wanted: Filter) -> int:
        mask = self._all
        for name, values in wanted.columns.items():
            allowed = [value for value in values if not value.startswith("!")]
            if allowed:
                mask &= self._any(name, allowed)
            mask &= ~self._any(name, [value[1:] for value in values if value.startswith("!")])
        for word in wanted.words:
            mask &= self._with(word)
        return mask & self._all

    def _with(self, word: str) -> int:
        """The rows in which a word occurs anywhere."""
        known = self._words.get(word)
        if known is not None:
            return known
        found = 0
        for name in _ANYWHERE:
            found |= self._union(name, self._containing(name, word))
        if len(self._words) >= _KEPT_WORDS:
            self._words.clear()
        self._words[word] = found
        return found

    def _any(self, name: str, patterns: Sequence[str]) -> int:
        found = 0
        for pattern in patterns:
            found |= self._union(name, self._matching(name, pattern))
        return found

    def _matching(self, name: str, pattern: str) -> list[str]:
        if name == "category":
            return self._containing(name, pattern)
        parts = map(re.escape, pattern.lower().split("*"))
        fits = re.compile(".*".join(parts), re.DOTALL).fullmatch
        return [value for value in self._rows[name] if fits(value.lower())]

    def _containing(self, name: str, word: str) -> list[str]:
        small = word.lower()
        return [value for value in self._rows[name] if small in value.lower()]

    def _union(self, name: str, values: Sequence[str]) -> int:
        """The rows that have one of these values."""
        if len(values) <= 4:
            found = 0
            for value in values:
                found |= self._of(name, value)
            return found
        return _number(len(self._uids), (self._rows[name][value] for value in values))

    def _of(self, name: str, value: str) -> int:
        key = (name, value)
        found = self._bits.get(key)
        if found is None:
            found = _number(len(self._uids), [self._rows[name][value]])
            if len(self._bits) < _KEPT_BITS:
                self._bits[key] = found
        return found

    def _order(self, sort: str) -> tuple[array[int], array[int]]:
        """The rows in an order, and the place of each row in it."""
        with self._lock:
            mine = self._sorting.setdefault(sort, threading.Lock())
        # Who asks for another order does not wait for this one.
        with mine:
            found = self._orders.get(sort) or self._sorted(sort)
        with self._lock:
            if sort not in self._orders and len(self._orders) >= _KEPT_ORDERS:
                self._orders.pop(next(iter(self._orders)))
            return self._orders.setdefault(sort, found)

    def _sorted(self, sort: str) -> tuple[array[int], array[int]]:
        order = array("I")
        for uid in query.uids_by(self._store, sort):
            number = bisect_left(self._uids, int(uid, 16))
            if number < len(self._uids) and self._uids[number] == int(uid, 16):
                order.append(number)
        # A row that is gone meanwhile comes after all others.
        ranks = array("I", [len(order)]) * len(self._uids)
        for place, number in enumerate(order):
            ranks[number] = place
        return order, ranks


def _number(rows: int, many: Iterable[array[int]]) -> int:
    """A number whose bits are these rows."""
    bits = bytearray(rows // 8 + 1)
    for each in many:
        for row in each:
            bits[row >> 3] |= 1 << (row & 7)
    return int.from_bytes(bits, "little")


def _inside(mask: int, order: array[int], ranks: array[int], part: slice) -> Sequence[int]:
    """A part of the rows of a mask in an order."""
    rows, many = len(ranks), mask.bit_count()
    if many == rows:
        return order[part]
    bits = mask.to_bytes(rows // 8 + 1, "little")
    # The rows of a filter may lie together at the end of an order, so that all is looked through.
    if many * SELECTIVE > rows and min(part.stop, many) * rows < _SORTING * many * many:
        chosen = (row for row in order if bits[row >> 3] >> (row & 7) & 1)
        return list(islice(chosen, part.start, part.stop))
    some = (found.start() for found in re.finditer(rb"[^\0]", bits))
    places = sorted(ranks[8 * at + bit] for at in some for bit in _BITS[bits[at]])
    return [order[place] for place in places[part] if place < len(order)]
