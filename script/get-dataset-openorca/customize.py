"""Choose the samples to write as prompts, and export the written files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from cmbench.errors import Error
from modelzoo.hooks import datasets

SAMPLES = 24576
SOURCE = (
    "fetch open_orca_gpt4_tokenized_llama.sampled_24576.pkl.gz with MLCommons's r2-downloader from "
    "inference.mlcommons-storage.org/metadata/llama-2-70b-open-orca-dataset.uri"
)


def refuse(i: dict[str, Any]) -> dict[str, Any]:
    """Raise Error for the real samples, where the user has not said where they are."""
    env = i["env"]
    if env.get("CM_DATASET_CALIBRATION") == "yes":
        hint = "leave out _calibration: no engine here quantizes a Llama with samples"
        raise Error("not-available", "there are no prompts for Llama's calibration", hint=hint)
    if not env.get("CM_DATASET_FORM") and not env.get("CM_DATASET_OPENORCA_SAMPLES"):
        raise needed(["--samples"])
    return {"return": 0}


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Put the program's arguments together; raise Error for a path that is no file."""
    env = i["env"]
    refuse(i)
    if form := env.get("CM_DATASET_FORM"):
        datasets.write_arguments(env, [f"--{form}"])
        return {"return": 0}
    tokenizer = env.get("CM_DATASET_OPENORCA_TOKENIZER") or env.get("CM_ML_MODEL_TOKENIZER_PATH")
    if not tokenizer:
        raise needed(["--tokenizer"])
    samples, tokenizer = (
        os.path.abspath(os.path.expanduser(str(path)))
        for path in (env["CM_DATASET_OPENORCA_SAMPLES"], tokenizer)
    )
    if os.path.isdir(tokenizer):
        tokenizer = os.path.join(tokenizer, "tokenizer.json")
    for path in (samples, tokenizer):
        if not os.path.isfile(path):
            raise Error("data-needed", f"{path} is not a file", hint="give the path of a file")
    datasets.write_arguments(env, ["--samples", samples, "--tokenizer", tokenizer])
    return {"return": 0, "relies_on": [samples, tokenizer]}


def needed(names: Sequence[str]) -> Error:
    """Return the error for missing parts of OpenOrca, with their source."""
    return Error(
        "data-needed",
        f"OpenOrca needs {' and '.join(f'{name}=FILE' for name in names)}",
        hint=f"{SOURCE}, and repeat with --samples=FILE; --tokenizer=FILE is the model's "
        "tokenizer.json; or use the tiny form: `cm run script --tags=get,dataset,openorca,_tiny`",
    )


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Export the prompts; the full set must have all of them."""
    env, folder = i["env"], os.getcwd()
    count = datasets.read_facts(folder)["count"]
    if not env.get("CM_DATASET_FORM") and count != SAMPLES:
        text = f"there are {count} samples, MLPerf's set has {SAMPLES}"
        raise Error("data-incomplete", text, hint=SOURCE)
    env["CM_DATASET_PATH"] = env["CM_DATASET_OPENORCA_PATH"] = folder
    env["CM_DATASET_OPENORCA_PREPROCESSED_PATH"] = folder
    return datasets.hand_out(env)
