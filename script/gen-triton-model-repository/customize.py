"""Write the request for a model of a Triton repository; export its path."""

from __future__ import annotations

import os
from typing import Any

from cmbench.errors import Error
from cmbench.lib.yes_no import is_yes
from serving import hooks as triton

KEYS = {
    "compiled_model": "CM_TRITON_COMPILED_MODEL",
    "device": "CM_TRITON_MODEL_DEVICE",
    "facts": "CM_ML_MODEL_FACTS_FILE_WITH_PATH",
    "max_batch_size": "CM_TRITON_MAX_BATCH_SIZE",
    "max_queue_delay_microseconds": "CM_TRITON_MAX_QUEUE_DELAY",
    "model_version": "CM_TRITON_MODEL_VERSION",
    "neuron_core_range": "CM_TRITON_NEURON_CORE_RANGE",
    "preferred_batch_size": "CM_TRITON_PREFERRED_BATCH_SIZE",
    "runtime": "CM_TRITON_RUNTIME",
    "target": "CM_TRITON_NEURON_TARGET",
    "threads_per_core": "CM_TRITON_THREADS_PER_CORE",
    "triton_input": "CM_TRITON_INPUT",
    "triton_model_instance_count": "CM_TRITON_INSTANCES",
    "triton_output": "CM_TRITON_OUTPUT",
}
SWITCHES = {
    "disable_batch_requests_to_neuron": "CM_TRITON_KEEP_REQUESTS_APART",
    "enable_dynamic_batching": "CM_TRITON_DYNAMIC_BATCHING",
}


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Write the request: the model and its folder."""
    env = i["env"]
    settings: dict[str, Any] = {name: env.get(key) or "" for name, key in KEYS.items()}
    settings |= {name: is_yes(env.get(key)) for name, key in SWITCHES.items()}
    if is_yes(env.get("CM_TRITON_INF2")):
        settings["target"] = "inf2"
    if settings["compiled_model"]:
        settings["compiled_model"] = os.path.abspath(os.path.expanduser(settings["compiled_model"]))
        settings["facts"] = ""
    precision = str(env.get("CM_ML_MODEL_PRECISION") or "")
    int8 = settings["runtime"] == "openvino" and precision == "int8"
    settings["parameters"] = {
        "PRECISION": "int8" if int8 else "",
        "SIGNATURE_DEF_KEY": env.get("CM_TRITON_SIGNATURE_DEF_KEY"),
        "TAG_SET": env.get("CM_TRITON_TAG_SET"),
        "THREADS": env.get("CM_TRITON_THREADS"),
    }
    settings["triton_model_dir"] = place(env)
    triton.ask(env, "", settings)
    return {"return": 0}


def place(env: dict[str, Any]) -> str:
    """Return the folder of the model; raise Error where none is named."""
    folder = env.get("CM_TRITON_MODEL_DIR")
    if not folder and env.get("CM_TRITON_MODEL_REPOSITORY"):
        file = os.path.splitext(str(env.get("CM_ML_MODEL_FILE") or ""))[0]
        name = env.get("CM_TRITON_MODEL_NAME") or file
        folder = os.path.join(env["CM_TRITON_MODEL_REPOSITORY"], name) if name else ""
    if not folder:
        raise Error(
            "needs-input",
            "nothing says where the model is to go",
            hint="add --triton_model_dir=/folder/of/models/NAME",
        )
    return os.path.abspath(os.path.expanduser(str(folder)))


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Export the model; raise Error where it was refused."""
    env = i["env"]
    answer = triton.answered(env)
    env["CM_TRITON_MODEL_REPOSITORY"] = answer["repository"]
    env["CM_TRITON_MODEL_NAME"] = answer["name"]
    env["CM_TRITON_MODEL_SHA256"] = answer["sha256"]
    env["CM_TRITON_MODEL_LABEL"] = answer["label"]
    return {"return": 0}
