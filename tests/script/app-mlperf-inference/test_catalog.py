"""The catalogue: what it knows of benchmarks, backends, scenarios and rounds, and its plugins."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path

import pytest

import benchmark_lab as lab
from mlperf import catalog
from mlperf.catalog import (
    MODE_WORDS,
    SCENARIOS,
    Category,
    Division,
    Mode,
    Scenario,
    rounds,
    run_inputs,
)
from mlperf.catalog.scenario import of_log
from support import python_env, run

PACKAGE = lab.LIB / "mlperf/catalog"
NAMES = catalog.names()


def test_it_imports_only_the_standard_library_and_what_is_common() -> None:
    known = {*sys.stdlib_module_names, "common"}
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                assert {name.name.partition(".")[0] for name in node.names} <= known, path
            elif isinstance(node, ast.ImportFrom) and not node.level:
                assert str(node.module).partition(".")[0] in known, path


def test_one_benchmark_loads_only_its_own_specification() -> None:
    program = (
        "import sys, mlperf.catalog; mlperf.catalog.benchmark('resnet50')\n"
        "specs = 'mlperf.catalog.benchmark_specs.'\n"
        "print(*[name for name in sys.modules if name.startswith(specs)])\n"
    )
    done = run([sys.executable, "-c", program], env=python_env(lab.LIB)).ok()
    assert done.stdout.split() == ["mlperf.catalog.benchmark_specs.resnet50"]


def test_every_benchmark_of_the_newest_rounds_is_known_by_its_name_in_trees() -> None:
    newest = {
        *("resnet", "bert-99", "bert-99.9", "3d-unet-99", "3d-unet-99.9", "llama3.1-8b"),
        *("llama3.1-8b-edge", "llama2-70b-99.9", "stable-diffusion-xl", "rgat", "deepseek-r1"),
        *("whisper", "gpt-oss-120b", "wan-2.2-t2v-a14b", "qwen3-vl-235b-a22b", "qwen3.6-27b"),
        *("dlrm-v3", "yolo-95", "yolo-99", "e2e-rag-qna", "e2e-rag-db"),
    }
    asked = {
        spec.checker_name
        for spec in catalog.benchmarks().values()
        # Of some that are in one category, nothing can be submitted for both.
        if spec.allowed("6.1", "edge") or spec.allowed("6.1", "datacenter")
    }
    assert asked == newest


@pytest.mark.parametrize(
    ("category", "usual"), [("", "Server"), ("datacenter", "Server"), ("edge", "SingleStream")]
)
def test_the_first_scenario_is_run_where_there_is_no_offline(
    category: str, usual: str, tmp_path: Path
) -> None:
    (tmp_path / "own_spec.py").write_text(
        """
from mlperf.catalog import SERVER, SINGLE_STREAM, BenchmarkSpec, Period, Target, metrics

CLOUD = (Period("5.0", "6.1", (SERVER,)),)
SPECS = (
    BenchmarkSpec("own", 9, (Target(metrics.TOP1, 1.0),), datacenter=CLOUD, module="own:Own"),
    BenchmarkSpec(
        "both",
        9,
        (Target(metrics.TOP1, 1.0),),
        datacenter=CLOUD,
        edge=(Period("5.0", "6.1", (SINGLE_STREAM,)),),
        module="own:Own",
    ),
)
"""
    )
    name = "both" if category else "own"
    env = {
        "CM_MLPERF_PLUGINS": str(tmp_path),
        "CM_MLPERF_MODEL": f"benchmark.{name}",
        "CM_MLPERF_SUBMISSION_SYSTEM_TYPE": category,
    }
    assert run_inputs.scenarios(env) == (usual,)


@pytest.mark.parametrize(
    ("backend", "model"),
    [("backend.dots", "get,points,_npy"), ("onnxruntime", "get,points"), ("", "get,points")],
)
def test_an_own_backend_opens_its_variation_of_an_own_model(
    backend: str, model: str, tmp_path: Path
) -> None:
    """A shipped backend names its own in the meta of app-mlperf-inference."""
    (tmp_path / "own_spec.py").write_text(
        """
from mlperf.catalog import Assets, BackendSpec, BenchmarkSpec, Target, metrics

ASSETS = Assets("get,points", "get,more,points", "points", "points")
SPECS = (
    BenchmarkSpec("own", 9, (Target(metrics.TOP1, 1.0),), module="own:Own", assets=ASSETS),
    BackendSpec("dots", "Dots", "own:Dots", model_tag="_npy"),
)
"""
    )
    env = {"CM_MLPERF_PLUGINS": str(tmp_path), "CM_MLPERF_MODEL": "benchmark.own"}
    needs = run_inputs.of_plugins({**env, "CM_MLPERF_BACKEND": backend})
    assert (needs.model, needs.data) == (model, "get,more,points")


@pytest.mark.parametrize("name", NAMES)
def test_a_specification_makes_sense(name: str) -> None:
    spec = catalog.benchmark(name)
    assert spec.all_scenarios()
    assert spec.runnable == (spec.assets is not None) == (not spec.unavailable)
    online = [each for each in spec.all_scenarios() if each.online]
    assert set(online) <= set(spec.limits)
    assert spec.accuracy
    for target in spec.accuracy:
        assert 0.85 < target.target / target.reference <= 1
        assert target.greatest is None or target.greatest > target.reference
    for test in spec.compliance:
        assert rounds.position(test.first) <= rounds.position(test.last)
    assert spec.fastest in ("", *catalog.backend("openvino").precisions)


@pytest.mark.parametrize(
    ("name", "benchmark_round", "ours"),
    [
        ("resnet", "6.1", "resnet50"),
        ("resnet50", "5.1", "resnet50"),
        ("3d-unet-99", "0.7", "3d-unet-brats-99"),
        ("3d-unet-99.9", "1.1", "3d-unet-brats-99.9"),
        ("3d-unet-99", "6.1", "3d-unet-99"),
        ("ssd-large", "2.0", "ssd-resnet34"),
        ("ssd-resnet34", "2.0", "ssd-resnet34"),
        ("ssd-resnet34", "4.1", "retinanet"),
        ("llama3_1-405b", "5.1", "llama3.1-405b"),
        ("dlrm-99", "6.1", "dlrm-99"),
    ],
)
def test_a_name_in_a_tree_means_what_it_meant_in_its_round(
    name: str, benchmark_round: str, ours: str
) -> None:
    found = catalog.find(name, benchmark_round)
    assert found is not None
    assert found.name == ours


def test_the_open_division_compares_small_networks_with_resnet50() -> None:
    for name in ("mobilenet-v1-0.5-128", "efficientnet-lite0", "mobilenet"):
        assert catalog.find(name, "4.1") is None
        found = catalog.find(name, "4.1", open_division=True)
        assert found is not None
        assert found.name == "resnet50"
    assert catalog.find("abacus", "4.1", open_division=True) is None


@pytest.mark.parametrize(
    ("benchmark_round", "name", "ours"),
    [
        ("2.0", "bert-99_obert_large_95sparse", "bert-99"),
        ("2.0", "bert-99.9_MiniLM", "bert-99.9"),
        ("2.0", "ssd_mobilenet_v2_320x320", "ssd-mobilenet"),
        ("2.0", "ssd_resnet50_v1_fpn_1024x1024", "ssd-resnet34"),
        ("2.0", "rcnn-inception-resnet-v2-lowproposals-coco", "ssd-resnet34"),
        ("2.0", "rcnn-resnet50-lowproposals-coco", "ssd-resnet34"),
        ("2.0", "ssd-inception-v2-coco", "ssd-mobilenet"),
        ("2.0", "ssd-mobilenet-v1-fpn-sbp-coco", "ssd-mobilenet"),
        ("2.0", "ssd-resnet50-v1-fpn-sbp-coco", "ssd-mobilenet"),
        ("2.0", "ssdlite-mobilenet-v2-coco", "ssd-mobilenet"),
        ("2.0", "yolo-v3-coco", "ssd-mobilenet"),
        ("2.0", "my-resnet50-pruned", "resnet50"),
        ("5.1", "ssd-mobilenet-v1", "resnet50"),
        ("5.1", "llama3_1-405b-fp4", "llama3.1-405b"),
    ],
)
def test_own_names_of_the_open_division_as_its_checkers_guess_them(
    benchmark_round: str, name: str, ours: str
) -> None:
    assert catalog.find(name, benchmark_round) is None
    found = catalog.find(name, benchmark_round, open_division=True)
    assert found is not None
    assert found.name == ours


def test_values_that_changed_are_those_of_the_round() -> None:
    old = catalog.find("mixtral-8x7b", "4.1")
    new = catalog.find("mixtral-8x7b", "5.0")
    assert old is not None
    assert new is not None
    assert old.accuracy[0].target == 45.036189
    assert new.accuracy[0].target == 45.142911
    early = catalog.find("3d-unet-99", "2.0")
    assert early is not None
    assert (early.loaded_samples, early.accuracy[0].target) == (42, 0.8546769)


@pytest.mark.parametrize(
    ("name", "benchmark_round", "category", "required", "optional"),
    [
        ("resnet50", "6.1", "edge", "SingleStream MultiStream Offline", ""),
        ("resnet50", "6.1", "datacenter", "", ""),
        ("resnet50", "6.1", "datacenter,edge", "SingleStream MultiStream Server Offline", ""),
        ("resnet50", "6.1", "edge,datacenter", "SingleStream MultiStream Server Offline", ""),
        ("bert-99", "6.1", "datacenter,edge", "SingleStream Offline", ""),
        ("bert-99", "1.1", "datacenter", "Offline", "Server"),
        ("llama3.1-8b", "6.1", "datacenter", "Offline", "Server Interactive"),
        ("llama2-70b-99", "5.0", "datacenter", "Server Offline", ""),
        ("retinanet", "6.0", "edge", "", ""),
        ("retinanet", "6.0", "edge,datacenter", "SingleStream MultiStream Server Offline", ""),
    ],
)
def test_scenarios_follow_round_and_category(
    name: str, benchmark_round: str, category: str, required: str, optional: str
) -> None:
    spec = catalog.benchmark(name)
    asked = spec.required(benchmark_round, category)
    assert asked == tuple(required.split())
    assert set(spec.allowed(benchmark_round, category)) - set(asked) == set(optional.split())


def test_language_models_are_judged_by_tokens() -> None:
    llama = catalog.benchmark("llama3.1-8b")
    assert llama.result(Scenario.OFFLINE).key == "result_tokens_per_second"
    assert llama.result(Scenario.INTERACTIVE).unit == "tokens/s"
    assert llama.limits[Scenario.INTERACTIVE].tpot_ms == 30
    assert llama.tests("6.1") == ("TEST06",)
    assert catalog.benchmark("gpt-oss-120b").tests("6.1") == ("TEST07", "TEST09")
    assert catalog.benchmark("dlrm-v3").tests("6.1") == ("TEST08",)
    resnet = catalog.benchmark("resnet50")
    assert resnet.result(Scenario.SERVER).key == "result_completed_samples_per_sec"
    # Published until then: the rate at which queries came, not that of the answers.
    assert resnet.result(Scenario.SERVER, "4.0").key == "result_scheduled_samples_per_sec"
    assert resnet.result(Scenario.SERVER, "4.1").key == "result_completed_samples_per_sec"
    assert llama.result(Scenario.SERVER, "4.0").unit == "tokens/s"


def test_a_scenario_behaves_by_the_rules() -> None:
    assert [each.percentile for each in SCENARIOS] == [0.9, 0.99, 0.99, 0.99, None]
    assert [each.samples_per_query for each in SCENARIOS] == [1, 8, 1, 1, 1]
    assert [each.minimum_queries for each in SCENARIOS] == [100, 662, 100, 100, 1]
    assert [each.result.unit for each in SCENARIOS] == ["ms", "ms", *3 * ["samples/s"]]
    assert [each.result.higher_is_better for each in SCENARIOS] == [False, False, *3 * [True]]
    assert Scenario.INTERACTIVE.loadgen == "Server"
    assert Scenario.INTERACTIVE.target_option == "--server_target_qps"
    assert Scenario.MULTI_STREAM.target_option == "--multistream_target_latency"
    assert Scenario.SINGLE_STREAM.stands_for == ("MultiStream", "Offline")
    assert Scenario.MULTI_STREAM.stands_for == ("Offline",)
    assert Scenario.OFFLINE.stands_for == ()
    assert of_log("Server") is Scenario.SERVER
    assert of_log(None) is None


def test_words_are_texts_in_logs_messages_and_json() -> None:
    assert f"{Scenario.OFFLINE}" == str(Scenario.OFFLINE) == "Offline"
    assert json.dumps({"scenario": Scenario.OFFLINE}) == '{"scenario": "Offline"}'
    assert Scenario.parse("singlestream") is Scenario.SINGLE_STREAM
    with pytest.raises(catalog.CatalogError, match="no scenario Fast; there are: SingleStream,"):
        Scenario.parse("Fast")
    assert Category.each("datacenter, edge") == (Category.EDGE, Category.DATACENTER)
    assert [each.strict for each in Division] == [True, False, True]
    assert Mode.parse_modes("all") == (Mode.PERFORMANCE, Mode.ACCURACY)
    assert [Mode.parse_modes(word) for word in MODE_WORDS if word != "all"] == [
        (mode,) for mode in (Mode.FIND, Mode.PERFORMANCE, Mode.ACCURACY, *list(Mode)[3:])
    ]


def test_rounds_are_in_the_order_of_time_and_read_in_any_spelling() -> None:
    assert [rounds.parse(text) for text in ("v6.1", "r5.0", "4.1")] == ["6.1", "5.0", "4.1"]
    assert rounds.since("6.1", "6.0")
    assert not rounds.since("5.1", "6.0")
    with pytest.raises(catalog.CatalogError, match=r"no round 9\.9"):
        rounds.parse("9.9")
    assert rounds.seeds("0.5") == {}


SPECIFICATION = """
from mlperf.catalog import BackendSpec, benchmark
from dataclasses import replace

SPECS = (
    replace(benchmark("resnet50", ""), name="mine", module="mine:Mine"),
    BackendSpec(name="own", title="my own", module="mine:Own"),
)
"""


def test_a_folder_of_ones_own_adds_specifications(tmp_path: Path) -> None:
    (tmp_path / "mine_spec.py").write_text(SPECIFICATION, encoding="utf-8")
    assert catalog.benchmark("mine", str(tmp_path)).module == "mine:Mine"
    assert catalog.backend("own", str(tmp_path)).title == "my own"
    assert "mine" not in catalog.benchmarks("")
    with pytest.raises(catalog.CatalogError, match="no rules for the benchmark mine"):
        catalog.benchmark("mine", "")


def test_a_broken_folder_of_ones_own_is_named(tmp_path: Path) -> None:
    with pytest.raises(catalog.CatalogError, match="there is no such folder"):
        catalog.benchmarks(str(tmp_path / "nothing"))
    with pytest.raises(catalog.CatalogError, match=r"no file \*_spec\.py there holds SPECS"):
        catalog.benchmarks(str(tmp_path))
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "broken_spec.py").write_text("SPECS = 1 / 0\n", encoding="utf-8")
    with pytest.raises(catalog.CatalogError, match=r"broken_spec\.py cannot be used: division by"):
        catalog.benchmarks(str(broken))


# What pip installs, by the name that is imported.
SCORERS = {"pycocotools": "pycocotools", "rouge_score": "rouge-score", "nltk": "rouge-score"}


def imported(module: Path) -> set[str]:
    """The packages that a benchmark's module and its own neighbours import, wherever they do."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {name.name.partition(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add(str(node.module).partition(".")[0])
        elif isinstance(node, ast.ImportFrom) and node.level == 1:
            names = [node.module] if node.module else [name.name for name in node.names]
            near = [module.with_name(f"{name}.py") for name in names]
            found |= {name for path in near if path.is_file() for name in imported(path)}
    return found


@pytest.mark.parametrize("name", NAMES)
def test_what_judges_a_benchmark_is_installed_with_it(name: str) -> None:
    spec = catalog.find(name)
    if spec.assets is None or not spec.module:
        return
    path = lab.LIB / "mlperf/harness/benchmarks" / f"{spec.module.partition(':')[0]}.py"
    needed = {SCORERS[each] for each in imported(path) if each in SCORERS}
    assert needed <= set(spec.assets.packages)
