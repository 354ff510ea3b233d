"""Results of the Endpoints client inside submissions to MLPerf inference 6.1."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mlperf_endpoints_lab as lab
from cmbench_results import readers
from mlperf.catalog import Scenario
from mlperf.submission import checks, layouts, summary
from mlperf.submission.checks.base import ERROR

# closed/NVIDIA/results/VR-NVL72_VR-288GB_aarch64x72_TRT of mlcommons/inference_results_v6.1: the
# client's rates, and what summary.json there has of them.
PUBLISHED = [
    ("deepseek-r1", "Server", 310.0842360889801, 1175890.2208168241, 1175890.2208168239),
    ("deepseek-r1", "Interactive", 168.44961107838623, 652750.1447708113, 652750.1447708113),
    ("qwen3-vl-235b-a22b", "Server", 2323.2698417825063, 99742.4611703127, 2323.2698417825),
    ("qwen3-vl-235b-a22b", "Interactive", 1306.6078446834506, 56019.60643571348, 1306.6078446835),
]
SEEDS = {
    "scheduler_random_seed": 16159082839903944936,
    "dataloader_random_seed": 2747215439041700203,
}
EARLY = {
    "ttft": {"99.0": 304652135.0, "50.0": 205659039.0},
    "tpot": {"99.0": 48224073.2417795, "50.0": 41129902.78736886},
    "latency": {"99.0": 788341844995.0, "50.0": 80452391472.0},
}
SYSTEM = "VR-NVL72"


def _summary(queries_per_s: float, tokens_per_s: float) -> dict[str, Any]:
    document = lab.summary(64, 2318.929756903, 600000)
    document |= {"qps": queries_per_s, "tps": tokens_per_s}
    for metric, values in EARLY.items():
        document[metric]["early_stopping_percentiles"] = values
    return document


def _accuracy(score: float = 81.42661804922516) -> dict[str, Any]:
    entry = {"dataset_name": "deepseek_r1_accuracy", "score": score, "unit_samples": 4388,
             "num_repeats": 1, "dataset_type": "accuracy", "complete": True}  # fmt: skip
    return {"average_accuracy": score, "accuracy_scores": [entry]}


def _config(pattern: str = "poisson") -> dict[str, Any]:
    document = lab.config(64, 1800, pattern=pattern)
    document["settings"]["runtime"] |= SEEDS
    return document


def make_cell(
    root: Path, benchmark: str, scenario: str, queries_per_s: float, tokens_per_s: float
) -> Path:
    """Write the files of a scenario as they were submitted; return its folder."""
    folder = root / "closed/NVIDIA/results" / SYSTEM / benchmark / scenario
    lab.put(folder / "config.yaml", _config())
    lab.put(folder / "performance/result_summary.json", _summary(queries_per_s, tokens_per_s))
    lab.put(folder / "accuracy/accuracy_results.json", _accuracy())
    lab.put(
        root / f"closed/NVIDIA/systems/{SYSTEM}.json",
        {"system_type": "datacenter", "system_name": "Vera Rubin", "status": "preview"},
    )
    return folder


@pytest.mark.parametrize(("benchmark", "scenario", "qps", "tps", "published"), PUBLISHED)
def test_figures_are_those_that_were_published(
    tmp_path: Path, benchmark: str, scenario: str, qps: float, tps: float, published: float
) -> None:
    make_cell(tmp_path, benchmark, scenario, qps, tps)
    (result,) = readers.read("tree", tmp_path)
    assert not isinstance(result, readers.ReadFault)
    assert result.value == pytest.approx(published, rel=1e-12)
    assert (result.workload.scenario, result.workload.round) == (scenario, "6.1")
    (row,) = summary.rows(layouts.SubmissionTree(tmp_path, layouts.of_round("6.1")))
    assert row.value == result.value


def _client_faults(root: Path) -> dict[str, str]:
    tree = layouts.SubmissionTree(root, layouts.of_round("6.1"))
    findings = [f for f in checks.check(tree) if f.rule.startswith("client.")]
    return {f.rule: f.found for f in findings}


@pytest.fixture
def cell(tmp_path: Path) -> Path:
    return make_cell(tmp_path, *PUBLISHED[0][:4])


def test_what_was_accepted_is_accepted_and_no_logs_are_missed(cell: Path, tmp_path: Path) -> None:
    assert _client_faults(tmp_path) == {}
    tree = layouts.SubmissionTree(tmp_path, layouts.of_round("6.1"))
    rules = {f.rule for f in checks.check(tree) if f.severity == ERROR}
    assert not [rule for rule in rules if rule.startswith(("performance", "accuracy"))]


def _change(path: Path, change: Callable[[Any], None]) -> None:
    document = lab.get(path)
    change(document)
    lab.put(path, document)


CHANGES: dict[str, tuple[str, str, Callable[[Any], Any]]] = {
    "seeds": ("client.seeds", "config.yaml",
              lambda d: d["settings"]["runtime"].update(scheduler_random_seed=42)),
    "first tokens": ("client.latency", "performance/result_summary.json",
                     lambda d: d["ttft"]["early_stopping_percentiles"].update({"99.0": 3e9})),
    "no estimate": ("client.latency", "performance/result_summary.json",
                    lambda d: d["tpot"].pop("early_stopping_percentiles")),
    "too short": ("client.duration", "performance/result_summary.json",
                  lambda d: d.update(duration_ns=int(60e9))),
    "failures": ("client.complete", "performance/result_summary.json",
                 lambda d: d.update(n_samples_failed=7)),
    "all at once": ("client.load", "config.yaml",
                    lambda d: d["settings"]["load_pattern"].update(type="max_throughput")),
    "bad answers": ("client.accuracy", "accuracy/accuracy_results.json",
                    lambda d: d["accuracy_scores"][0].update(score=70.0)),
    "no score": ("client.accuracy", "accuracy/accuracy_results.json",
                 lambda d: d["accuracy_scores"][0].update(score=None)),
}  # fmt: skip


@pytest.mark.parametrize("what", CHANGES)
def test_a_wrong_change_is_found(cell: Path, tmp_path: Path, what: str) -> None:
    rule, name, change = CHANGES[what]
    _change(cell / name, change)
    assert rule in _client_faults(tmp_path)


@pytest.mark.parametrize(
    "name", ["performance/result_summary.json", "accuracy/accuracy_results.json"]
)
def test_a_missing_file_is_found(cell: Path, tmp_path: Path, name: str) -> None:
    (cell / name).unlink()
    assert "client.files" in _client_faults(tmp_path)


def test_half_a_file_is_no_result(cell: Path, tmp_path: Path) -> None:
    (cell / "performance/result_summary.json").write_text('{"qps"', encoding="utf-8")
    (fault,) = readers.read("tree", tmp_path)
    assert isinstance(fault, readers.ReadFault)
    assert "result_summary.json" in fault.why


def test_a_benchmark_that_needs_loadgen(tmp_path: Path) -> None:
    make_cell(tmp_path, "llama2-70b-99.9", "Server", 1.0, 300.0)
    assert "LoadGen alone" in _client_faults(tmp_path)["client.model"]


def test_layouts_know_the_client(cell: Path, tmp_path: Path) -> None:
    (named,) = layouts.cells(tmp_path / "closed/NVIDIA", layouts.of_round("6.1"))
    assert named.by_client
    assert Scenario.of_folder(named.scenario) is Scenario.SERVER
