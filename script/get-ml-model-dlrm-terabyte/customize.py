"""Provide a DLRM: the shipped tiny one, one trained or built here, the user's, or a download."""

from __future__ import annotations

import os
from typing import Any

from cmbench.errors import Error
from cmbench.lib import capacity
from cmbench.lib.programs import run_program
from cmbench.lib.yes_no import is_yes
from modelzoo.dlrm import table_sizes
from modelzoo.hooks import ml_models

FULL_ACCURACY = {"v1": "80.25", "v2": "80.31"}
# Caps that are proposed when the real tables do not fit.
CAPS = (10_000_000, 1_000_000, 100_000, 10_000)
# Bytes of the layers, which are few compared to those of the tables.
LAYERS = 70_000_000


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Put a model into the cache entry, or ask for the download of one."""
    env = i["env"]
    if env.get("CM_ML_MODEL_FORM") == "synthetic":
        return _synthetic(i)
    if own := ml_models.prepare_own(i, "CM_DLRM", f"tiny/{env['CM_DLRM_VERSION']}"):
        return own
    return _full(env)


def _full(env: dict[str, Any]) -> dict[str, Any]:
    """Choose the download of MLCommons's weights, and whether it has to be converted."""
    onnx, version = env["CM_ML_MODEL_FRAMEWORK"] == "onnx", env["CM_DLRM_VERSION"]
    env["CM_DLRM_OTHER_SIZE"] = "yes" if is_yes(env.get("CM_DLRM_OTHER_SIZE")) else ""
    weights = table_bytes(env, 0)
    if env.get("CM_DLRM_CHECKPOINT"):
        return _own_checkpoint(env, weights)
    # The first version is given out as an ONNX graph too.
    env["CM_DLRM_CONVERT"] = "yes" if onnx and version == "v2" else "no"
    if env.get("CM_ML_MODEL_DEBUG") != "yes":
        archives = 3 if env["CM_DLRM_CONVERT"] == "yes" else 2
        capacity.check_disk(env, "DLRM, fetched and unpacked,", archives * weights, os.getcwd())
    env["CM_DLRM_DOWNLOAD"] = "yes"
    return {"return": 0}


def _own_checkpoint(env: dict[str, Any], weights: int) -> dict[str, Any]:
    """Check the user's checkpoint."""
    path = os.path.abspath(os.path.expanduser(env["CM_DLRM_CHECKPOINT"]))
    env["CM_DLRM_CONVERT"] = "yes" if env["CM_ML_MODEL_FRAMEWORK"] == "onnx" else "no"
    version = env["CM_DLRM_VERSION"]
    is_there = os.path.isfile(path) if version == "v1" else os.path.isdir(path)
    if not is_there:
        what = "a file, tb00_40M.pt" if version == "v1" else "a folder, model_weights"
        raise Error(
            "model-file",
            f"--checkpoint={path} is not there, or not what it should be",
            hint=f"the weights of DLRM {version} are {what}",
        )
    if env["CM_DLRM_CONVERT"] == "yes" and not env["CM_DLRM_OTHER_SIZE"]:
        capacity.check_disk(env, "the ONNX graph of DLRM", weights, os.getcwd())
    env["CM_DLRM_DOWNLOADED"] = path
    return {"return": 0, "relies_on": [path]}


def _synthetic(i: dict[str, Any]) -> dict[str, Any]:
    """Build one whose tables have at most the requested number of rows."""
    env = i["env"]
    if not str(env["CM_DLRM_MOST_ROWS"]).isdigit():
        raise Error("bad-value", f"--most_rows={env['CM_DLRM_MOST_ROWS']}: a number is needed")
    needed = table_bytes(env, int(env["CM_DLRM_MOST_ROWS"])) + LAYERS
    fitting = [cap for cap in CAPS if table_bytes(env, cap) < needed / 4] or [CAPS[-1]]
    hint = f"cap the tables, for example --env.CM_DLRM_MOST_ROWS={fitting[0]} (the result says so)"
    what = f"DLRM {env['CM_DLRM_VERSION']}"
    capacity.check_memory(env, what, needed, hint)
    capacity.check_disk(env, what, needed, os.getcwd())
    return run_program(i, "synthetic")


def table_bytes(env: dict[str, Any], cap: int) -> int:
    """Return the bytes of all tables with at most ``cap`` rows; 0 means no cap."""
    known = table_sizes.read_sizes()
    rows: list[int] = known[env["CM_DLRM_VERSION"]]["rows"]
    return 4 * int(known["width"]) * sum(min(table_rows, cap or table_rows) for table_rows in rows)


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Convert the checkpoint if needed, verify the files and export them."""
    env = i["env"]
    if env.get("CM_DLRM_CONVERT") == "no":
        _downloaded(env)
        return {"return": 0}
    if env.get("CM_DLRM_CONVERT") == "yes":
        checkpoint = env.get("CM_DLRM_EXTRACTED") or env["CM_DLRM_DOWNLOADED"]
        env["CM_DLRM_CHECKPOINT_PATH"] = checkpoint
        run_program(i, "convert")
    return ml_models.finish_own(env, "CM_DLRM", "name")


def _downloaded(env: dict[str, Any]) -> None:
    """Export weights that are not converted."""
    path = env.get("CM_DLRM_EXTRACTED") or env["CM_DLRM_DOWNLOADED"]
    version = env["CM_DLRM_VERSION"]
    if env["CM_ML_MODEL_FRAMEWORK"] == "onnx" and version == "v1":
        ml_models.offer(env, _describe_export(path))
        return
    ml_models.as_it_is(env, path, FULL_ACCURACY[version])


def _describe_export(path: str) -> str:
    """Write model.json next to the extracted ONNX file of the first DLRM; return its folder."""
    folder = path if os.path.isdir(path) else os.path.dirname(path)
    names = sorted(entry.name for entry in os.scandir(folder) if entry.is_file())
    graphs = [name for name in names if name.endswith(".onnx")]
    if len(graphs) != 1:
        raise Error("model-file", f"expected one ONNX file in {folder}, found {len(graphs)}")
    others = [name for name in names if name not in (graphs[0], ml_models.MODEL_FACTS)]
    data = [ml_models.facts_of_file(folder, name) for name in others]
    full = ml_models.published(__file__)
    facts = {"name": full["name"], "file": graphs[0], "data": data, **full}
    ml_models.describe(folder, facts)
    return folder
