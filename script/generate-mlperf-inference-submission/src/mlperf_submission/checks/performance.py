"""Logs of performance runs, those of compliance tests included."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path

from mlperf_harness import rules
from mlperf_harness.measuring.detail_log import DetailLog

from ..build import LOGS
from ..build import SAMPLES as POWER_LOG
from ..layouts import Cell
from .base import (
    CHECKER,
    LOADGEN,
    NATURE,
    NOTICE,
    RULES,
    Finding,
    Rule,
    Site,
    log,
    missing,
    text,
)

FILES = Rule("performance.files", "summary and detailed log of the run", CHECKER)
EXTRA = Rule("performance.extra-files", "nothing but the two logs", CHECKER)
UNFINISHED = Rule("performance.unfinished", "a run that came to its end", LOADGEN)
INVALID = Rule("performance.invalid", "LoadGen calls the run VALID", RULES)
ERRORS = Rule("performance.errors", "LoadGen logged no error", RULES)
MODE = Rule("performance.mode", "a run in performance mode", RULES)
SCENARIO = Rule("performance.scenario", "a run of this scenario", RULES)
INFERRED = Rule("performance.inferred", "a result inferred from another scenario", RULES, NOTICE)
SEEDS = Rule("performance.seeds", "the seeds of the round", RULES)
DURATION = Rule("performance.duration", "a run of 600 s", RULES, NATURE)
SAMPLES = Rule("performance.samples", "the samples that the rules ask for", RULES, NATURE)
LATENCY = Rule("performance.latency", "the latency limit of the benchmark", RULES)
STOPPING = Rule("performance.early-stopping", "early stopping is satisfied", RULES)
EQUAL = Rule("performance.equal-issue", "every sample is issued equally often", RULES)
NETWORK = Rule("performance.network", "network division: a Network SUT was measured", RULES)
CONSISTENT = Rule("performance.consistent", "figures that fit each other", LOADGEN)

NS_PER_S = 1e9
# LoadGen keys of those whose samples differ much in length: its rules turn equal issue on.
EQUALLY_ISSUED = ("3d-unet", "gptj")
NETWORK_NAME = "Network SUT"
RERUN = "run it again: cm run script --tags=run-mlperf,inference,_performance-only,_full --rerun"
# Rules of inference: which scenario's run may stand for which other one, in the category edge.
STANDS_FOR = {"SingleStream": ("MultiStream", "Offline"), "MultiStream": ("Offline",)}
NAMES = {"singlestream": "SingleStream", "multistream": "MultiStream", "offline": "Offline"}
SUMMARY_KEYS = {
    "SingleStream": (
        r"^90\.0*th percentile latency \(ns\) : *(\d+)",
        "result_90.00_percentile_latency_ns",
    ),
    "MultiStream": (
        r"^99\.0*th percentile latency \(ns\) : *(\d+)",
        "result_99.00_percentile_per_query_latency_ns",
    ),
    "Offline": (r"^Samples per second: *([\d.]+)", "result_samples_per_second"),
    "Server": (r"^Completed samples per second *: *([\d.]+)", "result_completed_samples_per_sec"),
}


def runs(site: Site) -> Iterator[Finding]:
    """The performance run of every scenario."""
    for cell in site.cells:
        known = site.rules(cell.benchmark)
        if known is not None:
            yield from folder(site, cell, cell.run, known)


def folder(
    site: Site, cell: Cell, place: Path, known: rules.BenchmarkRules, test: str = ""
) -> Iterator[Finding]:
    """One folder of logs, those of a compliance ``test`` or of the result itself."""
    lost = missing(place, LOGS)
    for name in lost:
        yield FILES.broken(site.where(place / name), "missing or empty", RERUN)
    powered = place == cell.run and cell.powered
    for name in site.extra(place, (*LOGS, POWER_LOG) if powered else LOGS):
        where = site.where(place / name)
        yield EXTRA.broken(where, "a file that does not belong here", f"rm {where}")
    found = log(place)
    if LOGS[0] not in lost:
        where = site.where(place / LOGS[0])
        yield from judged(site, cell, where, found, known)
        yield from seeds(site, where, found, SEEDS, RERUN, test)
    if not lost:
        yield from _summary(site, cell, place, found)


def judged(
    site: Site, cell: Cell, where: str, found: DetailLog, known: rules.BenchmarkRules
) -> Iterator[Finding]:
    """What the detailed log of a run says."""
    if not found.validity:
        yield UNFINISHED.broken(where, "the log has no verdict: the run was cut off", RERUN)
    elif found.validity != "VALID":
        yield INVALID.broken(where, f"LoadGen calls it {found.validity}", RERUN)
    if found.errors:
        yield ERRORS.broken(where, f"LoadGen logged: {found.errors[0]}", RERUN)
    if found.values.get("effective_test_mode") != "PerformanceOnly":
        mode = found.values.get("effective_test_mode")
        yield MODE.broken(where, f"the run was made in the mode {mode}", RERUN)
    measured = str(found.values.get("effective_scenario", ""))
    yield from _scenario(site, cell, where, measured)
    yield from _kind(site, where, found, known)
    yield from _lengths(site, where, found, known, measured)
    yield from _limits(where, found, known, measured)
    yield from _consistent(where, found, measured)


def _scenario(site: Site, cell: Cell, where: str, measured: str) -> Iterator[Finding]:
    if measured.lower() == cell.scenario.lower():
        return
    named = NAMES.get(cell.scenario.lower(), cell.scenario)
    if named in STANDS_FOR.get(measured, ()) and "edge" in site.category(cell.system):
        found = f"the {named} result is inferred from a {measured} run"
        yield INFERRED.broken(where, found, f"measure {named} itself for a better figure")
        return
    yield SCENARIO.broken(where, f"this is a log of {measured or 'no scenario'}", RERUN)


def seeds(
    site: Site, where: str, found: DetailLog, rule: Rule, again: str, test: str = ""
) -> Iterator[Finding]:
    """Whether a log carries the seeds of the tree's round, or those that a test has instead.

    ``again`` says how to make the run again.
    """
    for name, seed in rules.seeds(site.layout.round, test).items():
        used = found.values.get(f"effective_{name}_rng_seed")
        if used != seed:
            yield rule.broken(
                where,
                f"{name}_rng_seed is {used}, v{site.layout.round} has {seed}",
                f"use the LoadGen of the round (_r{site.layout.round}), {again}",
            )
            return


def _kind(
    site: Site, where: str, found: DetailLog, known: rules.BenchmarkRules
) -> Iterator[Finding]:
    """What was measured in which way."""
    equal = found.values.get("effective_sample_concatenate_permutation")
    if site.strict and known.loadgen_key in EQUALLY_ISSUED and equal is not True:
        text_ = "sample_concatenate_permutation is not set: some samples were issued more often"
        yield EQUAL.broken(where, text_, RERUN)
    name = found.values.get("sut_name")
    if site.division == "network" and NETWORK_NAME not in str(name):
        text_ = f"the system under test is named {name!r}, which must contain {NETWORK_NAME!r}"
        yield NETWORK.broken(where, text_, "measure it over LoadGen's network mode")


def _lengths(
    site: Site, where: str, found: DetailLog, known: rules.BenchmarkRules, measured: str
) -> Iterator[Finding]:
    shortest = rules.minimum_duration_ms()
    asked = found.number("effective_min_duration_ms") or 0.0
    if asked < shortest:
        found_text = (
            f"runs of {asked / 1000:g} s are shorter than the {shortest / 1000:g} s of the rules"
        )
        yield DURATION.broken(where, found_text, "run with --execution_mode=valid")
    loaded = found.number("effective_performance_sample_count") or 0.0
    if loaded < known.loaded_samples:
        text_ = f"{loaded:.0f} loaded samples are fewer than the rules' {known.loaded_samples}"
        yield SAMPLES.broken(where, text_, "run without --performance_sample_count")
    # LoadGen logs the size that was asked for even where the data set is smaller.
    real = found.number("qsl_reported_total_count") or 0.0
    if real < min(known.loaded_samples, known.dataset_size):
        text_ = f"a data set of {real:.0f} samples is smaller than the rules ask for"
        yield SAMPLES.broken(where, text_, "run on the whole data set")
    if measured == "Offline" and site.strict:
        issued = found.number("effective_samples_per_query") or 0.0
        if issued < known.offline_minimum:
            text_ = (
                f"{issued:.0f} Offline samples are fewer than the rules' {known.offline_minimum}"
            )
            yield SAMPLES.broken(where, text_, "run with --execution_mode=valid")


def _limits(
    where: str, found: DetailLog, known: rules.BenchmarkRules, measured: str
) -> Iterator[Finding]:
    if found.values.get("early_stopping_met") is False:
        reason = found.values.get("early_stopping_result") or "no reason given"
        yield STOPPING.broken(where, f"early stopping is not satisfied: {reason}", RERUN)
    if measured == "Server" and known.server_limit_ms is not None:
        limit = found.milliseconds("effective_target_latency_ns")
        if limit is None or limit > known.server_limit_ms * 1.000001:
            found_text = f"measured against {limit} ms, the rules say {known.server_limit_ms:g} ms"
            yield LATENCY.broken(where, found_text, RERUN)


def _consistent(where: str, found: DetailLog, measured: str) -> Iterator[Finding]:
    """Figures that no LoadGen writes side by side."""
    if found.validity == "VALID":
        unmet = [
            key
            for key in ("result_min_duration_met", "result_min_queries_met")
            if found.values.get(key) is False
        ]
        if unmet:
            yield CONSISTENT.broken(where, f"VALID, although {unmet[0]} is false", RERUN)
    stated = found.number("num_errors")
    if stated is not None and bool(stated) != bool(found.errors):
        yield CONSISTENT.broken(
            where, f"num_errors is {stated:.0f}, {len(found.errors)} are logged", RERUN
        )
    least, most = (found.number(f"result_{word}_latency_ns") for word in ("min", "max"))
    if least is None or most is None or not most:
        return
    if measured == "Offline":
        rate, samples = found.number("result_samples_per_second"), samples_issued(found)
        if rate and samples and abs(rate * most / NS_PER_S / samples - 1) > 0.01:
            text_ = f"{samples:.0f} samples in {most / NS_PER_S:.1f} s are not {rate:g} samples/s"
            yield CONSISTENT.broken(where, text_, RERUN)
    key = {"SingleStream": "early_stopping_latency_ss", "MultiStream": "early_stopping_latency_ms"}
    result = found.number(key.get(measured, ""))
    # It is zero where there are too few queries for it, which another rule tells.
    if result and not least <= result <= most:
        text_ = f"a result of {result:.0f} ns lies outside of {least:.0f} to {most:.0f} ns"
        yield CONSISTENT.broken(where, text_, RERUN)


def samples_issued(found: DetailLog) -> float | None:
    """Samples of an Offline run.

    More than asked for where each must be issued as often as any other; LoadGen before round 5.0
    logs what it was asked for all the same.
    """
    stated = found.number("generated_samples_per_query") or found.number(
        "effective_samples_per_query"
    )
    whole = found.number("effective_performance_sample_count")
    if stated and whole and found.values.get("effective_sample_concatenate_permutation") is True:
        return whole * math.ceil(stated / whole)
    return stated


def _summary(site: Site, cell: Cell, place: Path, found: DetailLog) -> Iterator[Finding]:
    """The summary that people read must tell what the detailed log tells."""
    told = text(place / LOGS[1])
    where = site.where(place / LOGS[1])
    verdict = re.search(r"^Result is : (\w+)", told, re.MULTILINE)
    if verdict is None:
        yield UNFINISHED.broken(where, "the summary has no verdict", RERUN)
    elif found.validity and verdict.group(1) != found.validity:
        text_ = f"it says {verdict.group(1)}, the detailed log {found.validity}"
        yield CONSISTENT.broken(where, text_, RERUN)
    measured = str(found.values.get("effective_scenario", ""))
    stated = re.search(r"^Scenario : (\w+)", told, re.MULTILINE)
    if stated and stated.group(1) != measured:
        text_ = f"it is of {stated.group(1)}, the detailed log of {measured}"
        yield CONSISTENT.broken(where, text_, RERUN)
    pattern, key = SUMMARY_KEYS.get(measured, ("", ""))
    figure = re.search(pattern, told, re.MULTILINE) if key else None
    logged = found.number(key)
    if figure and logged and abs(float(figure.group(1)) / logged - 1) > 1e-4:
        text_ = f"it says {figure.group(1)}, the detailed log {logged:g}"
        yield CONSISTENT.broken(where, text_, RERUN)
