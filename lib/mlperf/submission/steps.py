"""The steps of the scripts on a tree: they take plain values and return lines to print."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import common.text
from common.problems import Hint
from common.text import aligned, terminal_width
from mlperf.catalog import Division, rounds

from . import (
    build,
    category,
    checks,
    commands,
    infer,
    intake,
    layouts,
    make_lines,
    names,
    official,
    pack,
    page,
    runs,
    summary,
    system,
)
from .checks.base import ERROR, Finding, read_detail_log, read_object
from .errors import SubmissionError, together
from .layouts import SubmissionTree
from .sources import BenchmarkRun, CollectedRuns
from .system import Asker, SystemDescription
from .verdict import TreeVerdict, judge

ANSWERS = "system.yaml"


@dataclass(frozen=True, slots=True)
class TreeRequest:
    """The options of ``generate``; empty texts are unset.

    ``make_target`` makes runs where the user types make: then advice has make commands.
    """

    results_dir: Path
    submission_dir: Path
    submitter: str
    division: str = ""
    category: str = ""
    round: str = ""
    device: str = ""
    clean: bool = False
    truncated: bool = True
    inferred: bool = False
    system_file: Path | None = None
    compare: Path | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    hw_notes_extra: str = ""
    sw_notes_extra: str = ""
    gpus: system.Gpus = tuple
    make_target: str = ""
    handed: intake.RunOverrides = field(default_factory=intake.RunOverrides)


@dataclass(frozen=True, slots=True)
class StepAnswer:
    """Lines for people, and the same for programs."""

    lines: tuple[str, ...]
    data: Mapping[str, Any]
    verdict: TreeVerdict


def report_folder(submission_dir: Path) -> Path:
    """Return the folder of a tree's summary: next to it, as it is no part of the submission."""
    return submission_dir.with_name(submission_dir.name + "-report")


def generate(request: TreeRequest, ask: Asker | None = None) -> StepAnswer:
    """Write the tree, its README tables and the report; judge it by our own checks.

    Raises SubmissionError without results.
    """
    try:
        return _generate(request, ask)
    except SubmissionError as problem:
        if not request.make_target:
            raise
        raise make_lines.MakeFolder(request.make_target).error(problem) from None


def _generate(request: TreeRequest, ask: Asker | None) -> StepAnswer:
    collected = _collected(request)
    chosen: Sequence[BenchmarkRun] = _chosen(collected, request)
    layout = layouts.of_round(request.round or _one_round(chosen))
    checks.refuse_unknown(layout.round)
    division = _one_division(chosen, request)
    settled = category.settle(chosen, layout.round, division, partial(_category, request))
    chosen = settled.runs
    described = _describe(request, chosen, division, ask)
    added: list[str] = []

    def finish(folder: Path) -> None:
        tree = SubmissionTree(folder, layout)
        if request.inferred:
            added.extend(infer.fill(tree))
        for path, text in summary.readmes(tree):
            path.write_text(text, encoding="utf-8")

    notes = (*collected.notes, *settled.notes)
    parts = [build.TreePart(run, described[run.sut].document()) for run in chosen]
    order = build.TreeOrder(request.submitter, division, layout, request.clean, request.truncated)
    built = build.build(request.submission_dir, parts, order, finish)
    tree = SubmissionTree(request.submission_dir, layout)
    verdict = judge(
        [_typed(finding, chosen, request.make_target) for finding in checks.check(tree)]
    )
    rows = report(tree, verdict, described, compare=request.compare)
    line = f"tree:    {tree.root} (round v{layout.round}, {division}, {request.submitter})"
    lines = (
        *_description_lines(described, request.make_target),
        *("", line, f"report:  {report_folder(tree.root) / 'report.html'}"),
        *(line for note in (*notes, *added) for line in wrapped(note, "note:    ", " " * 9)),
        *("", *result_lines(rows)),
        *("", *verdict_lines(verdict)),
    )
    everything = [*notes, *built.notes, *added]
    return StepAnswer(
        lines, {**_data(tree, verdict, rows, described), "notes": everything}, verdict
    )


def _collected(request: TreeRequest) -> CollectedRuns:
    """Return the runs; raise SubmissionError that names all missing options."""
    problems: list[SubmissionError] = []
    handed = replace(request.handed, division=request.division, round=request.round)
    collected = CollectedRuns()
    try:
        collected = runs.collect(request.results_dir, handed)
    except intake.MissingInputError as questions:
        problems.append(questions)
        collected = CollectedRuns(questions.runs)
    if not request.submitter:
        what = {"--submitter=NAME": "the submitter"}
        hint = "give --submitter=NAME"
        problems.append(SubmissionError("no submitter is named", hint, "needs-input", what))
    # A category that alone is missing is requested where it is inferred.
    if problems and all(run.round and "" not in run.scenarios for run in collected.runs):
        try:
            division = request.division or Division.OPEN
            declared_category = partial(_category, request)
            category.settle(collected.runs, collected.runs[0].round, division, declared_category)
        except SubmissionError as unsettled:
            problems += [unsettled] if unsettled.options else []
    if problems:
        raise together(problems)
    return collected


def _chosen(collected: CollectedRuns, request: TreeRequest) -> list[BenchmarkRun]:
    """Return the runs on the requested device; raise SubmissionError when there are none."""
    chosen = [run for run in collected.runs if request.device in ("", run.device)]
    if not chosen:
        raise SubmissionError(
            f"no results for the device {request.device} in {request.results_dir}",
            "leave out --device, or run the benchmark on it first",
            "no-results",
        )
    return chosen


def _one_division(chosen: Sequence[BenchmarkRun], request: TreeRequest) -> str:
    divisions = {request.division or run.division for run in chosen}
    if len(divisions) > 1:
        raise SubmissionError(
            "the results are of several divisions: " + ", ".join(sorted(divisions)),
            "say which one to submit: --division=closed or open",
        )
    return divisions.pop()


def _typed(finding: Finding, chosen: Sequence[BenchmarkRun], make_target: str) -> Finding:
    """The finding with the very command that makes its runs, where it is about runs."""
    if make_target:
        return make_lines.MakeFolder(make_target).finding(finding)
    parts = finding.where.split("/")
    for run in chosen:
        if parts[3:5] == [run.sut, names.official(run.benchmark)]:
            scenario = parts[5] if len(parts) > 5 else ""
            mend = commands.elsewhere(finding.mend)
            if run.results:
                mend = commands.complete(finding.mend, run.results, scenario)
            return replace(finding, mend=mend)
    return finding


def _one_round(chosen: Sequence[BenchmarkRun]) -> str:
    round_names = sorted({run.round for run in chosen})
    if len(round_names) > 1:
        raise SubmissionError(
            f"the results are of several rounds: {', '.join(round_names)}",
            f"say which one to submit: --round={round_names[-1]}",
        )
    return round_names[0]


def _describe(
    request: TreeRequest, chosen: Sequence[BenchmarkRun], division: str, ask: Asker | None
) -> dict[str, SystemDescription]:
    """Return one description per system; its framework and notes may come from several runs."""
    descriptions: dict[str, SystemDescription] = {}
    for run in chosen:
        if run.sut in descriptions:
            continue
        options = {**request.fields, "submitter": request.submitter}
        options |= {"division": request.division, "system_type": request.category}
        entries, source = _own_description(request, run)
        decided = {"division": division, "system_type": run.category}
        known = {**runs.facts(run, request.gpus), **_values(decided)}
        described = system.describe(known, options, entries, source, ask)
        descriptions[run.sut] = _with_notes(described, request)
        _remember(described, run)
    return descriptions


def _values(texts: Mapping[str, str]) -> dict[str, system.FieldValue]:
    """Return fields of the system with these texts, empty ones left out."""
    return {name: system.FieldValue(text, system.RESULTS) for name, text in texts.items() if text}


def _category(request: TreeRequest, run: BenchmarkRun) -> str:
    """Return the category that the user has declared, or an empty text."""
    return request.category or _own_description(request, run)[0].get("system_type", "")


def _own_description(request: TreeRequest, run: BenchmarkRun) -> tuple[dict[str, str], str]:
    if request.system_file is not None:
        return system.read_file(request.system_file), request.system_file.name
    path = _kept(run)
    return (system.read_file(path), path.name) if path and path.is_file() else ({}, "")


def _kept(run: BenchmarkRun) -> Path | None:
    """Return the file of the stored answers about a machine, next to its targets."""
    kept = run.results.sut_file if run.results else ""
    return Path(kept).with_name(ANSWERS) if kept else None


def _remember(described: SystemDescription, run: BenchmarkRun) -> None:
    """Store the user's answers, so that they are requested once."""
    answers = {name: v.text for name, v in described.values.items() if v.origin == "answer"}
    kept = _kept(run)
    if not answers or kept is None:
        return
    known = system.read_file(kept) if kept.is_file() else {}
    kept.parent.mkdir(parents=True, exist_ok=True)
    lines = [f"{name}: {json.dumps(text)}" for name, text in sorted({**known, **answers}.items())]
    kept.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _with_notes(described: SystemDescription, request: TreeRequest) -> SystemDescription:
    values = dict(described.values)
    for name, extra in (("hw_notes", request.hw_notes_extra), ("sw_notes", request.sw_notes_extra)):
        if extra:
            old = values[name].text
            values[name] = system.FieldValue(f"{old}; {extra}" if old else extra, "option")
    return replace(described, values=values)


def round_of(tree_root: Path) -> str:
    """Return the round of a tree, by the seed in its performance logs; the newest by default."""
    by_seed = {seed: name for name, seed in rounds.qsl_seeds().items()}
    for path in sorted(tree_root.glob("*/*/results/*/*/*/performance/run_1")):
        round_name = by_seed.get(read_detail_log(path).values.get("effective_qsl_rng_seed", -1))
        if round_name:
            return round_name
    return rounds.LATEST


def check(
    submission_dir: Path,
    benchmark_round: str,
    submitter: str,
    outcomes: Sequence[official.CheckerOutcome] = (),
    compare: Path | None = None,
    explain: bool = False,
    make_target: str = "",
) -> StepAnswer:
    """Judge a tree by our own checks, with the outcomes of the official checkers.

    ``make_target`` makes runs where the user types make: then advice has make commands.

    Raises SubmissionError where there is no tree.
    """
    tree = _tree(submission_dir, benchmark_round)
    findings = checks.check(tree, submitter)
    if make_target:
        findings = [make_lines.MakeFolder(make_target).finding(finding) for finding in findings]
    verdict = judge(findings)
    rows = report(tree, verdict, {}, outcomes, compare)
    said = [
        line
        for outcome in outcomes
        for line in ("", outcome.line, *_complaint_lines(outcome, verdict))
    ]
    lines = [
        f"tree:    {tree.root} (round v{tree.layout.round})",
        f"report:  {report_folder(tree.root) / 'report.html'}",
        "",
        *([*result_lines(rows), ""] if explain else []),
        *verdict_lines(verdict, everything=explain),
        *said,
    ]
    more = {"official": [asdict(outcome) for outcome in outcomes], "official_lines": said}
    return StepAnswer(tuple(lines), {**_data(tree, verdict, rows, {}), **more}, verdict)


def _tree(
    folder: Path, benchmark_round: str = "", option: str = "--submission_dir"
) -> SubmissionTree:
    """Return the tree in a folder, with the requested round or that of its logs."""
    if not folder.is_dir():
        raise SubmissionError(f"there is no tree {folder}", f"check {option}")
    return SubmissionTree(folder, layouts.of_round(benchmark_round or round_of(folder)))


def summarize(
    submission_dir: Path,
    benchmark_round: str = "",
    compare: Path | None = None,
    folder: Path | None = None,
) -> StepAnswer:
    """Write the report of a tree again, to ``folder`` or next to the tree; nothing is refused.

    Raises SubmissionError where there is no tree.
    """
    tree = _tree(submission_dir, benchmark_round)
    if compare is not None:
        _tree(compare, option="--compare")
    name = tree.layout.round
    verdict = judge(checks.check(tree)) if checks.known(name) else TreeVerdict((), unjudged=name)
    folder = folder or report_folder(submission_dir)
    rows = report(tree, verdict, {}, compare=compare, folder=folder)
    if not rows:
        raise SubmissionError(f"{submission_dir} holds no results", "generate it first")
    files = "report.html, summary.csv, summary.json, checks.json"
    lines = [
        f"tree:    {tree.root} (round v{tree.layout.round})",
        *wrapped(f"{folder}: {files}", "written: ", " " * 9),
        "",
        *result_lines(rows),
        "",
        *wrapped(f"verdict: {verdict.line}", "", "  "),
    ]
    return StepAnswer(
        tuple(lines), {**_data(tree, verdict, rows, {}), "report": str(folder)}, verdict
    )


def _complaint_lines(outcome: official.CheckerOutcome, verdict: TreeVerdict) -> list[str]:
    known = {finding.rule for finding in (*verdict.faults, *verdict.nature)}
    # Many lines follow from one cause: the first one represents all that break the same rule.
    causes: dict[str, list[str]] = {}
    for complaint in outcome.complaints:
        causes.setdefault(complaint.rule or complaint.text, []).append(complaint.text)
    lines = []
    for rule, texts in list(causes.items())[:20]:
        about = "no rule of ours" if rule in texts else rule
        also = "found by our checks too" if rule in known else "not found by our checks"
        more = f", {len(texts)} lines" if len(texts) > 1 else ""
        lines += wrapped(texts[0], "  ", "  ")
        lines += wrapped(f"({about}: {also}{more})", "    ", "    ")
    return lines


def report(
    tree: SubmissionTree,
    verdict: TreeVerdict,
    described: Mapping[str, SystemDescription],
    outcomes: Sequence[official.CheckerOutcome] = (),
    compare: Path | None = None,
    folder: Path | None = None,
) -> list[summary.SummaryRow]:
    """Write summary.csv, summary.json, checks.json and report.html to ``folder``.

    Facts of the systems and the last outcomes of the official checkers for the same tree are
    stored next to the tree.
    """
    beside = report_folder(tree.root)
    folder = folder or beside
    folder.mkdir(parents=True, exist_ok=True)
    rows = summary.rows(tree)
    contents = page.PageContents(
        tree.layout.round,
        str(tree.root),
        rows,
        verdict,
        _systems(beside / "system.json", described),
        _remembered(beside / "official.json", tree.root, outcomes),
        summary.rows(_tree(compare, option="--compare")) if compare else [],
        str(compare or ""),
    )
    _write(folder / "summary.csv", summary.as_csv(rows))
    _write(folder / "summary.json", summary.as_json(rows))
    _write(folder / "checks.json", json.dumps(_verdict_data(verdict), indent=2) + "\n")
    _write(folder / "report.html", page.render(contents))
    return rows


def _systems(
    path: Path, described: Mapping[str, SystemDescription]
) -> Mapping[str, SystemDescription]:
    """These descriptions, kept in ``path``; or where there are none those kept before."""
    if not described:
        return _read_described(path)
    _write(
        path,
        json.dumps(
            {name: _plain(description) for name, description in described.items()}, indent=2
        ),
    )
    return described


def _remembered(
    path: Path, tree_root: Path, outcomes: Sequence[official.CheckerOutcome]
) -> Sequence[official.CheckerOutcome]:
    """Return these outcomes, stored in ``path``; without any those stored of this very tree."""
    if outcomes:
        record = {"tree": pack.fingerprint(tree_root), "outcomes": [asdict(e) for e in outcomes]}
        _write(path, json.dumps(record, indent=2) + "\n")
        return outcomes
    stored = read_object(path)
    if stored is None or stored.get("tree") != pack.fingerprint(tree_root):
        return ()
    return [official.remembered(outcome) for outcome in stored["outcomes"]]


def _plain(described: SystemDescription) -> dict[str, list[str]]:
    return {name: [value.text, value.origin] for name, value in described.values.items()}


def _read_described(path: Path) -> dict[str, SystemDescription]:
    try:
        return {
            name: SystemDescription(
                {key: system.FieldValue(*pair) for key, pair in fields.items()}, ()
            )
            for name, fields in (read_object(path) or {}).items()
        }
    except (TypeError, AttributeError):
        return {}


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def _verdict_data(verdict: TreeVerdict) -> dict[str, Any]:
    return {
        "submittable": verdict.submittable,
        "verdict": verdict.line,
        "faults": [asdict(finding) for finding in verdict.faults],
        "nature": [asdict(finding) for finding in verdict.nature],
        "warnings": [asdict(finding) for finding in verdict.warnings],
        "notices": [asdict(finding) for finding in verdict.notices],
    }


def _data(
    tree: SubmissionTree,
    verdict: TreeVerdict,
    rows: Sequence[summary.SummaryRow],
    described: Mapping[str, SystemDescription],
) -> dict[str, Any]:
    return {
        "tree": str(tree.root),
        "round": tree.layout.round,
        "report": str(report_folder(tree.root)),
        **_verdict_data(verdict),
        "results": [asdict(row) for row in rows],
        "systems": {name: _plain(description) for name, description in described.items()},
        "questions": {
            name: [question.name for question in description.questions]
            for name, description in described.items()
        },
    }


def _description_lines(described: Mapping[str, SystemDescription], make_target: str) -> list[str]:
    lines = []
    again = Hint("generate again with --system_file=FILE")
    again = make_lines.MakeFolder(make_target).advice(again) if make_target else again
    missing = Hint(f"not known; write them into a file, and {again.marked}:")
    for name, description in described.items():
        lines += [f"system {name}:"]
        rows = [
            (key, value.text or "-", value.origin)
            for key, value in description.values.items()
            if value.text
        ]
        lines += table(("field", "value", "from"), rows)
        if description.questions:
            lines += ["", *wrapped(missing, "", "  ")]
            for question in description.questions:
                lines += wrapped(f"{question.name}: {question.hint}", "  ", "    ")
    return lines


def result_lines(rows: Sequence[summary.SummaryRow]) -> list[str]:
    """Every result in a line or two."""
    lines = []
    for row in rows:
        benchmark, scenario, *cells = summary.cells_of(row)
        value, validity, accuracy, target, tests = cells
        parts = [value, validity]
        parts += [f"accuracy {accuracy} (target {target})"] if row.accuracy is not None else []
        parts += [tests] if tests != "-" else []
        lines += wrapped(f"{benchmark} {scenario}: {', '.join(parts)}", "", "  ")
    return lines


def verdict_lines(verdict: TreeVerdict, everything: bool = False) -> list[str]:
    """Return the verdict and its reasons: the broken rules with their first paths."""
    lines = wrapped(f"verdict: {verdict.line}", "", "  ")
    shown: dict[str, list[Finding]] = {}
    shown_also = verdict.notices if everything else ()
    for finding in (*verdict.faults, *verdict.nature, *verdict.warnings, *shown_also):
        shown.setdefault(finding.rule, []).append(finding)
    for findings in shown.values():
        lines += _finding_lines(findings, len(findings) if everything else 2)
    for finding in () if everything else verdict.notices[:4]:
        lines += wrapped(f"to look at: {finding.found} ({finding.rule})", "", "  ")
    return lines


def _finding_lines(findings: Sequence[Finding], shown: int) -> list[str]:
    first = findings[0]
    level = "" if first.severity == ERROR else f"{first.severity}: "
    lines = wrapped(f"- {level}{first.rule}: {first.found}", "", "  ")
    for finding in findings[:shown]:
        own = "" if finding.found == first.found else f": {finding.found}"
        lines += wrapped(f"{finding.where}{own}", "    ", "      ")
    if len(findings) > shown:
        lines.append(f"    and in {len(findings) - shown} more places")
    lines += wrapped(Hint(f"to mend: {Hint(first.mend).marked}"), "    ", "      ")
    lines += wrapped(f"source: {first.source}", "    ", "      ")
    return lines


def table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A table of three columns for a terminal; the middle one is cut where it is too narrow."""
    first, _, last = (max(map(len, column)) for column in zip(heading, *rows, strict=True))
    middle = max(20, terminal_width() - first - last - 4)
    return aligned((heading, *rows), ruled=True, most=(first, middle, last))


def wrapped(text: str, first: str = "", later: str = "") -> list[str]:
    """A paragraph in the width of the terminal; words, such as paths, and commands stay whole."""
    return common.text.wrapped(text, first, later, terminal_width())
