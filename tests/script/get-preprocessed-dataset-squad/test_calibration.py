"""The features to calibrate BERT with: those of the whole set that the rules' lists name."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import benchmark_forms as forms
import benchmark_lab as lab
from mlperf.harness import records
from mlperf.harness.backends.null import NullPredictor
from mlperf.harness.benchmarks import question_answering
from mlperf.harness.benchmarks import registry as benchmarks
from mlperf.harness.settings import ModelSpec
from support import LIB

SCRIPT = forms.SCRIPT / "get-preprocessed-dataset-squad"
preprocess = lab.module_of(LIB / "modelzoo/preprocessing/squad" / "preprocess.py")
customize = lab.module_of(SCRIPT / "customize.py")
MODEL = forms.SCRIPT / "get-ml-model-bert-large-squad" / "tiny"


def dev() -> Path:
    return forms.questions() / "dev-v1.1.json"


def asked_ids() -> list[str]:
    """The ids of the questions in the order of their file."""
    told = json.loads(dev().read_text(encoding="utf-8"))
    paragraphs = [each for article in told["data"] for each in article["paragraphs"]]
    return [one["id"] for each in paragraphs for one in each["qas"]]


def read(folder: Path) -> tuple[dict[str, Any], list[str]]:
    """All arrays of a folder, and the id of the question of each row."""
    arrays = {name: np.load(folder / f"{name}.npy") for name in preprocess.ARRAYS}
    examples = json.loads((folder / "examples.json").read_text(encoding="utf-8"))
    return arrays, [examples[number]["id"] for number in arrays.pop("examples")]


def cut(folder: Path, lines: Sequence[str], listed: str, questions: Path | None = None) -> int:
    """Run the program on the tiny questions as if they were SQuAD's; returns its status."""
    listing = folder / "list.txt"
    listing.write_text("\n".join(lines) + "\n", encoding="utf-8")
    words = ["--questions", str(questions or dev()), "--name", "squad"]
    words += ["--vocab", str(forms.VOCABULARY), "--list", str(listing), "--listed", listed]
    status: int = preprocess.main([*words, "--out", str(folder)])
    return status


def fed(folder: Path) -> list[list[int]]:
    """The word pieces that the benchmark feeds its model for each sample of a folder."""
    model = records.decode(ModelSpec, forms.model(MODEL))
    benchmark = benchmarks.create("bert-99", folder, model)
    benchmark.load(range(benchmark.sample_count))
    inputs = question_answering.QuestionInputs(benchmark, 1, NullPredictor([]))
    rows = (inputs.feeds([k])[model.inputs[0].name][0] for k in range(benchmark.sample_count))
    return [row[row != 0].tolist() for row in rows]


def test_features_come_in_the_order_of_the_file_and_of_their_windows() -> None:
    arrays, ids = read(forms.features())
    order = {name: number for number, name in enumerate(asked_ids())}
    places = [order[name] for name in ids]
    assert places == sorted(places)
    begins = np.where(arrays["starts"] >= 0, arrays["starts"], 10**6).min(axis=1)
    pairs = list(zip(places, begins.tolist(), strict=True))
    assert pairs == sorted(pairs)
    assert len(pairs) > len(set(places)), "some questions have several windows"


def test_features_are_named_by_their_numbers(tmp_path: Path) -> None:
    whole, ids = read(forms.features())
    numbers = random.Random(5).sample(range(len(ids)), 100)
    several = next(k for k in range(1, len(ids)) if ids[k] == ids[k - 1])
    numbers[:4] = several, 0, several - 1, len(ids) - 1
    numbers = list(dict.fromkeys(numbers))
    assert cut(tmp_path, [str(number) for number in numbers], "features") == 0
    found, found_ids = read(tmp_path)
    for name, array in found.items():
        np.testing.assert_array_equal(array, whole[name][numbers], err_msg=name)
    assert found_ids == [ids[number] for number in numbers]
    facts = records.read_json(tmp_path / "dataset.json")
    assert facts["count"] == len(numbers)
    assert facts["questions"] == len(set(found_ids))
    assert fed(tmp_path) == [row[row != 0].tolist() for row in whole["input_ids"][numbers]]


def test_questions_bring_all_their_windows(tmp_path: Path) -> None:
    whole, ids = read(forms.features())
    several = next(k for k in range(1, len(ids)) if ids[k] == ids[k - 1])
    wanted = [ids[several], asked_ids()[-1], asked_ids()[0]]
    assert cut(tmp_path, wanted, "questions") == 0
    found, found_ids = read(tmp_path)
    rows = [k for name in wanted for k in range(len(ids)) if ids[k] == name]
    assert len(rows) > len(wanted)
    assert found_ids == [ids[row] for row in rows]
    for name, array in found.items():
        np.testing.assert_array_equal(array, whole[name][rows], err_msg=name)


@pytest.mark.parametrize(
    ("listed", "strange", "why"),
    [
        ("features", "12", "dev.json has {count} features, counted from 0"),
        ("questions", "0" * 24, "dev.json has no such question"),
    ],
)
def test_what_the_questions_do_not_have_is_named(
    listed: str, strange: str, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = json.loads(dev().read_text(encoding="utf-8"))
    told["data"][0]["paragraphs"] = told["data"][0]["paragraphs"][:5]
    questions = tmp_path / "dev.json"
    questions.write_text(json.dumps(told), encoding="utf-8")
    ids = asked_ids()[:5]
    known = "0" if listed == "features" else ids[0]
    assert cut(tmp_path, [known, strange], listed, questions) == 1
    said, advice = capsys.readouterr().err.splitlines()
    assert said.startswith(f"preprocess: {tmp_path / 'list.txt'} names {strange}, but ")
    count = sum(name in ids for name in read(forms.features())[1])
    assert said.endswith(why.format(count=count))
    assert advice.startswith("next: take the list of MLCommons' inference repository")
    assert not (tmp_path / "dataset.json").exists()


# ---------------------------------------------------------------- what the script asks for


def environment(**changes: str) -> dict[str, str]:
    return {
        "CM_DATASET_TYPE": "training",
        "CM_DATASET_SQUAD_VAL_PATH": "dev.json",
        "CM_DATASET_SQUAD_VOCAB_PATH": "vocab.txt",
        "CM_DATASET_SQUAD_CALIBRATION_SET": "two",
        "CM_MLPERF_SQUAD_CALIBRATION_LIST_FILE_WITH_PATH": "list.txt",
        **changes,
    }


def test_the_full_form_cuts_out_of_the_held_out_part_what_is_listed() -> None:
    env = environment()
    answer = customize.preprocess({"env": env})
    assert answer["relies_on"] == ["dev.json", "vocab.txt", "list.txt"]
    assert (env["CM_SQUAD_QUESTIONS"], env["CM_SQUAD_LIST"]) == ("dev.json", "list.txt")
    assert env["CM_SQUAD_LISTED"] == "questions"


@pytest.mark.parametrize(
    ("form", "part", "questions"),
    [
        ("tiny", "training", "train.json"),
        ("tiny", "validation", "dev.json"),
        ("", "validation", ""),
    ],
)
def test_no_other_form_looks_at_a_list(form: str, part: str, questions: str) -> None:
    env = environment(CM_DATASET_TYPE=part, CM_DATASET_SQUAD_TRAIN_PATH="train.json")
    answer = customize.preprocess({"env": {**env, "CM_DATASET_FORM": form} if form else env})
    assert "list.txt" not in answer["relies_on"]
    assert (questions or "dev.json") in answer["relies_on"]


@pytest.mark.parametrize(
    ("variation", "name"),
    [
        ("_training", "bert_calibration_features.txt"),
        ("_calibration,_calib2", "bert_calibration_qas_ids.txt"),
        ("_synthetic,_calib2", ""),
    ],
)
def test_the_list_of_each_variation(variation: str, name: str, home: Any) -> None:
    words = ("plan", "script", f"--tags=get,preprocessed,dataset,squad,{variation}")
    lists = [line for line in home.cm(*words).ok().stdout.split() if "/bert_calibration_" in line]
    assert [line.rpartition("/")[2] for line in lists] == [name] * bool(name)
