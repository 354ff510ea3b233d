"""Write the request to compile for Neuron, and export the artifact as a model."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path
from typing import Any

from aws_neuron import artifact
from cmbench.errors import Error
from modelzoo.hooks import ml_models
from serving import hooks as triton

CPU = "cpu"
NOT_NEURON = "this artefact is for the processor: TorchScript, which no Neuron device runs"


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Write the request."""
    env = i["env"]
    target = str(env["CM_NEURON_MODEL_TARGET"])
    folder = env.get("CM_NEURON_MODELS_PATH") or str(artifact.usual_folder())
    env["CM_NEURON_MODELS_PATH"] = os.path.abspath(os.path.expanduser(folder))
    request = os.path.join(env["CM_TMP_RUN_DIR"], "request.json")
    settings = {
        "answer": os.path.join(env["CM_TMP_RUN_DIR"], "answer.json"),
        "batch_size": env["CM_NEURON_MODEL_BATCH_SIZE"],
        "benchmark": env["CM_NEURON_MODEL_BENCHMARK"],
        "compiler_flags": shlex.split(str(env.get("CM_NEURON_COMPILER_FLAGS") or "")),
        "facts": env["CM_ML_MODEL_FACTS_FILE_WITH_PATH"],
        "models": env["CM_NEURON_MODELS_PATH"],
        "python": python_of(env, target),
        "target": target,
    }
    with open(request, "w", encoding="utf-8") as file:
        json.dump(settings, file, indent=2)
    env["CM_NEURON_COMPILE_REQUEST"] = request
    if target == CPU:
        print(NOT_NEURON)
    return {"return": 0}


def python_of(env: dict[str, Any], target: str) -> str:
    """The Python that compiles; raises Error where the SDK's is not known."""
    path = env.get("CM_PYTHON_BIN_WITH_PATH" if target == CPU else "CM_NEURON_SDK_PYTHON")
    if not path:
        raise Error(
            "missing-input",
            f"nothing says which Python has the SDK for {target}",
            hint="`cm run script --tags=get,neuron-sdk` finds one",
        )
    return str(path)


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Export the artifact; raise Error where none was made."""
    env = i["env"]
    path = Path(triton.answered(env)["path"])
    neuron = artifact.read(path).neuron
    sidecar = artifact.sidecar_of(path)
    ml_models.offer(env, str(path.parent), sidecar.name)
    env["CM_NEURON_MODEL_FILE_WITH_PATH"] = str(path)
    env["CM_NEURON_MODEL_SIDECAR_WITH_PATH"] = str(sidecar)
    env["CM_NEURON_MODEL_DYNAMIC_BATCH"] = "yes" if neuron.dynamic_batch else "no"
    print(f"{path}: for {neuron.target}, batch {neuron.batch_size}, {neuron.sdk}")
    return {"return": 0}
