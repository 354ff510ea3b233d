"""What all model scripts share: handing out a model that a script ships or has made.

A model is a folder with ``model.json``, the facts that the benchmark harness reads, and the files
that it names. ``model.json`` holds: name, file, sha256, bytes, precision (fp32, ...), inputs and
outputs (name, dtype, shape of one sample), accuracy (metric, unit, reference, target), optionally
options (what only the model's benchmark understands), architecture (of a file of bare weights: who
has the network, ``torchvision.resnet50``), keep_float (nodes that lose too much when
quantized), parts (further graphs: name, file, sha256, inputs, outputs) and data (files with weights
that do not fit into a graph's own: file, sha256, bytes; one or a list), and how the model came
about.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping, MutableMapping
from pathlib import Path
from typing import Any

from common.files import sha256
from common.problems import Problem
from modelzoo.hooks.native import run_program

MODEL_FACTS = "model.json"
SYNTHETIC = "synthetic"
PYTORCH = "pytorch"


def prepare(
    i: dict[str, Any], retrain: str, download: str = "", shipped: str = "tiny"
) -> dict[str, Any]:
    """Put the tiny model into the cache entry, or make one; a full one is left to a download.

    Reads ``CM_ML_MODEL_FORM``; ``retrain`` is yes when the tiny one is trained again. ``download``
    is the key that requests the download. The tiny one lies in the script's folder ``shipped``.
    """
    env = i["env"]
    form = env.get("CM_ML_MODEL_FORM")
    if form == SYNTHETIC or retrain == "yes":
        return run_program(i, SYNTHETIC if form == SYNTHETIC else "retrain")
    if form == "tiny":
        hand_out(os.path.join(env["CM_TMP_CURRENT_SCRIPT_PATH"], shipped), os.getcwd())
    elif download:
        env[download] = "yes"
    return {"return": 0}


def hooks(
    script_file: str, retrain: str, downloaded: str, download: str = ""
) -> tuple[Callable[[dict[str, Any]], dict[str, Any]], Callable[[dict[str, Any]], dict[str, Any]]]:
    """Return ``preprocess`` and ``postprocess`` of a script that does no more than these two.

    ``retrain`` and ``downloaded`` are env keys. ``download`` is as in ``prepare``.
    """
    full = published(script_file)

    def preprocess(i: dict[str, Any]) -> dict[str, Any]:
        return prepare(i, i["env"][retrain], download)

    def postprocess(i: dict[str, Any]) -> dict[str, Any]:
        return finish(i["env"], full, downloaded)

    return preprocess, postprocess


def prepare_own(i: dict[str, Any], prefix: str, shipped: str = "tiny") -> dict[str, Any] | None:
    """Prepare a model without a download: tiny, synthetic, or in a folder of the user's.

    Reads ``{prefix}_RETRAIN``, ``CM_ML_MODEL_FORM`` and ``{prefix}_MODEL_PATH``; None where a
    checkpoint is requested. ``shipped`` is as in ``prepare``.
    """
    env = i["env"]
    retrain = env[f"{prefix}_RETRAIN"]
    if env.get("CM_ML_MODEL_FORM") in ("tiny", SYNTHETIC) or retrain == "yes":
        return prepare(i, retrain, shipped=shipped)
    if not env.get(f"{prefix}_MODEL_PATH"):
        return None
    return {"return": 0, "relies_on": [os.path.join(_own_folder(env, prefix), MODEL_FACTS)]}


def finish_own(env: MutableMapping[str, Any], prefix: str, weights: str) -> dict[str, Any]:
    """Verify the model of ``prepare_own``, or a converted one, and export it to ``env``.

    ``weights`` is the key of a converted model's source in its facts.
    """
    converted = env.get(f"{prefix}_CONVERT") or env.get("CM_ML_MODEL_FORM")
    is_own = env.get(f"{prefix}_MODEL_PATH") and not converted
    facts = offer(env, _own_folder(env, prefix) if is_own else os.getcwd())
    if "source" in facts:
        env["CM_ML_MODEL_STARTING_WEIGHTS_FILENAME"] = facts["source"][weights]
    return {"return": 0, "version": facts["sha256"][:12]}


def _own_folder(env: Mapping[str, Any], prefix: str) -> str:
    path: str = env[f"{prefix}_MODEL_PATH"]
    return os.path.abspath(os.path.expanduser(path))


def as_framework(i: dict[str, Any]) -> None:
    """Turn a tiny or a synthetic model into TorchScript for the variation ``_pytorch``.

    Runs ``torchscript.sh`` of the script; raises Problem where that fails.
    """
    env = i["env"]
    own = env.get("CM_ML_MODEL_FORM") in ("tiny", SYNTHETIC)
    if own and env.get("CM_ML_MODEL_FRAMEWORK") == PYTORCH:
        run_program(i, "torchscript")


def published(script_file: str, framework: str = "") -> dict[str, Any]:
    """The facts of the published model of a script, which come without those of a file.

    They lie in its folder ``full``, those of the weights of PyTorch in ``full-pytorch``.
    """
    folder = "full-pytorch" if framework == PYTORCH else "full"
    return read_facts(os.path.join(os.path.dirname(os.path.abspath(script_file)), folder))


def describe_linked(folder: str, full: Mapping[str, Any], source: str) -> None:
    """Let the downloaded file ``source`` appear in ``folder`` with the facts ``full``."""
    describe(folder, {**full, "file": linked(source, folder)})


def finish(
    env: MutableMapping[str, Any], full: Mapping[str, Any], downloaded: str
) -> dict[str, Any]:
    """Describe and verify the model in the cache entry, export it, return the result of a hook.

    Reads ``CM_ML_MODEL_FORM``. A synthetic model has the facts ``full``, and so has a downloaded
    one, whose file the env key ``downloaded`` names; a tiny one has its own.
    """
    folder, form = os.getcwd(), env.get("CM_ML_MODEL_FORM")
    if form == SYNTHETIC:
        describe(folder, synthetic(full))
    elif form != "tiny":
        describe_linked(folder, full, env[downloaded])
    return {"return": 0, "version": offer(env, folder)["sha256"][:12]}


def as_it_is(env: MutableMapping[str, Any], path: str, accuracy: str) -> dict[str, Any]:
    """Export a checkpoint, a file or a folder, that is not converted."""
    env["CM_ML_MODEL_FILE_WITH_PATH"] = path
    env["CM_ML_MODEL_PATH"] = path if os.path.isdir(path) else os.path.dirname(path)
    env["CM_ML_MODEL_ACCURACY"] = accuracy
    _as_published(env, os.path.basename(path))
    return {"return": 0}


def _as_published(env: MutableMapping[str, Any], weights: str) -> None:
    env["CM_ML_MODEL_RETRAINING"] = "no"
    env["CM_ML_MODEL_WEIGHT_TRANSFORMATIONS"] = "no"
    env["CM_ML_MODEL_STARTING_WEIGHTS_FILENAME"] = weights


def hand_out(shipped: str, folder: str) -> None:
    """Copy the files of the folder ``shipped`` into ``folder``, the cache entry of the model."""
    for name in sorted(os.listdir(shipped)):
        shutil.copyfile(os.path.join(shipped, name), os.path.join(folder, name))


def linked(source: str, folder: str) -> str:
    """Make the file ``source`` appear in ``folder``, the cache entry of a model; returns its name.

    A file of the user's own stays where it is.
    """
    name = os.path.basename(source)
    link = os.path.join(folder, name)
    if not os.path.lexists(link):
        os.symlink(source, link)
    return name


def synthetic(full: Mapping[str, Any]) -> dict[str, Any]:
    """The facts of a model of the shape of ``full`` with weights out of a seed.

    Its file is named after it. No accuracy is expected of it.
    """
    name = f"{full['name']}_synthetic"
    nothing = {**full["accuracy"], "reference": 0.0, "target": 0.0}
    return {**full, "name": name, "file": f"{name}.onnx", "accuracy": nothing}


def offer(env: MutableMapping[str, Any], folder: str, name: str = MODEL_FACTS) -> dict[str, Any]:
    """Check the files of the model in ``folder``, export it to ``env`` and return its facts.

    ``name`` is the file that has them. Raises Problem when there are none, or a file is not the one
    that they describe.
    """
    facts = read_facts(folder, name)
    for graph in (facts, *facts.get("parts", ())):
        _verify(os.path.join(folder, graph["file"]), graph["sha256"])
    for file in data_of(facts):
        _verify(os.path.join(folder, file["file"]), file["sha256"])
    env["CM_ML_MODEL_FILE_WITH_PATH"] = os.path.join(folder, facts["file"])
    env["CM_ML_MODEL_PATH"] = folder
    env["CM_ML_MODEL_FILE"] = facts["file"]
    env["CM_ML_MODEL_FACTS_FILE_WITH_PATH"] = os.path.join(folder, name)
    env["CM_ML_MODEL_ACCURACY"] = str(facts["accuracy"]["reference"])
    env["CM_ML_MODEL_ACCURACY_TARGET"] = str(facts["accuracy"]["target"])
    env["CM_ML_MODEL_INPUT_LAYER_NAME"] = facts["inputs"][0]["name"]
    env["CM_ML_MODEL_OUTPUT_LAYER_NAME"] = facts["outputs"][0]["name"]
    env["CM_ML_MODEL_INPUT_DATA_TYPES"] = facts["precision"]
    env["CM_ML_MODEL_WEIGHT_DATA_TYPES"] = facts["precision"]
    _as_published(env, facts["file"])
    return facts


def data_of(facts: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the files of weights of a model's graphs."""
    data = facts.get("data", [])
    return [data] if isinstance(data, Mapping) else list(data)


def read_facts(folder: str, name: str = MODEL_FACTS) -> dict[str, Any]:
    """The facts of the model in ``folder``; raises ``model-facts`` when it has none."""
    path = os.path.join(folder, name)
    try:
        with open(path, encoding="utf-8") as file:
            facts: dict[str, Any] = json.load(file)
    except (OSError, ValueError) as error:
        raise Problem(
            "model-facts",
            f"cannot read the description of the model, {path}: {error}",
            hint="restore the script's folder from its repository, then run again",
        ) from error
    return facts


def describe(folder: str, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Write ``model.json`` for a model whose file lies in ``folder``; return its contents.

    SHA-256 and size of ``facts["file"]`` are filled in.
    """
    description = {**facts, **facts_of_file(folder, facts["file"])}
    with open(os.path.join(folder, MODEL_FACTS), "w", encoding="utf-8") as file:
        json.dump(description, file, indent=2)
        file.write("\n")
    return description


def facts_of_file(folder: str, name: str) -> dict[str, Any]:
    """Name, SHA-256 and size in bytes of a file of ``folder``."""
    path = os.path.join(folder, name)
    return {"file": name, "sha256": digest(path), "bytes": os.path.getsize(path)}


def digest(path: str) -> str:
    """SHA-256 of a file, in hexadecimal."""
    return sha256(Path(path))


def _verify(path: str, expected: str) -> None:
    try:
        checksum = digest(path)
    except OSError as error:
        raise Problem("model-file", f"cannot read {path}: {error.strerror}") from error
    if checksum != expected:
        raise Problem(
            "checksum-mismatch",
            f"{path} has sha256 {checksum}, expected {expected}",
            hint="restore the script's folder from its repository, then run again",
        )
