"""A submission tree for tests: every file in the form that LoadGen and our generator give it.

The logs are written here, not by LoadGen, because a genuine one takes ten minutes each.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlperf.catalog as catalog
from mlperf.submission import build, layouts, summary, texts, truncate
from mlperf.submission.fields import of_division
from mlperf.submission.layouts import ScenarioCell, SubmissionTree
from support import ROOT

SCRIPTS = ROOT / "script"

SYSTEM = "box-cpu"
SUBMITTER = "Tester"
ANSWER = "00008040"
# The size of kits19, the data set of 3d-unet.
EQUALLY_ISSUED = (43,)
PREFIX = ":::MLLOG "
PERSON = {
    f"GIT_{role}_{kind}": "tester@example.org"
    for role in ("AUTHOR", "COMMITTER")
    for kind in ("NAME", "EMAIL")
}
# Stands for the official checker, which is no part of this project: it refuses what is short.
CHECKER = """
import pathlib, sys
tree = pathlib.Path(sys.argv[sys.argv.index("--input") + 1])
logs = tree.rglob("performance/run_1/mlperf_log_detail.txt")
if any('"effective_min_duration_ms", "value": 300,' in log.read_text() for log in logs):
    print("ERROR] Test duration less than 600s in user config.")
    sys.exit(1)
print("INFO] SUMMARY: submission looks OK")
"""
# What accuracy.txt says of a metric, by the checker's name of it.
FIGURES = {
    "acc": "accuracy={0}%, good={2}, total={1}",
    "F1": '{{"exact_match": 85.0, "f1": {0}}}',
    "DICE": "Accuracy: mean = {0:.5f}, kidney = 0.9300, tumor = 0.7900",
    "mAP": "mAP={0}%",
    "ACCURACY": "Word Error Rate: 0.02, accuracy={0}%",
    "AUC": "AUC={0}%",
    "F1_HIERARCHICAL": '{{"category_f1": 0.9, "f1": {0}}}',
    "E2E_ACCURACY": "Accuracy: {0}",
    "DLRM_NE": "metric/lifetime_ne/rating: {0}",
    "DLRM_ACC": "metric/lifetime_accuracy/rating: {0}",
    "DLRM_AUC": "metric/lifetime_gauc/rating: {0}",
}
QUOTED = {
    "ROUGE1": "rouge1",
    "ROUGE2": "rouge2",
    "ROUGEL": "rougeL",
    "ROUGELSUM": "rougeLsum",
    "GEN_LEN": "gen_len",
    "TOKENS_PER_SAMPLE": "tokens_per_sample",
    "gsm8k_accuracy": "gsm8k",
    "mbxp_accuracy": "mbxp",
}
VERIFIED = {
    "TEST01": ("verify_accuracy.txt", "verify_performance.txt"),
    "TEST04": ("verify_performance.txt",),
    "TEST04-A": ("verify_performance.txt",),
    "TEST04-B": (),
    "TEST05": ("verify_performance.txt",),
    "TEST06": ("verify_accuracy.txt",),
    "TEST07": ("verify_accuracy.txt",),
    "TEST08": ("verify_accuracy.txt",),
    "TEST09": ("verify_output_len.txt",),
}
TOKENS_PASS = "First token check pass: {0}\nEOS check pass: True\nSample length check pass: True\n"
RESULTS = {
    "SingleStream": {
        "early_stopping_latency_ss": 1_100_000,
        "early_stopping_latency_ms": 2_000_000,
        "result_qps_without_loadgen_overhead": 950.0,
    },
    "MultiStream": {
        "early_stopping_latency_ms": 9_000_000,
        "result_mean_query_latency_ns": 7_000_000,
    },
    "Offline": {"result_samples_per_second": 1000.0},
    "Server": {
        "result_completed_samples_per_sec": 500.0,
        "result_scheduled_samples_per_sec": 501.0,
    },
}


@dataclass(frozen=True, slots=True)
class Example:
    """What the tree holds."""

    round: str = "6.1"
    division: str = "closed"
    benchmarks: tuple[str, ...] = ("resnet",)
    scenarios: tuple[str, ...] = ("SingleStream", "MultiStream", "Offline")
    category: str = "edge"


def line(key: str, value: object, error: bool = False) -> str:
    """One line of a detailed log."""
    record = {"key": key, "value": value, "metadata": {"is_error": error, "is_warning": False}}
    return PREFIX + json.dumps(record)


def detail(scenario: str, mode: str, example: Example, total: int, **more: Any) -> str:
    """A detailed log of a full-length run."""
    known = more.pop("known", None)
    seeds = catalog.rounds.seeds(example.round)
    loaded = known.loaded_samples if known else min(total, 10_833)
    offline = max(known.offline_minimum if known else 0, 660_000)
    samples, queries = {"Offline": (offline, 1), "MultiStream": (8, 662)}.get(scenario, (1, 100))
    issued = loaded * -(-offline // loaded) if known and known.equal_issue else offline
    percentile = 0.9 if scenario == "SingleStream" else 0.99
    if known:
        percentile = known.percentiles.get(catalog.Scenario(scenario), percentile)
    values: dict[str, Any] = {
        "loadgen_version": f"{example.round} test",
        "sut_name": sut_name(example),
        # Two logs are never the same.
        "generic_message": f"{scenario} {mode} {more.pop('at', '')}",
        "qsl_reported_total_count": total,
        "effective_scenario": scenario,
        "effective_test_mode": mode,
        "effective_accuracy_sample_count": total,
        "effective_samples_per_query": samples,
        "generated_samples_per_query": samples,
        "effective_min_duration_ms": 600_000,
        "effective_min_query_count": queries,
        "effective_performance_sample_count": loaded,
        "effective_target_latency_ns": 15_000_000 if scenario == "Server" else 0,
        **{f"effective_{name}_rng_seed": seed for name, seed in seeds.items()},
        "effective_accuracy_log_sampling_target": 0,
        "effective_performance_issue_same": False,
        "effective_performance_issue_unique": False,
        "effective_max_query_count": 0,
        "effective_max_duration_ms": 0,
        "effective_target_latency_percentile": percentile,
        "effective_sample_concatenate_permutation": known.equal_issue
        if known
        else total in EQUALLY_ISSUED,
    }
    if mode == "PerformanceOnly":
        values |= {
            "result_validity": "VALID",
            "result_min_duration_met": True,
            "result_min_queries_met": True,
            "early_stopping_met": True,
            "early_stopping_result": "",
            "result_query_count": {"Offline": 1, "Server": 400_000}.get(scenario, 100_000),
            "result_min_latency_ns": 900_000,
            "result_max_latency_ns": issued * 1_000_000 if scenario == "Offline" else 20_000_000,
            "result_50.00_percentile_latency_ns": 1_000_000,
            "result_99.00_percentile_latency_ns": 2_000_000,
            "result_99.00_percentile_per_query_latency_ns": 8_000_000,
            **RESULTS[scenario],
            "num_errors": 0,
        }
    if any(key.startswith("result_first_token") for key in more):
        # With token latencies LoadGen says it of two of them, under keys of their own.
        values.pop("early_stopping_result", None)
    values |= more
    return "\n".join(line(key, value) for key, value in values.items()) + "\n"


def sut_name(example: Example) -> str:
    """What LoadGen calls the system under test."""
    return "Network SUT" if example.division == "network" else "PyFastSUT"


def short(scenario: str, mode: str, sut: str = "PyFastSUT") -> str:
    """A summary log."""
    if mode == "AccuracyOnly":
        return "\nNo warnings encountered during test.\n\nNo errors encountered during test.\n"
    figure = {
        "Offline": "Samples per second: 1000\n",
        "MultiStream": "99.0th percentile latency (ns) : 8000000\n",
    }.get(scenario, "")
    return (
        f"SUT name : {sut}\nScenario : {scenario}\nMode     : {mode}\n{figure}Result is : VALID\n"
    )


def put(path: Path, text: str) -> None:
    """Write a file and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def answers(indices: range) -> str:
    """An accuracy log."""
    rows = ",\n".join(
        f'{{ "seq_id" : {k}, "qsl_idx" : {index}, "data" : "{ANSWER}" }}'
        for k, index in enumerate(indices)
    )
    return f"[\n{rows}\n]\n"


def performance(folder: Path, scenario: str, example: Example, total: int, **more: Any) -> None:
    """The two logs of a performance run."""
    put(
        folder / "mlperf_log_detail.txt",
        detail(scenario, "PerformanceOnly", example, total, **more),
    )
    put(folder / "mlperf_log_summary.txt", short(scenario, "PerformanceOnly", sut_name(example)))


def scenario(cell: ScenarioCell, example: Example) -> None:
    """All files of one scenario."""
    found = catalog.find(cell.benchmark, example.round)
    assert found is not None
    known = found.of(catalog.Scenario(cell.scenario))
    total, asked = known.dataset_size, catalog.Scenario(cell.scenario)
    name, at = asked.loadgen, f"{cell.benchmark} {cell.scenario}"
    limit = known.limits.get(asked)
    more = {"known": known, "at": at, **token_latencies(known)}
    if limit is not None and limit.latency_ms:
        more["effective_target_latency_ns"] = int(limit.latency_ms * 1e6)
    performance(cell.run, name, example, total, **more)
    put(cell.accuracy / "mlperf_log_detail.txt", answered(known, name, example, at))
    put(cell.accuracy / "mlperf_log_summary.txt", short(name, "AccuracyOnly"))
    log = answers(range(min(1000, total)))
    put(cell.accuracy / "mlperf_log_accuracy.json", log)
    digest = hashlib.sha256(log.encode()).hexdigest()
    put(cell.accuracy / "accuracy.txt", f"{figures(known)}\nhash={digest}\n")
    if known.outputs is not None:
        for shown in (*known.outputs.samples.get(example.round, ()), "captions"):
            put(cell.accuracy / known.outputs.folder / f"{shown}.txt", "output\n")
    described = dict.fromkeys(build.MEASUREMENT_KEYS, "fp32")
    place = cell.measurements / cell.layout.measurement_file(cell.system, cell.scenario)
    put(place, json.dumps(described))
    put(cell.measurements / "user.conf", f"*.{name}.target_qps = 1\n")
    put(cell.measurements / "README.md", f"# {cell.benchmark}, {cell.scenario}\n")
    if cell.layout.mlperf_conf:
        put(cell.measurements / "mlperf.conf", texts.loadgen_conf(known))
    if example.division == "open":
        return
    for test in cell.layout.tests(known.tests(example.round)):
        compliance(cell, test, example, more)


def answered(known: catalog.BenchmarkSpec, name: str, example: Example, at: str) -> str:
    """The detailed log of an accuracy run."""
    total = known.accuracy_samples or known.dataset_size
    return detail(name, "AccuracyOnly", example, total, at=at, known=known)


def token_latencies(known: catalog.BenchmarkSpec) -> dict[str, Any]:
    """What LoadGen logs beside the rest where answers are counted in tokens."""
    if known.inferred_tokens:
        return dict.fromkeys(catalog.scenario.INFERRED_TOKENS.values(), 9000.0)
    if not known.token_rates:
        return {}
    bounds = {each.metric.checker_name: each.reference for each in known.accuracy}
    tokens = bounds.get("TOKENS_PER_SAMPLE", 18.0)
    return {
        "requested_use_token_latencies": True,
        "result_first_token_99.00_percentile_latency_ns": 100_000_000,
        "result_time_per_output_token_99.00_percentile_ns": 5_000_000,
        "result_tokens_per_second": tokens * RESULTS["Offline"]["result_samples_per_second"],
        "result_completed_tokens_per_second": tokens
        * RESULTS["Server"]["result_completed_samples_per_sec"],
        "result_90.00_percentile_latency_ns": 1_100_000,
    }


def figures(known: catalog.BenchmarkSpec) -> str:
    """accuracy.txt of a run that reaches every target."""
    lines, quoted = [], []
    for each in known.accuracy:
        name = each.metric.checker_name
        value = each.reference if each.most != 1 else each.target
        if each.most is not None:
            value = round((each.target + (each.greatest or 0)) / 2, 4)
        if name in FIGURES:
            right = round(value / 100 * known.dataset_size)
            lines.append(FIGURES[name].format(value, known.dataset_size, right))
        else:
            quoted.append(f"'{QUOTED.get(name, each.metric.checker_name)}': {value}")
    if quoted:
        lines.append("{" + ", ".join(quoted) + "}")
    return "\n".join(lines)


def compliance(cell: ScenarioCell, test: str, example: Example, common: dict[str, Any]) -> None:
    """All files of a compliance test."""
    seeds = catalog.rounds.seeds(example.round, test)
    own: dict[str, Any] = {
        "TEST01": {"effective_accuracy_log_sampling_target": 4096},
        "TEST04": {"effective_performance_issue_same": True},
        "TEST05": {f"effective_{name}_rng_seed": seed for name, seed in seeds.items()},
    }.get(test, {})
    more = {**common, **own, "at": f"{cell.benchmark} {cell.scenario} {test}"}
    folder, total = cell.compliance(test), common["known"].dataset_size
    name = catalog.Scenario(cell.scenario).loadgen
    if test[:6] in ("TEST01", "TEST04", "TEST05"):
        performance(folder / "performance" / "run_1", name, example, total, **more)
    first = "Skipped" if cell.scenario == "Offline" else "True"
    for verified in VERIFIED[test]:
        told = TOKENS_PASS.format(first) if test == "TEST06" else "TEST PASS\n"
        put(folder / verified, told)
    if test in ("TEST01", "TEST06"):
        log = answers(range(min(20, total // 2), min(60, total)))
        put(folder / "accuracy" / "mlperf_log_accuracy.json", log)
    if test == "TEST01":
        digest = hashlib.sha256(log.encode()).hexdigest()
        put(folder / "accuracy" / "accuracy.txt", f"hash={digest}\n")


def make(root: Path, example: Example | None = None) -> SubmissionTree:
    """Write the tree; nothing is wrong with it."""
    example = example or Example()
    tree = SubmissionTree(root, layouts.of_round(example.round))
    top = root / example.division / SUBMITTER
    for benchmark in example.benchmarks:
        for name in example.scenarios:
            scenario(ScenarioCell(tree.layout, top, SYSTEM, benchmark, name), example)
        put(top / tree.layout.code / benchmark / "README.md", f"# {benchmark}\n")
    described = {field.name: "some" for field in of_division(example.division)} | {
        "division": example.division,
        "submitter": SUBMITTER,
        "status": "available",
        "system_type": example.category,
        "number_of_nodes": "1",
        "accelerators_per_node": "0",
        "accelerator_model_name": "none",
        "host_processors_per_node": "1",
        "host_processor_core_count": "2",
    }
    if example.division == "network":
        described |= {"is_network": "true"}
    put(top / "systems" / f"{SYSTEM}.json", json.dumps(described))
    put(top / "calibration.md", "# Calibration\n\nnone\n")
    if example.division == "open":
        put(top / "model_mapping.json", json.dumps({name: name for name in example.benchmarks}))
    truncate.truncate_all(root)
    for path, text in summary.readmes(tree):
        put(path, text)
    return tree


def checkout(folder: Path) -> Path:
    """A checkout of mlcommons/inference as far as our scripts look at one."""
    put(folder / "tools/submission/submission_checker.py", CHECKER)
    return folder
