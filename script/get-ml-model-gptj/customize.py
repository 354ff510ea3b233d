"""Provide a GPT-J: the shipped tiny one, one trained or built here, or a checkpoint converted."""

from __future__ import annotations

import os
from typing import Any

from cmbench.errors import Error
from cmbench.lib import capacity
from cmbench.lib.programs import run_program
from cmbench.lib.yes_no import is_yes
from modelzoo.hooks import ml_models

# ROUGE-1 of the reference.
FULL_ACCURACY = "42.9865"
LAYERS = 28
# Bytes of float32 weights: those outside of the layers, and those of one layer.
OUTSIDE, LAYER = 1_652_000_000, 805_400_000
# Memory of a run in addition to these per layer: three copies of the cache of four beams of the
# longest prompt.
CACHE = 805_000_000


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Put a model into the cache entry, or request the download of a checkpoint."""
    env = i["env"]
    if env.get("CM_ML_MODEL_FORM") == "synthetic":
        return _synthetic(i)
    if own := ml_models.prepare_own(i, "CM_GPTJ"):
        return own
    # Only the graph is exported here: with PyTorch the checkpoint is used as it is.
    env["CM_GPTJ_CONVERT"] = "no" if env["CM_ML_MODEL_FRAMEWORK"] == "pytorch" else "yes"
    env["CM_GPTJ_OTHER_SIZE"] = "yes" if is_yes(env.get("CM_GPTJ_OTHER_SIZE")) else ""
    weights = OUTSIDE + LAYERS * LAYER
    converted = weights if env["CM_GPTJ_CONVERT"] == "yes" else 0
    if not env.get("GPTJ_CHECKPOINT_PATH"):
        capacity.check_disk(
            env, "GPT-J, fetched and unpacked,", 2 * weights + converted, os.getcwd()
        )
        env["CM_GPTJ_DOWNLOAD"] = "yes"
        env["CM_GPTJ_TORCH"] = env["CM_GPTJ_CONVERT"]
        return {"return": 0}
    return _own_checkpoint(env)


def _own_checkpoint(env: dict[str, Any]) -> dict[str, Any]:
    """Check the user's checkpoint."""
    folder = os.path.abspath(os.path.expanduser(env["GPTJ_CHECKPOINT_PATH"]))
    config = os.path.join(folder, "config.json")
    if not os.path.isfile(config):
        raise Error(
            "model-file",
            f"there is no {config}",
            hint="give the folder of the checkpoint, with config.json in it",
        )
    if env["CM_GPTJ_CONVERT"] == "yes":
        # Files of safetensors are read without it.
        pickled = any(name.endswith(".bin") for name in os.listdir(folder))
        env["CM_GPTJ_TORCH"] = "yes" if pickled else "no"
        capacity.check_disk(
            env, "the ONNX graph of GPT-J", capacity.size_of_files(folder), os.getcwd()
        )
    env["GPTJ_CHECKPOINT_PATH"] = folder
    return {"return": 0, "relies_on": [config]}


def _synthetic(i: dict[str, Any]) -> dict[str, Any]:
    """Build one with the requested number of layers."""
    env = i["env"]
    layers = str(env["CM_GPTJ_LAYERS"])
    if not layers.isdigit() or not 1 <= int(layers) <= LAYERS:
        raise Error("bad-value", f"--layers={layers}: a number from 1 to {LAYERS} is needed")
    needed = OUTSIDE + int(layers) * LAYER
    hint = "build fewer layers, for example --env.CM_GPTJ_LAYERS=2 (the result says so)"
    running = needed + int(layers) * CACHE
    capacity.check_memory(env, f"GPT-J with {layers} layers", running, hint)
    capacity.check_disk(env, f"GPT-J with {layers} layers", needed, os.getcwd())
    return run_program(i, "synthetic")


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Convert a checkpoint, verify the files and export them."""
    env = i["env"]
    if env.get("CM_GPTJ_CONVERT"):
        source = env.get("CM_GPTJ_EXTRACTED") or env["GPTJ_CHECKPOINT_PATH"]
        env["GPTJ_CHECKPOINT_PATH"] = env["CM_ML_MODEL_TOKENIZER_PATH"] = _checkpoint(source)
        if env["CM_GPTJ_CONVERT"] == "no":
            path = env["GPTJ_CHECKPOINT_PATH"]
            return ml_models.as_it_is(env, path, FULL_ACCURACY)
        run_program(i, "convert")
    return ml_models.finish_own(env, "CM_GPTJ", "folder")


def _checkpoint(path: str) -> str:
    """The folder with config.json at or below ``path``: archives have folders around it."""
    for folder, folders, names in os.walk(os.path.abspath(os.path.expanduser(path))):
        folders.sort()
        if "config.json" in names:
            return folder
    raise Error("model-file", f"what was fetched has no config.json: {path}")
