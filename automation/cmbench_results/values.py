"""A result as typed values, the same wherever it came from, and its form as JSON."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import MISSING, Field, asdict, dataclass, field, replace
from typing import Any

from common.records import Metadata, RecordReader, encode

HIGHER, LOWER = "higher", "lower"
"""Which way a metric is better."""

THROUGHPUT, ENERGY, POWER, ACCURACY = "throughput", "energy_per_sample", "power", "accuracy"

PER_ACCELERATOR, PER_WATT, PER_CORE = (
    *("throughput_per_accelerator", "throughput_per_watt"),
    "throughput_per_core",
)
"""Throughput divided by what a system has of it; per core only where the processor computes."""

LOCAL, OFFICIAL = "local", "official"
"""How far a result may be trusted: measured or handed over here; published by MLCommons."""
UPLOADED, CHECKED, REPRODUCED = "uploaded", "checked", "reproduced"
"""Of volunteers: sent without logs; recomputed from its logs; several of them agree."""

VOLUNTEERS = (UPLOADED, CHECKED, REPRODUCED)
"""Tiers of results whose hardware, software and accuracy are as their contributors report them."""
AS_REPORTED = "hardware, software, accuracy"

CERTIFIED, TELEMETRY = "certified", "telemetry"
"""How energy was measured: by a power analyzer under the rules; by the CPU's own counters."""

LOGS, LOG_SUMMARY = "LoadGen's logs", "LoadGen's summary"
OWN_RECORD, SUMMARY = "the run's results.json", "a published summary"
SOURCES = (SUMMARY, OWN_RECORD, LOG_SUMMARY, LOGS)
"""Where a figure comes from, the best last."""

TARGET_ORIGIN, SET_BY_USER = "target_origin", "option"
_ESTIMATES = ("target_qps", "target_latency_ms")
"""Settings that say how fast a system was expected to be, and where that figure is from."""

LONGEST = 2_000
"""Characters of a text; what is longer is cut."""


class MalformedError(ValueError):
    """Data that is no result; the text names its position."""


@dataclass(frozen=True, slots=True)
class ResultMetric:
    """One figure; ``tier`` says how energy was measured and is empty elsewhere."""

    name: str
    value: float
    unit: str
    direction: str
    tier: str = ""


@dataclass(frozen=True, slots=True)
class SystemDescription:
    """The hardware of a result; unknown fields are empty, or 0."""

    name: str
    cpu: str = ""
    sockets: int = 0
    cores: int = 0
    memory_gb: float = 0.0
    accelerator: str = ""
    accelerators: int = 0
    nodes: int = 1
    os: str = ""

    @property
    def fingerprint(self) -> str:
        """A digest of the hardware alone, not of its name."""
        values = asdict(self)
        return digest([values[key] for key in sorted(values) if key not in ("name", "os")])


@dataclass(frozen=True, slots=True)
class BenchmarkWorkload:
    """What was run, in the words of the rules."""

    benchmark: str
    scenario: str
    model: str = ""
    form: str = ""
    round: str = ""
    division: str = ""
    category: str = ""
    dataset: str = ""


@dataclass(frozen=True, slots=True)
class SoftwareStack:
    """What ran it."""

    framework: str = ""
    backend: str = ""
    device: str = ""
    precision: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BenchmarkResult:
    """One scenario of one benchmark on one system.

    ``key`` is its natural key: the same result, read again or from elsewhere, has the same one.
    ``value`` is in ``unit`` and is the figure that the rules count in this scenario; ``None`` where
    there is none. ``validity`` is LoadGen's VALID or INVALID, empty without a log.
    ``accuracy_target`` is in the unit of ``accuracy``. ``figures_from`` says what ``value`` was
    read from. Times are ISO 8601, in UTC. ``folder`` is where its files lie, or lay.
    """

    key: str
    workload: BenchmarkWorkload
    system: SystemDescription
    software: SoftwareStack = field(default_factory=SoftwareStack)
    metric: str = ""
    value: float | None = None
    unit: str = ""
    direction: str = HIGHER
    organization: str = ""
    validity: str = ""
    reasons: tuple[str, ...] = ()
    accuracy: float | None = None
    accuracy_unit: str = ""
    accuracy_target: float | None = None
    metrics: tuple[ResultMetric, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    command: str = ""
    measured_at: str = ""
    duration_s: float | None = None
    inferred: bool = False
    availability: str = ""
    tier: str = LOCAL
    figures_from: str = ""
    link: str = ""
    notes: str = ""
    folder: str = ""

    @property
    def uid(self) -> str:
        """Sixteen hexadecimal digits that name it; a few of the first do for people."""
        return digest(self.key)[:16]

    @property
    def series(self) -> str:
        """A digest of the configuration: repeated runs have the same one."""
        return digest(configuration_of(self))[:16]

    def figure(self, name: str) -> ResultMetric | None:
        """Return a further figure by its name."""
        return next((metric for metric in self.metrics if metric.name == name), None)


def rates(result: BenchmarkResult) -> dict[str, float]:
    """Return the throughput per accelerator, watt and core, as far as they are known."""
    system, throughput = result.system, result.figure(THROUGHPUT)
    power, energy = result.figure(POWER), result.figure(ENERGY)
    if throughput is None:
        return {}
    parts = {
        PER_ACCELERATOR: float(system.accelerators * system.nodes),
        # A joule per sample is a second of a watt.
        PER_WATT: power.value if power else throughput.value * energy.value if energy else 0.0,
        PER_CORE: 0.0 if system.accelerators else _cores(system),
    }
    return {name: throughput.value / size for name, size in parts.items() if size > 0}


def _cores(system: SystemDescription) -> float:
    """Return the cores of all nodes; descriptions of systems count those of one socket."""
    return float(system.cores * max(1, system.sockets) * system.nodes)


REQUESTED = {
    "batch_size": "requested_batch_size",
    "threads": "requested_threads",
    "num_workers": "requested_workers",
}
"""Inputs of the layout as settings of their own: tuning chooses within them."""
USED = {
    "requested_batch_size": "batch",
    "requested_threads": "threads",
    "requested_workers": "workers",
}
"""The settings that were used, by what was requested."""


def configuration_of(result: BenchmarkResult) -> dict[str, str]:
    """Return what was measured and with what, by name: all that is equal in repeated runs.

    What the user set and what was discovered (versions, layout, device) count alike. A target
    that the harness estimated for LoadGen is an outcome and is left out.
    """
    settings, facts = dict(result.settings), {"organization": result.organization}
    if settings.pop(TARGET_ORIGIN, "") != SET_BY_USER:
        settings = {k: v for k, v in settings.items() if k not in _ESTIMATES}
    for part in (result.workload, result.system, result.software):
        facts |= {name: getattr(part, name) for name in part.__slots__ if name != "versions"}
    facts |= {"system": facts.pop("name")}
    facts |= {f"version of {name}": value for name, value in result.software.versions.items()}
    return {k: str(v) for k, v in (facts | settings).items() if v not in ("", 0, 0.0)}


def digest(data: Any) -> str:
    """Return the SHA-256 of plain data, in 64 hexadecimal digits."""
    text = json.dumps(data, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def text(value: object) -> str:
    """Return foreign data as text: one line, printable, of bounded length; empty for none."""
    if value is None or isinstance(value, dict | list):
        return ""
    cleaned = " ".join("".join(c if c.isprintable() else " " for c in str(value)).split())
    return "" if cleaned in ("None", "N/A", "n/a", "NA") else cleaned[:LONGEST]


def number(value: object) -> float | None:
    """Return a finite number out of foreign data, whatever its unit; ``None`` for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        parsed = float(value)
    except (ValueError, OverflowError):
        return None
    return parsed if math.isfinite(parsed) else None


def count(value: object) -> int:
    """Return a count from foreign data; 0 if it has none."""
    parsed = number(value)
    return int(parsed) if parsed is not None and 0 <= parsed < 1e9 else 0


CLOSE = 2e-3
"""How far a figure out of logs may be from the published one, relative to it: they round."""


def combined(existing: BenchmarkResult, other: BenchmarkResult) -> BenchmarkResult:
    """Combine two records of one result.

    The figures with the better source count, unless they are not those that were published. What
    MLCommons has published stays official, with its link, where the logs confirm it.
    """
    first, second = (other, existing) if _worth(other) >= _worth(existing) else (existing, other)
    published = next((item for item in (first, second) if item.tier == OFFICIAL), None)
    if published is None or published is first:
        return first
    if not same_figure(first, published):
        note = f"{first.figures_from} in {first.folder} say {first.value} {first.unit}"
        return replace(published, notes="; ".join(filter(None, (published.notes, note))))
    more = tuple(item for item in published.metrics if first.figure(item.name) is None)
    metrics = first.metrics + more
    return replace(first, tier=OFFICIAL, link=published.link or first.link, metrics=metrics)


def same_figure(one: BenchmarkResult, other: BenchmarkResult) -> bool:
    """Return whether two results have the same figure in the same unit, but for rounding."""
    if one.value is None or other.value is None or one.unit != other.unit:
        return False
    return abs(one.value - other.value) <= CLOSE * abs(other.value)


def _worth(result: BenchmarkResult) -> int:
    return SOURCES.index(result.figures_from) if result.figures_from in SOURCES else -1


def to_json(result: BenchmarkResult) -> str:
    """Return a result as one line of JSON, without empty fields."""
    return json.dumps(encode(result, _is_empty), ensure_ascii=False, allow_nan=False)


def from_json(line: str) -> BenchmarkResult:
    """Return the result of such a line; raise ``MalformedError``."""
    try:
        data = json.loads(line)
    except (ValueError, RecursionError) as problem:
        raise MalformedError(f"not JSON: {problem}") from None
    result = decode(BenchmarkResult, data, "result")
    form = result.workload.form.removeprefix(", ")
    if form == result.workload.form:
        return result
    # Earlier versions wrote the form of a model of one's own so.
    return replace(result, workload=replace(result.workload, form=form))


def _is_empty(of: Field[Any], value: object) -> bool:
    """Return whether a field is empty, and need not be there."""
    needed = of.default is MISSING and of.default_factory is MISSING
    return not needed and (value is False or value in (None, "", [], {}))


class _ResultReader(RecordReader):
    """Reads foreign data: texts are cleaned, numbers are finite."""

    def mapping(self, hint: Any, value: object, where: str, metadata: Metadata) -> Any:
        """Return an object of texts."""
        pairs = super().mapping(Any, value, where, metadata).items()
        return {text(k): text(v) for k, v in pairs}

    def scalar(self, hint: Any, value: object, where: str, metadata: Metadata) -> Any:
        """Return a text, truth value or number."""
        if hint is str and isinstance(value, str):
            return text(value)
        if hint is bool and isinstance(value, bool):
            return value
        parsed = number(value) if hint in (int, float) and not isinstance(value, str) else None
        if parsed is None:
            raise self.failure(f"{where} is {value!r:.60}")
        return hint(parsed)


decode = _ResultReader(MalformedError, is_lenient=True).decode
"""Return a dataclass from plain data; raise ``MalformedError``."""
