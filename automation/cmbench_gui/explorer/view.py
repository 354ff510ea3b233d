"""The state of a page of results, as in its address: the address is the whole state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from urllib.parse import quote_plus, urlencode

from cmbench.errors import Error, did_you_mean
from cmbench_results import cost, schema
from cmbench_results.query import Filter
from cmbench_results.values import number

ROWS = 50
BASKET = 12
COST = "cost_per_million"
AXES = (*schema.FIGURES, COST)
KINDS = ("scatter", "bars", "course")
COLOURS = (
    *("organization", "system", "accelerator", "framework", "precision", "round", "tier"),
    *("model", "backend", "device"),
)
PRICES = ("price_per_hour", "purchase_price", "lifetime_years", "price_per_kwh")
_RANGE = ("xmin", "xmax", "ymin", "ymax")
_MARKS = ("logx", "logy", "priced")
_OWN = ("q", "has", "sort", "page", "in", "draw", "x", "y", "by", *_MARKS, *_RANGE, *PRICES)
# Of a crafted address: so many values of a column, of so many characters.
_MOST, _LONGEST, _LAST = 60, 200, 20_000

Pairs = Iterable[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class ExplorerView:
    """Which results, in which order and drawing, and which ones lie in the basket.

    ``ranges`` are the ends of the axes of a plot by ``xmin`` and so on; ``prices`` the user's own.
    """

    wanted: Filter = field(default_factory=Filter)
    sort: str = ""
    page: int = 1
    basket: tuple[str, ...] = ()
    draw: str = KINDS[0]
    x: str = "power"
    y: str = "throughput"
    by: str = COLOURS[0]
    marks: frozenset[str] = frozenset()
    ranges: Mapping[str, float] = field(default_factory=dict)
    prices: Mapping[str, str] = field(default_factory=dict)

    @property
    def priced(self) -> bool:
        """Whether the cost is shown."""
        return "priced" in self.marks or bool(self.prices)

    def costs(self) -> cost.CostModel:
        """By what results are priced; raises ``bad-value``, ``needs-input``."""
        return cost.of_flags(self.prices)

    def pairs(self) -> list[tuple[str, str]]:
        """Return the parameters of its address, without the defaults."""
        pairs = [(name, v) for name, values in self.wanted.columns.items() for v in values]
        pairs += [("q", word) for word in self.wanted.words]
        pairs += [("has", name) for name in self.wanted.has]
        for name in ("sort", "draw", "x", "y", "by"):
            value = getattr(self, name)
            if value != getattr(_USUAL, name):
                pairs.append((name, value))
        pairs += [("page", str(self.page))] if self.page > 1 else []
        pairs += [(name, "1") for name in _MARKS if name in self.marks]
        pairs += [(name, f"{value:.12g}") for name, value in self.ranges.items()]
        return pairs + list(self.prices.items()) + [("in", uid) for uid in self.basket]

    def at(self, path: str) -> str:
        """Its address below a path."""
        query = urlencode(self.pairs())
        return f"{path}?{query}" if query else path

    def toggles(self, path: str, column: str) -> Callable[[str], str]:
        """For a value of a column, the address of the same with that value or without it."""
        chosen = self.wanted.columns.get(column, ())
        rest = {name: values for name, values in self.wanted.columns.items() if name != column}
        free = replace(self, wanted=replace(self.wanted, columns=rest), page=1, ranges={})
        begun = free.at(path)
        one_more = _more(begun, column, (*chosen, ""))

        def address(value: str) -> str:
            if value not in chosen:
                return one_more + _quoted(value)
            return _more(begun, column, [v for v in chosen if v != value])

        return address

    def hidden(self, *without: str) -> list[tuple[str, str]]:
        """What a form that sets those parameters has to carry along."""
        return [(name, value) for name, value in self.pairs() if name not in (*without, "page")]

    def only(self, **columns: str) -> ExplorerView:
        """Return the same with one value alone of every one of these columns."""
        selected = {**self.wanted.columns, **{name: (value,) for name, value in columns.items()}}
        return replace(self, wanted=replace(self.wanted, columns=selected), page=1, ranges={})

    def holds(self, path: str) -> Callable[[str], str]:
        """For a result, the address of the same with it put into the basket, or taken out."""
        begun = replace(self, basket=()).at(path)
        one_more = _more(begun, "in", (*self.basket[1 - BASKET :], ""))

        def address(uid: str) -> str:
            if uid not in self.basket:
                return one_more + uid
            return _more(begun, "in", [other for other in self.basket if other != uid])

        return address

    def ordered(self, column: str, down: bool) -> ExplorerView:
        """The same sorted by a column; a second time turns it round."""
        first, other = (f"-{column}", column) if down else (column, f"-{column}")
        return replace(self, sort=other if self.sort == first else first, page=1)


_USUAL = ExplorerView()


_quoted = lru_cache(maxsize=4096)(quote_plus)


def _more(address: str, name: str, values: Sequence[str]) -> str:
    """The address with these values of a parameter more; a page has hundreds of them."""
    query = "&".join(f"{name}={_quoted(value)}" for value in values)
    return f"{address}{'&' if '?' in address else '?'}{query}" if query else address


def read(query: Pairs) -> ExplorerView:
    """The view of an address.

    Raises ``unknown-flag`` for a parameter that there is none of, ``bad-value`` for a value.
    """
    parameters: dict[str, list[str]] = {}
    for name, value in query:
        if value:
            parameters.setdefault(name, []).append(value)
    for name, values in parameters.items():
        _check(name, values)
    one = {name: values[-1] for name, values in parameters.items()}
    view = ExplorerView(
        wanted=Filter(
            {
                name: tuple(dict.fromkeys(parameters[name]))
                for name in _columns()
                if name in parameters
            },
            tuple(" ".join(parameters.get("q", ())).split()[:10]),
            tuple(_among("has", name, schema.FIGURES) for name in parameters.get("has", ())),
        ),
        sort=_sort(one.get("sort", "")),
        page=_page(one.get("page", "1")),
        basket=tuple(dict.fromkeys(parameters.get("in", ())))[:BASKET],
        marks=frozenset(name for name in _MARKS if name in parameters),
        ranges={name: _figure(name, one[name]) for name in _RANGE if name in parameters},
        prices={name: one[name] for name in PRICES if name in parameters},
        **_drawing(one),
    )
    view.costs()
    return view


def _columns() -> tuple[str, ...]:
    return (*schema.WORDS, *schema.COUNTS, "uid")


def _check(name: str, values: list[str]) -> None:
    known = (*_columns(), *_OWN)
    if name not in known:
        hint = did_you_mean(name, known) or "remove it from the address"
        raise Error("unknown-flag", f"results have no {name[:_LONGEST]!r}", hint=hint)
    if len(values) > _MOST or any(len(value) > _LONGEST for value in values):
        raise Error(
            "bad-value",
            f"the address has too many values of {name}",
            hint=f"at most {_MOST} values of {_LONGEST} characters",
        )


def _drawing(one: Mapping[str, str]) -> dict[str, str]:
    known = {"draw": KINDS, "x": AXES, "y": AXES, "by": COLOURS}
    return {name: _among(name, one[name], known[name]) for name in known if name in one}


def _among(name: str, value: str, known: tuple[str, ...]) -> str:
    if value in known:
        return value
    hint = did_you_mean(value, known) or f"possible: {', '.join(known)}"
    raise Error("bad-value", f"{name} cannot be {value!r}", hint=hint)


def _sort(value: str) -> str:
    if value:
        _among("sort", value.removeprefix("-"), (*schema.WORDS, *schema.FIGURES, "measured_at"))
    return value


def _page(value: str) -> int:
    if value.isascii() and value.isdigit() and len(value) < 7 and 1 <= int(value) <= _LAST:
        return int(value)
    raise Error("bad-value", f"there is no page {value!r}", hint="go to page 1")


def _figure(name: str, value: str) -> float:
    parsed = number(value)
    if parsed is None:
        raise Error("bad-value", f"{name} is not a figure: {value!r}", hint="write a number")
    return parsed
