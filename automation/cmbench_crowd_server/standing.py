"""What an upload claims as a whole, and the best published figure, for who decides."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone

from cmbench_crowd_server import claims
from cmbench_crowd_server.ledger import PUBLISHED, REFUSED, REJECTED, Ledger, Row, manifest_of
from cmbench_results import query
from cmbench_results.distinguish import short
from cmbench_results.query import Filter
from cmbench_results.render import figure
from cmbench_results.schema import crowd_run
from cmbench_results.store import Store
from cmbench_results.values import (
    LOWER,
    OFFICIAL,
    PER_ACCELERATOR,
    BenchmarkResult,
    from_json,
    rates,
)

_FAR = 1.5
"""Times the best published throughput of an accelerator of the same name."""


def best_published(store: Store, result: BenchmarkResult) -> query.Row | None:
    """Return the best official result of a benchmark and scenario, in the same unit."""
    return _first(store, _same(result), "value" if result.direction == LOWER else "-value")


def _same(result: BenchmarkResult) -> dict[str, tuple[str, ...]]:
    work = result.workload
    return {
        "benchmark": (work.benchmark,),
        "scenario": (work.scenario,),
        "unit": (result.unit,),
        "division": ("closed",),
        "tier": (OFFICIAL,),
    }


def _first(store: Store, columns: dict[str, tuple[str, ...]], sort: str) -> query.Row | None:
    return next(iter(query.find(store, Filter(columns), sort, 1).rows), None)


def beyond(store: Store, result: BenchmarkResult) -> Iterator[str]:
    """Yield that a figure is better than all that MLCommons has published."""
    best = best_published(store, result)
    if best and best["value"] and result.value:
        ratio = result.value / best["value"]
        ratio = 1 / ratio if result.direction == LOWER else ratio
        if ratio > 1:
            yield f"it is {ratio:.3g} times as good as {_words(best)}, the best published"
    part, own = result.system.accelerator, rates(result).get(PER_ACCELERATOR)
    if part and own:
        named = _same(result) | {"accelerator": (part,)}
        best = _first(store, named, f"-{PER_ACCELERATOR}")
        if best and best[PER_ACCELERATOR] and own > _FAR * best[PER_ACCELERATOR]:
            ratio = own / best[PER_ACCELERATOR]
            yield f"an accelerator does {ratio:.3g} times what the best published {part} does"


def _words(row: query.Row) -> str:
    parts = f"{row['accelerators']} x {row['accelerator']}" if row["accelerator"] else row["cpu"]
    return f"{figure(row['value'], row['unit'])} of {row['organization']} ({parts})"


def claim_of(ledger: Ledger, row: Row) -> list[tuple[str, str]]:
    """Return all that an upload claims, field by field, with the best known figure."""
    manifest = manifest_of(row)
    work, config, system = manifest.workload, manifest.config, manifest.system
    result = from_json(row["result"]) if row["result"] else None
    form = claims.form_of(manifest)
    software = manifest.software.versions.items() if manifest.software else ()
    nodes = f", {system.nodes} nodes" if system.nodes > 1 else ""
    pairs = (
        ("benchmark", f"{work.benchmark} {work.scenario}" + (f" ({form})" if form else "")),
        *_figures(ledger.store, result),
        ("accuracy", accuracy_words(claims.accuracy_of(manifest))),
        ("model", work.model),
        ("data set", work.dataset),
        ("rules", " ".join(filter(None, (f"v{work.round}", work.division, work.category)))),
        ("length", "valid" if config.style in ("", "valid") else f"{config.style} run"),
        ("processor", _counted(system.cpu, system.cores, "cores") + nodes),
        ("accelerator", _counted(system.accelerator, system.accelerators or 0, "in a node")),
        ("memory", f"{system.memory_gb:g} GB" if system.memory_gb else ""),
        ("computed by", ", ".join(filter(None, (config.backend, config.device, work.precision)))),
        (
            "settings",
            ", ".join(f"{name} {short(value)}" for name, value in config.settings.items()),
        ),
        ("versions", ", ".join(f"{name} {value}" for name, value in sorted(software))),
        ("measured", manifest.created),
        ("sent", datetime.fromtimestamp(row["at"], timezone.utc).isoformat(" ", "minutes")),
        ("contributor", _record(ledger, row["sender"])),
        ("command", claims.command_of(manifest)),
    )
    return [(name, value) for name, value in pairs if value]


def _figures(store: Store, result: BenchmarkResult | None) -> Iterator[tuple[str, str]]:
    if result is None or result.value is None:
        yield "figure", "none: not recomputed from logs"
        return
    yield "figure", f"{figure(result.value, result.unit)}, recomputed from its logs"
    best = best_published(store, result)
    yield "best known", _words(best) if best else "nothing published here"


def accuracy_words(accuracy: tuple[float, str] | None) -> str:
    """Return the accuracy that a contributor reports, in words."""
    return f"{accuracy[0]:.6g} {accuracy[1]}, as reported" if accuracy else "not reported"


def _counted(name: str, count: int, unit: str) -> str:
    many = f"{count:,} {unit}" if count else ""
    return ", ".join(filter(None, (name, many)))


def _record(ledger: Ledger, sender: str) -> str:
    states = [item["state"] for item in ledger.rows(crowd_run.c.sender == sender)]
    counts = (
        (states.count(PUBLISHED), "published"),
        (states.count(REFUSED) + states.count(REJECTED), "refused or rejected"),
    )
    return f"{sender}: {len(states)} sent, " + ", ".join(f"{n} {words}" for n, words in counts)
