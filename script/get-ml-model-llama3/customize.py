"""Provide a Llama 3: the shipped tiny one, one made here, or a checkpoint converted."""

from __future__ import annotations

import os
from typing import Any

from cmbench.errors import Error
from cmbench.lib import capacity
from cmbench.lib.programs import run_program
from cmbench.lib.yes_no import is_yes
from modelzoo.hooks import hugging_face, ml_models

LAYERS = 32
# Bytes of float16 weights: those outside of the layers, and those of one layer.
OUTSIDE, LAYER = 2_102_000_000, 436_200_000
# Memory of a run in addition to these: the cache of some requests at a time.
CACHE = 2_000_000_000


def facts_file(env: dict[str, Any]) -> str:
    """Return the name of the file with the facts that the framework of ``env`` reads."""
    pytorch = env.get("CM_ML_MODEL_FRAMEWORK") == ml_models.PYTORCH
    return "model-pytorch.json" if pytorch else ml_models.MODEL_FACTS


def refuse(i: dict[str, Any]) -> dict[str, Any]:
    """Refuse a checkpoint that can only be had with permission; called by ``cm plan`` too."""
    env = i["env"]
    if not env.get("CM_ML_MODEL_FORM") and not env.get("LLAMA3_CHECKPOINT_PATH"):
        hugging_face.require_permission(env)
    return {"return": 0}


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Put a model into the cache entry, or check what is to be converted."""
    env = i["env"]
    form = env.get("CM_ML_MODEL_FORM")
    if form == "synthetic":
        return _synthetic(i)
    if form:
        return ml_models.prepare(i, env["CM_LLAMA3_RETRAIN"])
    refuse(i)
    env["CM_LLAMA3_CONVERT"] = "no" if env["CM_ML_MODEL_FRAMEWORK"] == "pytorch" else "yes"
    env["CM_LLAMA3_OTHER_SIZE"] = "yes" if is_yes(env.get("CM_LLAMA3_OTHER_SIZE")) else ""
    if env.get("LLAMA3_CHECKPOINT_PATH"):
        return _own_checkpoint(env)
    weights = OUTSIDE + LAYERS * LAYER
    capacity.check_disk(env, "Llama 3.1 8B, fetched and converted,", 2 * weights, os.getcwd())
    env["CM_LLAMA3_FETCH"] = "yes"
    return {"return": 0}


def _own_checkpoint(env: dict[str, Any]) -> dict[str, Any]:
    """Check the user's checkpoint."""
    folder = os.path.abspath(os.path.expanduser(env["LLAMA3_CHECKPOINT_PATH"]))
    config = os.path.join(folder, "config.json")
    if not os.path.isfile(config):
        hint = "give the folder of the checkpoint, with config.json in it"
        raise Error("model-file", f"there is no {config}", hint=hint)
    if env["CM_LLAMA3_CONVERT"] == "yes":
        size = capacity.size_of_files(folder)
        capacity.check_disk(env, "the converted Llama", size, os.getcwd())
    env["LLAMA3_CHECKPOINT_PATH"] = folder
    return {"return": 0, "relies_on": [config]}


def _synthetic(i: dict[str, Any]) -> dict[str, Any]:
    """Build one with the requested number of layers."""
    env = i["env"]
    layers = str(env["CM_LLAMA3_LAYERS"])
    if not layers.isdigit() or not 1 <= int(layers) <= LAYERS:
        raise Error("bad-value", f"--layers={layers}: a number from 1 to {LAYERS} is needed")
    needed = OUTSIDE + int(layers) * LAYER
    hint = "build fewer layers, for example --env.CM_LLAMA3_LAYERS=2 (the result says so)"
    capacity.check_memory(env, f"Llama with {layers} layers", needed + CACHE, hint)
    capacity.check_disk(env, f"Llama with {layers} layers", needed, os.getcwd())
    return run_program(i, "synthetic")


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Fetch and convert a checkpoint, verify the files and export them."""
    env = i["env"]
    if env.get("CM_LLAMA3_FETCH"):
        env["LLAMA3_CHECKPOINT_PATH"] = os.path.join(os.getcwd(), "checkpoint")
        run_program(i, "fetch")
    if not env.get("CM_ML_MODEL_FORM"):
        run_program(i, "convert")
        env["CM_ML_MODEL_LLAMA3_CHECKPOINT_PATH"] = env["LLAMA3_CHECKPOINT_PATH"]
        env["CM_ML_MODEL_TOKENIZER_PATH"] = env["LLAMA3_CHECKPOINT_PATH"]
    facts = ml_models.offer(env, os.getcwd(), facts_file(env))
    return {"return": 0, "version": facts["sha256"][:12]}
