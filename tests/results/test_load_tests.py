"""Results of load generators for language models: ours, those of others, and MLPerf's client."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import mlperf_endpoints_lab as lab
from cmbench_results import readers
from cmbench_results.result_sources import SourceFiles
from cmbench_results.values import BenchmarkResult

OURS: dict[str, Any] = {
    "format": "cmbench-endpoint/1",
    "at": 1795826913.0,
    "model": "tiny",
    "notes": ["1 in flight: few answers"],
    "host": {"name": "box", "cpu": "Xeon", "cores": 8, "python": "3.12"},
    "endpoint": {"url": "http://localhost:8000/v1", "api": "chat", "body": {"top_k": 1}},
    "prompts": {
        "dataset": "random",
        "inputs": [256, 256],
        "outputs": [16, 64],
        "salted": True,
        "seed": 7,
    },
    "load": {"seconds": 30.0, "distribution": "poisson"},
    "checks": {"cache": {"cached": False}},
    "slo_ms": {"ttft": 500.0},
    "points": [
        {
            "load": {"size": 4.0, "open_loop": False},
            "begun_at": 1795826913.0,
            "requests": 100,
            "failures": {"timeout": 2},
            "tokens": {"seconds": 10.0},
            "latencies": {
                "ttft": {"p50": 20.5, "p90": 30.0, "p99": 40.0},
                "tpot": {"p50": 2.0, "p99": 3.0},
                "itl": None,
                "e2e": {"p50": 90.0},
            },
            "requests_per_s": 10.0,
            "output_tokens_per_s": 400.0,
            "tokens_per_s_per_user": 500.0,
            "joules_per_token": 0.5,
        }
    ],
}
VLLM = {
    "date": "20261128-010203",
    "model_id": "tiny",
    "max_concurrency": 4,
    "request_rate": "inf",
    "duration": 10.0,
    "completed": 98,
    "failed": 2,
    "request_throughput": 9.8,
    "output_throughput": 400.0,
    "mean_ttft_ms": 21.0,
    "median_ttft_ms": 20.5,
    "p99_ttft_ms": 40.0,
    "median_tpot_ms": 2.0,
    "p99_tpot_ms": 3.0,
}
AIPERF = {
    "request_throughput": {"unit": "requests/sec", "avg": 9.8},
    "output_token_throughput": {"unit": "tokens/sec", "avg": 400.0},
    "time_to_first_token": {"unit": "ms", "avg": 21.0, "p50": 20.5, "p99": 40.0},
    "inter_token_latency": {"unit": "ms", "avg": 2.0, "p50": 2.0, "p99": 3.0},
    "request_latency": {"unit": "ms", "p50": 90.0},
    "request_count": {"unit": "requests", "avg": 98},
    "error_request_count": {"unit": "requests", "avg": 2},
    "benchmark_duration": {"unit": "sec", "avg": 10.0},
    "input_config": {
        "models": {"items": [{"name": "tiny"}]},
        "phases": [{"name": "profiling", "type": "concurrency", "requests": 100, "concurrency": 4}],
    },
    "start_time": "2026-11-28T01:02:03",
}
GUIDELLM = {
    "metadata": {"version": 1},
    "config": {"backend": {"model": "tiny"}},
    "benchmarks": [
        {
            "config": {"strategy": {"type_": "concurrent", "streams": 4}},
            "start_time": 1795826913.0,
            "duration": 10.0,
            "metrics": {
                "request_totals": {"successful": 98, "errored": 2, "incomplete": 0, "total": 100},
                "requests_per_second": {"successful": {"mean": 9.8}},
                "output_tokens_per_second": {"successful": {"mean": 400.0}},
                "time_to_first_token_ms": {
                    "successful": {"percentiles": {"p50": 20.5, "p99": 40.0}}
                },
                "time_per_output_token_ms": {
                    "successful": {"percentiles": {"p50": 2.0, "p99": 3.0}}
                },
                "request_latency": {"successful": {"percentiles": {"p50": 0.09}}},
            },
        }
    ],
}
LLAMA_BENCH = [
    {"model_filename": "tiny", "n_prompt": 512, "n_gen": 0, "avg_ts": 4000.0},
    {"model_filename": "tiny", "n_prompt": 0, "n_gen": 128, "avg_ts": 500.0, "n_threads": 2,
     "test_time": "2026-11-28T01:02:03Z"},
]  # fmt: skip
PROGRAMS = {
    "bench,endpoint": OURS,
    "vllm bench serve": VLLM,
    "AIPerf": AIPERF,
    "GuideLLM": GUIDELLM,
}


def _read(path: Path) -> list[BenchmarkResult]:
    results = list(readers.read(readers.kind_of(path), path))
    assert not [item for item in results if isinstance(item, readers.ReadFault)]
    return [item for item in results if isinstance(item, BenchmarkResult)]


def _figure(result: BenchmarkResult, name: str) -> float | None:
    metric = result.figure(name)
    return metric.value if metric else None


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_are_on_the_same_scales(tmp_path: Path, program: str) -> None:
    path = tmp_path / "export.json"
    path.write_text(json.dumps(PROGRAMS[program]), encoding="utf-8")
    (result,) = _read(path)
    assert (result.workload.model, result.workload.scenario) == ("tiny", "4 in flight")
    assert (result.value, result.unit) == (400.0, "tokens/s")
    assert result.software.framework == program
    assert _figure(result, "ttft_p50") == 20.5
    assert _figure(result, "ttft_p99") == 40.0
    assert _figure(result, "tpot_p50") == 2.0
    assert _figure(result, "tokens_per_s_per_user") == 500.0
    assert result.reasons == ("2 requests failed",)
    if program != "vllm bench serve":
        assert _figure(result, "e2e_p50") == 90.0


def _of(tmp_path: Path, document: dict[str, Any]) -> BenchmarkResult:
    path = tmp_path / "own.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    (result,) = _read(path)
    return result


def test_results_of_our_own_are_told_apart_by_what_was_set(tmp_path: Path) -> None:
    first = _of(tmp_path, OURS)
    assert first.settings == {
        "load": "4 in flight",
        "program": "bench,endpoint",
        "api": "chat",
        "url": "http://localhost:8000/v1",
        "dataset": "random",
        "input_tokens": "256",
        "output_tokens": "16:64",
        "salted": "yes",
        "prefix_cache": "no",
        "duration_s": "30",
        "slo_ms": "ttft:500",
        "body": '{"top_k": 1}',
    }
    energy = first.figure("energy_per_token")
    assert energy is not None
    assert (energy.value, energy.unit, energy.tier) == (0.5, "J", "telemetry")
    assert (first.system.name, first.system.cpu, first.system.cores) == ("box", "Xeon", 8)
    again = {**OURS, "at": 1.0, "prompts": {**OURS["prompts"], "seed": 8}}
    assert _of(tmp_path, again).series == first.series
    cached = {**OURS, "checks": {"cache": {"cached": True}}}
    assert _of(tmp_path, cached).series != first.series


def test_a_server_of_its_own_is_known_by_its_settings(tmp_path: Path) -> None:
    own = {**OURS, "server": {"program": "llama.cpp", "slots": 4}}
    first = _of(tmp_path, own)
    assert first.settings["server_slots"] == "4"
    elsewhere = {**own["endpoint"], "url": "http://127.0.0.1:9999/v1"}
    assert _of(tmp_path, {**own, "endpoint": elsewhere}).series == first.series
    remote = {**OURS["endpoint"], "url": "https://api.example.org/v1"}
    assert _of(tmp_path, {**OURS, "endpoint": remote}).system.name == "api.example.org"


def test_what_was_measured_before_stays_when_a_file_is_written_again(tmp_path: Path) -> None:
    path, files = tmp_path / "own.json", SourceFiles(tmp_path)
    for at in (1.0, 2.0):
        points = [{**OURS["points"][0], "begun_at": at}]
        path.write_text(json.dumps({**OURS, "points": points}), encoding="utf-8")
        source = files.add(path)
    assert source.results == 2


def test_settings_of_an_earlier_aiperf(tmp_path: Path) -> None:
    path = tmp_path / "export.json"
    settings = {"endpoint": {"model_names": ["tiny"]}, "loadgen": {"request_rate": 8}}
    path.write_text(json.dumps(AIPERF | {"input_config": settings}), encoding="utf-8")
    (result,) = _read(path)
    assert (result.workload.model, result.workload.scenario) == ("tiny", "8 requests/s")


def test_llama_bench_is_decoding_alone(tmp_path: Path) -> None:
    path = tmp_path / "llama-bench.json"
    path.write_text(json.dumps(LLAMA_BENCH), encoding="utf-8")
    (result,) = _read(path)
    assert result.value == 500.0
    assert _figure(result, "tpot_p50") == 2.0
    assert "without a server" in result.notes


@pytest.mark.parametrize(
    "document", [{}, [], [1], {"points": []}, "text", {"benchmarks": [1]}, None]
)
def test_other_json_is_no_load_test(tmp_path: Path, document: Any) -> None:
    path = tmp_path / "other.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    assert readers.kind_of(path) == "run"


def test_a_cut_export_is_one_fault(tmp_path: Path) -> None:
    path = tmp_path / "export.json"
    path.write_text(json.dumps({**OURS, "points": [{"load": 3}, 4]}), encoding="utf-8")
    (fault,) = readers.read("load-test", path)
    assert isinstance(fault, readers.ReadFault)


def test_points_of_a_curve_of_mlperf_endpoints(tmp_path: Path) -> None:
    lab.write_run(tmp_path / "runs/r4", 4, judged=True)
    lab.write_run(tmp_path / "runs/r64", 64)
    first, second = _read(tmp_path)
    assert [r.workload.scenario for r in (first, second)] == ["4 in flight", "64 in flight"]
    assert first.value == pytest.approx(128 * 13368 / 720)
    assert first.validity == "VALID"
    assert _figure(first, "tokens_per_s_per_user") == pytest.approx(
        1000 / (10 * (1 + 4 / 256) * 1.4)
    )


def test_a_run_without_answers_is_no_valid_one(tmp_path: Path) -> None:
    folder = lab.write_run(tmp_path / "r4", 4)
    # As the client writes it where its longest duration ends before the first answer.
    empty = {"n_samples_issued": 1, "n_samples_completed": 0, "duration_ns": None,
             "state": "complete", "complete": True, "latency": {}, "ttft": {}}  # fmt: skip
    lab.put(folder / "performance/result_summary.json", empty)
    (result,) = _read(tmp_path)
    assert (result.value, result.validity) == (None, "INVALID")
    assert result.reasons == ("no request was answered",)


def test_a_submission_of_mlperf_endpoints_names_system_and_division(tmp_path: Path) -> None:
    made = lab.make_tree(tmp_path / "made")
    results = _read(made.root)
    assert len(results) == 7
    assert {r.system.name for r in results} == {"Tester Box 8x"}
    assert {(r.workload.division, r.workload.model) for r in results} == {("rdi", lab.MODEL)}
