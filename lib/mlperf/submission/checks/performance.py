"""Logs of performance runs, those of compliance tests included."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path

from mlperf.catalog import OFFLINE, BenchmarkSpec, Category, Division, Scenario, rounds
from mlperf.catalog.scenario import SUMMARY_SCENARIO, SUMMARY_VERDICT
from mlperf.harness.measuring import agreement
from mlperf.harness.measuring.detail_log import DetailLog
from mlperf.harness.measuring.verify import is_short

from .. import truncate
from ..build import LOGS
from ..build import SAMPLES as POWER_LOG
from ..files import text
from ..layouts import LAST_WITH_CONF, ScenarioCell
from ..texts import PERMUTATION
from .base import (
    CHECKER,
    LOADGEN,
    NATURE,
    NOTE,
    RULES,
    WARNING,
    Finding,
    Rule,
    SubmitterSite,
    missing,
    read_detail_log,
    unreadable_lines,
)
from .figures import figures
from .run import CheckedRun
from .settings import settings
from .systems import over_network
from .tokens import TOKENS, latencies

FILES = Rule("performance.files", "summary and detailed log of the run", CHECKER)
EXTRA = Rule("performance.extra-files", "nothing but the two logs", CHECKER)
UNFINISHED = Rule("performance.unfinished", "a run that came to its end", LOADGEN)
INVALID = Rule("performance.invalid", "LoadGen calls the run VALID", RULES)
ERRORS = Rule("performance.errors", "LoadGen logged no error", RULES)
MODE = Rule("performance.mode", "a run in performance mode", RULES)
SCENARIO = Rule("performance.scenario", "a run of this scenario", RULES)
INFERRED = Rule("performance.inferred", "a result inferred from another scenario", RULES, NOTE)
SEEDS = Rule("performance.seeds", "the seeds of the round", RULES)
DURATION = Rule("performance.duration", "a run of 600 s", RULES, NATURE)
SAMPLES = Rule("performance.samples", "the samples that the rules ask for", RULES, NATURE)
LATENCY = Rule("performance.latency", "the latency limit of the benchmark", RULES)
STOPPING = Rule("performance.early-stopping", "early stopping is satisfied", RULES)
EQUAL = Rule("performance.equal-issue", "every sample is issued equally often", RULES)
NETWORK = Rule("performance.network", "over a network: a Network SUT was measured", RULES)
CONSISTENT = Rule("performance.consistent", "figures that fit each other", LOADGEN)

FIRST_EQUAL_IN_OPEN = "5.1"
NS_PER_S = 1e9
NETWORK_NAME = "Network SUT"
# Tolerance of derived figures: they are logged with six digits.
EXACT = 1e-4
PERMUTED = f"effective_{PERMUTATION}"
RERUN = "run it again: `cm run script --tags=run-mlperf,inference,_performance-only,_full --rerun`"
FULL = "run with --execution_mode=valid"


def runs(site: SubmitterSite) -> Iterator[Finding]:
    """The performance run of every scenario."""
    for cell, known in site.known_cells:
        yield from folder(site, cell, cell.run, known)


def folder(
    site: SubmitterSite, cell: ScenarioCell, place: Path, known: BenchmarkSpec, test: str = ""
) -> Iterator[Finding]:
    """One folder of logs, those of a compliance ``test`` or of the result itself."""
    yield from site.missing_file_findings(FILES, place, LOGS, RERUN)
    powered = place == cell.run and cell.powered
    known_files = (*LOGS, truncate.LOG, *([POWER_LOG] if powered else []))
    # The modular checker lists the files of a test alone.
    extra = EXTRA.at(WARNING, site.layout.joined and not test)
    yield from site.unknown_file_findings(extra, place, known_files)
    lost = missing(place, LOGS)
    run = CheckedRun(site, cell, known, site.where(place / LOGS[0]), read_detail_log(place), test)
    if LOGS[0] not in lost:
        yield from unreadable_lines(site, place / LOGS[0], RERUN)
        yield from judged(run)
        yield from seeds(site, run.where, run.log, SEEDS, RERUN, test)
    rule = CONSISTENT.at(WARNING, bool(test))
    if not lost:
        yield from _summary(run, place, rule)
    if LOGS[0] not in lost and run.log.validity == "VALID":
        yield from _agreement(run, place, rule)


def _agreement(run: CheckedRun, place: Path, rule: Rule) -> Iterator[Finding]:
    """Check for contradictory figures of a valid run."""
    accuracy_text = text(run.cell.accuracy / truncate.TEXT)
    more = agreement.derived(place / LOGS[0], run.log, accuracy_text)
    for contradiction in agreement.contradictions(run.log, text(place / LOGS[1]), more):
        yield rule.at(WARNING, contradiction.doubtful).broken(run.where, contradiction.text, RERUN)


def judged(run: CheckedRun) -> Iterator[Finding]:
    """Check the detailed log of a run."""
    where, detail = run.where, run.log
    if not detail.validity:
        yield UNFINISHED.broken(where, "the log has no verdict: the run was cut off", RERUN)
    elif detail.validity != "VALID":
        why = f": {detail.invalid_reason}" if detail.invalid_reason else ""
        yield INVALID.broken(where, f"LoadGen calls it {detail.validity}{why}", RERUN)
    if detail.errors:
        yield ERRORS.broken(where, f"LoadGen logged: {detail.errors[0]}", RERUN)
    mode = detail.values.get("effective_test_mode")
    fault = f"the run was made in the mode {mode}"
    yield from MODE.unless(mode == "PerformanceOnly", where, fault, RERUN)
    for check in CHECKS:
        yield from check(run)


def _scenario(run: CheckedRun) -> Iterator[Finding]:
    wanted, measured = Scenario.of_folder(run.cell.scenario), run.measured
    if measured is not None and wanted is not None:
        if measured == wanted.loadgen:
            return
        categories = Category.each(run.site.category(run.cell.system))
        if wanted in measured.stands_for and Category.EDGE in categories:
            fault = f"the {wanted} result is inferred from a {measured} run"
            yield INFERRED.broken(run.where, fault, f"measure {wanted} itself for a better figure")
            return
    yield SCENARIO.broken(
        run.where, f"this is a log of {run.logged_scenario or 'no scenario'}", RERUN
    )


def seeds(
    site: SubmitterSite, where: str, detail: DetailLog, rule: Rule, again: str, test: str = ""
) -> Iterator[Finding]:
    """Check that a log has the seeds of the tree's round, or those of a test.

    ``again`` says how to make the run again.
    """
    for name, seed in rounds.seeds(site.layout.round, test).items():
        used = detail.values.get(f"effective_{name}_rng_seed")
        if used != seed:
            yield rule.broken(
                where,
                f"{name}_rng_seed is {used}, v{site.layout.round} has {seed}",
                f"use the LoadGen of the round (_r{site.layout.round}), {again}",
            )
            return


def _kind(run: CheckedRun) -> Iterator[Finding]:
    """What was measured in which way."""
    site, equal = run.site, permuted(run) is not False
    # The single-file checkers ask the open division for it too.
    free = not (site.strict or rounds.since(site.layout.round, FIRST_EQUAL_IN_OPEN))
    text_ = "sample_concatenate_permutation is not set: some samples were issued more often"
    # The modular checker, whose word counts from 6.0 on, has accepted runs without it.
    rule = EQUAL.at(WARNING, site.layout.joined)
    yield from rule.unless(equal or free or not run.known.equal_issue, run.where, text_, RERUN)
    name = run.log.values.get("sut_name")
    networked = run.site.division == Division.NETWORK or over_network(
        run.site.systems.get(run.cell.system, {})
    )
    if networked and NETWORK_NAME not in str(name):
        text_ = f"the system under test is named {name!r}, which must contain {NETWORK_NAME!r}"
        yield NETWORK.broken(run.where, text_, "measure it over LoadGen's network mode")


def _lengths(run: CheckedRun) -> Iterator[Finding]:
    known, used_ms = run.known, run.number("effective_min_duration_ms")
    shortest = known.minimum_duration_ms
    text_ = f"runs of {used_ms / 1000:g} s are shorter than the {shortest / 1000:g} s of the rules"
    yield from DURATION.unless(not is_short(run.log, known), run.where, text_, FULL)
    loaded = run.number("effective_performance_sample_count")
    text_ = f"{loaded:.0f} loaded samples are fewer than the rules' {known.loaded_samples}"
    enough = loaded >= known.loaded_samples
    yield from SAMPLES.unless(enough, run.where, text_, "run without --performance_sample_count")
    # LoadGen logs the requested size even where the data set is smaller.
    real = run.number("qsl_reported_total_count")
    text_ = f"a data set of {real:.0f} samples is smaller than the rules ask for"
    enough = real >= min(known.loaded_samples, known.dataset_size)
    rule = SAMPLES.at(WARNING, run.lenient or not run.site.strict)
    yield from rule.unless(enough, run.where, text_, "run on the whole data set")


def _offline(run: CheckedRun) -> Iterator[Finding]:
    if run.measured is not OFFLINE:
        return
    issued, least = run.number("effective_samples_per_query"), run.known.offline_minimum
    text_ = f"{issued:.0f} Offline samples are fewer than the rules' {least}"
    # The modular checker, whose word counts from 6.0 on, lets other divisions issue fewer.
    free = not run.site.strict and run.site.layout.joined
    rule = SAMPLES.at(WARNING, free)
    yield from rule.unless(issued >= least, run.where, text_, FULL)


def _limits(run: CheckedRun) -> Iterator[Finding]:
    met = run.log.values.get("early_stopping_met")
    # Offline has none; another rule reports a run that was cut off.
    expected = run.measured is not None and not run.measured.batched and bool(run.log.validity)
    if met is False or (met is not True and expected):
        reason = run.log.early_stopping or "no reason given"
        yield STOPPING.broken(run.where, f"early stopping is not satisfied: {reason}", RERUN)
    rule = run.limit
    if rule is None or rule.latency_ms is None:
        return
    limit = run.log.milliseconds("effective_target_latency_ns")
    text_ = f"measured against {limit} ms, the rules say {rule.latency_ms:g} ms"
    kept = limit is not None and limit <= rule.latency_ms * 1.000001
    yield from LATENCY.unless(kept, run.where, text_, RERUN)


def _flags(run: CheckedRun) -> Iterator[Finding]:
    """Verdicts that no LoadGen writes side by side."""
    keys = ("result_min_duration_met", "result_min_queries_met")
    unmet = [key for key in keys if run.log.values.get(key) is False]
    if unmet and run.log.validity == "VALID":
        yield CONSISTENT.broken(run.where, f"VALID, although {unmet[0]} is false", RERUN)
    stated, logged = run.log.number("num_errors"), len(run.log.errors)
    if stated is not None and bool(stated) != bool(logged):
        text_ = f"num_errors is {stated:.0f}, {logged} are logged"
        yield CONSISTENT.broken(run.where, text_, RERUN)


def _contradictions(run: CheckedRun) -> Iterator[Finding]:
    """Figures that no LoadGen writes side by side."""
    least, most = (run.log.number(f"result_{word}_latency_ns") for word in ("min", "max"))
    if least is None or not most or run.measured is None:
        return
    if run.measured.batched:
        yield from _impossible_rate(run, most)
    # The estimate of a run with token latencies is one of first tokens.
    if run.measured.stream and run.log.values.get(TOKENS) is not True:
        result = run.number(run.measured.result.key)
        # It is zero where there are too few queries for it, which another rule reports.
        text_ = f"a result of {result:.0f} ns lies outside of {least:.0f} to {most:.0f} ns"
        # The estimate is no better than the percentile that was measured.
        least = max(least, run.number(run.measured.result.summary_key))
        inside = not result or least * (1 - EXACT) <= result <= most
        yield from CONSISTENT.unless(inside, run.where, text_, RERUN)


def _impossible_rate(run: CheckedRun, longest: float) -> Iterator[Finding]:
    """A rate that the samples and the ``longest`` latency, in ns, do not give."""
    rate, seconds = run.number("result_samples_per_second"), longest / NS_PER_S
    possible = samples_issued(run.log, permuted(run))
    if rate and possible and all(abs(rate * seconds / n - 1) > EXACT for n in possible):
        text_ = f"{possible[0]:.0f} samples in {seconds:.1f} s are not {rate:g} samples/s"
        yield CONSISTENT.broken(run.where, text_, RERUN)


def _conf(run: CheckedRun) -> Iterator[Finding]:
    """Check the key that one round's checker reads from mlperf.conf or user.conf."""
    required = run.site.layout.round == LAST_WITH_CONF and run.site.strict and run.known.equal_issue
    if run.test or not required:
        return
    key = f"{run.known.loadgen_key}.*.{PERMUTATION}"
    model, scenario = re.escape(run.known.loadgen_key), re.escape(run.logged_scenario)
    pattern = rf"^(?:{model}|\*)\.(?:{scenario}|\*)\.{PERMUTATION}\s*=\s*1\s*$"
    contents = (text(run.cell.measurements / name) for name in ("mlperf.conf", "user.conf"))
    is_set = any(re.search(pattern, content, re.MULTILINE | re.IGNORECASE) for content in contents)
    where = run.site.where(run.cell.measurements / "mlperf.conf")
    missing_ = f"{key} = 1 is missing, which the checker of {LAST_WITH_CONF} asks for"
    yield from EQUAL.unless(is_set, where, missing_, "add the line, which LoadGen has")


CHECKS = (
    *(_scenario, _kind, _conf, _lengths, _offline, _limits, _flags, _contradictions),
    *(figures, settings, latencies),
)


def permuted(run: CheckedRun) -> bool | None:
    """Whether LoadGen issues every sample equally often; None where its log lacks the key.

    Rounds up to 4.1 log no such key; their mlperf.conf sets it for the benchmarks that need it.
    """
    logged = run.log.values.get(PERMUTED)
    if logged is None and rounds.since(LAST_WITH_CONF, run.site.layout.round):
        return None
    return logged is True


def samples_issued(detail: DetailLog, equally: bool | None) -> tuple[float, ...]:
    """Return the possible numbers of samples of an Offline run.

    More than requested where all must be issued ``equally`` often; LoadGen before round 5.0 logs
    the requested number even then.
    """
    stated = detail.number("generated_samples_per_query") or detail.number(
        "effective_samples_per_query"
    )
    if not stated:
        return ()
    requested = detail.number("effective_performance_sample_count") or stated
    # A data set may be smaller than the requested number.
    whole = min(requested, detail.number("qsl_reported_total_count") or requested)
    rounded = whole * math.ceil(stated / whole)
    return {True: (rounded,), False: (stated,), None: (stated, rounded)}[equally]


def _summary(run: CheckedRun, place: Path, rule: Rule) -> Iterator[Finding]:
    """Check that the summary agrees with the detailed log."""
    content, detail = text(place / LOGS[1]), run.log
    where = run.site.where(place / LOGS[1])
    verdict = SUMMARY_VERDICT.search(content)
    if verdict is None:
        yield UNFINISHED.broken(where, "the summary has no verdict", RERUN)
    elif detail.validity and verdict.group(1) != detail.validity:
        text_ = f"it says {verdict.group(1)}, the detailed log {detail.validity}"
        yield rule.broken(where, text_, RERUN)
    stated = SUMMARY_SCENARIO.search(content)
    if stated and stated.group(1) != run.logged_scenario:
        text_ = f"it is of {stated.group(1)}, the detailed log of {run.logged_scenario}"
        yield rule.broken(where, text_, RERUN)
    # The figures of other scenarios have the same name in both, which the relations check.
    if run.measured is not None and run.measured.stream:
        yield from _same_figure(run, rule, where, content)


def _same_figure(run: CheckedRun, rule: Rule, where: str, content: str) -> Iterator[Finding]:
    assert run.measured is not None
    result = run.measured.result
    figure = re.search(result.summary, content, re.MULTILINE)
    logged = run.number(result.summary_key)
    # Summaries of some rounds have two decimals.
    if figure and logged and abs(float(figure.group(1)) - logged) > max(1e-4 * logged, 0.0051):
        text_ = f"it says {figure.group(1)}, the detailed log {logged:g}"
        yield rule.broken(where, text_, RERUN)
