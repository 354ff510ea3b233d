"""Compliance tests of the closed division."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from mlperf.catalog import Answers, BenchmarkSpec, Scenario, rounds
from mlperf.catalog.scenario import of_log
from mlperf.harness.measuring import agreement, verify
from mlperf.harness.measuring.detail_log import DetailLog
from mlperf.harness.measuring.relations import OF_PERFORMANCE

from .. import truncate
from ..build import DETAIL, TEST_ACCURACY
from ..files import text
from ..layouts import FIRST_SINGLE, ScenarioCell
from .accuracy import entries, indices
from .base import (
    CHECKER,
    FIRST_COMPARED,
    FIRST_FILLED,
    LAST_SINGLE_FILE,
    NATURE,
    RULES,
    WARNING,
    Finding,
    Rule,
    SubmitterSite,
    read_detail_log,
    readable,
)
from .performance import FULL, folder

MISSING = Rule("compliance.missing", "every test that the round asks for", RULES)
VERDICT = Rule("compliance.verdict", "its verification says TEST PASS", CHECKER, first=FIRST_SINGLE)
FILES = Rule("compliance.files", "the files of the test and no others", CHECKER, first=FIRST_SINGLE)
AUDIT = Rule(
    "compliance.audit", "the run was made with the test's audit.config", RULES, first=FIRST_FILLED
)
SPEED = Rule(
    "compliance.speed", "the test is about as fast as the result", RULES, first=FIRST_FILLED
)
AGREES = Rule("compliance.consistent", "runs of one result", RULES, WARNING)
ANSWERS = Rule("compliance.answers", "the same answers under load as in the accuracy run", RULES)
LENGTH = Rule(
    "compliance.truncated",
    "a log of at most 10 KiB",
    CHECKER,
    first=FIRST_FILLED,
    last=LAST_SINGLE_FILE,
)

# Bytes: a list without answers is no longer.
LONGEST_EMPTY = 256

COMMAND = "cm run script --tags=run-mlperf,inference,_compliance,_full --mode=compliance"
MAKE = f"make the tests: `{COMMAND}`"
ALL = (
    "make the accuracy run, which the test is compared with, and the test: "
    "`cm run script --tags=run-mlperf,inference,_all-modes,_compliance,_full`"
)
RERUN = f"make the tests again: `{COMMAND} --rerun`"
SPEEDS = "verify_performance.txt"
TEXTS = {
    "TEST01": ("verify_accuracy.txt", SPEEDS),
    "TEST04": (SPEEDS,),
    "TEST04-A": (SPEEDS,),
    "TEST04-B": (),
    "TEST05": (SPEEDS,),
    "TEST06": ("verify_accuracy.txt",),
    "TEST07": ("verify_accuracy.txt",),
    "TEST08": ("verify_accuracy.txt",),
    "TEST09": ("verify_output_len.txt",),
}
TOO_SHORT = "{} and the result are runs too short for a comparison of their speed"
# Tests whose speed counts, and tests that log answers.
TIMED, LOGGED = ("TEST01", "TEST04", "TEST05"), ("TEST01", "TEST06")
# LoadGen turns the requested number into a share in some rounds.
SAMPLED = ("effective_accuracy_log_sampling_target", "effective_accuracy_log_probability")
# Ours and the official verification count answers that differ from the accuracy run.
MISMATCHES = re.compile(r"(?:data_mismatch = |differ from the accuracy run: )([1-9]\d*)")
# The official verification counts the answers that were logged under load.
NOTHING = re.compile(r"num_perf_log_entries = 0\b")
HASH_LINE = re.compile(r"^hash=", re.MULTILINE)
COUNT = re.compile(r"num_(\w+) = (\d+)")
# Percent by which a metric may differ, where it is not that of the benchmark.
WIDER = {"FID score": 2.0}
# Only Offline has no first tokens.
SKIPPED = "First token check pass: Skipped"
# A verification must have one line of every group.
PASSED = {
    "TEST06": (
        ("First token check pass: True", SKIPPED),
        ("EOS check pass: True",),
        ("Sample length check pass: True",),
    ),
}


def tests(site: SubmitterSite) -> Iterator[Finding]:
    """Every test of every scenario."""
    for cell, known in site.known_cells if site.strict else ():
        for test in site.layout.tests(known.tests(site.layout.round)):
            place = cell.compliance(test)
            if place.is_dir():
                yield from _test(site, cell, test, place, known)
                continue
            alone = test != "TEST01" or cell.accuracy.is_dir()
            yield MISSING.broken(site.where(place), f"{test} is missing", MAKE if alone else ALL)


def _test(
    site: SubmitterSite, cell: ScenarioCell, test: str, place: Path, known: BenchmarkSpec
) -> Iterator[Finding]:
    yield from site.missing_file_findings(FILES, place, TEXTS[test], RERUN)
    yield from verdicts(site, cell, test, known)
    # Before, the checker looked at verdicts alone.
    if test in TIMED and rounds.since(site.layout.round, FIRST_SINGLE):
        yield from folder(site, cell, place / "performance" / "run_1", known, test)
        yield from _compared(site, cell, test, place, known)
    if test in LOGGED:
        yield from _logged(site, cell, test, place, known)
    yield from site.unknown_file_findings(FILES.at(WARNING), place, TEXTS[test])


def verdicts(
    site: SubmitterSite, cell: ScenarioCell, test: str, known: BenchmarkSpec
) -> Iterator[Finding]:
    """What the verifications of a test say, as far as they are there."""
    place = cell.compliance(test)
    for name in TEXTS[test]:
        if (place / name).is_file():
            yield from _verdict(site, cell, test, place / name, known)


def _verdict(
    site: SubmitterSite, cell: ScenarioCell, test: str, path: Path, known: BenchmarkSpec
) -> Iterator[Finding]:
    if not readable(path):
        yield VERDICT.broken(site.where(path), "it is not UTF-8", RERUN)
        return
    for fault in agreement.opposites(text(path)):
        yield VERDICT.broken(site.where(path), fault.text, RERUN)
    yield from _beside_pass(site, path)
    lines = [line.strip() for line in text(path).splitlines()]
    accuracy = path.parent / "accuracy"
    whole = all((accuracy / name).is_file() for name in TEST_ACCURACY[2:])
    unequal = path.name == "verify_accuracy.txt" and test == "TEST01" and verify.PASS not in lines
    if unequal and whole:
        yield from _nearly(site, known, accuracy)
        return
    required_lines = PASSED.get(test, ((verify.PASS,),))
    yield from _skipped(site, cell, path, lines)
    missing_lines = [any_of[0] for any_of in required_lines if not set(any_of) & set(lines)]
    if missing_lines:
        short = path.name == SPEEDS and _is_short(cell, test, known)
        yield _not_passed(site.where(path), test, missing_lines[0], short)


def _skipped(
    site: SubmitterSite, cell: ScenarioCell, path: Path, lines: list[str]
) -> Iterator[Finding]:
    """Check that first tokens were looked at where there are some."""
    scenario = Scenario.of_folder(cell.scenario)
    kept = SKIPPED not in lines or scenario is None or scenario.batched
    fault = f"it says {SKIPPED!r}, in {scenario}"
    yield from VERDICT.unless(kept, site.where(path), fault, RERUN)


def _beside_pass(site: SubmitterSite, path: Path) -> Iterator[Finding]:
    """Check that a pass has compared answers, and that none differ."""
    content, where = text(path), site.where(path)
    if verify.PASS not in content:
        return
    if counted := MISMATCHES.search(content):
        beside = f"it says {verify.PASS!r} beside {counted.group(1)} answers that differ"
        yield VERDICT.at(WARNING).broken(where, beside, RERUN)
    counts = {name: int(number) for name, number in COUNT.findall(content)}
    compared, matched = counts.get("perf_log_entries"), counts.get("perf_log_qsl_idx_match")
    if counts.get("missing_qsl_idxs") or (matched is not None and matched != compared):
        # A result of round 6.0 was accepted so.
        beside = f"it says {verify.PASS!r}, and not all samples were those of the accuracy run"
        yield VERDICT.at(WARNING).broken(where, beside, RERUN)
    if NOTHING.search(content):
        rule = VERDICT.at(WARNING, not _compares(site))
        yield rule.broken(where, f"it says {verify.PASS!r}, and compared no answers", RERUN)


def _not_passed(where: str, test: str, lost: str, short: bool) -> Finding:
    """The finding for a verification without the line ``lost``."""
    if short:
        return VERDICT.at(NATURE).broken(where, TOO_SHORT.format(test), FULL)
    return VERDICT.broken(where, f"it does not say {lost!r}", RERUN)


def _is_short(cell: ScenarioCell, test: str, known: BenchmarkSpec) -> bool:
    """Whether the test or the result is shorter than the rules want runs to be."""
    runs = cell.run, cell.compliance(test) / "performance" / "run_1"
    return any(
        verify.is_short(detail, known) for detail in map(read_detail_log, runs) if detail.values
    )


def _nearly(site: SubmitterSite, known: BenchmarkSpec, place: Path) -> Iterator[Finding]:
    """Check that the accuracy under load is close to the result's; answers may differ."""
    for bound in known.accuracy:
        accuracies = {name: bound.metric.find(text(place / name)) for name in TEST_ACCURACY[2:]}
        where = site.where(place / TEST_ACCURACY[3])
        baseline, tested = accuracies.values()
        if not baseline or not tested:
            missing_name = next(name for name, value in accuracies.items() if not value)
            yield VERDICT.broken(where, f"{missing_name} does not tell {bound.metric.name}", RERUN)
            continue
        allowed = WIDER.get(bound.metric.name, known.accuracy_delta_percent)
        comparison = verify.nearly_equal(baseline, tested, allowed)
        yield from VERDICT.unless(comparison.passed, where, "; ".join(comparison.lines), RERUN)


def _compared(
    site: SubmitterSite, cell: ScenarioCell, test: str, place: Path, known: BenchmarkSpec
) -> Iterator[Finding]:
    """Compare the test's log with the result's, and with its audit.config."""
    run = place / "performance" / "run_1"
    tested, submitted = read_detail_log(run), read_detail_log(cell.run)
    where = site.where(run / DETAIL)
    if not tested.values:
        return
    for other in agreement.of_one_result(tested, submitted, OF_PERFORMANCE):
        yield AGREES.broken(where, other.text, RERUN)
    same = _issued_again(tested)
    fault = f"performance_issue_same is not set, or not with sample {verify.SAME_SAMPLE}"
    # Its verifier compares speeds only, and runs without it were accepted once.
    rule = AUDIT.at(WARNING, site.layout.joined)
    yield from rule.unless(same or test != "TEST04", where, fault, RERUN)
    sampled = any(tested.number(key) for key in SAMPLED) and _has_sampling_seed(tested)
    fault = "no answers were asked for under load"
    yield from AUDIT.at(WARNING).unless(sampled or test != "TEST01", where, fault, RERUN)
    if not (verify.is_short(submitted, known) or verify.is_short(tested, known)):
        yield from _speed(test, where, submitted, tested)


def _issued_again(tested: DetailLog) -> bool:
    """Whether the one sample was issued again and again that the rules name."""
    index = tested.values.get("effective_performance_issue_same_index", verify.SAME_SAMPLE)
    same = tested.values.get("effective_performance_issue_same") is True
    return same and bool(index == verify.SAME_SAMPLE)


def _has_sampling_seed(tested: DetailLog) -> bool:
    """Whether answers were chosen by the seed of the rules, as far as the log says so."""
    key = "effective_accuracy_log_rng_seed"
    return bool(tested.values.get(key, verify.SAMPLING_SEED) == verify.SAMPLING_SEED)


def _speed(test: str, where: str, submitted: DetailLog, tested: DetailLog) -> Iterator[Finding]:
    named = submitted.values.get("effective_scenario")
    scenario = of_log(named)
    comparable = submitted.values and tested.values.get("effective_scenario") == named
    if not scenario or not comparable or {submitted.validity, tested.validity} != {"VALID"}:
        return
    compared = verify.performance(test, scenario, submitted, tested)
    # Slow TEST01 runs, whose logging takes time, have been accepted.
    rule = SPEED.at(WARNING, test == "TEST01")
    yield from rule.unless(compared.passed, where, "; ".join(compared.lines[-2:]), RERUN)


def _logged(
    site: SubmitterSite, cell: ScenarioCell, test: str, place: Path, known: BenchmarkSpec
) -> Iterator[Finding]:
    accuracy = place / "accuracy"
    required_files = (truncate.LOG, truncate.TEXT) if test == "TEST01" else (truncate.LOG,)
    yield from site.missing_file_findings(FILES, accuracy, required_files, RERUN)
    yield from _beside(site, test, place)
    where = site.where(accuracy / truncate.LOG)
    hint = "truncate it: `cm run script --tags=run,mlperf,inference,truncate,accuracy-log`"
    fault = "no answers were logged under load, so that nothing was compared"
    # A TEST06 without any answer was accepted even in round 5.1.
    rule = ANSWERS.at(WARNING, test != "TEST01" or not _compares(site))
    yield from rule.unless(not _is_empty(accuracy / truncate.LOG), where, fault, RERUN)
    if test != "TEST01":
        return
    yield from _hash(site, accuracy / truncate.TEXT)
    yield from indices(where, entries(accuracy / truncate.LOG), read_detail_log(cell.accuracy))
    yield from LENGTH.unless(
        not site.is_accuracy_log_too_long(accuracy), where, "it is longer than 10 KiB", hint
    )
    if verify.PASS in text(place / TEXTS[test][0]):
        # Detections of one image may come in another order.
        rule = ANSWERS.at(WARNING, known.answers is not Answers.FIXED)
        logs = (cell.accuracy / truncate.LOG, accuracy / truncate.LOG)
        yield from _same_answers(rule, where, *logs)


def _compares(site: SubmitterSite) -> bool:
    """Whether no result of the round was accepted whose test compared no answers."""
    return rounds.since(site.layout.round, FIRST_COMPARED)


def _hash(site: SubmitterSite, path: Path) -> Iterator[Finding]:
    """Check that what is called a hash is one of SHA-256; some tests have none."""
    stated = HASH_LINE.search(text(path))
    fault = "its hash is not one of SHA-256"
    kept = stated is None or bool(truncate.HASH.search(text(path)))
    yield from FILES.unless(kept, site.where(path), fault, RERUN)


def _is_empty(path: Path) -> bool:
    """Whether a log of answers is an empty list; another rule reports an empty file."""
    size = path.stat().st_size if path.is_file() else 0
    return 0 < size < LONGEST_EMPTY and not text(path).strip(" \t\r\n[],")


def _beside(site: SubmitterSite, test: str, place: Path) -> Iterator[Finding]:
    """Check the other files in the folder of a test's answers."""
    accuracy = place / "accuracy"
    passed = verify.PASS in text(place / TEXTS[test][0])
    # The checkers of before 6.0 refuse accuracies where the answers are equal.
    beside = TEST_ACCURACY[: 2 if passed and test == "TEST01" else None]
    rule = FILES.at(WARNING, site.layout.joined)
    for name in site.unknown_files(accuracy, beside):
        fault = "accuracies count only where the answers are not the same"
        kept = name in TEST_ACCURACY
        where = site.where(accuracy / name)
        yield (rule if kept else FILES).broken(
            where, fault if kept else "a file that does not belong here", f"rm {where}"
        )


def _same_answers(rule: Rule, where: str, submitted: Path, tested: Path) -> Iterator[Finding]:
    baseline = dict(entries(submitted))
    different = [index for index, data in entries(tested) if baseline.get(index, data) != data]
    if different:
        fault = f"sample {different[0]} was answered differently in the accuracy run"
        yield rule.broken(where, fault, RERUN)
