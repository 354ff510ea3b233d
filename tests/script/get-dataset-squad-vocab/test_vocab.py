"""The tiny vocabulary covers the tiny questions, and every letter."""

from __future__ import annotations

import json
import string

import numpy as np

import benchmark_forms as forms

TOKENS = forms.VOCABULARY.read_text(encoding="utf-8").splitlines()


def test_special_tokens_come_first_and_none_comes_twice() -> None:
    assert TOKENS[:5] == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    assert len(TOKENS) == len(set(TOKENS))


def test_every_word_of_letters_can_be_spelt() -> None:
    for letter in string.ascii_lowercase:
        assert {letter, f"##{letter}"} <= set(TOKENS)


def test_no_tiny_question_has_an_unknown_word() -> None:
    ids = np.load(forms.features() / "input_ids.npy")
    assert not (ids == TOKENS.index("[UNK]")).any()
    facts = json.loads((forms.features() / "dataset.json").read_text(encoding="utf-8"))
    assert ids.shape[0] == facts["count"]
