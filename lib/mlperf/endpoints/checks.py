"""Our own reading of the rules of a submission of MLPerf Endpoints: its tree and its curves.

Every rule names its source. What the official checker only warns of is a warning here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from common.problems import Problem
from mlperf.client_run import scores_of
from mlperf.submission.checks.base import ERROR, WARNING, Finding, Rule

from . import point_checks, rules, system_checks, tree
from .rules import BANDS, DEDICATED, ELECTED, MODELS, SeedSet
from .submitted_curves import SubmittedCurve, SubmittedPoint, read_curves, submission_root

STRUCTURE = Rule("endpoints.tree", "folders of the tree", "Endpoints submission rules 8.1, 2.2.1")
COUNT = Rule(
    "endpoints.count", "7 to 32 points, one more with an Offline run", "Endpoints rules 5.3"
)
COVERAGE = Rule("endpoints.coverage", "a point in each band", "Endpoints rules 5.3, 5.4")
REGIONS = Rule(
    "endpoints.regions", "C_max above 32, C_min from 1 to 32", "Endpoints rules 5.4, 5.5"
)
OFFLINE = Rule("endpoints.offline", "one Offline point, none if agentic", "Endpoints rules 5.7")
FASTER = Rule("endpoints.offline-order", "Offline is no slower than C_max", "Endpoints rules 5.7.2",
              WARNING)  # fmt: skip
ONE_RUN = Rule("endpoints.curve", "one model, data set and benchmark a curve",
               "Endpoints submission rules 8.5, 9.1")  # fmt: skip
MODEL = Rule("endpoints.model", "a model of this version, spelt exactly", "Endpoints rules 3.2")
SEEDS = Rule("endpoints.seeds", "one published seed set, within its cohorts", "Endpoints rules 4.6")
JUDGED = Rule("endpoints.accuracy-runs", "one accuracy run in each band and at the Offline point",
              "Endpoints rules 4.3, 5.3")  # fmt: skip
GATE = Rule("endpoints.accuracy", "answers as good as the reference's", "Endpoints rules 4.3, 15")
USED = Rule("endpoints.utilization", "tps_utilization is of the curve's peak",
            "Endpoints submission rules 8.2")  # fmt: skip
UTILIZATION_TOLERANCE = 0.1
"""As the official checker compares it."""


def check(path: Path, published: tuple[SeedSet, ...] = rules.PUBLISHED) -> list[Finding]:
    """Return the faults of a submission, or of the only one in an organization's folder."""
    root = submission_root(path)
    findings = list(_tree(root))
    for curve in read_curves(root):
        findings += _curve(curve, published)
    return findings


def refused(findings: Sequence[Finding]) -> bool:
    """Return whether a submission with these findings would be refused."""
    return any(finding.severity == ERROR for finding in findings)


def text(findings: Sequence[Finding]) -> Iterator[str]:
    """Yield the findings and the verdict as lines."""
    for finding in findings:
        yield f"  {finding.severity:8} {finding.rule}: {finding.where}: {finding.found}"
        yield f"           {finding.source}; next: {finding.mend}"
    errors = sum(finding.severity == ERROR for finding in findings)
    word = "refused" if errors else "accepted"
    yield f"by our reading of the rules: {word}, {errors} errors, {len(findings) - errors} warnings"


def refusal(findings: Sequence[Finding], root: Path) -> Problem:
    """Return the failure of a tree that would be refused."""
    errors = [finding for finding in findings if finding.severity == ERROR]
    first = errors[0]
    message = f"{root}: {len(errors)} errors; first: {first.rule}: {first.where}: {first.found}"
    return Problem("not-submittable", message, hint=first.mend)


def _tree(root: Path) -> Iterator[Finding]:
    for name in (tree.RESULTS, tree.DOCUMENTS, tree.SOURCES):
        yield from STRUCTURE.unless((root / name).is_dir(), name, "missing", f"make {name}/")
    sources = [path for path in _below(root / tree.SOURCES) if path.is_dir()]
    if (root / tree.SOURCES).is_dir() and not sources:
        yield STRUCTURE.broken(tree.SOURCES, "no implementation", "put sources into a folder of it")
    for folder in sources:
        named = any(path.name.lower() == "readme.md" for path in folder.iterdir())
        where = f"{tree.SOURCES}/{folder.name}"
        yield from STRUCTURE.unless(named, where, "no README.md", "say how a point is reproduced")
    systems = [path for path in _below(root / tree.RESULTS) if path.is_dir()]
    if (root / tree.RESULTS).is_dir() and not systems:
        yield STRUCTURE.broken(tree.RESULTS, "no system", "put the points of a system there")
    for system in systems:
        where = f"{tree.RESULTS}/{system.name}"
        models = any(path.is_dir() for path in system.iterdir())
        yield from STRUCTURE.unless(models, where, "no model", "put the points of a model there")


def _below(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _curve(curve: SubmittedCurve, published: tuple[SeedSet, ...]) -> Iterator[Finding]:
    where = str(curve.folder.relative_to(curve.root))
    if not curve.points:
        yield STRUCTURE.broken(where, "no r<N> folder", "put every point into a folder of its own")
        return
    for point in curve.points:
        yield from point_checks.check_point(curve, point)
    yield from system_checks.check_systems(curve)
    for part in (_count, _regions, _coverage, _offline, _order, _agreement, _model, _judged):
        yield from part(curve, where)
    yield from _seeds(curve, where, published)
    yield from _accuracy(curve)
    yield from _utilization(curve)


def _count(curve: SubmittedCurve, where: str) -> Iterator[Finding]:
    dedicated = any(point.offline == DEDICATED for point in curve.points)
    least = rules.LEAST_POINTS + (dedicated and not curve.agentic)
    count = len(curve.points)
    fits = least <= count <= rules.MOST_POINTS
    fault = f"{count} points; {least} to {rules.MOST_POINTS} are accepted"
    yield from COUNT.unless(fits, where, fault, "run the points that cm plan names")


def _regions(curve: SubmittedCurve, where: str) -> Iterator[Finding]:
    overrides = [point.system.get("c_min_override", _ABSENT) for point in curve.points]
    if any(value is not _ABSENT for value in overrides):
        fixed = {point.concurrency for point in curve.points if point.offline != DEDICATED}
        for value in overrides:
            if type(value) is not int or value not in fixed or value != overrides[0]:
                yield REGIONS.broken(where, "c_min_override is not one point for all", "mend it")
                return
    if curve.regions is None:
        fault = f"C_max is {curve.c_max}"
        yield REGIONS.broken(where, fault, "declare max_supported_concurrency above 32")
        return
    for point in curve.points:
        if point.offline != DEDICATED and point.concurrency > curve.regions.margin_end:
            fault = f"{point.concurrency} in flight, above {curve.regions.margin_end}"
            yield REGIONS.broken(f"{where}/{point.folder.name}", fault, "leave the point out")


_ABSENT = object()


def _coverage(curve: SubmittedCurve, where: str) -> Iterator[Finding]:
    if curve.regions is None:
        return
    levels = [point.concurrency for point in curve.points]
    for band in BANDS:
        low, high = curve.regions.bounds(band)
        covered = any(low <= level <= high for level in levels)
        fault = f"no point from {low} to {high} ({band})"
        yield from COVERAGE.unless(covered, where, fault, f"run one from {low} to {high}")


def _offline(curve: SubmittedCurve, where: str) -> Iterator[Finding]:
    declared = [point for point in curve.points if point.offline]
    names = ", ".join(point.folder.name for point in declared)
    if curve.agentic:
        yield from OFFLINE.unless(not declared, where, f"agentic, with {names}", "remove it")
    elif len(declared) != 1:
        mend = "elect the point at C_max (offline: elected), or run a dedicated one"
        yield OFFLINE.broken(where, f"{len(declared)} Offline points {names}".strip(), mend)
    elif declared[0].offline == ELECTED and declared[0].concurrency != curve.c_max:
        fault = f"{names} is elected, C_max is {curve.c_max}"
        yield OFFLINE.broken(where, fault, "elect the point at C_max")


def _order(curve: SubmittedCurve, where: str) -> Iterator[Finding]:
    rates = {point.concurrency: point.run.tokens_per_s for point in curve.points}
    for point in curve.points:
        at_most = rates.get(curve.c_max or 0)
        rate = point.run.tokens_per_s
        if point.offline == DEDICATED and rate and at_most:
            kept = rate >= rules.OFFLINE_SHARE * at_most
            fault = f"{rate:.1f} tok/s, {at_most:.1f} at C_max"
            yield from FASTER.unless(kept, where, fault, "run Offline again, with more in flight")


def _agreement(curve: SubmittedCurve, where: str) -> Iterator[Finding]:
    for name in ("model_name", "dataset"):
        values = {str(point.point.get(name)) for point in curve.points if point.point}
        fault = f"{name} is {', '.join(sorted(values))}"
        yield from ONE_RUN.unless(len(values) < 2, where, fault, "give each curve a folder")
    patterns = {
        point.load_pattern for point in curve.points if point.offline != DEDICATED and point.point
    }
    fault = f"load_pattern is {', '.join(sorted(patterns))}"
    yield from ONE_RUN.unless(
        len(patterns) < 2, where, fault, "leave out the points of another kind"
    )


def _model(curve: SubmittedCurve, where: str) -> Iterator[Finding]:
    for name in sorted(
        {str(p.point["model_name"]) for p in curve.points if "model_name" in p.point}
    ):
        fault = f"{name} is none of {', '.join(MODELS)}"
        yield from MODEL.unless(name in MODELS, where, fault, "spell it as one of them")
        fault = f"model_name is {name}, the folder {curve.model}"
        yield from MODEL.unless(name == curve.model, where, fault, "name both alike")


def _seeds(curve: SubmittedCurve, where: str, published: tuple[SeedSet, ...]) -> Iterator[Finding]:
    known = {seed_set.id: seed_set for seed_set in published}
    bound = {str(p.point["seed_set"]) for p in curve.points if p.point.get("seed_set")}
    yield from SEEDS.unless(len(bound) < 2, where, f"sets {', '.join(sorted(bound))}", "bind one")
    for point in curve.points:
        seed_set = known.get(str(point.point.get("seed_set")))
        place = f"{where}/{point.folder.name}"
        if seed_set is None:
            if point.point.get("seed_set"):
                fault = f"set {point.point['seed_set']} is not published"
                yield SEEDS.broken(place, fault, f"use {', '.join(known)}")
            continue
        for name, seed in seed_set.seeds.items():
            fault = f"{name} is {point.seeds.get(name)}, set {seed_set.id} has {seed}"
            same = point.seeds.get(name) == seed
            yield from SEEDS.unless(same, place, fault, "run the point with the seeds of the set")
        cohort = point.point.get("target_cohort")
        window = f"set {seed_set.id} is for {seed_set.cohorts[0]} to {seed_set.cohorts[-1]}"
        if cohort is not None:
            fits = cohort in seed_set.cohorts
            yield from SEEDS.unless(fits, place, f"target_cohort {cohort}; {window}", "change it")


def _judged(curve: SubmittedCurve, where: str) -> Iterator[Finding]:
    if curve.regions is None:
        return
    judged = [point for point in curve.points if point.run.has_accuracy_run]
    fixed = sorted(
        (p for p in judged if p.offline != DEDICATED), key=lambda p: p.offline == ELECTED
    )
    owners = rules.assign_bands([point.concurrency for point in fixed], curve.regions)
    for band in BANDS:
        fault = f"no accuracy run in the {band} band"
        yield from JUDGED.unless(band in owners, where, fault, "run accuracy at a point of it")
    for point in fixed:
        if point.concurrency not in owners.values() and point.offline != ELECTED:
            fault = f"{point.folder.name} has an accuracy run that no band needs"
            yield JUDGED.broken(where, fault, "leave it out: exactly one counts for each band")
    for point in curve.points:
        if point.offline:
            fault = f"the Offline point {point.folder.name} has no accuracy run"
            yield from JUDGED.unless(
                point.run.has_accuracy_run, where, fault, "run accuracy there too"
            )


def _accuracy(curve: SubmittedCurve) -> Iterator[Finding]:
    model = MODELS.get(curve.model)
    for point in curve.points:
        where = str(point.folder.relative_to(curve.root))
        entries = [e for e in point.run.accuracy if e.get("dataset_type") != "performance"]
        if model is None or not entries:
            continue
        if model.agentic:
            yield from _agentic(point, where)
            continue
        samples = sum(_issued(entry) for entry in entries)
        enough = not samples or samples >= model.accuracy_samples
        fault = f"{samples} of {model.accuracy_samples} samples judged"
        yield from GATE.unless(enough, where, fault, "judge the whole data set")
        means = _means(entries)
        for gate in model.gates:
            score = means.get(gate.metric, means.get("score") if len(model.gates) == 1 else None)
            if score is None:
                continue
            kept = gate.least <= score and (gate.most is None or score <= gate.most)
            most = "" if gate.most is None else f" to {gate.most:.4f}"
            fault = f"{gate.metric} {score:.4f}, accepted is {gate.least:.4f}{most}"
            yield from GATE.unless(
                kept, where, fault, "see why answers differ from the reference's"
            )


def _issued(entry: Mapping[str, Any]) -> int:
    count = entry.get("num_samples", entry.get("unit_samples")) or 0
    return int(count) * max(1, int(entry.get("n_repeats", entry.get("num_repeats")) or 1))


def _means(entries: list[Mapping[str, Any]]) -> dict[str, float]:
    """Return the mean of every figure over the data sets, weighted by their samples."""
    sums: dict[str, tuple[float, float]] = {}
    for entry in entries:
        weight = float(entry.get("num_samples", entry.get("unit_samples")) or 1)
        for name, value in scores_of(entry).items():
            total, weights = sums.get(name.lower(), (0.0, 0.0))
            sums[name.lower()] = total + weight * value, weights + weight
    return {name: total / weights for name, (total, weights) in sums.items()}


def _agentic(point: SubmittedPoint, where: str) -> Iterator[Finding]:
    """Look at the scores of one point; the mean over bands of SWE-bench is left to theirs."""
    model = MODELS[str(point.point.get("model_name"))]
    inline = [e for e in point.run.accuracy if e.get("dataset_type") == "performance"]
    score = scores_of(inline[0]).get("score") if inline else None
    fault = "no score of its own answers" if score is None else f"inline score {100 * score:.2f} %"
    kept = score is not None and 100 * score >= model.inline_gate
    yield from GATE.unless(kept, where, f"{fault}, {model.inline_gate} is needed", "see why")


def _utilization(curve: SubmittedCurve) -> Iterator[Finding]:
    rates = {point.folder.name: point.run.tokens_per_s or 0.0 for point in curve.points}
    peak = max(rates.values(), default=0.0)
    for point in curve.points:
        stated = point.system.get("tps_utilization")
        if isinstance(stated, int | float) and peak:
            share = rates[point.folder.name] / peak
            where = str(point.folder.relative_to(curve.root))
            fault = f"tps_utilization {stated}, {share:.3f} by the figures"
            yield from USED.unless(
                abs(stated - share) <= UTILIZATION_TOLERANCE, where, fault, "mend it"
            )
