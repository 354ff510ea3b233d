"""What is read from each kind of place, and that nothing foreign breaks a reader."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import NEWER_ROW, ROW, experiments, log, own_run, tree

from cmbench.errors import Error
from cmbench_results import export, readers
from cmbench_results.distinguish import differing_facts
from cmbench_results.readers import ReadFault, published
from cmbench_results.readers.run import of_document
from cmbench_results.result_sources import SourceFiles
from cmbench_results.values import (
    CERTIFIED,
    ENERGY,
    LOG_SUMMARY,
    LOGS,
    OFFICIAL,
    OWN_RECORD,
    POWER,
    BenchmarkResult,
)
from mlperf.catalog import rounds
from support import HANG_S, python_env


def test_before_round_2_a_multistream_result_is_a_number_of_streams(tmp_path: Path) -> None:
    tree(tmp_path)
    run = tmp_path / "closed/Maker/results/box_1/resnet50/MultiStream/performance/run_1"
    shutil.rmtree(tmp_path / "closed/Maker/results/box_1/bert-99")
    seeds = {"requested_qsl_rng_seed": rounds.seeds("1.0")["qsl"]}
    latency = {"result_99.00_percentile_latency_ns": 49_590_000}
    log(run, "MultiStream", effective_samples_per_query=262, **seeds, **latency)
    (result,) = list(readers.read("tree", tmp_path))
    assert isinstance(result, BenchmarkResult)
    assert (result.value, result.unit, result.direction) == (262.0, "streams", "higher")
    assert result.figure("throughput") is None


def read(path: Path, benchmark_round: str = "") -> tuple[list[BenchmarkResult], list[ReadFault]]:
    found = list(readers.read(readers.kind_of(path), path, benchmark_round))
    known = [each for each in found if isinstance(each, BenchmarkResult)]
    return known, [each for each in found if isinstance(each, ReadFault)]


def test_rows_of_both_forms_of_a_published_summary(tmp_path: Path) -> None:
    known, faults = read(experiments(tmp_path / "a", ROW))
    assert not faults
    assert (known[0].workload.benchmark, known[0].value, known[0].tier) == (
        "bert-99",
        1000.0,
        OFFICIAL,
    )
    assert (known[0].system.sockets, known[0].system.accelerators) == (2, 1)
    (tmp_path / "summary_results.json").write_text(json.dumps([NEWER_ROW]), encoding="utf-8")
    (newer,), _ = read(tmp_path / "summary_results.json")
    assert (newer.workload.benchmark, newer.workload.scenario) == ("resnet50", "SingleStream")
    assert (newer.value, newer.unit, newer.direction, newer.accuracy) == (0.5, "ms", "lower", 76.1)


def test_gpt_j_is_counted_in_tokens_whatever_a_summary_calls_them(tmp_path: Path) -> None:
    row = {**ROW, "Model": "gptj-99", "MlperfModel": "gptj-99"}
    (found,), _ = read(experiments(tmp_path, row))
    assert found.unit == "tokens/s"
    powered = published.result({**row, "Result_Power": 500.0, "Result_Power_Units": "Watts"})
    assert powered.figure("power") is not None
    assert powered.figure("energy_per_sample") is None


def test_energy_of_a_stream(tmp_path: Path) -> None:
    row = {
        **NEWER_ROW,
        "Scenario": "MultiStream",
        "Power_Result": 800,
        "Power_Units": "millijoules",
    }
    found = published.result(row)
    energy = found.figure("energy_per_sample")
    assert energy is not None
    assert (energy.value, energy.unit, energy.tier) == (0.1, "J", "certified")


ANY = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)


@given(st.dictionaries(st.sampled_from([*ROW, *NEWER_ROW]), ANY))
def test_any_row_is_a_result_or_incomplete(row: dict[str, Any]) -> None:
    for whole in (row, {**ROW, **row}, {**NEWER_ROW, **row}):
        try:
            found = published.result(whole)
        except published.IncompleteError:
            continue
        assert found.key
        assert found.value is None or found.value == found.value


def test_what_cannot_be_read_is_counted_and_named(tmp_path: Path) -> None:
    experiments(tmp_path, ROW, {"version": "v1"}, ["no object"])  # type: ignore[arg-type]
    other = tmp_path / "experiment" / "other"
    other.mkdir()
    (other / "cm-result.json").write_text("{cut", encoding="utf-8")
    known, faults = read(tmp_path)
    assert len(known) == 1
    assert len(faults) == 3
    assert any("row 2" in fault.place and "it has no" in fault.why for fault in faults)


def test_figures_of_a_tree_come_from_its_logs(tmp_path: Path) -> None:
    (found,), _ = read(tree(tmp_path / "t"))
    assert (found.value, found.figures_from, found.workload.round) == (1000.0, LOGS, "4.1")
    run = next((tmp_path / "t").rglob("run_1"))
    (run / "mlperf_log_detail.txt").unlink()
    (run / "mlperf_log_summary.txt").write_text(
        "Samples per second: 999.5\nResult is : VALID\n", encoding="utf-8"
    )
    with pytest.raises(Error, match="does not name the round"):
        read(tmp_path / "t")
    (found,), _ = read(tmp_path / "t", "4.1")
    assert (found.value, found.validity, found.figures_from) == (999.5, "VALID", LOG_SUMMARY)
    (run / "mlperf_log_summary.txt").unlink()
    known, faults = read(tmp_path / "t", "4.1")
    assert not known
    assert "mlperf_log_detail.txt" in faults[0].why


@pytest.mark.parametrize(("of_round", "value"), [("4.0", 41.0), ("4.1", 40.5)])
def test_the_rate_of_server_is_that_which_its_round_published(
    tmp_path: Path, of_round: str, value: float
) -> None:
    run = tmp_path / "closed/Maker/results/box/resnet50/Server/performance/run_1"
    rates = {"scheduled": 41.0, "completed": 40.5}
    log(run, "Server", **{f"result_{name}_samples_per_sec": rate for name, rate in rates.items()})
    (found,), _ = read(tmp_path, of_round)
    assert found.value == value
    (run / "mlperf_log_detail.txt").unlink()
    lines = (f"{name.title()} samples per second : {rate}" for name, rate in rates.items())
    text = "\n".join([*lines, "Result is : VALID", ""])
    (run / "mlperf_log_summary.txt").write_text(text, encoding="utf-8")
    (found,), _ = read(tmp_path, of_round)
    assert found.value == value


def test_an_inferred_figure_is_computed_as_the_checkers_do(tmp_path: Path) -> None:
    site = tmp_path / "open" / "Maker" / "results" / "box" / "resnet50"
    keys = {
        "early_stopping_latency_ms": 3_000_000,
        "result_qps_without_loadgen_overhead": 500.0,
        "result_90.00_percentile_latency_ns": 2_000_000,
    }
    for scenario in ("singlestream", "multistream", "offline"):
        log(site / scenario / "performance" / "run_1", "SingleStream", **keys)
    found = {each.workload.scenario: each for each in read(tmp_path)[0]}
    assert (found["MultiStream"].value, found["MultiStream"].unit) == (24.0, "ms")
    assert (found["Offline"].value, found["Offline"].unit) == (500.0, "samples/s")
    assert [each.inferred for each in found.values()].count(True) == 2


def test_what_was_requested_of_a_layout_is_told_from_what_was_used(tmp_path: Path) -> None:
    def configured(requested: int, used: int) -> BenchmarkResult:
        folder = own_run(tmp_path / f"{requested}-{used}")
        document = json.loads((folder / "results.json").read_text("utf-8"))
        run = document["results"][0]["performance_run"]
        run["circumstances"]["overrides"] = {"batch_size": float(requested), "threads": 2.0}
        run["shape"]["batch"] = used
        (result,) = of_document(document, folder)
        return result

    results = [configured(8, 8), configured(8, 4), configured(16, 4)]
    assert len({result.series for result in results}) == 3
    settings = results[1].settings
    assert (settings["requested_batch_size"], settings["batch"]) == ("8", "4")
    facts = differing_facts({str(n): result for n, result in enumerate(results)})
    assert facts["2"] == {"batch": "4", "requested_batch_size": "16"}
    kept = differing_facts({str(n): configured(n, n) for n in (8, 16)})
    assert kept["8"] == {"batch": "8"}, "one column where exactly that was used"


READINGS = """\
Time,07-26-2024 09:00:04.000,Watts,900.000000,Volts,230.0,Amps,1.0,PF,0.9,Mark,x_testing
Time,07-26-2024 09:00:05.000,Watts,20.000000,Volts,230.0,Amps,1.0,PF,0.9,Mark,x_testing
Time,07-26-2024 09:00:06.000,Watts,-1.000000,Volts,230.0,Amps,1.0,PF,0.9,Mark,x_testing
Time,07-26-2024 09:00:07.000,Watts,40.000000,Volts,230.0,Amps,1.0,PF,0.9,Mark,x_testing
Time,07-26-2024 09:00:20.000,Watts,900.000000,Volts,230.0,Amps,1.0,PF,0.9,Mark,x_testing
"""


@pytest.mark.parametrize(
    ("scenario", "measured", "joules"),
    [
        ("offline", "Offline", 30 / 600),
        ("server", "Server", 30 / 300),
        ("singlestream", "SingleStream", 30 * 10 / 200),
        ("multistream", "MultiStream", 30 * 10 / 200 / 8),
        ("multistream", "SingleStream", 30 * 10 / 200),
        ("offline", "SingleStream", 30 / 500),
    ],
)
def test_power_is_read_from_the_meter(
    tmp_path: Path, scenario: str, measured: str, joules: float
) -> None:
    run = tmp_path / "open" / "Maker" / "results" / "box" / "resnet50" / scenario
    run = run / "performance" / "run_1"
    log(
        run,
        measured,
        power_end="07-26-2024 09:00:14.123",
        result_query_count=200,
        result_samples_per_second=600.0,
        result_completed_samples_per_sec=300.0,
        result_qps_without_loadgen_overhead=500.0,
    )
    (run / "spl.txt").write_text(READINGS, encoding="utf-8")
    (found,), _ = read(tmp_path)
    power, energy = found.figure(POWER), found.figure(ENERGY)
    assert power is not None
    assert energy is not None
    assert (power.value, power.unit, power.tier) == (30.0, "W", CERTIFIED)
    assert (energy.value, energy.tier) == (pytest.approx(joules), CERTIFIED)


def test_our_own_run(tmp_path: Path) -> None:
    (found,), _ = read(own_run(tmp_path / "r"))
    assert (found.value, found.figures_from, found.accuracy) == (50.0, OWN_RECORD, 99.0)
    assert found.workload.form == "tiny, test run"
    assert found.command == "cm run script x"
    run = tmp_path / "r" / "offline" / "performance" / "run_1"
    log(run, "Offline", result_samples_per_second=51.5)
    (found,), _ = read(tmp_path / "r")
    assert (found.value, found.figures_from) == (51.5, LOGS)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        "[" * 50_000,
        '{"results": 1}',
        '{"benchmark": 1, "sut": 2, "results": [3]}',
    ],
)
def test_a_damaged_record_is_told(tmp_path: Path, text: str) -> None:
    (tmp_path / "results.json").write_text(text, encoding="utf-8")
    known, faults = read(tmp_path)
    assert not known
    assert len(faults) == 1
    with pytest.raises(Error) as raised:
        SourceFiles(tmp_path / "home").add(tmp_path)
    assert raised.value.code == "no-results"
    assert "results.json" in raised.value.context[0]


def test_a_bundle_brings_results_and_logs_elsewhere(tmp_path: Path) -> None:
    own_run(tmp_path / "r")
    log(
        tmp_path / "r" / "offline" / "performance" / "run_1",
        "Offline",
        result_samples_per_second=5.0,
    )
    known, _ = read(tmp_path / "r")
    path = tmp_path / "b.zip"
    assert export.as_bundle(known, path) == 1
    assert read(path)[0] == known
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr(export.RESULTS, "{}\n")
    changed, faults = read(path)
    assert not changed
    assert faults


def test_a_table_cannot_smuggle_a_formula(tmp_path: Path) -> None:
    export.as_csv([{"system": "=HYPERLINK(1)"}], tmp_path / "t.csv")
    assert "'=HYPERLINK" in (tmp_path / "t.csv").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["not-there", "empty"])
def test_a_place_without_results_is_told(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(Error):
        readers.kind_of(tmp_path / name)


@pytest.mark.parametrize("name", ["results.json", "summary_results.json", "cm-result.json"])
def test_a_pipe_in_a_place_is_not_waited_for(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    program = (
        "import sys; from pathlib import Path; from cmbench.errors import Error;"
        "from cmbench_results import readers; place = Path(sys.argv[1]);"
        "\ntry: print([type(e).__name__ for e in readers.read(readers.kind_of(place), place)])"
        "\nexcept Error as refused: print(refused.code)"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    done = subprocess.run(command, env=python_env(), text=True, capture_output=True, timeout=HANG_S)
    assert done.stdout.strip() in ("['ReadFault']", "no-results"), done.stderr


def test_a_broken_file_of_a_place_is_named(tmp_path: Path) -> None:
    places = SourceFiles(tmp_path / "home")
    place = places.add(own_run(tmp_path / "r"))
    file = next((tmp_path / "home").rglob("*.jsonl"))
    file.write_text(file.read_text(encoding="utf-8") + '{"cut', encoding="utf-8")
    with pytest.raises(Error, match=file.name):
        list(places.results(place))
    file.write_text("", encoding="utf-8")
    [error] = places.readable()[1]
    assert file.name in error.message


@pytest.mark.parametrize(
    ("spent", "joules", "watts"),
    [
        ({"energy": {"per_sample_j": 0.5, "mean_w": 300.0}}, 0.5, 300),
        ({}, 10, None),
    ],
)
def test_energy_of_a_run_is_what_its_counters_say(
    tmp_path: Path, spent: dict[str, Any], joules: float, watts: float | None
) -> None:
    folder = own_run(tmp_path / "own")
    told = json.loads((folder / "results.json").read_text())
    counters = {"rapl 0 package-0": 30.0, "rapl 0:0 core": 20.0, "nvml 0": 70.0}
    run = told["results"][0]["performance_run"]
    run["spent"], run["circumstances"]["telemetry"] = spent, {"energy_j": counters}
    logs = folder / "offline" / "performance" / "run_1"
    logs.mkdir(parents=True)
    (logs / "mlperf_log_detail.txt").write_text(
        ':::MLLOG {"key": "result_query_count", "value": 10}\n'
        ':::MLLOG {"key": "result_samples_per_second", "value": 100.0}\n'
    )
    (folder / "results.json").write_text(json.dumps(told))
    (found,), _ = read(folder)
    energy, power = found.figure(ENERGY), found.figure(POWER)
    assert energy is not None
    assert (energy.value, energy.tier) == (joules, "telemetry")
    assert (power.value if power else None) == watts
