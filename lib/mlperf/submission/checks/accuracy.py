"""Accuracy runs: their logs, their figures, and whether they belong to what was measured."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from common.files import sha256
from mlperf.catalog import Answers, BenchmarkSpec, Scenario, Target, rounds
from mlperf.catalog.scenario import of_log
from mlperf.harness.measuring import agreement
from mlperf.harness.measuring.detail_log import DetailLog

from .. import truncate
from ..build import ACCURACY, DETAIL, SUMMARY
from ..files import text
from ..layouts import FIRST_JOINED, ScenarioCell
from .base import (
    ACCURACY_SUFFIX,
    CHECKER,
    FIRST_FILLED,
    LAST_SINGLE_FILE,
    LOADGEN,
    NATURE,
    RULES,
    WARNING,
    Finding,
    Rule,
    SubmitterSite,
    read_detail_log,
    unreadable_lines,
)
from .benchmarks import form
from .performance import seeds

FILES = Rule("accuracy.files", "the logs of the run and accuracy.txt", CHECKER)
EXTRA = Rule("accuracy.extra-files", "nothing but these files", CHECKER, last=LAST_SINGLE_FILE)
FIGURE = Rule("accuracy.figure", "accuracy.txt holds the metric of the benchmark", CHECKER)
SHARE = Rule("accuracy.consistent", "figures that fit each other", LOADGEN)
TARGET = Rule("accuracy.target", "closed division: the accuracy reaches its target", RULES)
LOST = (
    f"the log was cut before: give the whole {truncate.LOG}, or put hash= and the SHA-256 of the "
    f"whole one into {truncate.TEXT}, also into the file that it comes from"
)
HASH = Rule("accuracy.hash", "the SHA-256 of the whole log", CHECKER)
LENGTH = Rule("accuracy.truncated", "a log of at most 10 KiB", CHECKER)
ERRORS = Rule("accuracy.errors", "LoadGen logged no error", RULES)
MODE = Rule("accuracy.mode", "a run in accuracy mode", RULES, WARNING)
UNFINISHED = Rule("accuracy.unfinished", "a run that came to its end", LOADGEN)
SCENARIO = Rule("accuracy.scenario", "a run of this scenario", RULES, first=FIRST_FILLED)
SEEDS = Rule("accuracy.seeds", "the seeds of the round", RULES, first=FIRST_FILLED)
SAMPLES = Rule("accuracy.samples", "the whole data set", RULES, NATURE)
ANSWERS = Rule("accuracy.answers", "a log of LoadGen's answers", LOADGEN)
COPIED = Rule("accuracy.copied", "every run has logs of its own", LOADGEN, WARNING)
VERSION = Rule("accuracy.loadgen", "the LoadGen of the performance run", RULES, WARNING)
OUTPUTS = Rule("accuracy.outputs", "the outputs that the round wants to see", CHECKER)
FOREIGN = Rule(
    "accuracy.other-run",
    "the log of the run that accuracy.txt was made from",
    LOADGEN,
    first=FIRST_FILLED,
)

# The checkers take no space behind the hash.
EXACT_HASH = re.compile(r"^hash=\w+$", re.MULTILINE)
# Of a log that is longer than twice this, only so many bytes of every end are looked at.
SHOWN = 1 << 20
ACCURACY_MODE = "AccuracyOnly"
_INDEX, _DATA = r'"qsl_idx"\s*:\s*(\d+)', r'"data"\s*:\s*"([0-9A-Fa-f]*)"'
# LoadGen writes the index first; logs that went through a program have keys by the alphabet.
ENTRY = re.compile(rf"{_INDEX},\s*{_DATA}|{_DATA},\s*{_INDEX}")
TOTAL = re.compile(r"\btotal=(\d+)")
GENERATED = re.compile(r"'gen_num': *'?(\d+)")
# A number as the representation of an object has it, such as np.float64(42.9), or as a text.
_NUMBER = r"(?P<number>-?\d+(?:\.\d+)?)"
NOTATIONS = re.compile(
    rf"(?:\b[A-Za-z_][\w.]*\(\[?'?|'(?=[-\d.]+'))\s*{_NUMBER}\s*"
    r"(?:'?(?:,\s*dtype=[\w.]+)?\]?\)|')"
)
# NumPy prints its numbers so since version 2.
PLAIN = (
    "write the numbers alone, also into the file that it comes from: "
    r"sed -i -E 's/\bnp\.[a-z0-9_]+\(([^()]*)\)/\1/g' accuracy.txt"
)
# As programs write in a language with decimal commas. Lists have a space behind theirs.
COMMA = re.compile(r"(?<=[=:\s])('?-?\d+),(\d+)(?=['%\s}]|,\s|$)")
POINT = (
    "write points, also in the program that it comes from (LC_ALL=C): "
    r"sed -i -E 's/([0-9]),([0-9])/\1.\2/g' accuracy.txt"
)
# A hash of SHA-256 has nearly all 16 digits.
LEAST_DIGITS = 6
BEGINNING = re.compile(r'\[\s*\{\s*"(?:seq_id|qsl_idx|data|token_count)"')
RERUN = "run it again: `cm run script --tags=run-mlperf,inference,_accuracy-only,_full --rerun`"

KEEP_OUTPUTS = "let the accuracy run keep the outputs of these samples, and put them there"


def runs(site: SubmitterSite) -> Iterator[Finding]:
    """The accuracy run of every scenario."""
    for cell, known in site.known_cells:
        place = cell.accuracy
        yield from site.missing_file_findings(FILES, place, ACCURACY, RERUN)
        yield from site.unknown_file_findings(EXTRA, place, ACCURACY)
        yield from _text(site, cell, place, known)
        yield from _outputs(site, place, known)
        yield from logged(site, cell, known)
    yield from _copies(site)
    yield from _hashes(site)


def logged(site: SubmitterSite, cell: ScenarioCell, known: BenchmarkSpec) -> Iterator[Finding]:
    """Check the logs of an accuracy run, without what was computed from them."""
    place = cell.accuracy
    # A run in another mode has no answers, which _log reports.
    if read_detail_log(place).values.get("effective_test_mode", ACCURACY_MODE) == ACCURACY_MODE:
        yield from _answers(site, place, known)
    if (place / DETAIL).is_file():
        yield from unreadable_lines(site, place / DETAIL, RERUN)
        yield from _log(site, cell, place, known)


def figure(place: Path, target: Target) -> float | None:
    """What accuracy.txt says of a metric, in its unit, or None."""
    return target.metric.find(text(place / truncate.TEXT))


def _text(
    site: SubmitterSite, cell: ScenarioCell, place: Path, known: BenchmarkSpec
) -> Iterator[Finding]:
    path = place / truncate.TEXT
    if not path.is_file():
        return
    where = site.where(path)
    yield from _figures(site, cell, place, known)
    yield from _counted(site, place, known)
    log_file = place / truncate.LOG
    stated = truncate.stated_hash(place)
    if stated and len(set(stated)) < LEAST_DIGITS:
        yield HASH.broken(
            where, f"{stated[:8]}... is not a hash of a log", "generate the tree again"
        )
    elif not stated or not EXACT_HASH.search(text(path)):
        mend = LOST if log_file.is_file() and truncate.cut(log_file) else "generate the tree again"
        yield HASH.broken(where, "no line hash=SHA-256", mend)
    if site.is_accuracy_log_too_long(place):
        size = f"{log_file.stat().st_size / 1024:.0f} KiB"
        hint = "truncate it: `cm run script --tags=run,mlperf,inference,truncate,accuracy-log`"
        yield LENGTH.broken(site.where(log_file), f"it has {size}", hint)
    whole = log_file.is_file() and not truncate.cut(log_file)
    if stated and whole and sha256(log_file) != stated:
        fault = "the log is not the one whose hash accuracy.txt holds"
        yield FOREIGN.broken(where, fault, RERUN)


def _outputs(site: SubmitterSite, place: Path, known: BenchmarkSpec) -> Iterator[Finding]:
    """Check the images or videos of a few samples."""
    required = known.outputs.samples.get(site.layout.round, ()) if known.outputs else ()
    if known.outputs is None or not required:
        return
    folder = place / known.outputs.folder
    present_samples = {path.name.partition(".")[0] for path in folder.rglob("*")}
    lacking = [str(sample) for sample in required if str(sample) not in present_samples]
    # The checkers of rounds before 6.0 count an incomplete set for the open division.
    lenient = not site.strict and not rounds.since(site.layout.round, FIRST_JOINED)
    fault = f"without the outputs of {', '.join(lacking)}"
    rule = OUTPUTS.at(WARNING, lenient)
    yield from rule.unless(not lacking, site.where(folder), fault, KEEP_OUTPUTS)


def _counted(site: SubmitterSite, place: Path, known: BenchmarkSpec) -> Iterator[Finding]:
    """Check the rest of accuracy.txt: shares and counts of samples."""
    path = place / truncate.TEXT
    try:
        content = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        yield FIGURE.broken(site.where(path), "it is not UTF-8", RERUN)
        return
    for fault in (*agreement.share(content), *agreement.scores(content)):
        yield SHARE.broken(site.where(path), fault.text, RERUN)
    total, required = TOTAL.search(content), known.accuracy_samples or known.dataset_size
    texts = GENERATED.search(content)
    if texts and int(texts.group(1)) < required:
        text_ = f"its figures are those of {texts.group(1)} texts, the data set has {required}"
        # A result was accepted whose figures are those of 100 texts.
        yield SAMPLES.at(WARNING).broken(site.where(path), text_, "run on the whole data set")
    if total and int(total.group(1)) < required:
        text_ = f"its figure is one of {total.group(1)} samples, the data set has {required}"
        rule = SAMPLES.at(WARNING, not site.strict)
        yield rule.broken(site.where(path), text_, "run on the whole data set")


def _figures(
    site: SubmitterSite, cell: ScenarioCell, place: Path, known: BenchmarkSpec
) -> Iterator[Finding]:
    where = site.where(place / truncate.TEXT)
    for bound in known.accuracy:
        value, name = figure(place, bound), bound.metric.name
        notation = _other_notation(place, bound)
        if value is None or notation:
            # No checker of any round requires one of the open division.
            rule = FIGURE.at(WARNING, not site.strict)
            yield rule.broken(where, *(notation or (f"it does not hold {name}", RERUN)))
        elif bound.unit == "%" and value > 100:
            yield FIGURE.broken(where, f"{name} is {value:g} %", RERUN)
        elif site.strict and (missed := _missed(place, bound)):
            fault = f"{name} is {missed[0]:g}, the target is {bound.text}"
            finding = TARGET.broken(where, fault, "submit it to the open division")
            # Another form has targets of its own, which its runs were judged by.
            yield replace(finding, severity=NATURE) if form(cell) else finding


def _other_notation(place: Path, bound: Target) -> tuple[str, str] | None:
    """Return what accuracy.txt says in a notation that no checker reads, and the remedy."""
    whole, name = text(place / truncate.TEXT), bound.metric.name
    for notation, plain, mend in ((NOTATIONS, r"\g<number>", PLAIN), (COMMA, r"\1.\2", POINT)):
        value = bound.metric.find(notation.sub(plain, whole))
        if value not in (None, bound.metric.find(whole)):
            written = next(match[0] for match in notation.finditer(whole))
            fault = f"{name} is {value:g} there, in a notation that the checkers do not read"
            return f"{fault}: {written}", mend
    return None


def _missed(place: Path, bound: Target) -> list[float]:
    """Return the figures of accuracy.txt that miss a target, in the order of its lines."""
    before, _, after = text(place / truncate.TEXT).partition("\nhash=")
    looked_at = before if bound.metric.find(before) is not None else before + "\n" + after
    figures_ = (bound.metric.find(line) for line in looked_at.splitlines())
    return [value for value in figures_ if value is not None and not bound.holds(value)]


def shown(path: Path) -> str:
    """A log of answers, or the first and the last part of one that would fill the memory."""
    size = path.stat().st_size
    if size <= 2 * SHOWN:
        return text(path)
    with path.open("rb") as file:
        head = file.read(SHOWN)
        file.seek(-SHOWN, os.SEEK_END)
        return (head + truncate.GAP + file.read()).decode("utf-8", "replace")


def entries(path: Path) -> list[tuple[int, str]]:
    """Return samples and answers of a log, also of a truncated one."""
    if not path.is_file():
        return []
    matches = ENTRY.findall(shown(path))
    return [(int(first or last), data or other) for first, data, other, last in matches]


def _answers(site: SubmitterSite, place: Path, known: BenchmarkSpec) -> Iterator[Finding]:
    path = place / truncate.LOG
    if not path.is_file() or not path.stat().st_size:
        return
    where, answers, content = site.where(path), entries(path), shown(path).strip()
    # An answer may be longer than what a cut log keeps of its beginning.
    if not BEGINNING.match(content) or not content.endswith("]"):
        # No checker reads it, and the open division has accepted one.
        rule = ANSWERS.at(WARNING, site.layout.joined and not site.strict)
        yield rule.broken(where, "it is not a list of answers", RERUN)
    elif truncate.cut(path) and not truncate.genuine(path.read_bytes()):
        yield ANSWERS.broken(where, "it was changed after it was cut", "generate the tree again")
    sizes = {len(data) for _, data in answers} if known.answers is Answers.FIXED else set()
    yield from ANSWERS.unless(len(sizes) < 2, where, "its answers differ in size", RERUN)
    yield from indices(where, answers, read_detail_log(place))


def indices(where: str, answers: list[tuple[int, str]], detail: DetailLog) -> Iterator[Finding]:
    """Check that a log has answers for samples of the data set."""
    total = detail.number("qsl_reported_total_count")
    greatest = max((index for index, _ in answers), default=0)
    if total and greatest >= total:
        fault = f"an answer for sample {greatest} of a data set of {total:.0f} samples"
        yield ANSWERS.broken(where, fault, RERUN)


def _log(
    site: SubmitterSite, cell: ScenarioCell, place: Path, known: BenchmarkSpec
) -> Iterator[Finding]:
    detail, where = read_detail_log(place), site.where(place / DETAIL)
    mode = detail.values.get("effective_test_mode")
    if mode != ACCURACY_MODE:
        yield MODE.broken(where, f"the run was made in the mode {mode}", RERUN)
    elif not re.search(r"errors? encountered", text(place / SUMMARY), re.IGNORECASE):
        yield UNFINISHED.broken(site.where(place / SUMMARY), "the run was cut off", RERUN)
    if detail.errors:
        yield ERRORS.broken(where, f"LoadGen logged: {detail.errors[0]}", RERUN)
    measured = str(detail.values.get("effective_scenario", ""))
    expected = Scenario.of_folder(cell.scenario)
    if measured.lower() not in (
        (expected.loadgen if expected else cell.scenario).lower(),
        str(read_detail_log(cell.run).values.get("effective_scenario", "")).lower(),
    ):
        rule = SCENARIO.at(WARNING, mode != ACCURACY_MODE)
        yield rule.broken(where, f"this is a log of {measured}", RERUN)
    # Accuracy runs without any seeds have been accepted.
    rule = SEEDS.at(WARNING, detail.values.get("effective_qsl_rng_seed") == 0)
    yield from seeds(site, where, detail, rule, RERUN)
    used, before = (
        each_log.values.get("loadgen_version") for each_log in (detail, read_detail_log(cell.run))
    )
    fault = f"LoadGen is {used}, in the performance run {before}"
    yield from VERSION.unless(not before or used == before, where, fault, RERUN)
    yield from _agreement(site, cell, where, detail)
    yield from _covered(site, where, detail, known)


def _agreement(
    site: SubmitterSite, cell: ScenarioCell, where: str, detail: DetailLog
) -> Iterator[Finding]:
    """Check an accuracy run for contradictions, and against the performance run."""
    faults = (
        *agreement.of_accuracy(detail, text(cell.accuracy / SUMMARY)),
        *agreement.of_one_result(detail, read_detail_log(cell.run)),
    )
    for fault in faults:
        yield SHARE.at(WARNING, fault.doubtful).broken(where, fault.text, RERUN)


def _covered(
    site: SubmitterSite, where: str, detail: DetailLog, known: BenchmarkSpec
) -> Iterator[Finding]:
    """Check that an accuracy run covers the data set exactly."""
    required = known.accuracy_samples or known.dataset_size
    total = detail.number("qsl_reported_total_count") or 0.0
    # Most logs lack the number of answers; the modular checker reads the key where it exists.
    key = "effective_accuracy_sample_count"
    read = site.layout.modular and key in detail.values
    answered = detail.number(key) or (0.0 if read else total)
    total = answered if answered > required else min(total, answered)
    text_ = f"accuracy over {total:.0f} samples, the data set has {required}"
    # The modular checker looks at it in the open division too, and at more than there are.
    newer = site.layout.joined
    is_complete = total >= required and (answered <= required or not site.layout.modular)
    rule = SAMPLES.at(WARNING, not newer and (total > required or not site.strict))
    yield from rule.unless(is_complete, where, text_, "run on the whole data set")


def _hashes(site: SubmitterSite) -> Iterator[Finding]:
    """Check for two different logs with the same hash."""
    seen: dict[str, tuple[ScenarioCell, bytes]] = {}
    for cell in site.cells:
        stated, path = truncate.stated_hash(cell.accuracy), cell.accuracy / truncate.LOG
        if stated and path.is_file():
            first, content = seen.setdefault(stated, (cell, path.read_bytes()))
            if path.read_bytes() != content:
                fault = f"the hash of the log of {first.system}/{first.benchmark}/{first.scenario}"
                yield FOREIGN.broken(site.where(cell.accuracy / truncate.TEXT), fault, RERUN)


def across(sites: Iterable[SubmitterSite]) -> Iterator[Finding]:
    """Check for a detailed log that two submitters or two divisions share."""
    seen: dict[bytes, SubmitterSite] = {}
    for site in sites:
        for path in (path for cell in site.cells for path in _logs(cell)):
            first = seen.setdefault(_digest(path), site)
            if first is not site:
                fault = f"the same log as one of {first.division}/{first.submitter}"
                yield COPIED.broken(site.where(path), fault, RERUN)


def _logs(cell: ScenarioCell) -> list[Path]:
    paths = (place / DETAIL for place in (cell.accuracy, cell.run))
    return [path for path in paths if path.is_file() and path.stat().st_size]


def _digest(path: Path) -> bytes:
    return hashlib.sha256(path.read_bytes()).digest()


def _copies(site: SubmitterSite) -> Iterator[Finding]:
    """Check for copies of a detailed log, except where one run may stand for another."""
    seen: dict[bytes, ScenarioCell] = {}
    for cell in site.cells:
        for path in _logs(cell):
            first = seen.setdefault(_digest(path), cell)
            if first is not cell and not _shared(first, cell, path.parent):
                fault = f"the same log as in {first.system}/{first.benchmark}/{first.scenario}"
                yield COPIED.broken(site.where(path), fault, RERUN)


def _shared(first: ScenarioCell, cell: ScenarioCell, place: Path) -> bool:
    """Whether two scenarios may have one log: inferred results, and -99 with a stricter twin."""
    if first.system != cell.system:
        return False
    if first.benchmark != cell.benchmark:
        twins = {ACCURACY_SUFFIX.sub("", name) for name in (first.benchmark, cell.benchmark)}
        return len(twins) == 1 and first.scenario.lower() == cell.scenario.lower()
    return _inferred(first, cell, of_log(read_detail_log(place).values.get("effective_scenario")))


def _inferred(first: ScenarioCell, cell: ScenarioCell, measured: Scenario | None) -> bool:
    """Whether a run of ``measured`` stands for one of two scenarios, or for both."""
    named = [Scenario.of_folder(named_cell.scenario) for named_cell in (first, cell)]
    others = [scenario for scenario in named if scenario is None or scenario.loadgen != measured]
    return bool(others) and measured is not None and set(others) <= set(measured.stands_for)
