"""Small results in the formats that are read: what each field is called, with made-up figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cmbench_results.result_sources import ResultSource, SourceFiles
from cmbench_results.store import Store

ROW = {
    "version": "v4.1",
    "Division": "closed",
    "Organization": "Maker",
    "Platform": "box_1",
    "SystemName": "Box One (1x Fast-80GB)",
    "SystemType": "datacenter",
    "Model": "bert-99",
    "MlperfModel": "bert-99",
    "Scenario": "Offline",
    "Result": 1000.0,
    "Result_Units": "Samples/s",
    "Accuracy": 90.5,
    "host_processor_model_name": "Some CPU",
    "host_processor_core_count": 32,
    "host_processors_per_node": 2,
    "accelerator_model_name": "Fast-80GB",
    "accelerators_per_node": 1,
    "number_of_nodes": 1,
    "framework": "Runtime 1.2",
    "operating_system": "Linux",
    "Availability": "available",
    "has_power": False,
    "inferred": 0,
    "url": "https://github.com/mlcommons/inference_results_v4.1/tree/main/closed/Maker",
}
NEWER_ROW = {
    "version": "v5.1",
    "Category": "open",
    "Submitter": "Maker",
    "Platform": "box_2",
    "System": "Box Two",
    "Suite": "edge",
    "Model": "resnet",
    "UsedModel": "resnet50",
    "Scenario": "SingleStream",
    "Performance_Result": 0.5,
    "Performance_Units": "Latency (ms)",
    "Accuracy": "acc: 76.1",
    "Processor": "Some CPU",
    "host_processor_core_count": "16",
    "p#": 1,
    "a#": 0,
    "Nodes": 1,
    "Software": "Runtime 2.0",
    "Details": "https://github.com/mlcommons/inference_results_v5.1/tree/main/open/Maker",
}


def experiments(folder: Path, *rows: dict[str, Any]) -> Path:
    """A folder with published rows."""
    place = folder / "experiment" / "set--1" / "2026"
    place.mkdir(parents=True, exist_ok=True)
    (place / "cm-result.json").write_text(json.dumps(list(rows)), encoding="utf-8")
    return folder


def log(place: Path, scenario: str, **values: Any) -> None:
    """A long log of LoadGen with a few keys."""
    place.mkdir(parents=True, exist_ok=True)
    told = {
        "requested_qsl_rng_seed": 3066443479025735752,  # round 4.1
        "effective_scenario": scenario,
        "effective_test_mode": "PerformanceOnly",
        "result_validity": "VALID",
        "power_begin": "07-26-2024 09:00:04.123",
        **values,
    }
    lines = (json.dumps({"key": k, "value": v, "metadata": {}}) for k, v in told.items())
    text = "".join(f":::MLLOG {line}\n" for line in lines)
    (place / "mlperf_log_detail.txt").write_text(text, encoding="utf-8")


def tree(folder: Path, value: float = 1000.0) -> Path:
    """A submission tree with the result of ``ROW``."""
    site = folder / "closed" / "Maker"
    (site / "systems").mkdir(parents=True)
    told = {"system_name": "Box One (1x Fast-80GB)", "system_type": "datacenter"}
    told |= {"accelerators_per_node": "1", "accelerator_model_name": "Fast-80GB"}
    (site / "systems" / "box_1.json").write_text(json.dumps(told), encoding="utf-8")
    run = site / "results" / "box_1" / "bert-99" / "Offline" / "performance" / "run_1"
    percentiles = {"result_99.00_percentile_latency_ns": 2_000_000}
    log(run, "Offline", result_samples_per_second=value, **percentiles)
    return folder


def own_run(folder: Path, value: float = 50.0, when: str = "2026-11-22T10:00:00+00:00") -> Path:
    """What our harness writes of a run, as far as it is read."""
    around = {"measured_at": when, "versions": {"onnxruntime": "1.2"}, "command": "cm run script x"}
    run = {
        "fingerprint": "f" * 8,
        "meaning": "throughput",
        "value": value,
        "duration_s": 10.0,
        "latencies_ms": {"mean": 1.0, "90.00": 2.0, "99.00": 3.0},
        "shape": {"workers": 1, "threads": 2, "batch": 4},
        "targets": {"qps": 60.0},
        "circumstances": around,
    }
    each = {
        "scenario": "Offline",
        "value": value,
        "unit": "samples/s",
        "validity": "VALID",
        "reasons": [],
        "accuracy": 99.0,
        "accuracy_target": 98.0,
        "accuracy_unit": "%",
        "performance_run": run,
        "accuracy_run": None,
    }
    told = {
        "format": 2,
        "benchmark": "resnet50",
        "form": "tiny",
        "style": "test",
        "backend": "onnxruntime",
        "device": "cpu",
        "division": "closed",
        "round": "6.1",
        "sut": "lab-cmbench-cpu-onnxruntime",
        "precision": "float32",
        "model": {"name": "m"},
        "dataset": {"name": "digits"},
        "host": {"system": "Linux", "cpu_model": "CPU", "cores_usable": 2, "memory_bytes": 8e9},
        "versions": {"onnxruntime": "1.2"},
        "results": [each],
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(json.dumps(told), encoding="utf-8")
    return folder


BATCHES, THREADS, REPEATS = (1, 8, 64), (1, 2), (100.0, 102.0, 110.0)


def sweep(folder: Path) -> list[Path]:
    """Three runs of each of six points: batches and threads."""
    runs = []
    for number, (batch, threads) in enumerate((b, t) for b in BATCHES for t in THREADS):
        for repeat, value in enumerate(REPEATS):
            name, when = f"{number}-{repeat}", f"2026-11-2{repeat}T10:{number:02}:00+00:00"
            run = own_run(folder / name, value * (1 + number), when)
            document = json.loads((run / "results.json").read_text("utf-8"))
            measured = document["results"][0]["performance_run"]
            measured["shape"] = {"workers": 1, "threads": threads, "batch": batch}
            # What a calibration estimates differs a little from run to run.
            measured["targets"] = {"qps": value + 1, "origin": "calibration"}
            (run / "results.json").write_text(json.dumps(document), encoding="utf-8")
            runs.append(run)
    return runs


def add(store: Store, path: Path) -> ResultSource:
    """Add a place to the files and to the database."""
    place = store.places.add(path)
    store.add(place, store.places.results(place))
    return place


def write_often(root: str, url: str, path: str) -> None:
    """What a process does that writes beside another one."""
    with Store(SourceFiles(root), url) as store:
        for _ in range(5):
            add(store, Path(path))


def open_once(root: str, url: str) -> None:
    """What a process does that comes first, or believes so."""
    Store(SourceFiles(root), url).close()
