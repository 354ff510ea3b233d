"""Single changes that each break one rule of a submission tree, and changes that break none.

They work on any tree with a closed edge image-classification result, written by a test or genuine.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mlperf.catalog import Scenario
from submission_lab import ScenarioCell, SubmissionTree, line, put

DETAIL, SUMMARY = "mlperf_log_detail.txt", "mlperf_log_summary.txt"
ACCURACY = "mlperf_log_accuracy.json"
TTFT = "result_first_token_99.00_percentile_latency_ns"
TPOT = "result_time_per_output_token_99.00_percentile_ns"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a mutation strikes."""

    tree: SubmissionTree
    root: Path
    system: Path
    cells: dict[str, ScenarioCell]

    @property
    def offline(self) -> ScenarioCell:
        return self.cells["Offline"]

    @property
    def stream(self) -> ScenarioCell:
        return self.cells["SingleStream"]


@dataclass(frozen=True, slots=True)
class Mutation:
    """A change and the rule that it breaks; no rule: it is allowed."""

    name: str
    apply: Callable[[Place], None]
    rule: str = ""


def place(tree: SubmissionTree) -> Place:
    """The first submitter's resnet result."""
    from mlperf.submission.layouts import cells
    from mlperf.submission.names import official

    _, _, root = tree.submitters()[0]
    found = [cell for cell in cells(root, tree.layout) if official(cell.benchmark) == "resnet"]
    system = root / "systems" / f"{found[0].system}.json"
    return Place(tree, root, system, {scenario(cell): cell for cell in found})


def scenario(cell: ScenarioCell) -> str:
    """The scenario of a folder, which may be in lower case."""
    return str(Scenario.of_folder(cell.scenario))


def value(path: Path, key: str, new: object) -> None:
    """Change a value of a detailed log."""
    lines = []
    for each in path.read_text(encoding="utf-8").splitlines():
        begin, _, rest = each.partition("{")
        record = json.loads("{" + rest)
        if record["key"] == key:
            record["value"] = new
        lines.append(begin + json.dumps(record))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def added(path: Path, key: str, new: object) -> None:
    """Add a line to a detailed log."""
    with path.open("a", encoding="utf-8") as file:
        file.write(line(key, new) + "\n")


def error(path: Path) -> None:
    """Let LoadGen have logged an error."""
    with path.open("a", encoding="utf-8") as file:
        file.write(
            line("error_runtime", "Ending early: Too many outstanding queries.", True) + "\n"
        )


def field(path: Path, key: str, new: object) -> None:
    """Change or, with None, remove a key of a JSON file."""
    document = json.loads(path.read_text(encoding="utf-8"))
    if new is None:
        del document[key]
    else:
        document[key] = new
    path.write_text(json.dumps(document), encoding="utf-8")


def swap(one: Path, other: Path) -> None:
    """Exchange two files."""
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)


def text(path: Path, pattern: str, new: str) -> None:
    """Replace text in a file; the pattern must be there."""
    old = path.read_text(encoding="utf-8")
    changed = re.sub(pattern, new, old, count=1, flags=re.MULTILINE)
    assert changed != old, f"{pattern} does not occur in {path}"
    path.write_text(changed, encoding="utf-8")


def described(cell: ScenarioCell) -> Path:
    """The description of an implementation."""
    return next(cell.measurements.glob("*.json"))


def big(path: Path) -> None:
    """A file above 50 MB that takes no room on the disk."""
    with path.open("wb") as file:
        file.truncate(51 * 1024 * 1024)


def longer(path: Path) -> None:
    """An accuracy log above 10 KiB."""
    told = path.read_text(encoding="utf-8").strip()
    path.write_text(told[:-1] + " " * 12_000 + "]\n", encoding="utf-8")


def perf(key: str, new: object, cell: str = "Offline") -> Callable[[Place], None]:
    return lambda p: value(p.cells[cell].run / DETAIL, key, new)


def without(key: str, cell: str = "Offline") -> Callable[[Place], None]:
    """A log of a performance run that lacks a key."""
    return lambda p: text(p.cells[cell].run / DETAIL, rf'^.*"key": *"{key}".*\n', "")


def acc(key: str, new: object) -> Callable[[Place], None]:
    return lambda p: value(p.offline.accuracy / DETAIL, key, new)


def test(name: str, key: str, new: object) -> Callable[[Place], None]:
    return lambda p: value(p.offline.compliance(name) / "performance/run_1" / DETAIL, key, new)


def system(key: str, new: object) -> Callable[[Place], None]:
    return lambda p: field(p.system, key, new)


def measured(key: str, new: object) -> Callable[[Place], None]:
    return lambda p: field(described(p.offline), key, new)


def drop(path: Callable[[Place], Path]) -> Callable[[Place], None]:
    def apply(p: Place) -> None:
        target = path(p)
        shutil.rmtree(target) if target.is_dir() else target.unlink()

    return apply


def write(path: Callable[[Place], Path], content: str) -> Callable[[Place], None]:
    return lambda p: put(path(p), content)


def coded(p: Place) -> Path:
    """The folder of the benchmark's code."""
    folder = p.root / p.tree.layout.code / p.offline.benchmark
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def tested(p: Place, name: str) -> Path:
    return p.offline.compliance(name)


def empty_run(p: Place) -> None:
    for path in p.offline.run.iterdir():
        path.unlink()


def exchanged(p: Place) -> None:
    """The logs of two scenarios in each other's place."""
    for name in (DETAIL, SUMMARY):
        swap(p.offline.run / name, p.stream.run / name)


def sped_up(p: Place) -> None:
    """An Offline run ten times as fast in both logs, which took a tenth of the time then."""
    folder = p.offline.run
    value(folder / DETAIL, "result_samples_per_second", 10_000.0)
    from mlperf.submission.checks.base import read_detail_log

    most = read_detail_log(folder).number("result_max_latency_ns") or 0.0
    value(folder / DETAIL, "result_max_latency_ns", most / 10)
    text(folder / SUMMARY, r"^Samples per second: .*$", "Samples per second: 10000")


def dated(p: Place, day: str) -> None:
    """A run with the time at which its test began, beside that of its power measurement."""
    path = p.offline.run / DETAIL
    more = {"test_datetime": day, "power_begin": "11-21-2024 06:00:00.000"}
    told = "".join(line(key, told) + "\n" for key, told in more.items())
    path.write_text(path.read_text(encoding="utf-8") + told, encoding="utf-8")


def faster(p: Place) -> None:
    """A TEST04 that is half as fast again as the result, without a contradiction in its log."""
    from mlperf.submission.checks.base import read_detail_log

    found = read_detail_log(p.offline.run).values
    path = tested(p, "TEST04") / "performance/run_1" / DETAIL
    value(path, "result_samples_per_second", float(found["result_samples_per_second"]) * 1.5)
    for key in ("effective_samples_per_query", "generated_samples_per_query"):
        if key in found:
            value(path, key, int(float(found[key]) * 1.5))
    summary = path.with_name(SUMMARY)
    told = re.sub(r"(?m)^Samples per second: .*$", "", summary.read_text(encoding="utf-8"))
    summary.write_text(told, encoding="utf-8")


def unequal(p: Place, share: float) -> None:
    """TEST01 with answers that are not the same, and its accuracy as a share of the result's."""
    place = tested(p, "TEST01")
    put(place / "verify_accuracy.txt", "TEST FAIL\n")
    put(place / "accuracy/baseline_accuracy.txt", told(p))
    figure = float(re.findall(r"accuracy=([\d.]+)", told(p))[0])
    put(place / "accuracy/compliance_accuracy.txt", f"accuracy={share * figure:.3f}%\n")


def named(folder: Callable[[str], str]) -> Callable[[Place], None]:
    """Folders of the Offline scenario under another name."""

    def apply(p: Place) -> None:
        for place in {p.offline.results, p.offline.measurements, p.offline.compliance("")}:
            if place.is_dir():
                place.rename(place.with_name(folder(place.name)))

    return apply


def pointed(p: Place) -> None:
    """The code of a benchmark in a folder of another name, which a file tells."""
    folder = coded(p)
    put(folder / "README.md", "# Code\n")
    folder.rename(folder.with_name("implementation"))
    put(folder, "implementation\n")


def other_answers(p: Place) -> None:
    """TEST01 answers that contradict those that the accuracy run still shows."""
    shown = re.search(r'"qsl_idx" : (\d+)', (p.offline.accuracy / ACCURACY).read_text("utf-8"))
    assert shown is not None
    entry = f'{{ "seq_id" : 0, "qsl_idx" : {shown.group(1)}, "data" : "FFFFFFFF" }}'
    put(tested(p, "TEST01") / "accuracy" / ACCURACY, f"[\n{entry}\n]\n")


def slightly(p: Place) -> None:
    """A throughput 0.9 % too high, in both logs."""
    from mlperf.submission.checks.base import read_detail_log

    rate = 1.009 * float(read_detail_log(p.offline.run).values["result_samples_per_second"])
    value(p.offline.run / DETAIL, "result_samples_per_second", rate)
    pattern = r"^Samples per second: *[\d.]+"
    text(p.offline.run / SUMMARY, pattern, f"Samples per second: {rate:.6g}")


def other_hash(p: Place) -> None:
    """The hash of the log of another scenario."""
    from mlperf.submission.truncate import stated_hash

    log = p.stream.accuracy / ACCURACY
    if stated_hash(p.stream.accuracy) == stated_hash(p.offline.accuracy):
        # Written by a test: answers of several scenarios are the same.
        log.write_text(log.read_text(encoding="utf-8") + "\n", encoding="utf-8")
        whole = hashlib.sha256(log.read_bytes()).hexdigest()
        text(p.stream.accuracy / "accuracy.txt", r"^hash=.*$", f"hash={whole}")
    told = f"hash={stated_hash(p.stream.accuracy)}"
    text(p.offline.accuracy / "accuracy.txt", r"^hash=.*$", told)


def again(p: Place, division: str, submitter: str) -> None:
    """The same results once more, by another submitter or in another division."""
    twin = p.tree.root / division / submitter
    shutil.copytree(p.root, twin, symlinks=True)
    for path in (twin / "systems").glob("*.json"):
        field(path, "submitter", submitter)
        field(path, "division", division)


def appended(path: Callable[[Place], Path], content: bytes) -> Callable[[Place], None]:
    def apply(p: Place) -> None:
        with path(p).open("ab") as file:
            file.write(content)

    return apply


def prepended(path: Callable[[Place], Path], content: bytes) -> Callable[[Place], None]:
    """Bytes before those of a file."""

    def apply(p: Place) -> None:
        path(p).write_bytes(content + path(p).read_bytes())

    return apply


def repeated(key: str, new: object, first: bool = True) -> Callable[[Place], None]:
    """A key of the Offline log told once more, otherwise, before or after the rest."""

    def apply(p: Place) -> None:
        path = p.offline.run / DETAIL
        added = line(key, new) + "\n"
        old = path.read_text(encoding="utf-8")
        path.write_text(added + old if first else old + added, encoding="utf-8")

    return apply


def told(p: Place) -> str:
    """The accuracy.txt of Offline."""
    return (p.offline.accuracy / "accuracy.txt").read_text(encoding="utf-8")


def server(p: Place) -> None:
    """A scenario that the category does not have."""
    shutil.copytree(p.stream.results, p.stream.results.with_name("Server"))


def renamed(p: Place) -> None:
    """A benchmark that no round has."""
    folder = p.offline.results.parent
    folder.rename(folder.with_name("resnext"))


def documented(p: Place) -> None:
    """calibration.md in its other place."""
    put(p.root / "documentation" / "calibration.md", "# Calibration\n\nnone\n")
    (p.root / "calibration.md").unlink()


def lowered(p: Place) -> None:
    """Scenario folders in lower case, as earlier tools wrote them."""
    for cell in p.cells.values():
        places = (cell.results, cell.measurements, cell.compliance(""))
        for folder in dict.fromkeys(places):
            if folder.is_dir():
                folder.rename(folder.with_name(cell.scenario.lower()))


def accelerated(p: Place) -> None:
    """Accelerators in the description of a system that has none."""
    count = json.loads(p.system.read_text(encoding="utf-8")).get("accelerators_per_node")
    assert str(count) == "0", "it has accelerators"
    field(p.system, "accelerators_per_node", "8")


MUTATIONS = (
    # Performance runs
    Mutation(
        "performance log says INVALID", perf("result_validity", "INVALID"), "performance.invalid"
    ),
    Mutation(
        "performance log without a verdict",
        lambda p: text(p.offline.run / DETAIL, r'^.*"result_validity".*\n', ""),
        "performance.unfinished",
    ),
    Mutation(
        "error line in a performance log",
        lambda p: error(p.offline.run / DETAIL),
        "performance.errors",
    ),
    Mutation(
        "performance run in accuracy mode",
        perf("effective_test_mode", "AccuracyOnly"),
        "performance.mode",
    ),
    Mutation(
        "MultiStream result of nothing, with queries enough",
        perf("early_stopping_latency_ms", 0, "MultiStream"),
        "performance.figures",
    ),
    Mutation(
        "performance log of a Server run",
        perf("effective_scenario", "Server"),
        "performance.scenario",
    ),
    Mutation(
        "MultiStream log in the SingleStream folder",
        perf("effective_scenario", "MultiStream", "SingleStream"),
        "performance.scenario",
    ),
    Mutation("wrong qsl seed", perf("effective_qsl_rng_seed", 1), "performance.seeds"),
    Mutation(
        "wrong sample index seed", perf("effective_sample_index_rng_seed", 1), "performance.seeds"
    ),
    Mutation("wrong schedule seed", perf("effective_schedule_rng_seed", 1), "performance.seeds"),
    Mutation(
        "seeds of another round",
        perf("effective_qsl_rng_seed", 6023615788873153749),
        "performance.seeds",
    ),
    Mutation(
        "shortest duration 60 s", perf("effective_min_duration_ms", 60_000), "performance.duration"
    ),
    Mutation(
        "SingleStream of 10 s",
        perf("effective_min_duration_ms", 10_000, "SingleStream"),
        "performance.duration",
    ),
    Mutation(
        "100 Offline samples", perf("effective_samples_per_query", 100), "performance.samples"
    ),
    Mutation(
        "500 loaded samples", perf("effective_performance_sample_count", 500), "performance.samples"
    ),
    Mutation(
        "data set of 100 samples, 1024 stated",
        perf("qsl_reported_total_count", 100),
        "performance.samples",
    ),
    Mutation(
        "early stopping not met",
        perf("early_stopping_met", False, "SingleStream"),
        "performance.early-stopping",
    ),
    Mutation(
        "VALID although too short by LoadGen",
        perf("result_min_duration_met", False),
        "performance.consistent",
    ),
    Mutation(
        "VALID although too few queries",
        perf("result_min_queries_met", False, "SingleStream"),
        "performance.consistent",
    ),
    Mutation(
        "throughput edited in the detailed log",
        perf("result_samples_per_second", 123456.0),
        "performance.consistent",
    ),
    Mutation(
        "latency edited in the detailed log",
        perf("early_stopping_latency_ss", 1, "SingleStream"),
        "performance.consistent",
    ),
    Mutation("num_errors 3, no error logged", perf("num_errors", 3), "performance.consistent"),
    Mutation(
        "throughput edited in the summary",
        lambda p: text(
            p.offline.run / SUMMARY, r"^Samples per second: *[\d.]+", "Samples per second: 99999"
        ),
        "performance.consistent",
    ),
    Mutation(
        "summary says INVALID",
        lambda p: text(p.offline.run / SUMMARY, "^Result is : VALID", "Result is : INVALID"),
        "performance.consistent",
    ),
    Mutation(
        "summary of another scenario",
        lambda p: swap(p.offline.run / SUMMARY, p.stream.run / SUMMARY),
        "performance.consistent",
    ),
    Mutation(
        "summary cut short",
        lambda p: text(p.offline.run / SUMMARY, r"Result is[\s\S]*", ""),
        "performance.unfinished",
    ),
    Mutation("summary missing", drop(lambda p: p.offline.run / SUMMARY), "performance.files"),
    Mutation("detailed log missing", drop(lambda p: p.offline.run / DETAIL), "performance.files"),
    Mutation(
        "detailed log empty", write(lambda p: p.offline.run / DETAIL, ""), "performance.files"
    ),
    Mutation("run folder empty", empty_run, "performance.files"),
    Mutation(
        "more than the logs in run_1",
        write(lambda p: p.offline.run / "notes.txt", "x"),
        "performance.extra-files",
    ),
    Mutation("performance logs of two scenarios exchanged", exchanged, "performance.scenario"),
    Mutation(
        "one sample issued again and again",
        perf("effective_performance_issue_same", True),
        "performance.settings",
    ),
    Mutation(
        "every sample issued once",
        perf("effective_performance_issue_unique", True),
        "performance.settings",
    ),
    Mutation(
        "4096 answers logged under load",
        perf("effective_accuracy_log_sampling_target", 4096),
        "performance.settings",
    ),
    Mutation(
        "max_query_count 1000",
        perf("effective_max_query_count", 1000, "SingleStream"),
        "performance.settings",
    ),
    Mutation(
        "max_duration 60 s",
        perf("effective_max_duration_ms", 60_000, "SingleStream"),
        "performance.settings",
    ),
    Mutation(
        "p50 in place of p90",
        perf("effective_target_latency_percentile", 0.5, "SingleStream"),
        "performance.settings",
    ),
    Mutation("64 queries", perf("result_query_count", 64, "SingleStream"), "performance.queries"),
    Mutation(
        "MultiStream of 4 samples",
        perf("effective_samples_per_query", 4, "MultiStream"),
        "performance.settings",
    ),
    Mutation("throughput 0.9 % too high in both logs", slightly, "performance.consistent"),
    Mutation(
        "performance log without its result",
        without("result_samples_per_second"),
        "performance.figures",
    ),
    Mutation(
        "a word in place of the result",
        perf("result_samples_per_second", "fast"),
        "performance.figures",
    ),
    Mutation("a rate of zero", perf("result_samples_per_second", 0), "performance.figures"),
    Mutation(
        "Offline log without its number of samples",
        without("effective_samples_per_query"),
        "performance.figures",
    ),
    Mutation(
        "SingleStream log without its result",
        without("early_stopping_latency_ss", "SingleStream"),
        "performance.figures",
    ),
    Mutation(
        "broken line in a detailed log",
        appended(lambda p: p.offline.run / DETAIL, b':::MLLOG {"key": "resu\n'),
        "log.lines",
    ),
    Mutation(
        "detailed log that is not UTF-8",
        appended(lambda p: p.offline.run / DETAIL, b"\xff\xfe\n"),
        "log.lines",
    ),
    Mutation(
        "a verdict before that of LoadGen", repeated("result_validity", "INVALID"), "log.lines"
    ),
    Mutation(
        "a second throughput", repeated("result_samples_per_second", 5000.0, False), "log.lines"
    ),
    Mutation("a second seed", repeated("effective_qsl_rng_seed", 1), "log.lines"),
    Mutation(
        "detailed log that begins with a mark of its encoding",
        prepended(lambda p: p.offline.run / DETAIL, b"\xef\xbb\xbf"),
        "log.lines",
    ),
    Mutation(
        "detailed log with a line of another program",
        prepended(lambda p: p.offline.accuracy / DETAIL, b"starting\n"),
        "log.lines",
    ),
    Mutation(
        "line of a detailed log without metadata",
        appended(lambda p: p.offline.run / DETAIL, b':::MLLOG {"key": "x", "value": 1}\n'),
        "log.lines",
    ),
    Mutation(
        "line of a detailed log with metadata of nothing",
        appended(
            lambda p: p.offline.run / DETAIL,
            b':::MLLOG {"key": "x", "value": 1, "metadata": null}\n',
        ),
        "log.lines",
    ),
    Mutation(
        "line of a detailed log nested without end",
        appended(lambda p: p.offline.run / DETAIL, b":::MLLOG " + b"[" * 100_000 + b"\n"),
        "log.lines",
    ),
    Mutation(
        "a throughput of 400 digits",
        perf("result_samples_per_second", 10**400),
        "performance.figures",
    ),
    # Accuracy runs
    Mutation(
        "accuracy below its target",
        lambda p: text(p.offline.accuracy / "accuracy.txt", r"accuracy=[\d.]+", "accuracy=60.000"),
        "accuracy.target",
    ),
    Mutation(
        "accuracy beside the numbers of another one",
        lambda p: text(p.offline.accuracy / "accuracy.txt", r"good=\d+", "good=30000"),
        "accuracy.consistent",
    ),
    Mutation(
        "a run of 67 s by its figures",
        sped_up,
        "performance.consistent",
    ),
    Mutation(
        "summary of another system under test",
        lambda p: text(p.offline.run / SUMMARY, r"^SUT name : .*", "SUT name : Other"),
        "performance.consistent",
    ),
    Mutation(
        "summary that counts errors",
        appended(lambda p: p.offline.run / SUMMARY, b"2 ERRORS encountered. See detailed log.\n"),
        "performance.consistent",
    ),
    Mutation(
        "a tenth of the samples loaded",
        lambda p: added(p.offline.run / DETAIL, "loaded_qsl_set", list(range(100))),
        "performance.consistent",
    ),
    Mutation(
        "requested in accuracy mode",
        lambda p: added(p.offline.run / DETAIL, "requested_test_mode", "AccuracyOnly"),
        "performance.consistent",
    ),
    Mutation(
        "a run of the year 2019 by one of its times",
        lambda p: dated(p, "2019-11-21T06:00:00Z"),
        "performance.consistent",
    ),
    Mutation(
        "accuracy.txt without a figure",
        lambda p: text(p.offline.accuracy / "accuracy.txt", r"^accuracy=.*\n", ""),
        "accuracy.figure",
    ),
    Mutation(
        "accuracy.txt without a hash",
        lambda p: text(p.offline.accuracy / "accuracy.txt", r"^hash=.*\n", ""),
        "accuracy.hash",
    ),
    Mutation(
        "accuracy.txt missing",
        drop(lambda p: p.offline.accuracy / "accuracy.txt"),
        "accuracy.files",
    ),
    Mutation(
        "accuracy log missing", drop(lambda p: p.offline.accuracy / ACCURACY), "accuracy.files"
    ),
    Mutation("accuracy folder missing", drop(lambda p: p.offline.accuracy), "accuracy.files"),
    Mutation(
        "accuracy log not truncated",
        lambda p: longer(p.offline.accuracy / ACCURACY),
        "accuracy.truncated",
    ),
    Mutation(
        "accuracy log changed after truncation",
        lambda p: text(p.offline.accuracy / ACCURACY, r"\n\.\.\.\n", "\n...\nxx"),
        "accuracy.answers",
    ),
    Mutation(
        "accuracy log of another run, whole and short",
        write(
            lambda p: p.offline.accuracy / ACCURACY,
            '[\n{ "seq_id" : 0, "qsl_idx" : 1, "data" : "00000000" }\n]\n',
        ),
        "accuracy.other-run",
    ),
    Mutation(
        "accuracy log without answers",
        write(lambda p: p.offline.accuracy / ACCURACY, "[\n]\n"),
        "accuracy.answers",
    ),
    Mutation(
        "error line in an accuracy log",
        lambda p: error(p.offline.accuracy / DETAIL),
        "accuracy.errors",
    ),
    Mutation("wrong seeds in the accuracy run", acc("effective_qsl_rng_seed", 1), "accuracy.seeds"),
    Mutation("accuracy over 500 samples", acc("qsl_reported_total_count", 500), "accuracy.samples"),
    Mutation(
        "accuracy run in performance mode",
        acc("effective_test_mode", "PerformanceOnly"),
        "accuracy.mode",
    ),
    Mutation(
        "accuracy run cut off",
        lambda p: text(p.offline.accuracy / SUMMARY, r"^No errors.*\n", ""),
        "accuracy.unfinished",
    ),
    Mutation(
        "accuracy logs of two scenarios exchanged",
        lambda p: swap(p.offline.accuracy / DETAIL, p.stream.accuracy / DETAIL),
        "accuracy.scenario",
    ),
    Mutation(
        "more files in the accuracy folder",
        write(lambda p: p.offline.accuracy / "images.txt", "x"),
        "accuracy.extra-files",
    ),
    Mutation(
        "accuracy run by another LoadGen",
        acc("loadgen_version", "4.0 @ 0000000000"),
        "accuracy.loadgen",
    ),
    Mutation(
        "accuracy of 101 %",
        lambda p: text(p.offline.accuracy / "accuracy.txt", r"accuracy=[\d.]+", "accuracy=101.0"),
        "accuracy.figure",
    ),
    Mutation(
        "accuracy.txt of 500 samples",
        lambda p: text(p.offline.accuracy / "accuracy.txt", r"total=\d+", "total=500"),
        "accuracy.samples",
    ),
    Mutation(
        "accuracy.txt that is not UTF-8",
        appended(lambda p: p.offline.accuracy / "accuracy.txt", b"\xff\xfe\n"),
        "accuracy.figure",
    ),
    Mutation(
        "a second accuracy, below the target",
        lambda p: put(
            p.offline.accuracy / "accuracy.txt", told(p).replace("hash=", "accuracy=1.0%\nhash=")
        ),
        "accuracy.target",
    ),
    Mutation(
        "a space behind the hash",
        lambda p: put(p.offline.accuracy / "accuracy.txt", told(p).rstrip() + " \n"),
        "accuracy.hash",
    ),
    Mutation(
        "hash of zeros",
        lambda p: text(p.offline.accuracy / "accuracy.txt", r"^hash=.*$", f"hash={'0' * 64}"),
        "accuracy.hash",
    ),
    Mutation(
        "hash of 63 digits",
        lambda p: text(p.offline.accuracy / "accuracy.txt", r"^(hash=\w{63})\w", r"\1"),
        "accuracy.hash",
    ),
    Mutation(
        "an answer for a sample that the data set does not have",
        lambda p: text(p.offline.accuracy / ACCURACY, r'"qsl_idx" : \d+', '"qsl_idx" : 99999999'),
        "accuracy.answers",
    ),
    Mutation(
        "accuracy run of another system under test", acc("sut_name", "Other"), "accuracy.consistent"
    ),
    Mutation(
        "accuracy run of the year 2099",
        lambda p: added(p.offline.accuracy / DETAIL, "test_datetime", "2099-01-02T03:04:05Z"),
        "accuracy.consistent",
    ),
    Mutation("hash of another scenario's log", other_hash, "accuracy.other-run"),
    Mutation(
        "one set of logs of two submitters",
        lambda p: again(p, p.root.parent.name, "Other"),
        "accuracy.copied",
    ),
    Mutation(
        "one set of logs in two divisions",
        lambda p: again(p, "open", p.root.name),
        "accuracy.copied",
    ),
    # Compliance tests
    Mutation(
        "TEST01 PASS beside answers that differ",
        write(
            lambda p: tested(p, "TEST01") / "verify_accuracy.txt",
            "num_perf_log_data_mismatch = 59\nTEST PASS\n",
        ),
        "compliance.verdict",
    ),
    Mutation("TEST01 a tenth less accurate", lambda p: unequal(p, 0.9), "compliance.verdict"),
    Mutation("TEST01 with an accuracy of nothing", lambda p: unequal(p, 0.0), "compliance.verdict"),
    Mutation("TEST01 missing", drop(lambda p: tested(p, "TEST01")), "compliance.missing"),
    Mutation("TEST04 missing", drop(lambda p: tested(p, "TEST04")), "compliance.missing"),
    Mutation(
        "TEST01 accuracy failed",
        write(lambda p: tested(p, "TEST01") / "verify_accuracy.txt", "TEST FAIL\n"),
        "compliance.verdict",
    ),
    Mutation(
        "TEST04 performance failed",
        write(lambda p: tested(p, "TEST04") / "verify_performance.txt", "TEST FAIL\n"),
        "compliance.verdict",
    ),
    Mutation(
        "TEST01 verification that is not UTF-8",
        lambda p: (tested(p, "TEST01") / "verify_accuracy.txt").write_bytes(b"\xff\nTEST PASS\n"),
        "compliance.verdict",
    ),
    Mutation(
        "TEST01 verify file missing",
        drop(lambda p: tested(p, "TEST01") / "verify_performance.txt"),
        "compliance.files",
    ),
    Mutation(
        "TEST01 accuracy folder missing",
        drop(lambda p: tested(p, "TEST01") / "accuracy"),
        "compliance.files",
    ),
    Mutation(
        "TEST01 log missing",
        drop(lambda p: tested(p, "TEST01") / "performance/run_1" / DETAIL),
        "performance.files",
    ),
    Mutation(
        "more files in a test's run_1",
        write(lambda p: tested(p, "TEST04") / "performance/run_1/x.json", "{}"),
        "performance.extra-files",
    ),
    Mutation(
        "error line in a test's log",
        lambda p: error(tested(p, "TEST04") / "performance/run_1" / DETAIL),
        "performance.errors",
    ),
    Mutation(
        "TEST01 run INVALID", test("TEST01", "result_validity", "INVALID"), "performance.invalid"
    ),
    Mutation(
        "TEST04 of 60 s",
        test("TEST04", "effective_min_duration_ms", 60_000),
        "performance.duration",
    ),
    Mutation(
        "TEST01 with wrong seeds", test("TEST01", "effective_qsl_rng_seed", 1), "performance.seeds"
    ),
    Mutation(
        "TEST04 made without its audit.config",
        test("TEST04", "effective_performance_issue_same", False),
        "compliance.audit",
    ),
    Mutation(
        "TEST01 made without its audit.config",
        test("TEST01", "effective_accuracy_log_sampling_target", 0),
        "compliance.audit",
    ),
    Mutation("TEST04 half as fast again as the result", faster, "compliance.speed"),
    Mutation("TEST01 answers of another model", other_answers, "compliance.answers"),
    Mutation(
        "TEST01 that compared nothing",
        write(
            lambda p: tested(p, "TEST01") / "verify_accuracy.txt",
            "num_acc_log_entries = 50000\nnum_perf_log_entries = 0\nTEST PASS\n",
        ),
        "compliance.verdict",
    ),
    Mutation(
        "TEST01 without a logged answer",
        write(lambda p: tested(p, "TEST01") / "accuracy" / ACCURACY, "[ ]\n"),
        "compliance.answers",
    ),
    Mutation(
        "TEST01 of another system under test",
        test("TEST01", "sut_name", "Other"),
        "compliance.consistent",
    ),
    Mutation(
        "TEST01 of samples that the accuracy run lacks",
        write(
            lambda p: tested(p, "TEST01") / "verify_accuracy.txt",
            "num_perf_log_entries = 59\nnum_perf_log_qsl_idx_match = 0\nTEST PASS\n",
        ),
        "compliance.verdict",
    ),
    Mutation(
        "TEST04 made with another sample",
        lambda p: added(
            tested(p, "TEST04") / "performance/run_1" / DETAIL,
            "effective_performance_issue_same_index",
            0,
        ),
        "compliance.audit",
    ),
    Mutation(
        "TEST01 whose hash is none",
        lambda p: text(tested(p, "TEST01") / "accuracy/accuracy.txt", r"^hash=\w{4}", "hash=zzzz"),
        "compliance.files",
    ),
    # Descriptions
    Mutation("no node", system("number_of_nodes", "0"), "system.field-number"),
    Mutation(
        "an accelerator without a name", system("accelerators_per_node", "1"), "system.field-number"
    ),
    Mutation("name of the system of blanks", system("system_name", "  "), "system.field-empty"),
    Mutation(
        "a field of the system twice, with two values",
        lambda p: text(p.system, r"^\{", '{"cooling": "air", '),
        "system.field-type",
    ),
    Mutation(
        "weights trained again, in the closed division",
        measured("retraining", "yes"),
        "measurements.retraining",
    ),
    Mutation("description of the system missing", drop(lambda p: p.system), "system.missing"),
    Mutation(
        "description of the system cut off",
        lambda p: put(p.system, '{"division": '),
        "system.unreadable",
    ),
    Mutation(
        "description of the system nested without end",
        lambda p: put(p.system, "[" * 100_000),
        "system.unreadable",
    ),
    Mutation("nodes of 400 digits", system("number_of_nodes", "9" * 400), "system.field-number"),
    Mutation("division in capitals", system("division", "Closed"), "system.owner"),
    Mutation("key of the system missing", system("cooling", None), "system.field-missing"),
    Mutation(
        "field of the system empty", system("host_processor_model_name", ""), "system.field-empty"
    ),
    Mutation(
        "accelerators_per_node as the number 0",
        system("accelerators_per_node", 0),
        "system.field-empty",
    ),
    Mutation("number_of_nodes no number", system("number_of_nodes", "some"), "system.field-number"),
    Mutation("9,999 cores", system("host_processor_core_count", "9999"), "system.field-number"),
    Mutation("accelerators on a CPU run", accelerated, "system.field-number"),
    Mutation("unknown status", system("status", "soon"), "system.status"),
    Mutation("unknown system type", system("system_type", "desktop"), "system.type"),
    Mutation("space in the system type", system("system_type", "datacenter, edge"), "system.type"),
    Mutation("a list of frameworks", system("framework", ["a", "b"]), "system.field-type"),
    Mutation("a number as the notes", system("sw_notes", 5), "system.field-type"),
    Mutation("is_network that is no text", system("is_network", False), "system.field-type"),
    Mutation("is_network without a network", system("is_network", "no"), "system.field-missing"),
    Mutation("accelerators N/A", system("accelerators_per_node", "N/A"), "system.field-number"),
    Mutation(
        "system type without this benchmark",
        system("system_type", "datacenter"),
        "benchmark.category",
    ),
    Mutation("submitter of another folder", system("submitter", "Other"), "system.owner"),
    Mutation("division of another folder", system("division", "open"), "system.owner"),
    Mutation(
        "network system in the closed division", system("is_network", "true"), "system.network"
    ),
    Mutation(
        "system without results",
        lambda p: put(p.system.with_name("other.json"), p.system.read_text(encoding="utf-8")),
        "tree.system-without-results",
    ),
    Mutation(
        "measurements.json missing", lambda p: described(p.offline).unlink(), "measurements.files"
    ),
    Mutation("measurements.json without a key", measured("retraining", None), "measurements.keys"),
    Mutation(
        "empty value in measurements.json", measured("weight_data_types", ""), "measurements.values"
    ),
    Mutation(
        "user.conf missing",
        drop(lambda p: p.offline.measurements / "user.conf"),
        "measurements.files",
    ),
    Mutation(
        "README.md empty",
        write(lambda p: p.offline.measurements / "README.md", ""),
        "measurements.files",
    ),
    # The tree
    Mutation(
        "scenario missing",
        drop(lambda p: p.cells["MultiStream"].results),
        "benchmark.scenario-missing",
    ),
    Mutation("scenario that edge does not have", server, "benchmark.scenario-unknown"),
    Mutation("scenario in capitals", named(str.upper), "benchmark.scenario-unknown"),
    Mutation(
        "folder of a system without a result",
        write(lambda p: p.root / "results/notes/a.md", "x"),
        "system.missing",
    ),
    Mutation("unknown benchmark", renamed, "benchmark.unknown"),
    Mutation("code missing", drop(lambda p: p.root / p.tree.layout.code), "tree.code"),
    Mutation(
        "calibration.md missing", drop(lambda p: p.root / "calibration.md"), "tree.calibration"
    ),
    Mutation("stray file at the top", write(lambda p: p.tree.root / "run.sh", "x"), "tree.root"),
    Mutation(
        "stray folder at the top", write(lambda p: p.tree.root / "logs/a.txt", "x"), "tree.root"
    ),
    Mutation(
        "file beside the submitters",
        write(lambda p: p.root.parent / "notes.txt", "x"),
        "tree.division",
    ),
    Mutation("hidden file", write(lambda p: coded(p) / ".env", "x"), "tree.names"),
    Mutation("space in a name", write(lambda p: coded(p) / "my notes.md", "x"), "tree.names"),
    Mutation(
        "compiled Python files",
        write(lambda p: coded(p) / "__pycache__/a.pyc", "x"),
        "tree.names",
    ),
    Mutation(
        "folder whose name ends with __pycache__",
        write(lambda p: coded(p) / "my__pycache__/a.txt", "x"),
        "tree.names",
    ),
    Mutation(
        "hidden link", lambda p: (coded(p) / ".docs").symlink_to(p.root / "systems"), "tree.names"
    ),
    Mutation(
        "link that leads elsewhere from the top of the tree",
        lambda p: (coded(p) / "same.md").symlink_to("README.md"),
        "tree.links",
    ),
    Mutation("broken link", lambda p: (coded(p) / "gone.md").symlink_to("nowhere"), "tree.links"),
    Mutation("file above 50 MB", lambda p: big(coded(p) / "weights.bin"), "tree.size"),
    Mutation(
        "empty folder",
        lambda p: (p.root / p.tree.layout.code / "empty").mkdir(),
        "tree.empty-folder",
    ),
    Mutation(
        "empty power folder",
        lambda p: (p.offline.results / "performance/power").mkdir(),
        "power.files",
    ),
)

# What is right must stay right.
ALLOWED = (
    Mutation("a document at the top", write(lambda p: p.tree.root / "NOTES.md", "x")),
    Mutation("further documentation", write(lambda p: p.root / "documentation/how.md", "x")),
    Mutation("calibration in documentation", documented),
    Mutation("scenario folders in lower case", lowered),
    Mutation("more keys in the description of the system", system("host_chassis", "tower")),
    Mutation("is_network that says nothing", system("is_network", "")),
    Mutation("nodes as a number", system("number_of_nodes", 1)),
    Mutation("status in capitals", system("status", "Available")),
    Mutation("more samples issued than asked for", perf("effective_samples_per_query", 600_000)),
    Mutation("longer runs", perf("effective_min_duration_ms", 1_200_000, "SingleStream")),
    Mutation(
        "hash in capitals",
        lambda p: put(
            p.offline.accuracy / "accuracy.txt",
            re.sub("(?<=hash=).*", lambda found: found[0].upper(), told(p)),
        ),
    ),
    Mutation(
        "accuracy without its percent sign",
        lambda p: put(p.offline.accuracy / "accuracy.txt", told(p).replace("%", "")),
    ),
    Mutation("code that a file points to", pointed),
    Mutation("TEST01 nearly as accurate", lambda p: unequal(p, 0.999)),
    Mutation("link to a folder", lambda p: (coded(p) / "same").symlink_to(p.root / "systems")),
    Mutation("more notes in the code", write(lambda p: coded(p) / "notes.md", "x")),
)  # fmt: skip
