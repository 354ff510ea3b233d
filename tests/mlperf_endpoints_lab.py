"""Runs in the files of MLPerf Endpoints' reference client, and submissions that are made of them.

The figures are made up; names, nesting and units are those of ``inference_endpoint`` 0.1.0.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from mlperf.client_run import ClientRun, read_runs
from mlperf.endpoints import plan, rules, tree
from mlperf.endpoints.plan import CurvePlan

MODEL = "llama3_1-8b"
COHORT = "2026-11-C1"
ROUGE = {"rouge1": "38.70", "rouge2": "15.90", "rougeL": "24.45", "rougeLsum": "35.70"}
PERCENTILES = ("99.9", "99.0", "97.0", "95.0", "90.0", "80.0", "75.0", "50.0", "25.0", "1.0")


def rollup(average: float, count: int) -> dict[str, Any]:
    """Return one metric as the client sums it up."""
    return {
        "total": average * count,
        "min": average / 2,
        "max": average * 2,
        "median": average,
        "avg": average,
        "std_dev": average / 10,
        "percentiles": {name: average * (0.5 + float(name) / 100) for name in PERCENTILES},
    }


def summary(concurrency: int, seconds: float, samples: int = 13368) -> dict[str, Any]:
    """Return ``result_summary.json`` of a run in which every request was answered."""
    token_ns = 1e7 * (1 + concurrency / 256)
    return {
        "version": "0.1.0",
        "git_sha": None,
        "test_started_at": 0,
        "n_samples_issued": samples,
        "n_samples_completed": samples,
        "n_samples_failed": 0,
        "duration_ns": int(seconds * 1e9),
        "state": "complete",
        "complete": True,
        "ttft": rollup(10 * token_ns, samples),
        "tpot": rollup(token_ns, samples),
        "latency": rollup(seconds * 1e9 * concurrency / samples, samples),
        "output_sequence_lengths": rollup(128, samples),
        "qps": samples / seconds,
        "tps": 128 * samples / seconds,
    }


def accuracy() -> dict[str, Any]:
    """Return ``accuracy_results.json`` of answers that are as good as the reference's."""
    entry = {
        "dataset_name": "cnn_dailymail::llama3_8b",
        "extractor": "IdentityExtractor",
        "ground_truth_column": "highlights",
        "score": {**ROUGE, "gen_len": 8167000},
        "unit_samples": 13368,
        "num_repeats": 1,
        "total_samples": 13368,
        "duration_s": 300.0,
        "complete": True,
        "dataset_type": "accuracy",
    }
    return {"average_accuracy": None, "osl_tokenization_s": 1.0, "accuracy_scores": [entry]}


def config(
    concurrency: int, seconds: float, *, pattern: str = "concurrency", name: str = MODEL
) -> dict[str, Any]:
    """Return ``config.yaml`` as the client writes it, with the seeds of set A."""
    seeds = rules.PUBLISHED[0]
    load = {"type": pattern, "target_concurrency": concurrency}
    return {
        "name": f"{name}-r{concurrency}",
        "version": "1.0",
        "type": "offline" if pattern == "max_throughput" else "online",
        "model_params": {"name": name, "temperature": 0.0, "seed": seeds.model},
        "datasets": [{"name": "cnn_dailymail::llama3_8b", "type": "performance"}],
        "settings": {
            "runtime": {
                "min_duration_ms": int(1000 * seconds),
                "scheduler_random_seed": seeds.scheduler,
                "dataloader_random_seed": seeds.sample_index,
            },
            "load_pattern": {"type": pattern} if pattern == "max_throughput" else load,
        },
        "endpoint_config": {"endpoints": ["http://localhost:8000"], "api_type": "openai"},
    }


def write_run(
    folder: Path, concurrency: int, seconds: float = 0, *, judged: bool = False, **more: Any
) -> Path:
    """Write a run as the client leaves it in its report folder; return the folder."""
    seconds = seconds or 1.2 * rules.least_seconds(concurrency, False)
    put(folder / "config.yaml", config(concurrency, seconds, **more))
    put(folder / "performance/result_summary.json", summary(concurrency, seconds))
    if judged:
        put(folder / "accuracy/accuracy_results.json", accuracy())
    return folder


def put(path: Path, document: object) -> None:
    """Write a document as YAML or JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = yaml.safe_dump(document) if path.suffix == ".yaml" else json.dumps(document, indent=2)
    path.write_text(text, encoding="utf-8")


def get(path: Path) -> Any:
    """Return the document in a YAML or JSON file."""
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def curve_plan(division: str = "RDI", offline: str = rules.ELECTED, c_max: int = 256) -> CurvePlan:
    """Return the plan of a small curve."""
    return plan.plan_curve(
        rules.MODELS[MODEL],
        division,
        rules.regions_of(c_max, 4),
        rules.PUBLISHED[0],
        COHORT,
        offline=offline,
    )


def write_runs(folder: Path, curve: CurvePlan) -> dict[str, ClientRun]:
    """Write a run for every point of a plan; return them by the name of their point."""
    for point in curve.points:
        if point.offline:
            write_run(folder / point.name, 13368, 650, judged=True, pattern="max_throughput")
        else:
            write_run(folder / point.name, point.concurrency, judged=point.accuracy)
    return {run.folder.name: run for run in read_runs(folder)}


SYSTEM = {
    "system_name": "Tester Box 8x",
    "shortened_system_name": "Box 8x",
    "system_availability_status": "Available",
    "availability_url": "https://example.com/box",
    "system_size": "1 node",
    "system_node_ensemble_count": 1,
    "system_node_ensemble_total": 1,
    "node_types": [
        {
            "system_node_ensemble_id": 1,
            "number_of_nodes": 1,
            "host_processor_model_name": "Tester CPU",
            "host_processors_per_node": 2,
            "host_processor_core_count": 64,
            "host_memory_capacity": "1 TB",
            "host_memory_configuration": "16 x 64 GB",
            "host_network_card_count": "2x 100 GbE",
            "accelerator_info": [{"accelerator_model_name": "Acc", "accelerators_per_node": 8}],
            "cooling": "air",
            "driver": "1.0",
            "operating_system": "Linux",
            "filesystem": "ext4",
        }
    ],
}
POWER = {
    "system_desc_id": "Tester Box 8x",
    "cooling": "air",
    "node_sets": [
        {
            "node_set_id": 1,
            "system_node_ensemble_id": 1,
            "nodes_provisioned": 1,
            "power_method": "published_system",
            "published_power": {
                "value_kw": 10.2,
                "source_type": "vendor_spec",
                "source": "https://example.com/power",
            },
        }
    ],
    "scale_out": {"present": False},
}
POINTS = {
    "model_precision": "FP8",
    "link_to_model": "https://example.com/model",
    "dataset_name": "CNN/DailyMail",
    "dataset_type": "Performance",
    "dataset_link": "https://example.com/data",
    "warmup": {
        "duration_s": 0,
        "requests_issued": 0,
        "requests_completed": 0,
        "data_source": "none",
        "concurrency": 0,
    },
}


def disclosure(path: Path, division: str = "RDI") -> tree.Disclosure:
    """Write the file that a person fills in; return its contents."""
    power = POWER if division == "Standardized" else {}
    document = {
        "organization": "Tester",
        "submission": "box-1",
        "implementation": "server",
        "points": POINTS,
        "system": SYSTEM,
        "power": power,
    }
    put(path, document)
    return tree.read_disclosure(path)


@dataclass(frozen=True, slots=True)
class EndpointsTree:
    """A submission on the disk, and its curve."""

    root: Path
    system: Path
    curve: Path

    def edit(self, name: str, **more: Any) -> None:
        """Change fields of a file of a point, named ``r4/point.yaml``; None removes one."""
        path = self.curve / name
        document = get(path)
        for key, value in more.items():
            document.pop(key) if value is None else document.update({key: value})
        put(path, document)


def make_tree(folder: Path, division: str = "RDI", offline: str = rules.ELECTED) -> EndpointsTree:
    """Write runs and make the tree of a submission that both checkers accept."""
    curve = curve_plan(division, offline)
    runs = write_runs(folder / "runs", curve)
    readme = folder / "README.md"
    readme.write_text("Start the server, then run the client.\n", encoding="utf-8")
    said = disclosure(folder / "disclosure.yaml", division)
    root = tree.build(folder / "tree", curve, runs, said, [readme])
    system = root / "results/Tester_Box_8x"
    return EndpointsTree(root, system, system / MODEL)
