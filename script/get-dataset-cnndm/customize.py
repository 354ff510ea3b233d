"""Choose the articles to write as prompts, and export the written files."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from cmbench.errors import Error
from modelzoo.hooks import calibration_lists, datasets

ARTICLES = 13368
LLAMA3_FILE = (
    "fetch cnn_eval.json (for _edge cnn_eval_5000.json) with MLCommons's r2-downloader from "
    "inference.mlcommons-storage.org/metadata/llama3-1-8b-cnn-eval.uri (_edge: "
    "llama3-1-8b-sample-cnn-eval-5000.uri)"
)
# Where articles are given, and how the user comes by them.
JUDGED = (
    "CM_CNNDM_ARTICLES",
    "--articles",
    "make cnn_eval.json with download_cnndm.py of MLCommons's reference (gpt-j)",
)
TRAINING = (
    "CM_CNNDM_TRAINING_ARTICLES",
    "--training_articles",
    "write the split train of cnn_dailymail 3.0.0 as train.csv or train.jsonl (see the README)",
)
CALIBRATION_FILE = "cnn_dailymail_calibration.json"
# The different ids on the rules' list for calibration: two of its 1000 lines say others again.
LISTED, ID = 998, re.compile(r"[0-9a-f]{40}")


def refuse(i: dict[str, Any]) -> dict[str, Any]:
    """Raise Error for the real articles, where the user has not said where they are."""
    env = i["env"]
    key, option, _ = TRAINING if calibrates(env) else JUDGED
    if not env.get("CM_DATASET_FORM") and not env.get(key):
        raise needed(env, [option])
    return {"return": 0}


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Put the program's arguments together."""
    env = i["env"]
    form = env.get("CM_DATASET_FORM")
    words, files = of_form(env, form) if form else real(env)
    if is_llama3(env) and calibrates(env):
        hint = "leave out _calibration: no engine here quantizes a Llama with samples"
        raise Error("not-available", "there are no prompts for Llama's calibration", hint=hint)
    words += ["--calibration"] if calibrates(env) else []
    datasets.write_arguments(env, words)
    return {"return": 0, "relies_on": files}


def of_form(env: Mapping[str, Any], form: str) -> tuple[list[str], list[str]]:
    """Return the arguments for the prompts of a form, and the files that they name.

    Raises Error for GPT-J, which has no small form.
    """
    if form != "small":
        return [f"--{form}"], []
    if not is_llama3(env):
        hint = "add _llama3, or use the tiny form: `--tags=get,dataset,cnndm,_tiny`"
        raise Error("not-available", "there are no small prompts for GPT-J", hint=hint)
    tokenizer, files = tokenizer_files(env["CM_ML_MODEL_TOKENIZER_PATH"])
    return ["--small", "--tokenizer", tokenizer], files


def calibrates(env: Mapping[str, Any]) -> bool:
    """Whether the articles are for ranges of values, and nothing is judged by them."""
    return bool(env["CM_DATASET_CALIBRATION"] == "yes")


def is_llama3(env: Mapping[str, Any]) -> bool:
    """Return whether the prompts are those of Llama 3.1 8B."""
    return bool(env.get("CM_TMP_ML_MODEL"))


def real(env: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Return the arguments for CNN/DailyMail, and the files that they name.

    Raises Error for a missing path or one that is no file.
    """
    key, option, _ = TRAINING if calibrates(env) else JUDGED
    arguments = {
        option: env.get(key),
        "--tokenizer": env.get("CM_CNNDM_TOKENIZER") or env.get("CM_ML_MODEL_TOKENIZER_PATH"),
    }
    lacking = [name for name, path in arguments.items() if not path]
    if lacking:
        raise needed(env, lacking)
    paths = {
        name: os.path.abspath(os.path.expanduser(str(path))) for name, path in arguments.items()
    }
    paths["--articles"] = paths.pop(option)
    paths["--tokenizer"], vocabulary = tokenizer_files(paths["--tokenizer"])
    files = [paths["--articles"], *vocabulary]
    if calibrates(env):
        paths["--list"] = os.path.abspath(env["CM_CALIBRATION_LIST_FILE_WITH_PATH"])
        calibration_lists.entries(paths["--list"], LISTED, ID, "ids of articles")
    for path in files:
        if not os.path.isfile(path):
            raise Error("data-needed", f"{path} is not a file", hint="give the path of a file")
    return [word for pair in paths.items() for word in pair], files


def needed(env: Mapping[str, Any], names: Sequence[str]) -> Error:
    """Return the error for missing parts of CNN/DailyMail, with their source."""
    _, _, how = TRAINING if calibrates(env) else JUDGED
    how, tags = (LLAMA3_FILE, "_llama3,_tiny") if is_llama3(env) else (how, "_tiny")
    return Error(
        "data-needed",
        f"CNN/DailyMail needs {' and '.join(f'{name}=FILE' for name in names)}",
        hint=f"{how}, and repeat with its path; --tokenizer=FILE is the model's tokenizer.json; or "
        f"use the tiny form: `cm run script --tags=get,dataset,cnndm,{tags}`",
    )


def tokenizer_files(path: str) -> tuple[str, list[str]]:
    """Return the program's argument, and the files that it reads: checkpoints have two forms."""
    if not os.path.isdir(path):
        return path, [path]
    whole = os.path.join(path, "tokenizer.json")
    if os.path.isfile(whole):
        return whole, [whole]
    return path, [os.path.join(path, name) for name in ("vocab.json", "merges.txt")]


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Set the folder and the number of articles; the full set must have all of them."""
    env = i["env"]
    folder = os.getcwd()
    facts = datasets.read_facts(folder)
    if calibrates(env):
        return hand_out(env, folder)
    articles = int(env.get("CM_CNNDM_EXPECTED") or ARTICLES)
    if not env.get("CM_DATASET_FORM") and facts["count"] != articles:
        raise Error(
            "data-incomplete",
            f"there are {facts['count']} articles, the validation set has {articles}",
            hint="make cnn_eval.json again",
        )
    env["CM_DATASET_PATH"] = folder
    env["CM_DATASET_EVAL_PATH"] = os.path.join(folder, "cnn_eval.json")
    env["CM_DATASET_CNNDM_EVAL_PATH"] = env["CM_DATASET_EVAL_PATH"]
    env["CM_DATASET_PREPROCESSED_PATH"] = folder
    env["CM_DATASET_PREPROCESSED_FORM"] = env.get("CM_DATASET_FORM", "")
    env["CM_DATASET_SIZE"] = str(facts["count"])
    return {"return": 0}


def hand_out(env: dict[str, Any], folder: str) -> dict[str, Any]:
    """Export the path of the articles for calibration."""
    env["CM_DATASET_PREPROCESSED_TRAINING_PATH"] = folder
    env["CM_CALIBRATION_DATASET_PATH"] = folder
    env["CM_CALIBRATION_DATASET_CNNDM_PATH"] = os.path.join(folder, CALIBRATION_FILE)
    return {"return": 0}
