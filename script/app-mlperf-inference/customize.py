"""Turn the env keys of the CM format into the harness's settings, and its results back."""

from __future__ import annotations

import json
import os
import platform
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from cmbench.errors import Error
from cmbench.lib import checkouts, cuda_builds, cuda_packages, nvidia
from mlperf.catalog import run_inputs
from mlperf.harness.engines import existing_engine, sidecar
from modelzoo.hooks import ml_models

# The overrides of the harness: the env keys of the value, most special first, and its type.
OVERRIDES: Mapping[str, tuple[tuple[str, ...], Callable[[str], float]]] = {
    "offline_target_qps": (
        ("CM_MLPERF_LOADGEN_OFFLINE_TARGET_QPS", "CM_MLPERF_LOADGEN_TARGET_QPS"),
        float,
    ),
    "server_target_qps": (
        ("CM_MLPERF_LOADGEN_SERVER_TARGET_QPS", "CM_MLPERF_LOADGEN_TARGET_QPS"),
        float,
    ),
    "singlestream_target_latency": (
        ("CM_MLPERF_LOADGEN_SINGLESTREAM_TARGET_LATENCY", "CM_MLPERF_LOADGEN_TARGET_LATENCY"),
        float,
    ),
    "multistream_target_latency": (
        ("CM_MLPERF_LOADGEN_MULTISTREAM_TARGET_LATENCY", "CM_MLPERF_LOADGEN_TARGET_LATENCY"),
        float,
    ),
    "min_duration": (("CM_MLPERF_INFERENCE_MIN_DURATION",), int),
    "min_query_count": (("CM_MLPERF_INFERENCE_MIN_QUERY_COUNT",), int),
    "max_query_count": (("CM_MLPERF_INFERENCE_MAX_QUERY_COUNT",), int),
    "performance_sample_count": (("CM_MLPERF_LOADGEN_PERFORMANCE_SAMPLE_COUNT",), int),
    "batch_size": (("CM_MLPERF_LOADGEN_MAX_BATCHSIZE",), int),
    "threads": (("CM_NUM_THREADS",), int),
    "num_workers": (("CM_MLPERF_INFERENCE_NUM_WORKERS",), int),
    "seed": (("CM_MLPERF_LOADGEN_SEED",), int),
    "deque_timeout_us": (("CM_MLPERF_SERVER_DEQUE_TIMEOUT_US",), int),
}
HOME = os.path.join("~", "mlperf-inference-results")
ATTEMPTS = 3
STRICT = "-99.9"
STRICT_SHARE = 0.999


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Write the settings of the session that run.sh starts."""
    env = i["env"]
    run_inputs.precision(env)
    refuse_packages(env)
    folder = env["CM_TMP_RUN_DIR"]
    env["CM_MLPERF_HARNESS_PROGRAM"] = program = "node" if serves(env) else "session"
    path = os.path.join(folder, f"{program}.json")
    settings = session(env, folder)
    if env.get("CM_NETWORK_LOADGEN") == "lon":
        settings |= over_network(env)
    session_settings = {**settings, "provenance": origin(i)}
    with open(path, "w", encoding="utf-8") as file:
        json.dump(node(env, session_settings) if serves(env) else session_settings, file, indent=2)
    if not env.get("OUTPUT_BASE_DIR"):
        # The folder is this call's own: the next one would begin again in another.
        env["CM_TMP_GO_ON_WITH"] = f"--results_dir={shlex.quote(settings['results_dir'])}"
    env["CM_MLPERF_HARNESS_CONFIG"] = path
    return {"return": 0}


def refuse_packages(env: Mapping[str, Any]) -> None:
    """Raise Error where a package of the backend does not fit the CUDA of this machine.

    It may have come into its Python before the driver, or without the step that installs it.
    """
    if env["CM_MLPERF_DEVICE"] == "cuda" and env.get("CM_NETWORK_LOADGEN") != "lon":
        names = [package.package for package in run_inputs.backend(env).packages]
        of_cuda = [name for name in names if cuda_builds.builds(name)]
        cuda_packages.refuse(str(env["CM_PYTHON_BIN_WITH_PATH"]), of_cuda, nvidia.read())


def serves(env: Mapping[str, Any]) -> bool:
    """Whether this machine is to be a node of a system under test, which LoadGen queries."""
    return str(env.get("CM_NETWORK_LOADGEN") or "") == "sut"


def over_network(env: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a run over the network: nodes have the backend and its options."""
    token = env.get("CM_NETWORK_LOADGEN_SUT_TOKEN_FILE")
    options = {
        "servers": str(env["CM_NETWORK_LOADGEN_SUT_SERVERS"]),
        "backend": run_inputs.backend(env).name,
        **({"token_file": str(token)} if token else {}),
    }
    return {"backend": "network", "backend_options": options}


def node(env: Mapping[str, Any], session: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a node that computes what ``session`` says."""
    keys = {
        "address": "CM_NETWORK_LOADGEN_SUT_ADDRESS",
        "name": "CM_NETWORK_LOADGEN_SUT_NAME",
        "token_file": "CM_NETWORK_LOADGEN_SUT_TOKEN_FILE",
    }
    own_settings = {name: str(env[key]) for name, key in keys.items() if env.get(key)}
    return {"session": dict(session), **own_settings}


def session(env: Mapping[str, Any], folder: str) -> dict[str, Any]:
    """Return the settings of ``env``; the results are written to the step's ``folder``."""
    # A run of its own never replaces the results of an earlier one.
    home = os.path.expanduser(HOME)
    run = os.path.join(home, os.path.basename(os.path.dirname(folder)))
    return {
        "benchmark": run_inputs.benchmark(env).name,
        "form": env.get("CM_MLPERF_FORM", ""),
        "backend": run_inputs.backend(env).name,
        "device": env["CM_MLPERF_DEVICE"],
        "precision": env["CM_MLPERF_MODEL_PRECISION"],
        "model": model(env),
        "dataset": env["CM_DATASET_PREPROCESSED_PATH"],
        "results_dir": os.path.abspath(env.get("OUTPUT_BASE_DIR") or run),
        "sut_dir": os.path.abspath(env.get("CM_MLPERF_SUT_DIR") or os.path.join(home, "sut")),
        "hw_name": env.get("CM_HW_NAME") or platform.node(),
        "round": env["CM_MLPERF_INFERENCE_VERSION"],
        "scenarios": run_inputs.scenarios(env),
        "modes": run_inputs.modes(env),
        "style": env["CM_MLPERF_RUN_STYLE"],
        "category": env.get("CM_MLPERF_SUBMISSION_SYSTEM_TYPE") or "",
        "division": env["CM_MLPERF_SUBMISSION_DIVISION"],
        "reuse": not run_inputs.is_set(env, "CM_RERUN"),
        "attempts": int(env.get("CM_MLPERF_MAX_ATTEMPTS") or ATTEMPTS),
        "wait_s": float(env["CM_MLPERF_MAX_WAIT"]) if env.get("CM_MLPERF_MAX_WAIT") else None,
        "answer": os.path.join(folder, "results.json"),
        "overrides": overrides(env),
        **backend_options(env),
    }


def origin(i: Mapping[str, Any]) -> dict[str, Any]:
    """What the results say of their own making."""
    env = i["env"]
    folder = os.path.dirname(os.path.abspath(__file__))
    repository, revision = checkouts.revision(folder)
    return {
        "command": env.get("CM_MLPERF_COMMAND") or mine(i),
        "directory": os.getcwd(),
        "repository": repository,
        "revision": revision,
        "steps": of_the_run(i).get("commands", []),
    }


def mine(i: Mapping[str, Any]) -> str:
    """The command that led to this step, as the record of the run has it."""
    return str(of_the_run(i).get("command", ""))


def of_the_run(i: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the engine's state of this run: the command, and those for parts of it."""
    run_state: Mapping[str, Any] = i.get("run_script_input", {}).get("run_state", {})
    return run_state


def backend_options(env: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """The backend's own options; nothing where there are none."""
    spec = run_inputs.backend(env)
    options = run_inputs.options(env, spec)
    if (engine := env.get("CM_MLPERF_ENGINE_PATH")) and "batch" in spec.options:
        built_for = existing_engine.greatest_batch(sidecar.read(Path(engine)))
        options = {**({"batch": str(built_for)} if built_for else {}), **options}
    return {"backend_options": options} if options else {}


def overrides(env: Mapping[str, Any]) -> dict[str, float]:
    """Return the user's overrides. Raises Error for one that is not a number above zero."""
    numbers = {}
    for name, (keys, number) in OVERRIDES.items():
        key = next((key for key in keys if env.get(key)), None)
        if key is None:
            continue
        try:
            numbers[name] = number(str(env[key]))
        except ValueError:
            numbers[name] = 0
        if numbers[name] <= 0:
            kind = "a whole number" if number is int else "a number"
            raise Error("bad-value", f"--{name}={env[key]}: {kind} above zero is needed")
    return numbers


def model(env: Mapping[str, Any]) -> dict[str, Any]:
    """Return the harness's description of the model, from the facts next to its file."""
    facts_path, path = files_of_model(env)
    with open(facts_path, encoding="utf-8") as file:
        facts = json.load(file)
    keys = ("name", "sha256", "precision", "inputs", "outputs")
    folder = os.path.dirname(facts_path)
    return {
        **{key: facts[key] for key in keys},
        "accuracy": accuracy(run_inputs.benchmark(env).name, stated(env, facts)),
        "options": facts.get("options", {}),
        "data_bytes": sum(data_file["bytes"] for data_file in ml_models.data_of(facts)),
        "parts": [_part(folder, part) for part in facts.get("parts", [])],
        "path": path,
        "starting_weights": env.get("CM_ML_MODEL_STARTING_WEIGHTS_FILENAME") or facts["file"],
        "retraining": env.get("CM_ML_MODEL_RETRAINING") or "no",
        "weight_transformations": env.get("CM_ML_MODEL_WEIGHT_TRANSFORMATIONS") or "no",
    }


def stated(env: Mapping[str, Any], facts: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the figures to reach: the model's, or for a full language model those of the rules.

    Several benchmarks have that model, with samples and figures of its own.
    """
    spec = run_inputs.benchmark(env)
    own: Mapping[str, Any] = facts["accuracy"]
    if not spec.generates or env.get("CM_MLPERF_FORM"):
        return own
    first, *others = [
        {
            "metric": target.metric.name,
            "unit": target.unit,
            "reference": target.reference,
            "target": target.target,
        }
        for target in spec.accuracy
    ]
    return {**first, "further": others}


def files_of_model(env: Mapping[str, Any]) -> tuple[str, str]:
    """Return the facts and the file of the model, or of the one that was compiled for Neuron.

    An engine that is passed to the run replaces the model that it was built of.
    """
    if run_inputs.backend(env).compiles:
        # The model that it was compiled from may be exported before or after it.
        return env["CM_NEURON_MODEL_SIDECAR_WITH_PATH"], env["CM_NEURON_MODEL_FILE_WITH_PATH"]
    if env.get("CM_MLPERF_ENGINE_PATH"):
        return engine_of(env)
    return env["CM_ML_MODEL_FACTS_FILE_WITH_PATH"], env["CM_ML_MODEL_FILE_WITH_PATH"]


def engine_of(env: Mapping[str, Any]) -> tuple[str, str]:
    """The facts and the file of an engine; raises Error where it is of another model."""
    engine, source = Path(env["CM_MLPERF_ENGINE_PATH"]), env["CM_ML_MODEL_FACTS_FILE_WITH_PATH"]
    with open(source, encoding="utf-8") as file:
        model = json.load(file)
    if sidecar.read(engine).model_sha256 != model["sha256"]:
        hint = "build it anew: `cm run script --tags=generate,engine,nvidia ...`"
        text = f"{engine} was built of another model than {model['file']} of this run"
        raise Error("engine-missing", text, hint=hint)
    return str(existing_engine.model_facts_file(engine)), str(engine)


def accuracy(benchmark: str, stated: Mapping[str, Any]) -> dict[str, Any]:
    """The bounds for a benchmark: a "-99.9" must come ten times closer to the reference.

    A number of tokens has the same bounds in both.
    """
    further = [accuracy(benchmark, metric) for metric in stated.get("further", ())]
    bounds = {**stated, **({"further": further} if further else {})}
    if benchmark.endswith(STRICT) and stated["unit"] != "tokens":
        bounds["target"] = round(STRICT_SHARE * stated["reference"], 6)
    return bounds


def _part(folder: str, facts: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: facts[key] for key in ("name", "sha256", "inputs", "outputs")}
    return {**kept, "path": os.path.join(folder, facts["file"])}


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Put the results into the state; a node has none."""
    env = i["env"]
    if serves(env):
        return {"return": 0}
    with open(os.path.join(env["CM_TMP_RUN_DIR"], "results.json"), encoding="utf-8") as file:
        results = json.load(file)
    folder = results["folder"]
    i["state"]["cm-mlperf-inference-results"] = results
    env["CM_MLPERF_OUTPUT_DIR"] = folder
    env["CM_MLPERF_INFERENCE_RESULTS_JSON"] = os.path.join(folder, "results.json")
    env["CM_MLPERF_INFERENCE_RESULTS_SUMMARY"] = os.path.join(folder, "summary.txt")
    return {"return": 0}
