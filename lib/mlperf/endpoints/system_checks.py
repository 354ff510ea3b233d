"""What ``system_desc.json`` and ``system_power.json`` of a curve have to say."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from mlperf.submission.checks.base import Finding, Rule

from . import tree
from .rules import DIVISIONS
from .submitted_curves import SubmittedCurve

SYSTEM = Rule(
    "endpoints.system", "the fields of system_desc.json", "Endpoints submission rules 8.2"
)
ONE_SYSTEM = Rule("endpoints.one-system", "one system a curve", "Endpoints submission rules 8.5")
POWER = Rule("endpoints.power", "provisioned power with its sources", "Endpoints rules 4.5, E")

REQUIRED = ("system_name", "max_supported_concurrency", "system_size", "system_node_ensemble_count",
            "system_node_ensemble_total", "shortened_system_name", "node_types",
            "division")  # fmt: skip
NODE = ("host_memory_configuration", "host_network_card_count", "driver", "filesystem")
CORES = ("host_processor_core_count", "host_processor_vcpu_count")
STATUS = ("system_availability_status", "publication_status", "availability_status")
LONGEST_SHORT_NAME = 20
PER_POINT = frozenset(
    ("tps_utilization", "tensor_parallel", "pipeline_parallel", "expert_parallel", "data_parallel",
     "disaggregated", "batch", "config_summary", "config_summary_notes")
)  # fmt: skip
"""Fields that may differ between the points of a curve."""
DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
SOURCE_TYPES = ("vendor_spec", "publication", "public_statement", "mlc_default")
METHODS = ("component_sum", "published_system", "node_scaling")
VALUES = ("value_w", "value_kw", "value_pj")


def check_systems(curve: SubmittedCurve) -> Iterator[Finding]:
    """Yield the faults of the descriptions of the system of a curve."""
    described = [point for point in curve.points if point.system]
    if not described:
        return
    first = described[0]
    where = str((first.folder / tree.SYSTEM).relative_to(curve.root))
    yield from _description(first.system, where)
    own = _shared(first.system)
    for point in described[1:]:
        others = _shared(point.system)
        names = sorted(name for name in {*own, *others} if own.get(name) != others.get(name))
        place = str((point.folder / tree.SYSTEM).relative_to(curve.root))
        fault = f"other than in {first.folder.name}: {', '.join(names)}"
        yield from ONE_SYSTEM.unless(not names, place, fault, "describe one system in all points")
    yield from _power(curve, str(first.system.get("division", "")).lower(), first.system)


def _shared(system: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in system.items() if name not in PER_POINT}


def _description(system: Mapping[str, Any], where: str) -> Iterator[Finding]:
    missing = [name for name in REQUIRED if system.get(name) in (None, "")]
    yield from SYSTEM.unless(not missing, where, f"no {', '.join(missing)}", "add them")
    division = str(system.get("division", ""))
    if division:
        known = division.strip().lower() in DIVISIONS
        yield from SYSTEM.unless(known, where, f"division {division!r}", "Standardized or RDI")
    short = str(system.get("shortened_system_name", ""))
    fault = f"shortened_system_name has {len(short)} characters"
    yield from SYSTEM.unless(len(short) <= LONGEST_SHORT_NAME, where, fault, "at most 20")
    yield from _availability(system, where)
    nodes = system.get("node_types")
    for number, node in enumerate(nodes if isinstance(nodes, list) else [], 1):
        fields = node if isinstance(node, Mapping) else {}
        lacking = [name for name in NODE if not fields.get(name)]
        if not any(fields.get(name) is not None for name in CORES):
            lacking.append(" or ".join(CORES))
        yield from SYSTEM.unless(
            not lacking, where, f"node {number}: no {', '.join(lacking)}", "add it"
        )


def _availability(system: Mapping[str, Any], where: str) -> Iterator[Finding]:
    status = next((str(system[name]).lower() for name in STATUS if system.get(name)), "")
    known = status in ("available", "preview", "rdi")
    fault = f"system_availability_status {status!r}"
    yield from SYSTEM.unless(known, where, fault, "Available, Preview or RDI")
    if status == "available":
        url = bool(str(system.get("availability_url") or "").strip())
        yield from SYSTEM.unless(
            url, where, "available, and no availability_url", "add the address"
        )
    if status == "preview":
        day = str(system.get("target_availability_date") or "")
        dated = DATE.fullmatch(day) is not None
        yield from SYSTEM.unless(dated, where, f"target_availability_date {day!r}", "YYYY-MM-DD")


def _power(curve: SubmittedCurve, division: str, system: Mapping[str, Any]) -> Iterator[Finding]:
    path = curve.folder.parent / tree.POWER
    where = str(path.relative_to(curve.root))
    if not path.is_file():
        needed = division not in ("rdi", "serviced")
        yield from POWER.unless(not needed, where, "missing", "state the provisioned power")
        return
    try:
        power = json.loads(path.read_text(encoding="utf-8"))
        sets = power["node_sets"]
        cooling = power["cooling"]
        present = bool(power["system_desc_id"]) and isinstance(power["scale_out"]["present"], bool)
    except (OSError, ValueError, KeyError, TypeError) as error:
        yield POWER.broken(where, f"not as appendix E: {error}", "see appendix E of the rules")
        return
    yield from POWER.unless(present, where, "system_desc_id or scale_out lacks", "add it")
    yield from POWER.unless(
        cooling in ("liquid", "air"), where, f"cooling {cooling!r}", "air or liquid"
    )
    described = _cooling(system)
    fault = f"cooling {cooling}, in the description {described}"
    yield from POWER.unless(described in ("", cooling), where, fault, "describe it alike")
    yield from POWER.unless(bool(sets), where, "no node_sets", "describe every kind of node")
    for node_set in sets if isinstance(sets, list) else []:
        yield from _node_set(node_set if isinstance(node_set, Mapping) else {}, where)
    for name, value in _sourced(power):
        yield from _source(value, f"{where}: {name}")


def _cooling(system: Mapping[str, Any]) -> str:
    nodes = system.get("node_types")
    fields = [system, *(nodes if isinstance(nodes, list) else [])]
    words = {
        "liquid" if re.search("liquid|water|immersion", text) else "air"
        for text in (str(f.get("cooling") or "").lower() for f in fields if isinstance(f, Mapping))
        if re.search("liquid|water|immersion|air", text)
    }
    return "air" if len(words) > 1 else next(iter(words), "")


def _node_set(node_set: Mapping[str, Any], where: str) -> Iterator[Finding]:
    method = node_set.get("power_method")
    yield from POWER.unless(
        method in METHODS, where, f"power_method {method!r}", ", ".join(METHODS)
    )
    count = node_set.get("nodes_provisioned")
    proper = type(count) is int and count > 0
    yield from POWER.unless(proper, where, f"nodes_provisioned {count!r}", "a positive number")
    needs = "components" if method == "component_sum" else "published_power"
    yield from POWER.unless(bool(node_set.get(needs)), where, f"{method} without {needs}", "add it")


def _sourced(value: object, name: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield every figure that has a source, with its name."""
    if isinstance(value, Mapping):
        if "source_type" in value or any(key in value for key in VALUES):
            yield name, value
            return
        for key, item in value.items():
            yield from _sourced(item, str(key))
    elif isinstance(value, list):
        for item in value:
            yield from _sourced(item, name)


def _source(value: Mapping[str, Any], where: str) -> Iterator[Finding]:
    stated = [name for name in VALUES if value.get(name) is not None]
    one = f"{len(stated)} of {', '.join(VALUES)}"
    yield from POWER.unless(len(stated) == 1, where, one, "state exactly one")
    kind, source = value.get("source_type"), str(value.get("source") or "")
    yield from POWER.unless(
        kind in SOURCE_TYPES, where, f"source_type {kind!r}", ", ".join(SOURCE_TYPES)
    )
    link = source.startswith(("https://", "http://")) or kind == "mlc_default"
    yield from POWER.unless(link, where, f"source {source!r} is no address", "link what says so")
