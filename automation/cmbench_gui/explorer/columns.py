"""The columns of all results in memory, for the queries that every page of the table makes.

To count thirteen facets of 100,000 rows takes a database half a second. Here a value of a column
knows its rows; a filter is a number with a bit per row, and a count is one operation on two
such numbers. All of it takes about 25 MB of memory for 100,000 results. What it does not know is
read from the database, whose answers it equals.
"""

from __future__ import annotations

import math
import re
import threading
from array import array
from bisect import bisect_left
from collections.abc import Hashable, Iterable, Mapping, Sequence
from heapq import nsmallest
from itertools import islice
from typing import Any

from cmbench_results import query, schema
from cmbench_results.query import Filter, Page, Row
from cmbench_results.store import Store
from cmbench_results.values import PER_ACCELERATOR, PER_CORE, PER_WATT

KNOWN = (
    *(name for name in schema.WORDS if name not in ("series", "system_id", "figures_from")),
    *schema.COUNTS,
)
"""The columns with values that many rows share, by which rows are chosen."""
_CODED = (
    *("benchmark", "form", "scenario", "system", "cpu", "accelerator", "organization", "round"),
    *("division", "energy_tier", "precision", "tier", "validity", "unit", "system_id"),
)
"""The columns of words that a line of the table shows."""
_FIGURES = dict.fromkeys(("value", "accuracy", "power", "energy_per_sample", "throughput"), "d")
_FIGURES |= dict.fromkeys((PER_ACCELERATOR, PER_WATT, PER_CORE), "d")
_FIGURES |= {"accelerators": "q", "inferred": "b"}
"""Those of numbers, by the type of their array; an unknown figure is not a number."""
_ANYWHERE = (
    *("benchmark", "model", "scenario", "system", "organization", "cpu"),
    *("accelerator", "framework", "round"),
)
_COUNTED = 400
"""Values of a facet, the most frequent ones, that are counted."""
_MAX_BITS, _MAX_WORDS, _MAX_ORDERS, _MAX_COUNTS = 600, 60, 8, 200
_BITS = tuple(tuple(bit for bit in range(8) if byte >> bit & 1) for byte in range(256))
_FEW = 8
_SORTING = 4
"""To sort a row takes so many times what it takes to look whether a row is chosen."""

Counts = list[tuple[str, int]]
Order = tuple[Sequence[int], Sequence[int]]
"""The rows in an order, and the place of each row in it."""


class Columns:
    """The columns of the results of a database at one moment.

    Rows are numbered in the usual order of the table.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._uids = array("Q", (int(uid, 16) for uid in query.uids_by(store, "")))
        rows = len(self._uids)
        self._numbers = array("I", sorted(range(rows), key=self._uids.__getitem__))
        self._ascending = array("Q", map(self._uids.__getitem__, self._numbers))
        self._rows: dict[str, dict[str, array[int]]] = {name: {} for name in (*KNOWN, "system_id")}
        self._figures = {name: _zeros(code, rows) for name, code in _FIGURES.items()}
        self._all = self._read(store)
        self._coded_values = {name: _codes(self._rows[name], rows) for name in _CODED}
        self._bits: dict[tuple[str, str], int] = {}
        self._words: dict[str, int] = {}
        self._counts: dict[Hashable, dict[str, Counts]] = {}
        self._orders: dict[str, Order] = {"": (range(rows), range(rows))}
        self._lock = threading.Lock()
        self._sorting: dict[str, threading.Lock] = {}

    def _read(self, store: Store) -> int:
        """Read all columns; the number whose bits are the rows that were there."""
        present = bytearray(len(self._uids) // 8 + 1)
        names = (*self._rows, *_FIGURES)
        for uid, *values in query.columns_by_uid(store, names):
            number = self._number_of(uid)
            if number is None:
                continue
            present[number >> 3] |= 1 << (number & 7)
            columns = iter(values)
            for rows, value in zip(self._rows.values(), map(str, columns), strict=False):
                if value in rows:
                    rows[value].append(number)
                elif value:
                    rows[value] = array("I", [number])
            for column, figure in zip(self._figures.values(), columns, strict=True):
                column[number] = math.nan if figure is None else figure
        return int.from_bytes(present, "little")

    def _number_of(self, uid: str) -> int | None:
        value = int(uid, 16)
        index = bisect_left(self._ascending, value)
        exists = index < len(self._ascending) and self._ascending[index] == value
        return self._numbers[index] if exists else None

    def prepare(self, facets: Sequence[str], sorts: Sequence[str]) -> None:
        """Make now what the first pages would wait for: these orders, and the bits of facets."""
        for sort in sorts:
            self._order(sort)
        for name in facets:
            self._facet(self._all >> 1, name)

    def knows(self, selection: Filter) -> bool:
        """Whether a filter is one of these columns alone."""
        return not selection.has and all(name in KNOWN for name in selection.columns)

    def at_once(self, selection: Filter, sort: str) -> bool:
        """Return whether a page takes milliseconds: few values without wildcards, a known order."""
        values = [value for several in selection.columns.values() for value in several]
        few = len(values) + len(selection.words) <= _FEW and "*" not in "".join(values)
        return few and sort in self._orders and self.knows(selection)

    def find(self, selection: Filter, sort: str, limit: int, offset: int) -> Page:
        """Return the answer of ``query.find``, with the columns that the table shows."""
        mask = self._mask(selection)
        order, ranks = self._order(sort)
        chosen = _page_of_rows(mask, order, ranks, slice(offset, offset + limit))
        return Page(tuple(map(self._row, chosen)), mask.bit_count())

    def _row(self, number: int) -> Row:
        row: dict[str, Any] = {"uid": f"{self._uids[number]:016x}"}
        for name, (values, codes) in self._coded_values.items():
            row[name] = values[codes[number]]
        for name, figures in self._figures.items():
            figure = figures[number]
            row[name] = figure if figure == figure else None
        return row

    def facets(self, selection: Filter, names: Sequence[str]) -> Mapping[str, Counts]:
        """What ``query.facets`` answers, of the most frequent values."""
        key = (tuple(sorted(selection.columns.items())), selection.words, tuple(names))
        counts = self._counts.get(key)
        if counts is None:
            same = self._mask(selection)
            counts = {
                name: self._facet(
                    self._mask(selection.without(name)) if name in selection.columns else same, name
                )
                for name in names
            }
            if len(self._counts) >= _MAX_COUNTS:
                self._counts.clear()
            self._counts[key] = counts
        return counts

    def _facet(self, mask: int, name: str) -> Counts:
        largest = self._most_frequent(name)
        if mask == self._all:
            return largest
        counted = [
            (value, (mask & self._rows_of_value(name, value)).bit_count()) for value, _ in largest
        ]
        matching = [pair for pair in counted if pair[1]]
        return sorted(matching, key=lambda pair: (-pair[1], pair[0]))

    def _mask(self, selection: Filter) -> int:
        mask = self._all
        for name, values in selection.columns.items():
            allowed = [value for value in values if not value.startswith("!")]
            if allowed:
                mask &= self._rows_matching(name, allowed)
            mask &= ~self._rows_matching(
                name, [value[1:] for value in values if value.startswith("!")]
            )
        for word in selection.words:
            mask &= self._rows_with_word(word)
        return mask & self._all

    def _rows_with_word(self, word: str) -> int:
        """The rows in which a word occurs anywhere."""
        known = self._words.get(word)
        if known is not None:
            return known
        mask = 0
        for name in _ANYWHERE:
            mask |= self._rows_of_values(name, self._values_containing(name, word))
        if len(self._words) >= _MAX_WORDS:
            self._words.clear()
        self._words[word] = mask
        return mask

    def _rows_matching(self, name: str, patterns: Sequence[str]) -> int:
        mask = 0
        for pattern in patterns:
            mask |= self._rows_of_values(name, self._values_matching(name, pattern))
        return mask

    def _values_matching(self, name: str, pattern: str) -> list[str]:
        if name == "category":
            return self._values_containing(name, pattern)
        if name in schema.COUNTS:
            return [pattern] if pattern in self._rows[name] else []
        parts = pattern.lower().split("*")
        return [value for value in self._rows[name] if _matches_wildcard(value.lower(), parts)]

    def _values_containing(self, name: str, word: str) -> list[str]:
        small = word.lower()
        return [value for value in self._rows[name] if small in value.lower()]

    def _rows_of_values(self, name: str, values: Sequence[str]) -> int:
        """The rows that have one of these values."""
        if len(values) <= 4:
            mask = 0
            for value in values:
                mask |= self._rows_of_value(name, value)
            return mask
        return _as_mask(len(self._uids), (self._rows[name][value] for value in values))

    def _rows_of_value(self, name: str, value: str) -> int:
        key = (name, value)
        mask = self._bits.get(key)
        if mask is None:
            mask = _as_mask(len(self._uids), [self._rows[name][value]])
            if len(self._bits) < _MAX_BITS:
                self._bits[key] = mask
        return mask

    def _most_frequent(self, name: str) -> Counts:
        """Return the most frequent values of a column, with their numbers of rows."""
        counted = ((value, len(rows)) for value, rows in self._rows[name].items())
        return nsmallest(_COUNTED, counted, key=lambda pair: (-pair[1], pair[0]))

    def _order(self, sort: str) -> Order:
        """Return the rows in an order, and the rank of every row in it."""
        known = self._orders.get(sort)
        if known is not None:
            return known
        with self._lock:
            mine = self._sorting.setdefault(sort, threading.Lock())
        # A request for another order does not wait for this one.
        with mine:
            order = self._orders.get(sort) or self._sorted(sort)
        with self._lock:
            if sort not in self._orders and len(self._orders) >= _MAX_ORDERS:
                self._orders.pop(next(filter(None, self._orders)))
            return self._orders.setdefault(sort, order)

    def _sorted(self, sort: str) -> Order:
        numbers = map(self._number_of, query.uids_by(self._store, sort))
        order = array("I", (number for number in numbers if number is not None))
        # A row that is gone meanwhile comes after all others.
        ranks = array("I", [len(order)]) * len(self._uids)
        for rank, number in enumerate(order):
            ranks[number] = rank
        return order, ranks


def _matches_wildcard(text: str, parts: Sequence[str]) -> bool:
    """Whether a text consists of these parts, with anything between them.

    A regular expression would try all positions of a part against all of the others.
    """
    first, *others = parts
    if not others:
        return text == first
    *between, last = others
    if not (text.startswith(first) and text.endswith(last)):
        return False
    start, end = len(first), len(text) - len(last)
    for part in between:
        start = text.find(part, start, end)
        if start < 0:
            return False
        start += len(part)
    return start <= end


def _as_mask(rows: int, many: Iterable[array[int]]) -> int:
    """A number whose bits are these rows."""
    bits = bytearray(rows // 8 + 1)
    for numbers in many:
        for row in numbers:
            bits[row >> 3] |= 1 << (row & 7)
    return int.from_bytes(bits, "little")


def _page_of_rows(
    mask: int, order: Sequence[int], ranks: Sequence[int], part: slice
) -> Sequence[int]:
    """A part of the rows of a mask in an order."""
    rows, many = len(ranks), mask.bit_count()
    if many == rows:
        return order[part]
    bits = mask.to_bytes(rows // 8 + 1, "little")
    numbers = (
        8 * match.start() + bit
        for match in re.finditer(rb"[^\0]", bits)
        for bit in _BITS[match[0][0]]
    )
    if isinstance(order, range):
        return list(islice(numbers, part.start, part.stop))
    needed, worth = min(part.stop, many), _SORTING * many
    if needed * rows < worth * many:
        # The rows of a filter may lie together at the end of an order: then it is soon given up.
        looked = (row for row in islice(order, worth) if bits[row >> 3] >> (row & 7) & 1)
        chosen = list(islice(looked, needed))
        if len(chosen) == needed:
            return chosen[part]
    ranked = sorted(ranks[number] for number in numbers)
    return [order[rank] for rank in ranked[part] if rank < len(order)]


def _zeros(code: str, rows: int) -> array[float]:
    """A column of figures before any is known; some arrays hold whole numbers only."""
    none: array[float] = array(code, [0])
    return none * rows


def _codes(known: Mapping[str, Iterable[int]], rows: int) -> tuple[list[str], Sequence[int]]:
    """Return the values of a column, and for every row the position of its own among them."""
    values = ["", *known]
    code = next(code for code in "BHI" if len(values) <= 1 << 8 * array(code).itemsize)
    codes = array(code, [0]) * rows
    for code_of_value, numbers in enumerate(known.values(), 1):
        for number in numbers:
            codes[number] = code_of_value
    return values, codes
