"""The rules on finished runs where they lie: what is wrong is told, and how to make it again."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

import benchmark_lab
import submission_mutations as mutations
from mlperf.harness import records
from mlperf.harness.measuring.verdict import RuleViolation
from mlperf.harness.reporting import summary as reporting
from mlperf.harness.reporting.results import ResultProblem, Results
from mlperf.submission import after_run, commands
from mlperf.submission.checks import accuracy, tokens
from support import ROOT

RUN = ROOT / "script/run-mlperf-inference-app"
META = yaml.safe_load((RUN / "meta.yaml").read_text("utf-8"))
customize = benchmark_lab.module_of(RUN / "customize.py")


@pytest.fixture
def results(measured: Path, tmp_path: Path) -> Results:
    """Genuine short results of two scenarios, in a folder that may be spoiled."""
    shutil.copytree(measured, tmp_path / "results")
    (told,) = (tmp_path / "results").glob("*/*/*/results.json")
    return replace(records.read(Results, told), folder=str(told.parent))


def logs(results: Results, scenario: str, mode: str) -> Path:
    run = {"performance": "performance/run_1", "accuracy": "accuracy"}[mode]
    return Path(results.folder) / scenario.lower() / run


def test_short_tiny_runs_are_reported_as_such_in_one_line(results: Results) -> None:
    verdict = after_run.check(results)
    assert verdict.faults == ()
    (line,) = after_run.lines(verdict, results)
    assert line == "checks passed; not submittable: too short, too few samples, tiny form"
    assert len(line) <= 80


def test_what_a_run_prints_ends_with_its_table(results: Results) -> None:
    busy = RuleViolation("p99 latency", "too late", "run it again", "others used 75 %")
    spoiled = replace(results, problems=(ResultProblem("Server", "performance", busy),))
    lines = reporting.table(spoiled, spoiled).rstrip().splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith("MLPerf inference: "))
    before = "\n".join(lines[:start])
    for words in ("report: ", "the host was busy: others used 75 %", "Test runs last"):
        assert words in before, "notes and faults are a screen up, the figures stay in sight"
    # Heading and table: with verdict, place and steps 20 lines of a terminal's 24.
    assert len(lines[start:]) == 5 + len(results.results)


def test_accuracy_runs_alone_say_what_they_are(results: Results) -> None:
    alone = tuple(replace(each, performance_run=None) for each in results.results)
    forms = (("", "too short, tiny form"), ("neuron on cpu", "too short, a stand-in, tiny form"))
    for stand_in, says in forms:
        told = replace(results, results=alone, stand_in=stand_in)
        (line,) = after_run.lines(after_run.judge([]), told)
        assert line == f"checks passed; not submittable: {says}"
        assert after_run.lines(after_run.check(told), told) != [
            "checks passed: no rule of a submission is broken"
        ]


def test_only_what_was_checked_is_said_to_have_passed(results: Results) -> None:
    nothing = after_run.judge([])
    long = replace(results, style="valid", form="")
    assert after_run.lines(nothing, long) == ["checks passed: no rule of a submission is broken"]
    fast = replace(long, results=tuple(replace(r, accuracy_run=None) for r in long.results))
    (line,) = after_run.lines(nothing, fast)
    assert line == "checks of these runs passed; a submission needs accuracy runs as well"
    (line,) = after_run.lines(nothing, replace(results, form="", benchmark="own"))
    assert line == "measured; not a submission: a benchmark of your own, too short"


def seeds(results: Results) -> None:
    path = logs(results, "Offline", "accuracy") / mutations.DETAIL
    for name in ("effective", "requested"):
        mutations.value(path, f"{name}_qsl_rng_seed", 1)


def foreign(results: Results) -> None:
    path = logs(results, "Offline", "accuracy") / mutations.ACCURACY
    shutil.copy(logs(results, "SingleStream", "accuracy") / mutations.ACCURACY, path)


def wrong_mode(results: Results) -> None:
    path = logs(results, "SingleStream", "performance") / mutations.DETAIL
    mutations.value(path, "effective_test_mode", "AccuracyOnly")


def wrong_accuracy_mode(results: Results) -> None:
    path = logs(results, "Offline", "accuracy") / mutations.DETAIL
    mutations.value(path, "effective_test_mode", "PerformanceOnly")


def wrong_scenario(results: Results) -> None:
    path = logs(results, "Offline", "performance") / mutations.DETAIL
    mutations.value(path, "effective_scenario", "SingleStream")


def no_seeds(results: Results) -> None:
    path = logs(results, "Offline", "accuracy") / mutations.DETAIL
    mutations.value(path, "effective_qsl_rng_seed", 0)


def other_loadgen(results: Results) -> None:
    path = logs(results, "Offline", "accuracy") / mutations.DETAIL
    mutations.value(path, "loadgen_version", "4.1 @ 0000")


def invalid(results: Results) -> None:
    path = logs(results, "Offline", "performance") / mutations.DETAIL
    mutations.value(path, "result_validity", "INVALID")


def copied(results: Results) -> None:
    first, second = (logs(results, name, "accuracy") for name in ("SingleStream", "Offline"))
    shutil.copy(first / mutations.DETAIL, second / mutations.DETAIL)


@pytest.mark.parametrize(
    ("spoil", "rule", "scenario"),
    [
        (seeds, "accuracy.seeds", "offline"),
        (foreign, "accuracy.other-run", "offline"),
        (wrong_mode, "performance.mode", "singlestream"),
        (invalid, "performance.invalid", "offline"),
        (copied, "accuracy.scenario", "offline"),
        (wrong_accuracy_mode, "accuracy.mode", "offline"),
        (wrong_scenario, "performance.scenario", "offline"),
        (no_seeds, "accuracy.seeds", "offline"),
        (other_loadgen, "accuracy.loadgen", "offline"),
    ],
)
def test_a_broken_rule_is_reported_with_its_place_and_mend(
    results: Results, spoil: Callable[[Results], None], rule: str, scenario: str
) -> None:
    spoil(results)
    verdict = after_run.check(results)
    (found,) = [each for each in verdict.faults if each.rule == rule]
    assert found.where.startswith(f"{scenario}/")
    assert found.mend
    told = "\n".join(after_run.lines(verdict, results))
    for text in (rule, found.where, "to mend:"):
        assert text in told


def test_the_harness_reports_its_own_findings_alone(results: Results) -> None:
    invalid(results)
    seeds(results)
    fault = RuleViolation("minimum duration", "too short", "set --offline_target_qps")
    spoken = replace(results, problems=(ResultProblem("Offline", "performance", fault),))
    rules = {each.rule for each in after_run.check(spoken).faults}
    assert "performance.invalid" not in rules
    assert "accuracy.seeds" in rules


def test_latencies_of_tokens_are_reported_once(
    results: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The harness has said it, and may excuse it for a busy host."""
    where = "offline/performance/run_1/mlperf_log_detail.txt"
    late = [tokens.LIMITS.broken(where, f"the p99 of {what}", "run it again") for what in "ab"]
    monkeypatch.setattr(after_run, "_findings", lambda _: late)
    verdict = after_run.check(results)
    lines = after_run.lines(verdict, results)
    assert f"    {where}" in lines
    assert f"    {where}: the p99 of b" in lines
    fault = RuleViolation(
        "p99 token latency", "over its limits", "run it again", "others used 75 %"
    )
    spoken = replace(results, problems=(ResultProblem("Offline", "performance", fault),))
    assert after_run.check(spoken).faults == ()


def test_runs_that_were_not_made_are_not_missed(results: Results) -> None:
    shutil.rmtree(logs(results, "Offline", "accuracy"))
    fast = [replace(each, accuracy_run=None) for each in results.results]
    assert after_run.check(replace(results, results=tuple(fast))).faults == ()
    none = [replace(each, accuracy_run=None, performance_run=None) for each in results.results]
    nothing = replace(results, results=tuple(none))
    assert after_run.lines(after_run.check(nothing), nothing) == []


def test_accuracy_alone_has_no_files_of_a_performance_run_yet(results: Results) -> None:
    right = [replace(each, performance_run=None) for each in results.results]
    for each in right:
        folder = Path(results.folder) / each.scenario.lower()
        shutil.rmtree(folder / "performance")
        (folder / "measurements.json").unlink()
        (folder / "user.conf").unlink()
    assert after_run.check(replace(results, results=tuple(right))).faults == ()


def test_a_mend_can_be_typed_as_it_is(results: Results) -> None:
    wrong_mode(results)
    (found,) = [each for each in after_run.check(results).faults if each.rule == "performance.mode"]
    words = shlex.split(found.mend.partition(": ")[2])
    assert words[:3] == ["cm", "run", "script"]
    tags = words[3].removeprefix("--tags=").split(",")
    assert {"_performance-only", "_tiny", "_short"} <= set(tags)
    assert all(tag[1:] in META["variations"] for tag in tags if tag.startswith("_"))
    given = dict(word.removeprefix("--").partition("=")[::2] for word in words[4:])
    assert set(given) <= {*META["input_mapping"], "rerun"}
    assert (given["model"], given["scenario"]) == ("resnet50", "SingleStream")
    assert given["division"] == "open"
    assert Path(given["results_dir"]) == Path(results.folder).parents[2]


def test_a_round_and_a_length_of_their_own_are_named(results: Results) -> None:
    other = replace(results, round="5.1", style="fast", sut=results.sut.replace("lab-", "box7-", 1))
    advice = commands.complete("again: `cm run script --tags=run-mlperf,inference,_full`", other)
    assert "_r5.1" in advice
    assert "_full" not in advice
    assert "--execution_mode=fast" in advice
    assert "--hw_name=box7" in advice


def test_only_the_ends_of_a_huge_log_are_read(
    results: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = logs(results, "Offline", "accuracy") / mutations.ACCURACY
    whole = accuracy.entries(path)
    monkeypatch.setattr(accuracy, "SHOWN", 2000)
    ends = accuracy.entries(path)
    assert 0 < len(ends) < len(whole)
    assert set(ends) <= set(whole)
    assert after_run.check(results).faults == ()


def finish(results: Results) -> None:
    """The end of the step that makes runs, which hands results.json over as state."""
    folder = Path(results.folder)
    told = json.loads((folder / "results.json").read_text("utf-8"))
    env = {"CM_MLPERF_INFERENCE_RESULTS_SUMMARY": str(folder / "summary.txt")}
    state = {"cm-mlperf-inference-results": {**told, "folder": results.folder}}
    env["CM_MLPERF_REGISTER"] = "no"
    customize.postprocess({"env": env, "state": state})


def test_the_step_ends_with_one_line_about_its_runs(
    results: Results, capsys: pytest.CaptureFixture[str]
) -> None:
    finish(results)
    assert capsys.readouterr().out.splitlines()[-1].startswith("checks passed; not submittable")


def test_a_rule_that_loadgen_does_not_know_fails_the_step(
    results: Results, capsys: pytest.CaptureFixture[str]
) -> None:
    seeds(results)
    with pytest.raises(customize.Error) as caught:
        finish(results)
    assert "- accuracy.seeds: qsl_rng_seed is 1, v6.1 has" in capsys.readouterr().out
    error = caught.value
    assert error.message.startswith("1 rule is broken; first: accuracy.seeds: qsl_rng_seed is 1")
    assert error.context[0].startswith("offline/accuracy/mlperf_log_detail.txt, all results")
    assert error.hint.startswith("use the LoadGen of the round (_r6.1), run it again: cm run ")
    assert "_accuracy-only" in error.hint
