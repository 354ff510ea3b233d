"""The user's entry: what it refuses at once, what it prints at the end, what its inputs reach."""

from __future__ import annotations

import ast
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

import benchmark_lab as lab
from cmbench import api
from cmbench.index.scripts import Repository
from cmbench.lib.host import machine
from cmbench.session.workspace import Workspace
from common.problems import Problem
from mlperf import catalog
from nvidia_mlperf.flow import inputs
from shared_files import seed_index
from support import ROOT

FOLDER = lab.SCRIPT / "run-mlperf-inference-app"
customize = lab.module_of(FOLDER / "customize.py")
GENERATE = lab.SCRIPT / "generate-mlperf-inference-submission"
META: dict[str, Any] = yaml.safe_load((FOLDER / "meta.yaml").read_text(encoding="utf-8"))


def test_what_runs_before_a_refusal_costs_nothing() -> None:
    # The look for signs of a GPU hands on to a script of its own, before it does anything.
    scripts = {
        "detect,cpu": "detect-cpu",
        "get,cuda-devices,_signs": "detect-nvidia-gpu",
        "detect,neuron": "detect-neuron",
    }
    assert [dep["tags"] for dep in META["deps"]] == list(scripts)
    devices = yaml.safe_load((lab.SCRIPT / "get-cuda-devices/meta.yaml").read_text("utf-8"))
    assert [dep["tags"] for dep in devices["variations"]["signs"]["deps"]] == ["detect,nvidia-gpu"]
    for name in scripts.values():
        meta = yaml.safe_load((lab.SCRIPT / name / "meta.yaml").read_text(encoding="utf-8"))
        assert meta["host_facts"], name


@pytest.mark.parametrize(
    ("backend", "device", "precision", "remedy"),
    [
        (
            "openvino",
            "cuda",
            "float32",
            "--backend=onnxruntime or --backend=onnxruntime-tensorrt or --backend=pytorch",
        ),
        ("", "cuda", "bfloat16", "use --backend=pytorch, or another --device"),
        ("openvino", "cuda", "int8", "use --backend=onnxruntime or --backend=tensorrt, or another"),
        ("onnxruntime", "cpu", "bfloat16", "--backend=openvino or --backend=pytorch"),
        ("pytorch", "cpu", "int8", "--backend=onnxruntime or --backend=openvino"),
        ("pytorch", "cpu", "float16", "use --backend=stand-in, or another --precision"),
        ("onnxruntime", "rocm", "float32", "use --backend=pytorch, or another --device"),
        ("tensorrt", "xpu", "float32", "use --backend=pytorch, or another --device"),
    ],
)
def test_what_a_backend_does_not_do_is_said_before_it_is_installed(
    backend: str, device: str, precision: str, remedy: str
) -> None:
    env = {
        "CM_MLPERF_BACKEND": backend,
        "CM_MLPERF_DEVICE": device,
        "CM_MLPERF_MODEL_PRECISION": precision,
    }
    step = {"env": {"CM_MLPERF_MODEL": "resnet50", **env}}
    with pytest.raises(customize.Error, match="does not compute so here") as caught:
        customize.preprocess(step)
    assert caught.value.code == "not-available"
    assert remedy in caught.value.hint


@pytest.mark.parametrize(
    ("backend", "device", "named", "hint"),
    [
        ("onnxruntime", "cpu", "0,1", "use --backend=pytorch, onnxruntime or tensorrt"),
        ("pytorch", "cpu", "0,1", "a node for each GPU"),
        ("pytorch", "cuda", "MIG-5f1d,MIG-6a2e", "a process sees one"),
        ("pytorch", "cuda", "0,,1", "CUDA_VISIBLE_DEVICES=GPU-UUID"),
    ],
)
def test_samples_are_shared_out_over_numbers_of_gpus_alone(
    backend: str, device: str, named: str, hint: str
) -> None:
    env = {"CM_MLPERF_BACKEND": backend, "CM_MLPERF_DEVICE": device, "CM_MLPERF_DEVICES": named}
    with pytest.raises(customize.Error, match=f"--devices={named}") as caught:
        customize.check_devices({"CM_MLPERF_MODEL": "resnet50", **env})
    assert hint in caught.value.hint


@pytest.mark.parametrize("backend", ["pytorch", "onnxruntime", "tensorrt"])
def test_several_gpus_are_an_option_of_a_backend(backend: str) -> None:
    env = {"CM_MLPERF_MODEL": "resnet50", "CM_MLPERF_BACKEND": backend}
    several = {**env, "CM_MLPERF_DEVICE": "cuda", "CM_MLPERF_DEVICES": "0,1"}
    customize.check_devices(several)
    options = catalog.run_inputs.options(several, catalog.backend(backend))
    assert options == {"devices": "0,1"}


def test_a_gpu_computes_in_float16_by_pytorch() -> None:
    env = {"CM_MLPERF_MODEL": "resnet50", "CM_MLPERF_BACKEND": "pytorch"}
    half = {**env, "CM_MLPERF_DEVICE": "cuda", "CM_MLPERF_MODEL_PRECISION": "float16"}
    assert catalog.run_inputs.backend(half).name == "pytorch"
    # Whether its float32 is exact is a setting of a run, and part of its fingerprint.
    assert catalog.backend("pytorch").chosen({"tf32": "yes"}) == {"tf32": True}


def test_an_option_that_another_one_makes_useful_is_refused_alone() -> None:
    env = {"CM_MLPERF_MODEL": "resnet50", "CM_MLPERF_BACKEND": "triton"}
    alone = {**env, "CM_MLPERF_BACKEND_OPTIONS": "delay_us=100"}
    with pytest.raises(
        catalog.text_enums.CatalogError, match="delay_us has no effect without preferr"
    ):
        catalog.run_inputs.options(alone, catalog.backend("triton"))
    both = {**env, "CM_MLPERF_BACKEND_OPTIONS": "delay_us=100,preferred_batch=8"}
    assert len(catalog.run_inputs.options(both, catalog.backend("triton"))) == 2


def test_what_is_said_of_the_backends_is_what_the_harness_has_names_for() -> None:
    folder = lab.LIB / "mlperf/harness/backends"
    found = {}
    for file in ("onnx_runtime", "open_vino", "py_torch"):
        tree = ast.parse((folder / f"{file}.py").read_text(encoding="utf-8"))
        for node in tree.body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                found[node.targets[0].id] = words(node.value)
    assert found["PROVIDERS"] == set(catalog.backend("onnxruntime").devices)
    assert found["COMPUTES"] == set(catalog.backend("openvino").precisions)
    assert found["DTYPES"] == set(catalog.backend("pytorch").precisions)


def words(value: ast.expr) -> set[str]:
    """The strings of a tuple, or the keys of a dictionary."""
    found = value.keys if isinstance(value, ast.Dict) else getattr(value, "elts", [])
    return {str(each.value) for each in found if isinstance(each, ast.Constant)}


@pytest.mark.parametrize(
    ("model", "needed"), [("gptj-99.9", "48 GB"), ("dlrm-99", "98 GB"), ("dlrm-v2-99.9", "106 GB")]
)
def test_a_machine_that_is_too_small_is_reported_so_before_anything_is_installed(
    monkeypatch: pytest.MonkeyPatch, model: str, needed: str
) -> None:
    monkeypatch.setattr(machine, "memory_facts", lambda: machine.MemoryFacts(32 * 10**9, 10**9, 0))

    def asked(**changes: str) -> None:
        env = {
            "CM_MLPERF_MODEL": model,
            "CM_MLPERF_LOADGEN_MODE": "all",
            "CM_MLPERF_RUN_STYLE": "test",
        }
        customize.preprocess({"env": {**env, **changes}})

    with pytest.raises(customize.Error, match=f"full {model} needs about {needed} of memory"):
        asked()
    asked(CM_CHECK_ROOM="no")
    for form in ("tiny", "synthetic"):
        asked(CM_MLPERF_FORM=form)
    monkeypatch.setattr(machine, "memory_facts", lambda: machine.MemoryFacts(256 * 10**9, 10**9, 0))
    asked()


@pytest.mark.parametrize(
    ("style", "given", "expected"),
    [
        ("test", {}, {"QUERY_COUNT": "10", "DURATION": "1"}),
        ("test", {"DURATION": "500"}, {"QUERY_COUNT": "10", "DURATION": "500"}),
        ("valid", {}, {}),
    ],
)
def test_the_queries_of_a_test_run_take_the_place_of_its_duration(
    style: str, given: dict[str, str], expected: dict[str, str]
) -> None:
    prefix = "CM_MLPERF_INFERENCE_MIN_"
    env = {"CM_TEST_QUERY_COUNT": "10", "CM_MLPERF_RUN_STYLE": style}
    env |= {prefix + key: value for key, value in given.items()}
    customize.shorten(env)
    found = {key.removeprefix(prefix): env[key] for key in env if key.startswith(prefix)}
    assert found == expected


def test_a_model_behind_a_licence_needs_a_token_before_anything_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    full = {"CM_MLPERF_MODEL": "llama3.1-8b"}
    with pytest.raises(Problem, match=r"llama3\.1-8b needs an access token"):
        customize.require_permission(full)
    for more in ({"CM_MLPERF_FORM": "tiny"}, {"LLAMA3_CHECKPOINT_PATH": "/checkpoint"}):
        customize.require_permission(full | more)
    customize.require_permission({"CM_MLPERF_MODEL": "resnet50"})


def test_a_form_that_a_benchmark_lacks_is_refused_with_what_to_run() -> None:
    with pytest.raises(customize.Error, match="whisper has no _synthetic: no model") as caught:
        customize.check({"CM_MLPERF_MODEL": "whisper", "CM_MLPERF_FORM": "synthetic"})
    assert (caught.value.code, caught.value.hint) == (
        "not-available",
        "run _tiny or _small, or the full form",
    )
    with pytest.raises(customize.Error, match=r"one of llama3\.1-8b, llama3\.1-8b-edge, whisper"):
        customize.check({"CM_MLPERF_MODEL": "resnet50", "CM_MLPERF_FORM": "small"})


def test_one_scenario_and_all_of_them_contradict_each_other() -> None:
    env = {"CM_MLPERF_LOADGEN_ALL_SCENARIOS": "yes", "CM_MLPERF_LOADGEN_SCENARIO": "Server"}
    with pytest.raises(customize.Error, match="--scenario=Server and the variation") as caught:
        customize.preprocess({"env": env})
    assert caught.value.code == "bad-value"


def problem(scenario: str, rule: str) -> dict[str, Any]:
    fault = {"rule": rule, "text": f"{rule} was broken", "advice": f"mend {rule}"}
    return {"scenario": scenario, "mode": "performance", "fault": fault}


@pytest.fixture(autouse=True)
def no_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The checks want genuine results; they are tested with the script that they belong to."""
    monkeypatch.setattr(customize, "checked", lambda results: ())


def finish(
    folder: Path, problems: list[dict[str, Any]], *modes: str, style: str = "test", **given: str
) -> dict[str, Any]:
    summary = folder / "summary.txt"
    summary.write_text("the table\n", encoding="utf-8")
    told = {"problems": problems, "folder": str(folder), "modes": list(modes)}
    results = {**told, "style": style}
    env = {"CM_MLPERF_INFERENCE_RESULTS_SUMMARY": str(summary), "CM_MLPERF_REGISTER": "no", **given}
    state = {"cm-mlperf-inference-results": results}
    answer: dict[str, Any] = customize.postprocess({"env": env, "state": state})
    return answer


@pytest.mark.parametrize(
    ("tags", "style", "said"),
    [
        ("_tiny,_short", "valid", "note: --execution_mode=valid decides"),
        ("_tiny,_short", "fast", "without it _short"),
        ("_full", "test", "note: --execution_mode=test decides"),
        ("_full", "valid", ""),
        ("_tiny,_short", "test", ""),
        ("_submission", "test", ""),
    ],
)
def test_the_flag_decides_how_long_the_runs_are(
    tags: str, style: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    customize.check_length({"CM_MLPERF_RUN_STYLE": style}, tags.split(","))
    out = capsys.readouterr().out
    assert (said in out) if said else not out


def test_what_full_does_not_mean_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    env = {"CM_MLPERF_RUN_STYLE": "valid", "CM_MLPERF_FORM": "tiny"}
    customize.check_length(env, ["run-mlperf", "_tiny", "_full"])
    assert "the real model is measured without _tiny" in capsys.readouterr().out


def test_a_file_of_ones_own_becomes_the_model(tmp_path: Path) -> None:
    data = tmp_path / "mine.npz"
    env = {"CM_ML_MODEL_OWN_PATH": "/x/mine.onnx", "CM_MLPERF_LOADGEN_MODE": "all"}
    customize.take_own(env)
    assert env["CM_MLPERF_LOADGEN_MODE"] == "performance"
    spec = customize.run_inputs.benchmark(env)
    assert (spec.name, env["CM_MLPERF_SUBMISSION_DIVISION"]) == ("own", "open")
    assert env["CM_MLPERF_SUT_DIR"].endswith("mine")
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("labels.npy", b"")
    judged = {**env, "CM_ML_MODEL_OWN_DATA": str(data), "CM_MLPERF_LOADGEN_MODE": "all"}
    customize.take_own({**judged, "CM_MLPERF_PLUGINS": ""})
    assert customize.has_labels(str(data))


@pytest.mark.parametrize(
    ("env", "told"),
    [
        ({"CM_ML_MODEL_OWN_DATA": "x.npz"}, "--data_path is the data of"),
        (
            {"CM_ML_MODEL_OWN_PATH": "x", "CM_MLPERF_FORM": "tiny"},
            "_tiny, _synthetic or _small and",
        ),
        ({"CM_ML_MODEL_OWN_PATH": "x", "CM_MLPERF_PLUGINS": "y"}, "--plugins and --model_path"),
    ],
)
def test_a_file_of_ones_own_and_another_model_contradict(env: dict[str, Any], told: str) -> None:
    with pytest.raises(customize.Error, match=told):
        customize.take_own(env)


def test_the_table_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert finish(tmp_path, [], "performance") == {"return": 0}
    assert capsys.readouterr().out == "the table\n"


def test_only_writing_succeeds(tmp_path: Path) -> None:
    assert finish(tmp_path, [problem("Offline", "minimum duration")], "readme") == {"return": 0}


def test_broken_rules_are_an_error_after_the_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = [problem("Server", "p99 latency"), problem("Server", "early stopping")]
    with pytest.raises(customize.Error) as caught:
        finish(tmp_path, broken, "performance")
    assert capsys.readouterr().out == "the table\n"
    error = caught.value
    assert error.message == "one run is not accepted: Server performance, rule: p99 latency"
    assert error.hint == "mend p99 latency"
    assert error.context == (
        "Server performance: p99 latency was broken",
        "Server performance: early stopping was broken",
        f"all results were kept in {tmp_path}",
    )


def laid(scenario: str) -> dict[str, Any]:
    """A broken rule that the figures of the host explain."""
    found = problem(scenario, "p99 latency")
    return {**found, "fault": {**found["fault"], "host": "other programs used 31 % of 2 cores"}}


def test_a_test_run_that_the_host_kept_from_being_valid_is_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert finish(tmp_path, [laid("Server")], "performance") == {"return": 0}
    told = " ".join(capsys.readouterr().out.split())
    assert "warning: Server performance not accepted because the host was busy" in told
    assert "31 % of 2 cores" not in told, "the table's text has the figures, next to the rule"
    assert "--strict" in told


def too_short(scenario: str) -> dict[str, Any]:
    """A speed that differs from the result's, in runs too short to tell."""
    found = problem(scenario, "TEST01 performance")
    return {**found, "mode": "TEST01", "fault": {**found["fault"], "short": True}}


def test_a_speed_that_differs_in_short_runs_is_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both = [laid("Server"), too_short("SingleStream")]
    assert finish(tmp_path, both, "compliance") == {"return": 0}
    told = " ".join(capsys.readouterr().out.split())
    assert "warning: Server performance not accepted because the host was busy" in told
    assert "warning: SingleStream TEST01 not accepted because the speed differs" in told


@pytest.mark.parametrize("found", [laid, too_short])
@pytest.mark.parametrize(
    "given",
    [
        {"style": "valid"},
        {"style": "fast"},
        {"CM_MLPERF_STRICT": "yes"},
        {"CM_MLPERF_SUBMISSION_RUN": "yes"},
    ],
)
def test_every_other_run_ends_with_an_error_all_the_same(
    tmp_path: Path, given: dict[str, str], found: Callable[[str], dict[str, Any]]
) -> None:
    with pytest.raises(customize.Error) as caught:
        finish(tmp_path, [found("Server")], "performance", **given)
    assert caught.value.message.startswith("one run is not accepted: Server ")


def test_the_host_does_not_excuse_what_it_has_not_caused(tmp_path: Path) -> None:
    with pytest.raises(customize.Error) as caught:
        finish(tmp_path, [laid("Server"), problem("Offline", "accuracy target")], "performance")
    assert (
        caught.value.message
        == "one run is not accepted: Offline performance, rule: accuracy target"
    )


SUBMISSION = {
    "CM_MLPERF_MODEL": "resnet50",
    "CM_MLPERF_FORM": "tiny",
    "CM_MLPERF_INFERENCE_VERSION": "6.1",
    "CM_MLPERF_SUBMISSION_DIVISION": "closed",
    "CM_MLPERF_SUBMISSION_RUN": "yes",
    "CM_MLPERF_LOADGEN_MODE": "all",
    "CM_MLPERF_SUBMITTER": "Tester",
}


def asked(tmp_path: Path, **changes: str) -> tuple[tuple[str, ...], tuple[str, ...], str]:
    """Scenarios, modes and category that a call with ``_submission`` comes to."""
    env = {**SUBMISSION, "CM_MLPERF_INFERENCE_SUBMISSION_DIR": f"{tmp_path}/out", **changes}
    customize.preprocess({"env": env, "input": {}})
    found = customize.run_inputs
    return found.scenarios(env), found.modes(env), env["CM_MLPERF_SUBMISSION_SYSTEM_TYPE"]


def test_a_submission_asks_for_all_that_its_round_wants(tmp_path: Path) -> None:
    edge = ("SingleStream", "MultiStream", "Offline")
    measured = ("performance", "accuracy")
    assert asked(tmp_path) == (edge, (*measured, "compliance"), "edge")
    assert asked(tmp_path, CM_MLPERF_SUBMISSION_DIVISION="open") == (edge, measured, "edge")
    dlrm = asked(tmp_path, CM_MLPERF_MODEL="dlrm-v2-99", CM_MLPERF_INFERENCE_VERSION="5.0")
    assert dlrm[2] == "datacenter"
    one = asked(tmp_path, CM_MLPERF_LOADGEN_SCENARIO="Offline")
    assert one[0] == ("Offline",)


def test_what_the_tree_would_be_refused_for_is_said_before_the_runs(tmp_path: Path) -> None:
    with pytest.raises(customize.Error, match="no submitter is named") as caught:
        asked(tmp_path, CM_MLPERF_SUBMITTER="")
    assert "--submitter=NAME" in caught.value.hint
    with pytest.raises(customize.Error, match="must be the name of a folder"):
        asked(tmp_path, CM_MLPERF_SUBMITTER="two words")
    with pytest.raises(customize.Error, match=r"stands in for a device \(rule result.stand-in\)"):
        asked(tmp_path, CM_MLPERF_BACKEND="neuron")
    (tmp_path / "out").mkdir()
    (tmp_path / "out/photo.jpg").touch()
    with pytest.raises(customize.Error, match="is not a submission tree"):
        asked(tmp_path)
    asked(tmp_path, CM_MLPERF_SUBMITTER="", CM_MLPERF_SKIP_SUBMISSION_GENERATION="yes")


def test_the_inputs_of_a_submission_are_those_of_its_generator() -> None:
    generator = yaml.safe_load((GENERATE / "meta.yaml").read_text(encoding="utf-8"))
    of_tree = {
        name: key
        for name, key in META["input_mapping"].items()
        if META["input_description"][name]["desc"].startswith("with _submission")
    }
    own = {"skip_submission_generation"}
    shared = {name: generator["input_mapping"].get(name) for name in of_tree if name not in own}
    assert shared == {name: key for name, key in of_tree.items() if name not in own}
    assert len(shared) > 9


def test_every_input_reaches_code_or_a_dependency() -> None:
    """An input that does nothing is a defect: its env key must be read somewhere."""
    readers = [
        (FOLDER / "customize.py").read_text(encoding="utf-8"),
        (lab.SCRIPT / "app-mlperf-inference" / "customize.py").read_text(encoding="utf-8"),
        (lab.LIB / "mlperf/catalog/run_inputs.py").read_text(encoding="utf-8"),
        str([catalog.backend(name).options for name in ("openai", "tensorrt", "triton")]),
        (lab.SCRIPT / "get-dataset-imagenet-val" / "customize.py").read_text(encoding="utf-8"),
        (lab.SCRIPT / "get-ml-model-own" / "run.sh").read_text(encoding="utf-8"),
        str(META["prehook_deps"]),
        str(META["variations"]["submission"]["post_deps"]),
        (GENERATE / "meta.yaml").read_text(encoding="utf-8"),
        *(row.env for row in inputs.read().values()),
    ]
    # The one implementation that exists is chosen by either of its names.
    silent = {"CM_MLPERF_IMPLEMENTATION"}
    dead = [
        name
        for name, key in META["input_mapping"].items()
        if key not in silent and not any(key in text for text in readers)
    ]
    assert not dead


def test_choices_are_those_that_exist() -> None:
    """The lists for the user must not promise more, or less, than the harness has."""
    from mlperf.harness.settings import STYLES

    choices = {name: about.get("choices") for name, about in META["input_description"].items()}
    assert choices["model"] == [*catalog.runnable(), "benchmark.#"]
    public = [name for name, spec in catalog.backends().items() if spec.public]
    assert choices["backend"] == [*public, "backend.#"]
    devices = (device for name in public for device in catalog.backend(name).devices)
    assert choices["device"] == list(dict.fromkeys(devices))
    runnable = map(catalog.benchmark, catalog.runnable())
    scenarios = {scenario for spec in runnable for scenario in spec.all_scenarios()}
    assert sorted(choices["scenario"]) == sorted(scenarios)
    assert choices["execution_mode"] == list(STYLES)


def test_an_option_that_chooses_what_is_installed_has_a_flag() -> None:
    """What stands in --backend_options comes too late for the steps."""
    env = {"CM_MLPERF_MODEL": "resnet50", "CM_MLPERF_DEVICE": "cuda"}
    env |= {"CM_MLPERF_BACKEND": "tensorrt", "CM_MLPERF_BACKEND_OPTIONS": "product=tensorrt-rtx"}
    with pytest.raises(customize.Error, match="product of tensorrt has a flag") as caught:
        customize.preprocess({"env": env})
    assert caught.value.hint == "give --tensorrt_product=tensorrt-rtx"


@pytest.mark.parametrize(("tag", "style"), [("_full", "valid"), ("_short", "test"), ("", "test")])
def test_a_length_is_what_its_variation_says(tmp_path: Path, tag: str, style: str) -> None:
    seed_index(tmp_path)
    workspace = Workspace(str(tmp_path), [Repository("cmbench", str(ROOT), own=True)])
    asked = api.request(workspace, tags=f"run-mlperf,inference,{tag}".rstrip(","))
    readers = api.explain(asked, "CM_MLPERF_RUN_STYLE").readers
    assert "run-mlperf-inference-app" in readers[style]
