"""The benchmarks as data: the facts of the rules, and what is concluded from them."""

from __future__ import annotations

import pytest
import yaml

import benchmark_lab as lab
from mlperf import catalog
from mlperf.catalog import benchmark as rules_of
from mlperf.catalog import plugins
from mlperf.harness.settings import SCENARIOS, USUAL_SCENARIOS

NAMES = catalog.runnable()


def test_the_benchmarks_are_those_of_the_rounds() -> None:
    assert set(NAMES) == {
        "resnet50",
        "bert-99",
        "bert-99.9",
        "3d-unet-99",
        "3d-unet-99.9",
        "3d-unet-brats-99",
        "3d-unet-brats-99.9",
        "retinanet",
        "ssd-mobilenet",
        "ssd-resnet34",
        "rnnt",
        "dlrm-99",
        "dlrm-99.9",
        "dlrm-v2-99",
        "dlrm-v2-99.9",
        "gptj-99",
        "gptj-99.9",
        "llama2-70b-99",
        "llama2-70b-99.9",
        "llama3.1-8b",
        "llama3.1-8b-edge",
        "whisper",
    }


@pytest.mark.parametrize("name", NAMES)
def test_every_entry_makes_sense(name: str) -> None:
    found = catalog.benchmark(name)
    assert set(found.all_scenarios()) <= set(SCENARIOS)
    assert found.all_scenarios()
    assert ("Server" in found.all_scenarios()) == (found.server_limit_ms is not None)
    assert 0 < found.loaded_samples <= max(found.dataset_size, 1)
    for metric in found.accuracy:
        assert 0.85 < metric.target / metric.reference < 1
    for periods in found.scenarios.values():
        for period in periods:
            assert catalog.rounds.ROUNDS.index(period.first) <= catalog.rounds.ROUNDS.index(
                period.last
            )
    assert found.accuracy_delta_percent == (0.1 if name.endswith("99.9") else 1)


@pytest.mark.parametrize("name", NAMES)
def test_the_harness_has_the_class_that_a_specification_names(name: str) -> None:
    package = "mlperf.harness.benchmarks"
    made = plugins.named_class(catalog.benchmark(name).module, package)
    assert made.__module__.startswith(package)


@pytest.mark.parametrize(
    ("name", "limit_s", "loaded", "key"),
    [
        ("resnet50", 0.015, 1024, "resnet50"),
        ("bert-99.9", 0.13, 10833, "bert"),
        ("retinanet", 0.1, 64, "retinanet"),
        ("dlrm-v2-99", 0.06, 204800, "dlrm-v2"),
        ("gptj-99", 20, 13368, "gptj"),
        ("3d-unet-99", 0.01, 43, "3d-unet"),
    ],
)
def test_what_the_harness_must_know(name: str, limit_s: float, loaded: int, key: str) -> None:
    found = rules_of(name)
    assert (found.server_limit_s, found.loaded_samples, found.loadgen_key) == (limit_s, loaded, key)


@pytest.mark.parametrize(
    ("name", "category", "wanted"),
    [
        ("resnet50", "", USUAL_SCENARIOS),
        ("resnet50", "edge", ("SingleStream", "MultiStream", "Offline")),
        ("resnet50", "datacenter", ("Server", "Offline")),
        ("bert-99", "", ("SingleStream", "Server", "Offline")),
        ("bert-99", "edge", ("SingleStream", "Offline")),
        ("3d-unet-99", "", ("SingleStream", "Offline")),
        ("3d-unet-99", "datacenter", ("Offline",)),
        ("dlrm-v2-99.9", "", ("Server", "Offline")),
        ("ssd-mobilenet", "", ("SingleStream", "MultiStream", "Offline")),
    ],
)
def test_all_scenarios_are_those_that_there_are(
    name: str, category: str, wanted: tuple[str, ...]
) -> None:
    assert catalog.benchmark(name).all_scenarios(category) == wanted


def test_what_a_benchmark_lacks_is_named_with_what_it_has() -> None:
    unet = catalog.benchmark("3d-unet-99")
    with pytest.raises(
        catalog.CatalogError, match="no scenario Server; it has: SingleStream, Offline"
    ):
        unet.checked("Server")
    with pytest.raises(catalog.CatalogError, match="SingleStream in the category datacenter"):
        unet.checked("SingleStream", "datacenter")
    with pytest.raises(
        catalog.CatalogError, match="not measured in the category edge, only datacenter"
    ):
        catalog.benchmark("dlrm-99").all_scenarios("edge")
    with pytest.raises(catalog.CatalogError, match="no rules for the benchmark abacus"):
        catalog.benchmark("abacus")


@pytest.mark.parametrize(
    ("name", "benchmark_round", "tests"),
    [
        ("resnet50", "6.1", ("TEST01", "TEST04")),
        ("resnet50", "4.1", ("TEST01", "TEST04", "TEST05")),
        ("bert-99", "6.1", ("TEST01",)),
        ("gptj-99", "4.1", ()),
        ("retinanet", "6.0", ("TEST01",)),
        ("rnnt", "6.1", ("TEST01", "TEST05")),
    ],
)
def test_compliance_tests_follow_the_round(
    name: str, benchmark_round: str, tests: tuple[str, ...]
) -> None:
    assert catalog.benchmark(name).tests(benchmark_round) == tests


def test_a_round_that_a_benchmark_has_left_is_known() -> None:
    resnet = catalog.benchmark("resnet50")
    assert resnet.in_round("Server", "5.0")
    assert not resnet.in_round("Server", "5.1")
    assert resnet.last_round("Server") == "5.0"
    with pytest.raises(catalog.CatalogError, match=r"no round 9\.9"):
        resnet.in_round("Server", "9.9")


def test_the_seeds_are_those_that_the_loadgen_script_proves() -> None:
    path = lab.SCRIPT / "get-mlperf-inference-loadgen" / "meta.yaml"
    variations = yaml.safe_load(path.read_text(encoding="utf-8"))["variations"]
    for name, seed in catalog.rounds.qsl_seeds().items():
        assert int(variations[f"r{name}"]["env"]["CM_MLPERF_INFERENCE_LOADGEN_QSL_SEED"]) == seed
