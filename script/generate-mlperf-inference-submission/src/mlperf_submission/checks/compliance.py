"""Compliance tests of the closed division."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from mlperf_harness import rules
from mlperf_harness.measuring import verify

from .. import truncate
from ..build import DETAIL, TEST_ACCURACY
from ..layouts import Cell
from .accuracy import entries
from .base import CHECKER, RULES, Finding, Rule, Site, log, missing, text
from .performance import folder

MISSING = Rule("compliance.missing", "every test that the round asks for", RULES)
VERDICT = Rule("compliance.verdict", "its verification says TEST PASS", CHECKER)
FILES = Rule("compliance.files", "the files of the test and no others", CHECKER)
AUDIT = Rule("compliance.audit", "the run was made with the test's audit.config", RULES)
SPEED = Rule("compliance.speed", "the test is about as fast as the result", RULES)
ANSWERS = Rule("compliance.answers", "the same answers under load as in the accuracy run", RULES)
LENGTH = Rule("compliance.truncated", "a log of at most 10 KiB", CHECKER)

COMMAND = "cm run script --tags=run-mlperf,inference,_compliance,_full --mode=compliance"
MAKE = f"make the tests: {COMMAND}"
ALL = (
    "make the accuracy run, which the test is compared with, and the test: "
    "cm run script --tags=run-mlperf,inference,_all-modes,_compliance,_full"
)
RERUN = f"make the tests again: {COMMAND} --rerun"
TEXTS = {
    "TEST01": ("verify_accuracy.txt", "verify_performance.txt"),
    "TEST04": ("verify_performance.txt",),
    "TEST05": ("verify_performance.txt",),
    "TEST06": ("verify_accuracy.txt",),
}
# LoadGen turns the number that it was asked for into a share in some rounds.
SAMPLED = ("effective_accuracy_log_sampling_target", "effective_accuracy_log_probability")
PASSED = {
    "TEST06": ("EOS check pass: True", "Sample length check pass: True"),
}


def tests(site: Site) -> Iterator[Finding]:
    """Every test of every scenario."""
    if not site.strict:
        return
    for cell in site.cells:
        known = site.rules(cell.benchmark)
        if known is None:
            continue
        for test in known.tests(site.layout.round):
            place = cell.compliance(test)
            if not place.is_dir():
                alone = test != "TEST01" or cell.accuracy.is_dir()
                mend = MAKE if alone else ALL
                yield MISSING.broken(site.where(place), f"{test} is missing", mend)
                continue
            yield from _test(site, cell, test, place, known)


def _test(
    site: Site, cell: Cell, test: str, place: Path, known: rules.BenchmarkRules
) -> Iterator[Finding]:
    for name in missing(place, TEXTS[test]):
        yield FILES.broken(site.where(place / name), "missing or empty", RERUN)
    for name in TEXTS[test]:
        if (place / name).is_file():
            yield from _verdict(site, test, place / name)
    if test != "TEST06":
        yield from folder(site, cell, place / "performance" / "run_1", known, test)
        yield from _compared(site, cell, test, place)
    if test in ("TEST01", "TEST06"):
        yield from _logged(site, cell, test, place)
    for name in site.extra(place, (*TEXTS[test], "performance", "accuracy")):
        where = site.where(place / name)
        yield FILES.broken(where, "a file that does not belong here", f"rm {where}")


def _verdict(site: Site, test: str, path: Path) -> Iterator[Finding]:
    lines = [line.strip() for line in text(path).splitlines()]
    told = path.parent / "accuracy"
    if path.name == "verify_accuracy.txt" and test == "TEST01" and verify.PASS not in lines:
        by_accuracy = all((told / name).is_file() for name in TEST_ACCURACY)
        if by_accuracy:
            return
    wanted = PASSED.get(test, (verify.PASS,))
    lost = [line for line in wanted if line not in lines]
    if lost:
        yield VERDICT.broken(site.where(path), f"it does not say {lost[0]!r}", RERUN)


def _compared(site: Site, cell: Cell, test: str, place: Path) -> Iterator[Finding]:
    """The test's own log against that of the result, and against its audit.config."""
    run = place / "performance" / "run_1"
    tested, submitted = log(run), log(cell.run)
    where = site.where(run / DETAIL)
    if not tested.values:
        return
    if test == "TEST04" and tested.values.get("effective_performance_issue_same") is not True:
        yield AUDIT.broken(where, "performance_issue_same is not set", RERUN)
    if test == "TEST01" and not any(tested.number(key) for key in SAMPLED):
        yield AUDIT.broken(where, "no answers were asked for under load", RERUN)
    scenario = str(submitted.values.get("effective_scenario", ""))
    if tested.values.get("effective_scenario") != scenario or not submitted.values:
        return
    compared = verify.performance(test, scenario, submitted, tested)
    if not compared.passed and tested.validity == submitted.validity == "VALID":
        yield SPEED.broken(where, "; ".join(compared.lines[-2:]), RERUN)


def _logged(site: Site, cell: Cell, test: str, place: Path) -> Iterator[Finding]:
    accuracy = place / "accuracy"
    wanted = (truncate.LOG, truncate.TEXT) if test == "TEST01" else (truncate.LOG,)
    for name in missing(accuracy, wanted):
        yield FILES.broken(site.where(accuracy / name), "missing or empty", RERUN)
    for name in site.extra(accuracy, TEST_ACCURACY):
        where = site.where(accuracy / name)
        yield FILES.broken(where, "a file that does not belong here", f"rm {where}")
    if site.uncut(accuracy):
        hint = "cm run script --tags=run,mlperf,inference,truncate,accuracy-log"
        yield LENGTH.broken(site.where(accuracy / truncate.LOG), "it is longer than 10 KiB", hint)
    if test != "TEST01" or verify.PASS not in text(place / TEXTS[test][0]):
        return
    baseline = dict(entries(cell.accuracy / truncate.LOG))
    different = [
        index
        for index, data in entries(accuracy / truncate.LOG)
        if index in baseline and baseline[index] != data
    ]
    if different:
        found = f"sample {different[0]} was answered differently in the accuracy run"
        yield ANSWERS.broken(site.where(accuracy / truncate.LOG), found, RERUN)
