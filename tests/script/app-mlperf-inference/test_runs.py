"""Real LoadGen, real ONNX Runtime, real data: whole sessions with short runs."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

import benchmark_lab as lab
from mlperf import catalog
from mlperf.harness import records
from mlperf.harness.measuring import detail_log
from mlperf.harness.reporting import report
from mlperf.harness.reporting.results import Results, ScenarioResult
from mlperf.harness.session import session as sessions
from mlperf.harness.settings import USUAL_SCENARIOS, SessionSettings, Targets
from mlperf.harness.tuning import targets
from support import run

SUMMARY_WIDTH = 80


def measure(results: Path, **changes: Any) -> Results:
    settings = records.decode(SessionSettings, lab.settings(results, **changes))
    return sessions.MeasurementSession(settings).run()


def of(results: Results, scenario: str) -> ScenarioResult:
    (found,) = (result for result in results.results if result.scenario == scenario)
    return found


def row(whole: dict[str, Any], scenario: str) -> dict[str, Any]:
    found: dict[str, Any]
    (found,) = (row for row in whole["results"]["results"] if row["scenario"] == scenario)
    return found


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """All scenarios in both modes, by the program that a script starts."""
    folder = tmp_path_factory.mktemp("whole")
    config = folder / "session.json"
    answer = str(folder / "answer.json")
    records.write(config, lab.settings(folder / "results", answer=answer, attempts=10))
    done = run(lab.relaxed_session(config), env=lab.harness_environment()).ok()
    results: dict[str, Any] = json.loads((folder / "answer.json").read_text(encoding="utf-8"))
    return {"results": results, "folder": Path(results["folder"]), "printed": done.stdout}


def test_loadgen_says_valid_for_every_scenario(whole: dict[str, Any]) -> None:
    assert whole["results"]["problems"] == []
    for scenario in USUAL_SCENARIOS:
        logs = whole["folder"] / scenario.lower() / "performance" / "run_1"
        log = detail_log.read(logs / "mlperf_log_detail.txt")
        assert log.validity == "VALID"
        assert log.errors == ()
        assert log.values["effective_test_mode"] == "PerformanceOnly"
        assert log.values["requested_scenario"] == scenario
        assert log.values["effective_performance_sample_count"] == 540
        result = row(whole, scenario)["performance_run"]
        assert log.values["effective_min_duration_ms"] == result["targets"]["min_duration_ms"]
        assert result["value"] == log.result(scenario)
        assert result["log_dir"] == str(logs)
        assert row(whole, scenario)["value"] == result["value"]
        assert row(whole, scenario)["validity"] == "VALID"


def test_every_scenario_reaches_the_accuracy_of_the_model(whole: dict[str, Any]) -> None:
    reference = lab.model()["accuracy"]["reference"]
    for scenario in USUAL_SCENARIOS:
        figure = row(whole, scenario)["accuracy_run"]
        assert figure["value"] == pytest.approx(reference, abs=1e-4)
        assert figure["value"] >= 97
        assert figure["reached"] is True
        assert figure["samples"] == 540
    multi_stream = row(whole, "MultiStream")["accuracy_run"]
    assert multi_stream["duplicates"] == 4, "the last query of eight is filled up"


def test_the_accuracy_text_is_what_checkers_read(whole: dict[str, Any]) -> None:
    for scenario in USUAL_SCENARIOS:
        folder = whole["folder"] / scenario.lower() / "accuracy"
        text = (folder / "accuracy.txt").read_text(encoding="utf-8")
        assert re.search(r"^accuracy=99\.\d+%, good=\d+, total=540$", text, re.MULTILINE)
        digest = hashlib.sha256((folder / "mlperf_log_accuracy.json").read_bytes()).hexdigest()
        assert re.search(rf"^hash={digest}$", text, re.MULTILINE)


def test_the_tree_holds_what_a_submission_needs_and_nothing_hidden(whole: dict[str, Any]) -> None:
    for scenario in USUAL_SCENARIOS:
        home = whole["folder"] / scenario.lower()
        assert sorted(path.name for path in home.iterdir() if path.name != "attempts") == [
            "README.md",
            "accuracy",
            "measurements.json",
            "performance",
            "user.conf",
        ]
        logs = {path.name for path in (home / "performance" / "run_1").iterdir()}
        assert logs == {
            "mlperf_log_accuracy.json",
            "mlperf_log_detail.txt",
            "mlperf_log_summary.txt",
            "mlperf_log_trace.json",
        }
        stated = json.loads((home / "measurements.json").read_text(encoding="utf-8"))
        assert all(stated.values())
        assert set(stated) == {
            "input_data_types",
            "retraining",
            "starting_weights_filename",
            "weight_data_types",
            "weight_transformations",
        }


def test_results_say_on_what_they_were_measured(whole: dict[str, Any]) -> None:
    results = whole["results"]
    assert set(results["versions"]) == {"onnxruntime", "loadgen", "numpy"}
    assert results["host"]["cores_usable"] >= 1
    assert results["model"]["sha256"] == lab.model()["sha256"]
    server = row(whole, "Server")["performance_run"]
    assert server["attempts"][-1]["targets"] == server["targets"]
    assert server["circumstances"]["versions"]["loadgen"] == results["versions"]["loadgen"]
    assert (whole["folder"] / "results.json").read_text() == json.dumps(results, indent=2) + "\n"


def test_the_table_fits_a_terminal_and_makes_no_false_claim(whole: dict[str, Any]) -> None:
    text = (whole["folder"] / "summary.txt").read_text(encoding="utf-8")
    wide = [line for line in text.splitlines() if len(line) > SUMMARY_WIDTH]
    assert all(str(whole["folder"]) in line for line in wide), wide
    for scenario in USUAL_SCENARIOS:
        assert re.search(rf"^{scenario} .* VALID +99\.\d+ % +98\.\d+ %$", text, re.MULTILINE)
    assert "not an MLPerf submission" in " ".join(text.split())
    assert "ask for 600 s" in text.replace("\n", " ")
    assert "tuned on" in whole["printed"]
    assert re.search(r"^time \(Offline\): [a-z -]+ \([a-z]+ \d+ %", text, re.MULTILINE)


def test_finished_runs_are_kept_when_asked_and_only_then(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = {"scenarios": ["Offline"]}
    first = measure(tmp_path, **wanted)
    again = measure(tmp_path, **wanted, reuse=True)
    assert again.results == first.results
    assert "Offline performance: kept" in capsys.readouterr().out
    given = {**lab.settings(tmp_path)["overrides"], "server_target_qps": 10.0}
    aimed = measure(tmp_path, **wanted, reuse=True, overrides=given)
    assert aimed.results == first.results, "a target of another scenario changes nothing"
    other = measure(tmp_path, **wanted, reuse=True, overrides={"min_duration": 310})
    assert of(other, "Offline").performance_run != of(first, "Offline").performance_run
    renewed = measure(tmp_path, **wanted)
    assert of(renewed, "Offline").accuracy_run != of(other, "Offline").accuracy_run


def test_an_invalid_run_is_made_again_with_better_targets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(targets, "initial", lambda *_: Targets(qps=500.0, min_duration_ms=300))
    results = measure(tmp_path, scenarios=["Offline"], modes=["performance"], attempts=10)
    run_made = of(results, "Offline").performance_run
    assert run_made is not None
    assert run_made.attempts[0].validity == "INVALID"
    assert run_made.attempts[-1].validity == "VALID"
    assert len(run_made.attempts) > 1
    assert run_made.attempts[0].faults[0].rule == "minimum duration"
    assert results.problems == ()
    kept = Path(results.folder) / "offline" / "attempts" / "performance-1" / "run_1"
    assert detail_log.read(kept / "mlperf_log_detail.txt").validity == "INVALID"


def test_a_target_that_the_user_fixed_is_kept_and_the_verdict_explained(tmp_path: Path) -> None:
    results = measure(
        tmp_path,
        scenarios=["Offline"],
        modes=["performance"],
        overrides={"offline_target_qps": 500.0},
    )
    run_made = of(results, "Offline").performance_run
    assert run_made is not None
    assert run_made.validity == "INVALID"
    assert len(run_made.attempts) == 1
    (problem,) = results.problems
    assert problem.fault.rule == "minimum duration"
    assert "--offline_target_qps" in problem.fault.advice
    assert "INVALID" in (Path(results.folder) / "summary.txt").read_text(encoding="utf-8")


def test_an_overloaded_server_run_reports_its_latency(tmp_path: Path) -> None:
    results = measure(
        tmp_path,
        scenarios=["Server"],
        modes=["performance"],
        overrides={"server_target_qps": 150_000.0},
    )
    rules = [problem.fault.rule for problem in results.problems]
    assert rules == ["p99 latency", "early stopping"]
    assert "over the limit of 15 ms" in results.problems[0].fault.text


def test_accuracy_below_the_target_counts_in_the_closed_division_only(tmp_path: Path) -> None:
    demanding = lab.model(accuracy={**lab.model()["accuracy"], "target": 99.9})
    wanted = {"scenarios": ["Offline"], "modes": ["accuracy"], "model": demanding}
    closed = measure(tmp_path, **wanted)
    (problem,) = closed.problems
    assert "is below the target of 99.900 %" in problem.fault.text
    assert " LOW" in (Path(closed.folder) / "summary.txt").read_text(encoding="utf-8")
    assert measure(tmp_path, **wanted, division="open").problems == ()


def test_in_each_precision_an_accuracy_below_the_target_has_advice(tmp_path: Path) -> None:
    demanding = lab.model(accuracy={**lab.model()["accuracy"], "target": 99.9})
    closed = measure(tmp_path, scenarios=["Offline"], modes=["accuracy"], model=demanding)
    for precision in {
        word for backend in catalog.backends().values() for word in backend.precisions
    }:
        (problem,) = report.problems(closed.results, catalog.Division("closed"), precision)
        exact = "use the unchanged model" if precision == "float32" else "--precision=float32"
        assert exact in problem.fault.advice


def test_who_computes_in_short_numbers_is_led_to_longer_ones(tmp_path: Path) -> None:
    openvino = pytest.importorskip("openvino")
    if "BF16" not in openvino.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
        pytest.skip("this processor does not compute in bfloat16")
    demanding = lab.model(accuracy={**lab.model()["accuracy"], "target": 99.9})
    asked = {"scenarios": ["Offline"], "modes": ["accuracy"], "model": demanding}
    results = measure(tmp_path, backend="openvino", precision="bfloat16", **asked)
    (problem,) = results.problems
    assert problem.fault.advice.startswith("compute more exactly: --precision=float32; or")


def test_a_smaller_batch_than_the_largest_allowed_is_said() -> None:
    note = sessions.smaller_batch(catalog.OFFLINE, 16, 8)
    assert note.endswith("batches of 8: tuning found none up to --batch_size=16 faster")
    assert (
        sessions.smaller_batch(catalog.OFFLINE, 16, 16)
        == sessions.smaller_batch(catalog.OFFLINE, None, 8)
        == ""
    )
    assert sessions.smaller_batch(catalog.SERVER, 16, 8) == ""
