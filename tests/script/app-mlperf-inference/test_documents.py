"""Several calls for one folder: the documents tell of all, the answer of what was asked."""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import benchmark_lab as lab
from mlperf.catalog import OFFLINE, SINGLE_STREAM
from mlperf.harness import records
from mlperf.harness.reporting import history
from mlperf.harness.reporting.results import PerformanceResult, Results
from mlperf.harness.session import session as sessions
from mlperf.harness.settings import SessionSettings

SUMMARY_WIDTH = 80
TOO_LOW = {"offline_target_qps": 500.0}


def measure(results: Path, **changes: Any) -> Results:
    settings = records.decode(SessionSettings, lab.settings(results, **changes))
    return sessions.MeasurementSession(settings).run()


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Two calls for one folder: in the first Offline is INVALID, the second is accuracy alone."""
    folder = tmp_path_factory.mktemp("calls")
    common: dict[str, Any] = {"sut_dir": str(folder / "sut"), "attempts": 1, "reuse": True}
    both = {"scenarios": ["Offline", "SingleStream"], "modes": ["performance"]}
    measure(folder, **common, **both, overrides=dict(TOO_LOW))
    asked = measure(folder, **common, scenarios=["SingleStream"], modes=["accuracy"])
    return {"folder": folder, "common": common, "asked": asked, "place": Path(asked.folder)}


def told(calls: dict[str, Any]) -> Results:
    return records.read(Results, calls["place"] / "results.json")


def page(calls: dict[str, Any]) -> str:
    return (Path(calls["place"]) / "report.html").read_text(encoding="utf-8")


def test_the_answer_is_about_what_was_asked(calls: dict[str, Any]) -> None:
    asked: Results = calls["asked"]
    assert [each.scenario for each in asked.results] == ["SingleStream"]
    assert asked.results[0].performance_run is None
    assert asked.modes == ("accuracy",)
    assert asked.problems == ()


def test_results_json_shows_the_whole_folder(calls: dict[str, Any]) -> None:
    found = told(calls)
    assert [each.scenario for each in found.results] == ["SingleStream", "Offline"]
    stream, offline = found.results
    assert stream.performance_run is not None
    assert stream.accuracy_run is not None
    assert offline.validity == "INVALID"
    assert [each.scenario for each in found.problems] == ["Offline"]
    assert found.modes == ("performance", "accuracy")
    assert found.call is not None
    assert found.call.scenarios == (SINGLE_STREAM,)
    assert found.call.modes == ("accuracy",)
    assert found.call.made == ((SINGLE_STREAM, "accuracy"),)


def test_table_and_page_say_where_the_time_of_the_workers_went(calls: dict[str, Any]) -> None:
    report = page(calls)
    assert "<dt>computed by</dt><dd>onnxruntime " in report
    assert re.search(r"<dt>time of the workers</dt><dd>[a-z -]+ \([a-z]+ \d+ %", report)
    held = told(calls).results[1].performance_run
    assert held is not None
    assert held.spent is not None
    assert 0 < held.spent.called_s <= held.spent.worked_s
    assert held.spent.worked_s <= held.spent.workers * held.spent.span_s


def test_the_table_marks_what_an_earlier_call_measured(calls: dict[str, Any]) -> None:
    text = (calls["place"] / "summary.txt").read_text(encoding="utf-8")
    assert re.search(r"^SingleStream +\S+ ms\* .* VALID +99\.\d+ % +98\.\d+ %$", text, re.MULTILINE)
    assert re.search(r"^Offline +\S+ samples/s\* .* INVALID +- +-$", text, re.MULTILINE)
    assert re.search(r"^\* from earlier calls, \d{4}-\d\d-\d\d \d\d:\d\d", text, re.MULTILINE)
    assert "->" not in text, "advice is for what was asked"
    assert all(
        len(line) <= SUMMARY_WIDTH or str(calls["folder"]) in line for line in text.split("\n")
    )


def test_the_page_shows_both_and_when_they_were_measured(calls: dict[str, Any]) -> None:
    text = page(calls)
    for scenario in (OFFLINE, SINGLE_STREAM):
        assert f"<h2>{scenario}</h2>" in text
    assert "earlier call" in text
    assert "this call" in text
    assert "minimum duration" in text, "why Offline is INVALID"
    assert (calls["place"] / "offline" / "README.md").is_file()


def test_only_runs_of_the_same_model_are_compared(calls: dict[str, Any], tmp_path: Path) -> None:
    found, path = told(calls), tmp_path / history.FILE
    one = history.remember(path, found, found.precision)
    assert history.remember(path, found, found.precision) == one, "each run is remembered once"
    other = replace(found, model={**found.model, "sha256": "0" * 64})
    known = {entry.configuration for entry in history.read(path)}
    added = {e.configuration for e in history.remember(path, other, other.precision)} - known
    assert len(added) == len(known) == len(one)


@pytest.fixture
def other_model(tmp_path: Path) -> dict[str, Any]:
    """The same model in another file: its producer is named."""
    spec = lab.model()
    data = Path(spec["path"]).read_bytes() + b"\x12\x04test"
    path = tmp_path / "other.onnx"
    path.write_bytes(data)
    return {**spec, "path": str(path), "sha256": hashlib.sha256(data).hexdigest()}


def test_runs_of_another_model_are_kept_apart(
    calls: dict[str, Any], other_model: dict[str, Any]
) -> None:
    changes = {"scenarios": ["Offline"], "modes": ["readme"], "model": other_model}
    measure(calls["folder"], **calls["common"], **changes)
    found = told(calls)
    assert [each.performance_run for each in found.results] == [None]
    assert {(each.scenario, each.mode) for each in found.others} == {
        (OFFLINE, "performance"),
        (SINGLE_STREAM, "performance"),
        (SINGLE_STREAM, "accuracy"),
    }
    mine, theirs = lab.model()["sha256"][:12], other_model["sha256"][:12]
    assert found.others[0].differs == (f"model {mine}, now {theirs}",)
    text = (calls["place"] / "summary.txt").read_text(encoding="utf-8")
    assert "3 runs of another configuration (model " in text
    assert "<h2>Runs of another configuration</h2>" in page(calls)


def test_a_run_that_does_not_say_of_what_it_is_counts_by_its_fingerprint(
    calls: dict[str, Any],
) -> None:
    path = calls["place"] / "singlestream" / "performance" / "result.json"
    before = path.read_text(encoding="utf-8")
    data = records.read_json(path)
    del data["circumstances"]["configuration"]
    ask: dict[str, Any] = {**calls["common"], "scenarios": ["SingleStream"], "modes": ["readme"]}
    try:
        records.write(path, data)
        known = measure(calls["folder"], **ask, overrides=dict(TOO_LOW))
        assert isinstance(known.results[0].performance_run, PerformanceResult)
        records.write(path, {**data, "fingerprint": "of other settings"})
        unknown = measure(calls["folder"], **ask)
        assert unknown.results[0].performance_run is None
        assert unknown.others[0].differs == ("it does not say which",)
    finally:
        path.write_text(before, encoding="utf-8")


def test_a_model_without_a_target_has_its_accuracy_in_every_document(tmp_path: Path) -> None:
    spec = lab.model()
    aimless = {**spec, "accuracy": {**spec["accuracy"], "target": 0}}
    asks = {"scenarios": ["Offline"], "modes": ["accuracy"], "sut_dir": str(tmp_path / "sut")}
    place = Path(measure(tmp_path, **asks, model=aimless).folder)
    readme = (place / "offline" / "README.md").read_text(encoding="utf-8")
    assert re.search(r"^- accuracy: 99\.\d{4} % \(no target\)$", readme, re.MULTILINE)
    text = (place / "summary.txt").read_text(encoding="utf-8")
    assert re.search(r"^Offline +- +- +- +99\.\d+ % +-$", text, re.MULTILINE)
    assert "0.00 %" not in text + (place / "report.html").read_text(encoding="utf-8")
