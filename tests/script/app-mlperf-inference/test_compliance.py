"""The compliance tests: what LoadGen is told, what passes, and the layout of the rules."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

import benchmark_lab as lab
from mlperf.catalog import MULTI_STREAM, OFFLINE, SERVER, SINGLE_STREAM
from mlperf.harness import records
from mlperf.harness.errors import HarnessError
from mlperf.harness.measuring import verify
from mlperf.harness.measuring.detail_log import DetailLog
from mlperf.harness.reporting.results import Results, ResultTree
from mlperf.harness.session import session
from mlperf.harness.settings import USUAL_SCENARIOS, SessionSettings


def keys(test: str) -> dict[str, str]:
    lines = verify.audit_config(test, 64).splitlines()
    return {key: value for key, _, value in (line.partition(" = ") for line in lines)}


def test_loadgen_gets_the_settings_of_the_rules() -> None:
    assert keys("TEST01") == {
        "*.*.mode": "2",
        "*.*.accuracy_log_rng_seed": "720381539243781796",
        "*.*.accuracy_log_sampling_target": "64",
    }
    same = keys("TEST04")
    for scenario in USUAL_SCENARIOS:
        assert same[f"*.{scenario}.performance_issue_same"] == "1"
        assert same[f"*.{scenario}.performance_issue_same_index"] == "3"
        assert same[f"*.{scenario}.performance_issue_unique"] == "0"
    assert keys("TEST05") == {"*.*.mode": "2", "*.*.test05": "1"}
    assert keys("TEST06")["*.*.min_query_count"] == "100"
    with pytest.raises(HarnessError, match="no compliance test TEST99"):
        verify.audit_config("TEST99", 1)


def log_of(scenario: str, value: float, **changes: Any) -> DetailLog:
    """A VALID log with this result, in samples/s or ms."""
    key, factor = {
        OFFLINE: ("result_samples_per_second", 1.0),
        SERVER: ("result_completed_samples_per_sec", 1.0),
        SINGLE_STREAM: ("early_stopping_latency_ss", 1e6),
        MULTI_STREAM: ("early_stopping_latency_ms", 1e6),
    }[scenario]
    return DetailLog({"result_validity": "VALID", key: value * factor, **changes})


@pytest.mark.parametrize(
    ("test", "scenario", "submitted", "tested", "passed"),
    [
        ("TEST01", OFFLINE, 100, 109.9, True),
        ("TEST01", OFFLINE, 100, 110.1, False),
        ("TEST01", OFFLINE, 100, 89.9, False),
        ("TEST04", OFFLINE, 100, 50, True),
        ("TEST04", OFFLINE, 100, 111, False),
        ("TEST04", SINGLE_STREAM, 10, 20, True),
        ("TEST04", SINGLE_STREAM, 10, 8.9, False),
        ("TEST05", SERVER, 100, 104, True),
        ("TEST05", SERVER, 100, 106, True),
        ("TEST05", SERVER, 100, 94, False),
        ("TEST05", SINGLE_STREAM, 10, 9, True),
        ("TEST05", SINGLE_STREAM, 10, 10.6, False),
        ("TEST01", SINGLE_STREAM, 0.2, 0.161, True),
        ("TEST01", SINGLE_STREAM, 0.21, 0.17, False),
        ("TEST01", MULTI_STREAM, 1.6, 1.9, True),
        ("TEST01", MULTI_STREAM, 1.7, 2.0, False),
    ],
)
def test_speed_must_be_that_of_the_submitted_run(
    test: str, scenario: str, submitted: float, tested: float, passed: bool
) -> None:
    found = verify.performance(
        test, scenario, log_of(scenario, submitted), log_of(scenario, tested)
    )
    assert found.passed is passed
    assert found.lines[-1] == ("TEST PASS" if passed else "TEST FAIL")


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"result_validity": "INVALID"}, "the test run is INVALID"),
        ({"effective_target_latency_ns": 1}, "the runs had different latency limits"),
    ],
)
def test_runs_that_cannot_be_compared_fail(changes: dict[str, Any], text: str) -> None:
    submitted, tested = log_of(SERVER, 100), log_of(SERVER, 100, **changes)
    found = verify.performance("TEST01", SERVER, submitted, tested)
    assert not found.passed
    assert found.lines[-1] == f"TEST FAIL: {text}"


def answers(path: Path, entries: list[tuple[int, str]]) -> Path:
    path.write_text(json.dumps([{"qsl_idx": i, "data": data} for i, data in entries]))
    return path


@pytest.mark.parametrize(
    ("logged", "passed", "text"),
    [
        ([(0, "00"), (2, "02"), (2, "02")], True, "that differ from the accuracy run: 0"),
        ([(0, "00"), (1, "ff")], False, "first different sample: 1"),
        ([(0, "00"), (9, "09")], False, "that the accuracy run lacks: 1"),
        ([], False, "logged under load: 0"),
    ],
)
def test_answers_under_load_must_be_those_of_the_accuracy_run(
    tmp_path: Path, logged: list[tuple[int, str]], passed: bool, text: str
) -> None:
    baseline = answers(tmp_path / "a.json", [(0, "00"), (1, "01"), (2, "02")])
    found = verify.answers(baseline, answers(tmp_path / "t.json", logged))
    assert found.passed is passed
    assert text in "\n".join(found.lines)


def test_answers_that_differ_may_be_as_accurate() -> None:
    assert verify.nearly_equal(90.0, 90.5, 1.0).passed
    assert not verify.nearly_equal(90.0, 90.5, 0.1).passed
    assert not verify.nearly_equal(90.0, 0.0, 1.0).passed


def tokens(*words: int) -> str:
    return b"".join(word.to_bytes(4, "little") for word in words).hex()


@pytest.mark.parametrize(
    ("data", "first", "count", "passed"),
    [
        (tokens(5, 6, 2), tokens(5), 3, True),
        (tokens(5, 6), tokens(5), 2, True),
        (tokens(5, 6, 2, 2), tokens(5), 4, False),
        (tokens(5, 6, 2), tokens(9), 3, False),
        (tokens(5, 6, 2), tokens(5), 4, False),
    ],
)
def test_lists_of_tokens_begin_end_and_count_right(
    tmp_path: Path, data: str, first: str, count: int, passed: bool
) -> None:
    path = tmp_path / "log.json"
    entry = {"qsl_idx": 0, "data": data, "token_data": first, "token_count": count}
    path.write_text(json.dumps([entry]))
    found = verify.tokens(path, SERVER, "int32", 2)
    assert found.passed is passed
    assert found.lines[-1] == f"TEST06 verification {'complete' if passed else 'failed'}"
    skipped = verify.tokens(path, OFFLINE, "int32", 2)
    assert skipped.lines[0] == "First token check pass: Skipped"


# ---------------------------------------------------------------- through real LoadGen


@pytest.fixture(scope="module")
def tested(tmp_path_factory: pytest.TempPathFactory) -> Results:
    changes: dict[str, Any] = {
        "scenarios": ["SingleStream", "Offline"],
        "modes": ["performance", "accuracy", "compliance"],
        "attempts": 1,
    }
    asked = lab.settings(tmp_path_factory.mktemp("tested"), **changes)
    return session.MeasurementSession(records.decode(SessionSettings, asked)).run()


def test_every_test_of_the_round_is_run_and_laid_out(tested: Results) -> None:
    for result in tested.results:
        assert [each.test for each in result.compliance] == ["TEST01", "TEST04"]
        home = Path(tested.folder) / result.scenario.lower()
        for test in ("TEST01", "TEST04"):
            run = home / test / "performance" / "run_1"
            assert sorted(path.name for path in run.iterdir()) == [
                "mlperf_log_detail.txt",
                "mlperf_log_summary.txt",
            ]
            verdict = (home / test / "verify_performance.txt").read_text(encoding="utf-8")
            assert re.search(r"^TEST (PASS|FAIL)", verdict, re.MULTILINE)
        accuracy = home / "TEST01" / "accuracy"
        log = accuracy / "mlperf_log_accuracy.json"
        digest = hashlib.sha256(log.read_bytes()).hexdigest()
        assert (accuracy / "accuracy.txt").read_text() == f"hash={digest}\n"
        assert json.loads(log.read_text(encoding="utf-8")), "answers were logged under load"


def test_answers_under_load_are_equal_and_the_audit_was_read(tested: Results) -> None:
    for result in tested.results:
        home = Path(tested.folder) / result.scenario.lower()
        content = (home / "TEST01" / "verify_accuracy.txt").read_text(encoding="utf-8")
        assert content.splitlines()[-1] == "TEST PASS"
        for test, key in (
            ("TEST01", '"effective_accuracy_log_sampling_target", "value": 4096'),
            ("TEST04", '"effective_performance_issue_same", "value": true'),
        ):
            log = home / test / "performance" / "run_1" / "mlperf_log_detail.txt"
            assert key in log.read_text(encoding="utf-8")
        plain = home / "performance" / "run_1" / "mlperf_log_detail.txt"
        text = plain.read_text(encoding="utf-8")
        assert '"effective_performance_issue_same", "value": false' in text


def test_a_test_counts_only_for_the_runs_that_it_was_compared_with(tested: Results) -> None:
    folder = Path(tested.folder)
    tree = ResultTree(folder.parents[2], tested.style, tested.sut, tested.benchmark)
    offline = next(each for each in tested.results if each.scenario == "Offline")
    assert session.is_compared(tree, offline.compliance[0])
    path = folder / "offline" / "performance" / "result.json"
    before = path.read_text(encoding="utf-8")
    run = records.read_json(path)
    run["circumstances"]["measured_at"] = "2999-01-01T00:00:00+00:00"
    try:
        records.write(path, run)
        assert not session.is_compared(tree, offline.compliance[0])
    finally:
        path.write_text(before, encoding="utf-8")


def test_a_test_needs_what_it_is_compared_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = lab.settings(tmp_path, scenarios=["Offline"], modes=["compliance"])
    results = session.MeasurementSession(records.decode(SessionSettings, asked)).run()
    assert results.results[0].compliance == ()
    assert results.notes == tuple(
        f"Offline {test}: not made, there is no VALID performance run to compare it with"
        for test in ("TEST01", "TEST04")
    )
    assert results.notes[0] in capsys.readouterr().out


def test_a_speed_that_differs_in_short_runs_is_told_as_such(tmp_path: Path) -> None:
    def made(*modes: str) -> Results:
        asked = lab.settings(tmp_path, scenarios=["Offline"], modes=list(modes), attempts=1)
        return session.MeasurementSession(records.decode(SessionSettings, asked)).run()

    folder = Path(made("performance", "accuracy").folder)
    log = folder / "offline" / "performance" / "run_1" / "mlperf_log_detail.txt"
    key = r'("key": "result_samples_per_second", "value": )([\d.]+)'
    text, count = re.subn(key, lambda found: f"{found[1]}{1000 * float(found[2])}", log.read_text())
    assert count == 1
    log.write_text(text)
    (result,) = made("compliance").results
    faults = [fault for test in result.compliance for fault in test.faults]
    assert [(fault.rule, fault.short) for fault in faults] == [("TEST01 performance", True)]
