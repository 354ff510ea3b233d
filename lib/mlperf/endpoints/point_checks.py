"""Rules for the files of one point of a curve, alone and beside one another."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping

from mlperf import client_run as runs
from mlperf.submission.checks.base import WARNING, Finding, Rule

from . import rules, tree
from .rules import AGENTIC, CONCURRENCY, DEDICATED, ELECTED
from .submitted_curves import SubmittedCurve, SubmittedPoint

FILES = Rule("endpoints.files", "point.yaml, config.yaml, result_summary.json, system_desc.json",
             "Endpoints submission rules 8.1")  # fmt: skip
DISCLOSED = Rule(
    "endpoints.disclosure", "every field of point.yaml", "Endpoints submission rules 8.3"
)
WARM_UP = Rule("endpoints.warmup", "how it was warmed up", "Endpoints rules 6.3.3")
PATTERN = Rule("endpoints.load", "a fixed number of requests in flight", "Endpoints rules 6.1")
SHARED = Rule(
    "endpoints.shared", "shared_src and shared_docs exist", "Endpoints submission rules 9.1"
)
FIGURES = Rule(
    "endpoints.figures", "figures follow from what was counted", "Endpoints rules 4.1, 14"
)
QUERIES = Rule("endpoints.queries", "at least one pass over the data set", "Endpoints rules 6.4")
DURATION = Rule("endpoints.duration", "as long as its region needs", "Endpoints rules 6.2", WARNING)
PLACE = Rule("endpoints.region", "the region that its concurrency has",
             "Endpoints submission rules 8.3", WARNING)  # fmt: skip
NAMED = Rule("endpoints.folder", "r<N> is named after the concurrency",
             "Endpoints submission rules 8.1", WARNING)  # fmt: skip
SAME = Rule("endpoints.client", "the client was configured as the point says",
            "Endpoints rules 2.1.1")  # fmt: skip
DIVISION = Rule(
    "endpoints.division", "one division in all files", "Endpoints submission rules 8.2, 8.3"
)

REQUIRED = ("division", "max_supported_concurrency", "model_name", "model_precision",
            "link_to_model", "dataset_name", "dataset_type", "dataset_link", "shared_src",
            "shared_docs", "seed_set", "target_cohort")  # fmt: skip
REGIONS = ("low_latency", "low_concurrency", "med_concurrency", "high_concurrency", "margin",
           "submitters_choice")  # fmt: skip
WARM_UP_FIELDS = ("duration_s", "requests_issued", "requests_completed", "data_source",
                  "concurrency")  # fmt: skip
COHORT = re.compile(r"\d{4}-\d{2}-C[01]")
TOLERANCE = 0.01
"""By which stated figures may differ from those computed, relative, as the official checker has."""
LEAST_QUERIES = {
    "open_orca": 24576,
    "cnn_dailymail": 13368,
    "mlperf_gpt_oss_performance": 6396,
    "mlperf_gpt_oss_accuracy": 4395,
    "shopify_product_catalogue": 48289,
}
"""Of data sets by their names in ``point.yaml``, as in the official checker."""


def check_point(curve: SubmittedCurve, point: SubmittedPoint) -> Iterator[Finding]:
    """Yield the faults of the files of one point."""
    where = str(point.folder.relative_to(curve.root))
    for name, fault in point.faults.items():
        mend = (
            "fill it in" if name in (tree.POINT, tree.SYSTEM) else "copy it as the client wrote it"
        )
        yield FILES.broken(f"{where}/{name}", fault, mend)
    if tree.POINT not in point.faults:
        for part in (_disclosure, _words, _warm_up, _pattern, _shared, _division):
            yield from part(curve, point, where)
    if runs.CONFIG not in point.faults and point.point:
        yield from _client(point, where)
    if runs.SUMMARY not in point.faults:
        yield from _counts(point, where)
        yield from _latencies(point, where)
        yield from _stated(point, where)
        yield from _duration(curve, point, where)


def _disclosure(curve: SubmittedCurve, point: SubmittedPoint, where: str) -> Iterator[Finding]:
    missing = [name for name in REQUIRED if point.point.get(name) in (None, "")]
    fault = f"point.yaml has no {', '.join(missing)}"
    yield from DISCLOSED.unless(not missing, where, fault, "add them to the disclosure")
    named = point.folder.name == f"r{point.concurrency}"
    yield from NAMED.unless(named, where, f"concurrency {point.concurrency}", "rename the folder")


def _words(curve: SubmittedCurve, point: SubmittedPoint, where: str) -> Iterator[Finding]:
    region, offline = point.point.get("region"), point.point.get("offline")
    cohort = point.point.get("target_cohort")
    if region is not None:
        known = region in REGIONS
        yield from DISCLOSED.unless(known, where, f"region {region!r}", f"use {', '.join(REGIONS)}")
        if known and curve.regions and region != "submitters_choice":
            label = curve.regions.label(point.concurrency) or region
            yield from PLACE.unless(
                label == region, where, f"region {region}, not {label}", "mend it"
            )
    if offline is not None:
        known = offline in (DEDICATED, ELECTED, "none")
        yield from DISCLOSED.unless(known, where, f"offline {offline!r}", "elected or dedicated")
    if cohort is not None:
        known = COHORT.fullmatch(str(cohort)) is not None
        yield from DISCLOSED.unless(
            known, where, f"target_cohort {cohort!r}", "write YYYY-MM-C0 or C1"
        )


def _warm_up(curve: SubmittedCurve, point: SubmittedPoint, where: str) -> Iterator[Finding]:
    declared = point.point.get("warmup")
    if not isinstance(declared, Mapping):
        yield WARM_UP.broken(
            where, "point.yaml has no warmup", "say what was sent before, or zeros"
        )
        return
    missing = [name for name in WARM_UP_FIELDS if declared.get(name) is None]
    yield from WARM_UP.unless(not missing, where, f"no {', '.join(missing)}", "add them")
    if not missing:
        issued, completed = declared["requests_issued"], declared["requests_completed"]
        fault = f"{completed} of {issued} requests completed"
        yield from WARM_UP.unless(completed <= issued, where, fault, "mend the counts")


def _pattern(curve: SubmittedCurve, point: SubmittedPoint, where: str) -> Iterator[Finding]:
    known = point.offline == DEDICATED or point.load_pattern in (CONCURRENCY, AGENTIC)
    fault = f"load_pattern {point.load_pattern!r}"
    yield from PATTERN.unless(known, where, fault, "run it with a fixed concurrency")
    level = point.point.get("concurrency")
    proper = type(level) is int and level > 0
    yield from PATTERN.unless(proper, where, f"concurrency {level!r}", "name a positive number")


def _shared(curve: SubmittedCurve, point: SubmittedPoint, where: str) -> Iterator[Finding]:
    for name in ("shared_src", "shared_docs"):
        value = point.point.get(name)
        if value:
            parts = [part for part in str(value).split("/") if part not in ("", ".")]
            inside = bool(parts) and ".." not in parts and curve.root.joinpath(*parts).is_dir()
            yield from SHARED.unless(
                inside, where, f"{name} {value!r} is no folder", "mend the path"
            )


def _division(curve: SubmittedCurve, point: SubmittedPoint, where: str) -> Iterator[Finding]:
    stated, described = point.point.get("division"), point.system.get("division")
    if stated and described:
        same = str(stated).lower() == str(described).lower()
        fault = f"{stated} in point.yaml, {described} in system_desc.json"
        yield from DIVISION.unless(same, where, fault, "submit to one of them")


def _client(point: SubmittedPoint, where: str) -> Iterator[Finding]:
    run, mend = point.run, "take the files of one run; they are not to be edited"
    if not run.load_pattern:
        return
    if point.offline != DEDICATED and run.concurrency != point.concurrency:
        fault = f"{run.concurrency} in flight in config.yaml, {point.concurrency} in point.yaml"
        yield SAME.broken(where, fault, mend)
    if run.load_pattern != point.load_pattern:
        fault = f"{run.load_pattern} in config.yaml, {point.load_pattern} in point.yaml"
        yield SAME.broken(where, fault, mend)
    for name in runs.SEEDS:
        used, stated = run.seed(name), point.seeds.get(name)
        if used is not None and used != stated:
            fault = f"{name} is {used} in config.yaml, {stated} in point.yaml"
            yield SAME.broken(where, fault, mend)


def _counts(point: SubmittedPoint, where: str) -> Iterator[Finding]:
    run, mend = point.run, "run the point again"
    positive = run.seconds > 0
    yield from FIGURES.unless(
        positive, where, f"duration_ns {run.summary.get('duration_ns')}", mend
    )
    if "n_samples_completed" not in run.summary:
        yield FIGURES.broken(where, "no n_samples_completed", mend)
        return
    issued, completed, failed = run.samples
    fault = f"{completed} completed and {failed} failed of {issued}"
    yield from FIGURES.unless(not issued or completed + failed == issued, where, fault, mend)
    least = LEAST_QUERIES.get(str(point.point.get("dataset")), 0)
    fault = f"{completed} completed, {least} are needed"
    yield from QUERIES.unless(completed >= least, where, fault, "send whole passes over the data")
    tokens = run.tokens_per_s or 0.0
    yield from FIGURES.unless(tokens >= 0, where, "a negative number of output tokens", mend)
    ended = run.is_complete or not {"state", "complete"} & set(run.summary)
    yield from FIGURES.unless(ended, where, f"state {run.summary.get('state')!r}", mend)


def _latencies(point: SubmittedPoint, where: str) -> Iterator[Finding]:
    if point.offline == DEDICATED:
        return
    slow = point.run.milliseconds("tpot", 90)
    proper = slow is not None and math.isfinite(slow) and slow > 0
    fault = "no time per output token at 90 %" if slow is None else f"TPOT p90 is {slow} ms"
    yield from FIGURES.unless(proper, where, fault, "run the point with streams")


def _stated(point: SubmittedPoint, where: str) -> Iterator[Finding]:
    run = point.run
    computed = {"system_tps": run.tokens_per_s, "tps_per_user": run.tokens_per_s_per_user}
    for name, value in computed.items():
        stated = run.summary.get(name)
        if value and isinstance(stated, int | float):
            near = abs(stated - value) <= TOLERANCE * value
            fault = f"{name} {stated}, {value:.3f} by the counts"
            yield from FIGURES.unless(near, where, fault, "take the file as the client wrote it")


def _duration(curve: SubmittedCurve, point: SubmittedPoint, where: str) -> Iterator[Finding]:
    if curve.regions is None or not curve.regions.label(point.concurrency):
        return
    agentic = point.load_pattern == AGENTIC
    least = rules.least_seconds(point.concurrency, agentic)
    fault = f"{point.run.seconds:.0f} s, {least} s are needed"
    yield from DURATION.unless(point.run.seconds >= least, where, fault, "send more passes")
