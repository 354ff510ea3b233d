"""Reference values: what a figure should be at a site, for a configuration, within which bounds.

A file has a list of them, and a point is compared with all that fit it. ``docs/how-to/sweeps.md``
describes the file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cmbench.errors import Error
from cmbench.format.meta import load_yaml
from cmbench.lib.text_files import counted
from cmbench_sweep.points import flat_flags
from cmbench_sweep.reading import Faults
from cmbench_sweep.report import report
from cmbench_sweep.spelling import loader
from cmbench_sweep.store import write_text
from cmbench_sweep.values import MEASURED, PointOutcome, Sweep, SweepPoint

_SHARE = re.compile(r"([-+]?\d+(?:\.\d+)?)\s*%")
_UNITS = {"latency": "ms", "energy": "J", "power": "W", "seconds": "s"}
"""Units of the harness's figures, by how their names begin; throughput has several."""
_HEAD = "# Reference values: lower and upper are the worst deviations allowed, ~ is any.\n"


@dataclass(frozen=True, slots=True)
class FigureReference:
    """What a figure should be; ``lower`` and ``upper`` are shares of it, ``None`` for no bound."""

    value: float
    lower: float | None = None
    upper: float | None = None
    unit: str = ""

    def allows(self, value: float) -> bool:
        """Return whether a value is within the bounds."""
        above = self.lower is None or value >= self.value + abs(self.value) * self.lower
        below = self.upper is None or value <= self.value + abs(self.value) * self.upper
        return above and below

    def bounds(self) -> str:
        """Return the bounds as text: ``-5 % … +10 %``."""
        texts = ("any" if b is None else f"{b:+.3g} %" for b in map(_percent, self._bounds()))
        return " … ".join(texts)

    def _bounds(self) -> tuple[float | None, float | None]:
        return self.lower, self.upper


@dataclass(frozen=True, slots=True)
class ReferenceEntry:
    """References of the figures of a configuration at a site; empty ones fit everything.

    ``configuration`` are inputs of a request with their texts, ``env.KEY`` for one of a group.
    """

    site: str = ""
    configuration: Mapping[str, str] = field(default_factory=dict)
    figures: Mapping[str, FigureReference] = field(default_factory=dict)

    def fits(self, site: str, inputs: Mapping[str, str]) -> bool:
        """Return whether it is for a point with these inputs that was measured at ``site``."""
        at = self.site in ("", "*", site, site.partition(":")[0])
        return at and all(inputs.get(name) == text for name, text in self.configuration.items())

    def rank(self, site: str) -> tuple[int, int, int]:
        """Return how specific it is; the more specific one counts."""
        return (self.site == site, self.site not in ("", "*"), len(self.configuration))


@dataclass(frozen=True, slots=True)
class FigureComparison:
    """A figure of a point beside its reference; ``value`` is ``None`` where it is missing."""

    figure: str
    value: float | None
    reference: FigureReference

    @property
    def passed(self) -> bool:
        """Whether it is within the bounds; a missing one is not."""
        return self.value is not None and self.reference.allows(self.value)

    @property
    def deviation(self) -> float | None:
        """Return (value - reference) / reference, without a unit; ``None`` if it has none."""
        if self.value is None or not self.reference.value:
            return None
        return (self.value - self.reference.value) / abs(self.reference.value)


Comparisons = Mapping[str, Sequence[FigureComparison]]
"""The comparisons of points, by their keys; none for a point without a reference."""


def read_references(path: str) -> list[ReferenceEntry]:
    """Return the entries of a file; raise ``file-not-found``, and ``bad-sweep`` with its faults."""
    try:
        data = load_yaml(Path(path).read_text(encoding="utf-8"), path, loader())
    except OSError as problem:
        hint = "write one from what was measured: add --write-reference"
        raise Error("file-not-found", f"{path}: {problem.strerror}", hint=hint) from None
    except UnicodeDecodeError:
        raise Error("bad-sweep", f"{path} is not UTF-8 text", hint="save it as UTF-8") from None
    faults = Faults()
    fields = faults.mapping("the file", data)
    faults.known("", fields, ("references",))
    items = faults.items("references", fields.get("references"))
    entries = [_entry(f"references[{number}]", item, faults) for number, item in enumerate(items)]
    faults.refuse(path)
    return entries


def _entry(where: str, item: Any, faults: Faults) -> ReferenceEntry:
    fields = faults.mapping(where, item)
    faults.known(where, fields, ("site", "configuration", "figures"))
    figures = faults.mapping(f"{where}.figures", fields.get("figures"))
    if not figures:
        faults.add(where, "it has no figures")
    configuration = faults.mapping(f"{where}.configuration", fields.get("configuration"))
    return ReferenceEntry(
        site=str(fields.get("site") or ""),
        configuration={name: _text(name, value) for name, value in configuration.items()},
        figures={n: _figure(f"{where}.figures.{n}", v, faults) for n, v in figures.items()},
    )


def _figure(where: str, value: Any, faults: Faults) -> FigureReference:
    """Return ``{value: 120, lower: -5%, upper: 10%, unit: samples/s}``."""
    fields = faults.mapping(where, value)
    faults.known(where, fields, ("value", "lower", "upper", "unit"))
    number = faults.number(f"{where}.value", fields.get("value"), -float("inf"))
    lower, upper = (_bound(f"{where}.{key}", fields.get(key), faults) for key in ("lower", "upper"))
    if (lower or 0) > 0 or (upper or 0) < 0:
        faults.add(where, "lower is at most 0, upper at least 0: lower: -5%, upper: 10%")
    return FigureReference(number, lower, upper, str(fields.get("unit") or ""))


def _bound(where: str, value: Any, faults: Faults) -> float | None:
    if value is None:
        return None
    percent = _SHARE.fullmatch(value.strip()) if isinstance(value, str) else None
    return float(percent[1]) / 100 if percent else faults.number(where, value, -float("inf"))


def tolerance_of(text: str) -> float:
    """Return ``5%`` or ``0.05`` as a share; raise ``bad-value``."""
    faults = Faults()
    plain = float(text) if re.fullmatch(r"\d*\.?\d+", text) else text
    share = _bound("", plain, faults)
    if faults.lines or not share or not 0 < share < 1:
        raise Error("bad-value", f"--tolerance={text} is not a share", hint="write --tolerance=5%")
    return share


def compare(
    entries: Iterable[ReferenceEntry],
    points: Iterable[SweepPoint],
    outcomes: Mapping[str, PointOutcome],
    site: str,
) -> dict[str, list[FigureComparison]]:
    """Compare measured points with the references that fit them; the most specific ones count."""
    ranked = sorted(entries, key=lambda entry: entry.rank(site))
    comparisons = {}
    for point in points:
        outcome = outcomes[point.key]
        if outcome.status != MEASURED:
            continue
        inputs = _inputs(point)
        references: dict[str, FigureReference] = {}
        for entry in ranked:
            references.update(entry.figures if entry.fits(site, inputs) else {})
        comparisons[point.key] = [
            FigureComparison(name, outcome.figure(name), reference)
            for name, reference in references.items()
        ]
    return comparisons


def _inputs(point: SweepPoint) -> dict[str, str]:
    return {name: _text(name, value) for name, value in flat_flags(point.flags)}


def _text(name: str, value: Any) -> str:
    """Return an input as it is compared; the order of tags is of no account."""
    text = "yes" if value is True else str(value)
    return ",".join(sorted(text.split(","))) if name == "tags" else text


def renewed_entries(
    entries: Iterable[ReferenceEntry],
    figures: Iterable[tuple[Mapping[str, str], Mapping[str, float]]],
    site: str,
    tolerance: float,
) -> list[ReferenceEntry]:
    """Return the entries with the figures of configurations at ``site`` as references.

    Those of the same configuration keep their bounds and units; all others stay.
    """
    renewed = {(entry.site, tuple(sorted(entry.configuration.items()))): entry for entry in entries}
    for configuration, measured in figures:
        key = (site, tuple(sorted(configuration.items())))
        before = renewed[key].figures if key in renewed else {}
        new = {n: _renewed(n, v, before.get(n), tolerance) for n, v in measured.items()}
        renewed[key] = ReferenceEntry(site, configuration, {**before, **new})
    return list(renewed.values())


def _renewed(
    name: str, value: float, before: FigureReference | None, tolerance: float
) -> FigureReference:
    if before is not None:
        return FigureReference(value, before.lower, before.upper, before.unit)
    unit = next((unit for start, unit in _UNITS.items() if name.startswith(start)), "")
    return FigureReference(value, -tolerance, tolerance, unit)


def _plain(entry: ReferenceEntry) -> dict[str, Any]:
    figures = {
        name: {
            "value": reference.value,
            "lower": _share(reference.lower),
            "upper": _share(reference.upper),
            **({"unit": reference.unit} if reference.unit else {}),
        }
        for name, reference in entry.figures.items()
    }
    site = {"site": entry.site} if entry.site else {}
    return {**site, "configuration": dict(entry.configuration), "figures": figures}


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _share(share: float | None) -> str | None:
    return None if share is None else f"{100 * share:g}%"


def _yaml(data: Mapping[str, Any]) -> str:
    import yaml

    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=100)


def data_of(comparison: FigureComparison) -> dict[str, Any]:
    """Return a comparison as JSON has it."""
    reference = comparison.reference
    return {
        "figure": comparison.figure,
        "value": comparison.value,
        "reference": reference.value,
        "lower": reference.lower,
        "upper": reference.upper,
        "unit": reference.unit,
        "deviation": comparison.deviation,
        "passed": comparison.passed,
    }


@dataclass(frozen=True, slots=True)
class ReferenceCheck:
    """What a command compares with: the file at ``path``, empty for none.

    ``tolerance`` is the share on both sides of references that it writes, 0 where it writes none.
    """

    sweep: Sweep
    path: str = ""
    tolerance: float = 0.0

    @classmethod
    def of(cls, flags: Mapping[str, Any], sweep: Sweep, measures: bool = False) -> ReferenceCheck:
        """Return what flags and the sweep say; raise ``bad-value``, ``bad-sweep`` and others.

        Where nothing is measured, a file of the sweep that is gone is left out.
        """
        if flags.get("reference") is True:
            hint = "write --reference=FILE"
            raise Error("bad-value", "--reference needs a file", hint=hint)
        path = str(flags.get("reference") or sweep.reference)
        writes = flags.get("write_reference")
        if writes:
            path = (path if writes is True else str(writes)) or "reference.yaml"
            check = cls(sweep, path, tolerance_of(str(flags.get("tolerance") or "5%")))
        else:
            gone = not measures and not flags.get("reference") and not os.path.exists(path)
            check = cls(sweep, "" if gone else path)
        check.entries()
        return check

    def entries(self) -> list[ReferenceEntry]:
        """Return those of the file, of which a new one has none; raise ``bad-sweep``."""
        is_new = bool(self.tolerance) and not os.path.exists(self.path)
        return read_references(self.path) if self.path and not is_new else []

    def compare(
        self, points: Sequence[SweepPoint], outcomes: Mapping[str, PointOutcome]
    ) -> dict[str, list[FigureComparison]]:
        """Return the comparisons of measured points, by their keys; none without a file."""
        if not self.path:
            return {}
        return compare(self.entries(), points, outcomes, self.sweep.site)

    def write(
        self,
        points: Sequence[SweepPoint],
        outcomes: Mapping[str, PointOutcome],
        say: Callable[[str], None],
    ) -> None:
        """Write the figures of measured points, where the command does; raise ``no-results``."""
        if not self.tolerance:
            return
        sweep_report = report(self.sweep, points, outcomes)
        objectives = [name for name in self.sweep.objectives if name in sweep_report.figures]
        names = objectives or [sweep_report.figure()]
        figures = [
            (_inputs(row.point), {name: row.figures[name] for name in names if name in row.figures})
            for row in sweep_report.measured
        ]
        entries = renewed_entries(self.entries(), figures, self.sweep.site, self.tolerance)
        text = _HEAD + _yaml({"references": [_plain(entry) for entry in entries]})
        write_text(Path(os.path.abspath(self.path)), text)
        say(f"{self.path}: {counted(len(figures), 'point')} written as reference")

    def failure(self, comparisons: Comparisons) -> Error | None:
        """Return the error where a figure is out of bounds, or nothing could be compared."""
        every = [comparison for row in comparisons.values() for comparison in row]
        bad = [comparison for comparison in every if not comparison.passed]
        if bad:
            return Error(
                "out-of-bounds",
                f"{len(bad)} of {counted(len(every), 'figure')} out of the bounds of {self.path}",
                hint="the lines with FAIL show them; to take them as reference: --write-reference",
            )
        if comparisons and not every:
            return Error(
                "out-of-bounds",
                f"{self.path} has no reference for any measured point",
                hint="compare its site and configuration, or add --write-reference",
            )
        return None
