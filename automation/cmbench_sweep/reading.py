"""From a sweep file to a ``Sweep``: all of its faults are reported at once."""

from __future__ import annotations

import itertools
import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from cmbench.errors import Error, did_you_mean
from cmbench.format.meta import load_yaml
from cmbench_sweep.expressions import ExpressionError, evaluate, reference_to, referenced_names
from cmbench_sweep.spelling import loader
from cmbench_sweep.values import HIGHER, LOWER, Budget, Repeat, SearchSettings, Sweep

MOST_POINTS = 100_000
MOST_PLACES = 10 * MOST_POINTS
"""So many places of the axes may be gone through to find the points."""
_LONGEST = 100_000
"""A longer text fits into no command line of a process (Linux: 128 KiB)."""
_NAME = re.compile(r"[\w][\w.+-]{0,99}")
_LABEL = re.compile(r"[\w.:/=@-]+")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_SIZES = re.compile(r"([\d.]+)\s*([smhd]?)")
_SHARE = re.compile(r"(\d+(?:\.\d+)?)\s*%")
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
METHODS = ("grid", "random", "optuna")


def read_sweep(path: str, name: str = "") -> Sweep:
    """Return the sweep of a file, called ``name``, else as it says or as the file is called.

    Raises ``file-not-found``, ``bad-meta`` for no YAML, and ``bad-sweep`` with every fault.
    """
    try:
        with open(path, encoding="utf-8") as stream:
            text = stream.read()
        data = load_yaml(text, path, loader())
    except OSError as problem:
        raise Error(
            "file-not-found", f"{path}: {problem.strerror}", hint="check --sweep=FILE"
        ) from None
    except UnicodeDecodeError:
        raise Error("bad-sweep", f"{path} is not UTF-8 text", hint="save it as UTF-8") from None
    faults = Faults()
    for line, key in _duplicate_keys(text):
        faults.add(line, f"{key} is given twice")
    sweep = sweep_of(data, name or faults.text(data, "name") or _name_of(path), faults)
    faults.refuse(path)
    if not sweep.reference:
        return sweep
    folder = os.path.dirname(os.path.abspath(path))
    return replace(sweep, reference=os.path.join(folder, sweep.reference))


def _name_of(path: str) -> str:
    """Return what a sweep is called after its file; what no name may have becomes a hyphen."""
    stem = os.path.splitext(os.path.basename(path))[0]
    return re.sub(r"[^\w.+-]+", "-", stem).strip(".+-") or "sweep"


def _duplicate_keys(text: str) -> list[tuple[str, str]]:
    """Return the names that a mapping of a YAML text has twice, with their lines (``line 3``).

    A loader keeps the last of them and says nothing.
    """
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    duplicates: list[tuple[str, str]] = []
    nodes, seen = [yaml.compose(text, Loader=loader)], set()
    while nodes:
        node = nodes.pop()
        if isinstance(node, yaml.CollectionNode) and id(node) not in seen:
            seen.add(id(node))
            pairs = node.value if isinstance(node, yaml.MappingNode) else []
            duplicates += _twice([key for key, _ in pairs])
            nodes += [child for pair in pairs for child in pair] or node.value
    return sorted(duplicates)


def _twice(keys: Iterable[Any]) -> Iterator[tuple[str, str]]:
    """Return the scalars among the keys of a mapping that occurred before, with their lines."""
    seen = set()
    for key in keys:
        reference_to = (key.tag, str(key.value))
        if reference_to in seen and key.id == "scalar":
            yield f"line {key.start_mark.line + 1}", key.value
        seen.add(reference_to)


class Faults:
    """Collects the faults of a file, with their positions in it."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def add(self, where: str, what: str, key: str = "") -> None:
        """Keep one; ``key`` is the key at ``where`` that it is about."""
        self.lines.append(f"{where}: {what}" if where else what)

    def text(self, data: Any, key: str) -> str:
        """Return the text of a key; empty where there is none."""
        value = data.get(key) if isinstance(data, Mapping) else None
        if value is not None and not isinstance(value, str):
            self.add(key, f"{value!r:.60} is not text")
        return value if isinstance(value, str) else ""

    def known(self, where: str, names: Iterable[Any], allowed: Iterable[str]) -> None:
        """Report unknown names, with the nearest allowed one."""
        allowed = list(allowed)
        for name in names:
            if name not in allowed:
                near = did_you_mean(str(name), allowed) or f"there are: {', '.join(allowed)}"
                self.add(where, f"{name} is not known; {near}", str(name))

    def mapping(self, where: str, value: Any) -> Mapping[str, Any]:
        """Return a mapping, empty where there is none."""
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            self.add(where, f"{value!r:.60} is not a mapping of names to values")
            return {}
        for key in value:
            if isinstance(key, bool) or key is None:
                self.add(where, f"YAML reads a name there as {key}: quote it")
        return {str(key): item for key, item in value.items()}

    def items(self, where: str, value: Any) -> list[Any]:
        """Return a list; one value is a list of one."""
        if value is None:
            return []
        if isinstance(value, Mapping):
            return [value]
        return list(value) if isinstance(value, list | tuple) else [value]

    def number(self, where: str, value: Any, least: float = 0.0, whole: bool = False) -> float:
        """Return a finite number of at least ``least``."""
        good = isinstance(value, int | float) and not isinstance(value, bool)
        if not good or not math.isfinite(value) or value < least or (whole and value % 1):
            kind = "whole number" if whole else "number"
            self.add(where, f"{value!r:.60} is not a {kind} of at least {least:g}")
            return least
        return float(value)

    def refuse(self, path: str) -> None:
        """Raise ``bad-sweep`` where there are any."""
        if self.lines:
            many = f"{len(self.lines)} faults" if len(self.lines) > 1 else "a fault"
            raise Error(
                "bad-sweep",
                f"{path} has {many}",
                context=self.lines[:40],
                hint="correct the file; see docs/how-to/sweeps.md",
            )


def sweep_of(data: Any, name: str, faults: Faults) -> Sweep:
    """Return a sweep from the plain data of a file; add its faults to ``faults``."""
    fields = faults.mapping("the file", data)
    if data is None:
        faults.add("", "the file is empty")
    faults.known("", fields, _PARTS)
    if not _NAME.fullmatch(name) or len(name.encode()) > 100:
        faults.add("name", f"{name!r:.60} is not a name: up to 100 letters, digits, - _ + and .")
    request = faults.mapping("request", fields.get("request"))
    if not (request.get("tags") or request.get("script")):
        faults.add("request", "it is not clear what to run: give tags")
    axes = _axes(fields.get("axes"), faults)
    parts = {
        key: read(fields.get("zip" if key == "zips" else key), faults)
        for key, read in _READERS.items()
    }
    _check_names(parts, axes, faults)
    return Sweep(name=name, request=request, axes=axes, **parts)


def _axes(data: Any, faults: Faults) -> dict[str, tuple[Any, ...]]:
    axes = {}
    for name, value in faults.mapping("axes", data).items():
        values = tuple(_axis(f"axes.{name}", value, faults))
        if len({(repr(item), str(item)) for item in values}) < len(values):
            faults.add(f"axes.{name}", "a value occurs twice")
        axes[name] = values
        if not all(name.split(".")):
            faults.add("axes", f"{name!r:.60} is not a valid input name")
    return axes


def _axis(where: str, value: Any, faults: Faults) -> list[Any]:
    """Return the values of an axis: a list, a range, or an expression that gives a list."""
    if isinstance(value, Mapping):
        return _range(where, value, faults)
    if isinstance(value, str):
        value = _evaluated(where, value, faults)
    if not isinstance(value, list):
        faults.add(where, f"{value!r:.60} is neither a list of values nor a range")
        return []
    if not value:
        faults.add(where, "there are no values")
    for item in itertools.filterfalse(_is_value, value):
        faults.add(where, f"{item!r:.60} is not a value of an input")
    return list(filter(_is_value, value))


def _is_value(value: Any) -> bool:
    """Return whether it can be an input: a line of text that fits a command, a number, a bool."""
    if isinstance(value, str):
        return not _CONTROL.search(value) and len(value.encode("utf-8", "replace")) <= _LONGEST
    return not isinstance(value, list | Mapping) and value is not None


def _evaluated(where: str, text: str, faults: Faults) -> Any:
    try:
        return evaluate(text, {})
    except ExpressionError as problem:
        faults.add(where, f"{problem}; write a list: [1, 2, 4]")
        return text


def _range(where: str, bounds: Mapping[str, Any], faults: Faults) -> list[Any]:
    """``{from: 1, to: 64, times: 2}`` or ``{from: 0, to: 1, step: 0.25}``; ``to`` belongs to it."""
    before = len(faults.lines)
    faults.known(where, bounds, ("from", "to", "step", "times"))
    low, high = (faults.number(f"{where}.{k}", bounds.get(k), -math.inf) for k in ("from", "to"))
    if ("step" in bounds) == ("times" in bounds):
        faults.add(where, "a range has either step or times")
    step = faults.number(f"{where}.step", bounds.get("step", 1))
    times = faults.number(f"{where}.times", bounds.get("times", 2))
    if min(step, times - 1) <= 0 or (low <= 0 and "times" in bounds):
        faults.add(where, "step is above 0; times is above 1, and begins above 0")
    if high < low:
        faults.add(where, f"it ends ({high:g}) before it begins ({low:g})")
    if len(faults.lines) > before:
        return []
    values = _up_to(
        (lambda n: low * _power(times, n)) if "times" in bounds else (lambda n: low + step * n),
        high,
    )
    if len(values) > MOST_POINTS:
        faults.add(where, f"it has more than {MOST_POINTS:,} values")
        return []
    return values


def _power(times: float, number: int) -> float:
    try:
        return float(times**number)
    except OverflowError:
        return math.inf


def _up_to(value: Callable[[int], float], high: float) -> list[float]:
    """Return the values of 0, 1, 2 … up to ``high``; at most ``MOST_POINTS`` + 1."""
    end = min(high + abs(high) * 1e-9, sys.float_info.max)
    some = map(value, range(MOST_POINTS + 1))
    values = [round(n, 12) for n in itertools.takewhile(lambda n: n <= end, some)]
    return [int(n) if abs(n) < 1e15 and n == int(n) else n for n in values]


def _zips(data: Any, faults: Faults) -> tuple[tuple[str, ...], ...]:
    items = faults.items("zip", data)
    groups = [items] if items and all(isinstance(item, str) for item in items) else items
    zips = []
    for group in groups:
        if not isinstance(group, list) or len(group) < 2:
            faults.add("zip", f"{group!r:.60} is not a list of two axes or more")
        else:
            zips.append(tuple(map(str, group)))
    return tuple(zips)


def _conditions(where: str) -> Callable[[Any, Faults], tuple[str, ...]]:
    """Reads conditions: expressions, or mappings of axes to the value or values that they have."""

    def read(data: Any, faults: Faults) -> tuple[str, ...]:
        texts = []
        for condition in faults.items(where, data):
            if isinstance(condition, Mapping):
                texts.append(
                    " and ".join(
                        f"{reference_to(str(n))} in {_alike(v)!r}" for n, v in condition.items()
                    )
                )
            else:
                texts.append(str(condition))
        return tuple(texts)

    return read


def _alike(value: Any) -> list[Any]:
    """Return the values that a condition means: ``8`` and ``"8"`` are one input."""
    values = value if isinstance(value, list) else [value]
    texts = [str(item) for item in values if not isinstance(item, str)]
    numbers = [_number(item) for item in values if isinstance(item, str)]
    return [*values, *texts, *(item for item in numbers if item is not None)]


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _repeat(data: Any, faults: Faults) -> Repeat:
    if not isinstance(data, Mapping | None):
        data = {"most": data, "least": data}
    fields = faults.mapping("repeat", data)
    faults.known("repeat", fields, ("most", "least", "spread"))
    most = int(faults.number("repeat.most", fields.get("most", 1), 1, whole=True))
    least = int(faults.number("repeat.least", fields.get("least", 2), 1, whole=True))
    spread = fields.get("spread", 0.035)
    percent = _SHARE.fullmatch(spread) if isinstance(spread, str) else None
    share = float(percent[1]) / 100 if percent else faults.number("repeat.spread", spread)
    if share >= 1:
        faults.add("repeat.spread", f"{share:g} is more than the value itself: write 3.5% or 0.035")
    if "least" in fields and least > most:
        faults.add("repeat", f"least is {least}, most is {most}: most must be larger")
    elif "spread" in fields and most == 1:
        faults.add("repeat.spread", "one run has no spread: set most to 2 or more")
    return Repeat(most, min(least, most), share)


def _budget(data: Any, faults: Faults) -> Budget:
    fields = faults.mapping("budget", data)
    faults.known("budget", fields, ("time", "points", "point_time"))
    points = faults.number("budget.points", fields["points"], 1, True) if "points" in fields else 0
    times = [_duration(f"budget.{key}", fields.get(key), faults) for key in ("time", "point_time")]
    return Budget(times[0], int(points), times[1])


def _duration(where: str, value: Any, faults: Faults) -> float:
    """``90``, ``90s``, ``20m``, ``8h`` or ``2d`` in seconds; 0 where nothing is said."""
    if value is None:
        return 0.0
    match = _SIZES.fullmatch(str(value).strip())
    try:
        seconds = float(match[1]) * _SECONDS[match[2]] if match else 0.0
    except ValueError:
        seconds = 0.0
    if seconds <= 0:
        faults.add(where, f"{value!r:.60} is not a time: write 90s, 20m, 8h or 2d")
    return seconds


def _labels(data: Any, faults: Faults) -> dict[str, str]:
    """Return labels for all points, or with the condition of the points that need them."""
    conditions = (
        data if isinstance(data, Mapping) else dict.fromkeys(map(str, faults.items("", data)))
    )
    for name in conditions:
        if not _LABEL.fullmatch(str(name)):
            faults.add("labels", f"{name!r:.60} is not a label: letters, digits and . : / = @ _ -")
    return {str(name): "" if when is None else str(when) for name, when in conditions.items()}


def _record(data: Any, faults: Faults) -> dict[str, str]:
    """Return names of figures with their sources: ``env.KEY``, ``state.a.b``; empty for a list."""
    if isinstance(data, Mapping):
        sources = {str(name): str(source) for name, source in data.items()}
        for name, source in sources.items():
            if not source.startswith(("env.", "state.")):
                faults.add(f"record.{name}", f"{source} is not a place: write env.KEY or state.KEY")
        return sources
    return {str(key): "" for key in faults.items("record", data)}


def _objectives(data: Any, faults: Faults) -> dict[str, str]:
    if isinstance(data, str | list):
        data = {str(key): HIGHER for key in faults.items("objectives", data)}
    directions = faults.mapping("objectives", data)
    for name, way in directions.items():
        faults.known(f"objectives.{name}", [way], (HIGHER, LOWER))
    return {name: str(way) for name, way in directions.items()}


def _search(data: Any, faults: Faults) -> SearchSettings:
    if isinstance(data, str):
        data = {"method": data}
    fields = faults.mapping("search", data)
    faults.known("search", fields, ("method", "points", "seed"))
    method = str(fields.get("method", "grid"))
    faults.known("search.method", [method], METHODS)
    points = int(faults.number("search.points", fields.get("points", 0), 0, whole=True))
    if method != "grid" and not points:
        faults.add("search.points", f"the number of points for {method} is missing")
    return SearchSettings(
        method, points, int(faults.number("search.seed", fields.get("seed", 0), 0, True))
    )


def _reference(data: Any, faults: Faults) -> str:
    return faults.text({"reference": data}, "reference")


def _check_names(parts: Mapping[str, Any], axes: Mapping[str, Any], faults: Faults) -> None:
    """Axes that are zipped or named in conditions exist, and those zipped are equally long."""
    _check_zips(parts["zips"], axes, faults)
    if parts["search"].method == "optuna" and not parts["objectives"]:
        faults.add("objectives", "optuna needs an objective: objectives: {throughput: max}")
    for text in parts["exclude"]:
        faults.known("exclude", sorted(_names("exclude", text, faults)), axes)
    for label, text in parts["labels"].items():
        where = f"labels.{label}"
        faults.known(where, sorted(_names(where, text, faults)) if text else [], axes)
    for text in parts["constraints"]:
        _check_figures("constraints", _names("constraints", text, faults) - {*axes}, parts, faults)
    _check_figures("objectives", parts["objectives"], parts, faults)


def _check_figures(
    where: str, names: Iterable[str], parts: Mapping[str, Any], faults: Faults
) -> None:
    """Check that required figures are among those that ``record`` names, if it names any."""
    recorded = parts["record"]
    for name in sorted(names) if recorded else ():
        if name not in recorded:
            hint = did_you_mean(name, recorded) or "add it there"
            faults.add(where, f"{name} is not one of the figures of record; {hint}")


def _check_zips(groups: Iterable[tuple[str, ...]], axes: Mapping[str, Any], faults: Faults) -> None:
    taken: list[str] = []
    for group in groups:
        faults.known("zip", group, axes)
        lengths = {name: len(axes[name]) for name in group if name in axes}
        if len(set(lengths.values())) > 1:
            lengths_text = ", ".join(f"{name} has {many}" for name, many in lengths.items())
            faults.add("zip", f"the axes have different numbers of values: {lengths_text}")
        for name in set(group).intersection(taken):
            faults.add("zip", f"{name} is in two groups")
        taken += group


def _names(where: str, text: str, faults: Faults) -> set[str]:
    try:
        return referenced_names(text)
    except ExpressionError as problem:
        faults.add(where, str(problem))
        return set()


_READERS: Mapping[str, Callable[[Any, Faults], Any]] = {
    "zips": _zips,
    "exclude": _conditions("exclude"),
    "repeat": _repeat,
    "labels": _labels,
    "budget": _budget,
    "record": _record,
    "objectives": _objectives,
    "constraints": _conditions("constraints"),
    "search": _search,
    "reference": _reference,
}
_PARTS = ("name", "request", "axes", "zip", *(key for key in _READERS if key != "zips"))
