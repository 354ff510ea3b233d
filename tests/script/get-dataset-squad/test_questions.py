"""Made-up questions in SQuAD's layout, and the checks of a real file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import benchmark_forms as forms
import benchmark_lab as lab
from cmbench.errors import Error
from support import LIB

SCRIPT = forms.SCRIPT / "get-dataset-squad"
makes = lab.module_of(LIB / "modelzoo/datasets/squad" / "make_facts.py")
customize = lab.module_of(SCRIPT / "customize.py")


def paragraphs(part: str) -> list[dict[str, Any]]:
    told = json.loads((forms.questions() / f"{part}-v1.1.json").read_text(encoding="utf-8"))
    found: list[dict[str, Any]] = told["data"][0]["paragraphs"]
    return found


def test_every_answer_stands_where_it_is_said_to() -> None:
    asked = [(each, one) for each in paragraphs("dev") for one in each["qas"]]
    assert len(asked) == makes.SIZES["dev"]
    for paragraph, question in asked:
        (answer,) = question["answers"]
        start = answer["answer_start"]
        assert paragraph["context"][start : start + len(answer["text"])] == answer["text"]


def test_a_question_has_one_answer_only() -> None:
    for paragraph in paragraphs("dev"):
        sentences = paragraph["context"].split(". ")
        assert len(sentences) == len(set(sentences))
        (question,) = paragraph["qas"]
        name = question["question"].rstrip("?").split()[2:4]
        assert sum(" ".join(name) in sentence for sentence in sentences) >= 1


def test_held_out_contexts_share_no_sentence_with_training_ones() -> None:
    held_out = {s for each in paragraphs("dev") for s in each["context"].split(". ")}
    learned = {s for each in paragraphs("train") for s in each["context"].split(". ")}
    assert not held_out & learned


def test_the_same_seed_gives_the_same_questions() -> None:
    assert makes.part("x", 5, 3) == makes.part("x", 5, 3) != makes.part("x", 5, 4)


def test_another_file_in_its_place_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "dev-v1.1.json"
    env = {"CM_SQUAD_PATH": str(path), "CM_DOWNLOAD_CHECKSUM": "0" * 32}
    with pytest.raises(Error, match="cannot read"):
        customize.preprocess({"env": env})
    path.write_text("{}", encoding="utf-8")
    with pytest.raises(Error, match=r"is not SQuAD's dev-v1\.1\.json"):
        customize.preprocess({"env": env})
    env["CM_DOWNLOAD_CHECKSUM"] = "99914b932bd37a50b983c5e7c90ae93b"
    assert customize.preprocess({"env": env})["relies_on"] == [str(path)]
    assert env["CM_DATASET_SQUAD_VAL_PATH"] == str(path)
