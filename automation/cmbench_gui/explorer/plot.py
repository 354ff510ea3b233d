"""The common part of drawings of results: the chart, the kind of results, the words.

Points of one drawing are of one benchmark, scenario and unit: others cannot be compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cmbench_gui.explorer.charting import charts
from cmbench_gui.explorer.table import trust
from cmbench_gui.explorer.view import COST, ExplorerView
from cmbench_results import query
from cmbench_results.render import figure
from cmbench_results.values import (
    ENERGY,
    LOWER,
    OFFICIAL,
    PER_ACCELERATOR,
    PER_CORE,
    PER_WATT,
    POWER,
)

SAME = ("benchmark", "scenario", "unit")
"""What the points of one drawing have in common."""
BARS = 40
COURSE = 600
UNITS = {"power": "W", "energy_per_sample": "J", "latency_p90": "ms", "latency_p99": "ms"}
TITLES = {
    "value": "result",
    "latency_p90": "90th percentile of latency",
    "latency_p99": "99th percentile of latency",
    "energy_per_sample": "energy per sample",
    COST: "cost per million",
    PER_ACCELERATOR: "throughput per accelerator",
    PER_WATT: "throughput per watt",
    PER_CORE: "throughput per core",
}

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PlotChoice:
    """One of several kinds of results to choose from: its words, number and address."""

    words: str
    many: int
    address: str


@dataclass(frozen=True, slots=True)
class Best:
    """A result on a frontier, in words."""

    uid: str
    series: str
    x: str
    y: str
    system: str
    quality: str


@dataclass(frozen=True, slots=True)
class Plot:
    """A drawing, or the choices that are needed before something can be drawn.

    ``phone`` is the same for a narrow window.
    """

    chart: charts.Chart | None
    title: str
    notes: tuple[str, ...] = ()
    choices: tuple[PlotChoice, ...] = ()
    best: tuple[Best, ...] = ()
    scales: Mapping[str, Any] = field(default_factory=dict)
    phone: charts.Chart | None = None
    unverified: bool = False


@dataclass(frozen=True, slots=True)
class PlotKind:
    """What the results of a drawing have in common; ``down`` where less is better."""

    benchmark: str
    scenario: str
    unit: str
    down: bool

    def unit_of(self, name: str) -> str:
        """The unit of a column of figures."""
        if name == COST:
            return "$ per million"
        return self.unit if name == "value" or "throughput" in name else UNITS.get(name, "")

    def less(self, name: str) -> bool:
        """Whether less of a column of figures is better."""
        if name == "value":
            return self.down
        return name == COST or query.BETTER.get(name) == LOWER

    def said(self, name: str, value: float) -> str:
        """A figure of a column, in words."""
        return figure(value, self.unit_of(name))


def title(name: str) -> str:
    """What a column of figures is called."""
    return TITLES.get(name, name.replace("_", " "))


def quality(row: Row) -> str:
    """The accuracy of a result, or that none is known; before it the model of a published one.

    Otherwise a fast network that answers nothing right looks like any other. Others have their
    model in their identity.
    """
    named = row["tier"] == OFFICIAL and row["model"] not in ("", row["benchmark"])
    accuracy = row["accuracy"]
    judged = "no accuracy" if accuracy is None else f"accuracy {accuracy:.4g}"
    return f"{row['model']}, {judged}" if named else judged


def series_of(view: ExplorerView, row: Row, energy: bool) -> str:
    """To which series a result belongs: forms and ways to measure energy are never mixed."""
    value = str(row[view.by])
    parts = [trust(value).word if view.by == "tier" else value or f"no {view.by}"]
    parts += [row["form"]] if row["form"] else []
    parts += [row["energy_tier"]] if energy and row["energy_tier"] else []
    return ", ".join(parts)


def energetic(*names: str) -> bool:
    """Whether a drawing of these columns is one of energy."""
    return bool({POWER, ENERGY} & {*names})
