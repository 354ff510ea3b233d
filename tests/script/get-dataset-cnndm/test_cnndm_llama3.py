"""The prompts of Llama 3.1 8B: made-up news with a tokenizer of its own, and MLCommons's file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import benchmark_forms as forms
import benchmark_lab as lab
from cmbench.errors import Error
from modelzoo import byte_pairs
from modelzoo.datasets.cnndm import make_llama3, news
from modelzoo.llama.published import PUBLISHED, PublishedLlama

customize = lab.module_of(forms.SCRIPT / "get-dataset-cnndm" / "customize.py")
JUDGED: dict[str, Any] = {"CM_DATASET_CALIBRATION": "no", "CM_TMP_ML_MODEL": "llama3_1-8b"}


def test_the_tiny_prompts_spell_the_articles() -> None:
    folder = forms.llama3_articles(20)
    facts = json.loads((folder / "dataset.json").read_text())
    assert (facts["count"], facts["vocabulary"]) == (20, 573)
    assert facts["largest_prompt"] <= 60
    pieces = json.loads((folder / "pieces.json").read_text())
    entries = json.loads((folder / "cnn_eval.json").read_text())
    prompts, offsets = np.load(folder / "prompts.npy"), np.load(folder / "offsets.npy")
    for row, entry in enumerate(entries):
        tokens = prompts[offsets[row] : offsets[row + 1]].tolist()
        assert tokens == entry["tok_input"]
        assert tokens[0] == make_llama3.BEGIN_TOKEN
        assert "".join(pieces[t] for t in tokens) == make_llama3.prompt_of(entry["input"])


def test_every_word_of_the_news_is_one_token_and_an_answer_has_an_end() -> None:
    for story in news.stories(40, 9):
        tokens = make_llama3.answer_tokens(story)
        assert len(tokens) == len(story.summary.split()) + 1
        assert tokens[-1] == make_llama3.END_TOKEN


def test_the_tokenizer_reads_any_text_and_is_that_of_its_document() -> None:
    tokenizer = make_llama3.tiny_tokenizer()
    text = "Article: balan sold the rasto\nSummary: Zoë, ünheard-of . first , the"
    tokens = tokenizer.encode(text)
    spelled = "".join(byte_pairs.piece_of(tokenizer.names[token]) for token in tokens)
    assert spelled.encode("latin-1").decode() == text
    tokenizers = pytest.importorskip("tokenizers")
    library = tokenizers.Tokenizer.from_str(json.dumps(tokenizer.document()))
    assert library.encode(text).ids == [make_llama3.BEGIN_TOKEN, *tokens]
    assert library.decode(tokens) == text


def test_a_tokenizer_of_few_merges_joins_the_most_frequent_pair_first() -> None:
    tokenizer = byte_pairs.made_of(["abab ab", "cab"], 1)
    assert tokenizer.merges == (("a", "b"),)
    assert [tokenizer.names[token] for token in tokenizer.encode("abc")] == ["ab", "c"]


def test_mlcommons_tokens_are_taken_as_they_are(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    coder = tokenizers.ByteLevelBPETokenizer()
    coder.train_from_iterator(["the river rose"], vocab_size=270, special_tokens=["<|begin|>"])
    coder.save(str(tmp_path / "tokenizer.json"))
    entry = {"instruction": {}, "input": "x", "tok_input": [0, 5, 9], "output": "It rose."}
    articles = tmp_path / "cnn_eval.json"
    articles.write_text(json.dumps([entry]))
    out = tmp_path / "out"
    out.mkdir()
    words = ["--articles", str(articles), "--tokenizer", str(tmp_path / "tokenizer.json")]
    assert make_llama3.main([*words, "--out", str(out)]) == 0
    assert np.load(out / "prompts.npy").tolist() == [0, 5, 9]
    pieces = json.loads((out / "pieces.json").read_text())
    assert (pieces[0], len(pieces)) == ("", coder.get_vocab_size())


def test_another_file_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "cnn_eval.json").write_text('[{"instruction": "", "input": "", "output": ""}]')
    words = ["--articles", str(tmp_path / "cnn_eval.json"), "--tokenizer", str(tmp_path)]
    assert make_llama3.main([*words, "--out", str(tmp_path)]) == 1
    assert "no list of tok_input" in capsys.readouterr().err


def test_the_file_of_mlcommons_is_named_before_anything_is_installed() -> None:
    with pytest.raises(Error, match="--articles=FILE") as caught:
        customize.refuse({"env": dict(JUDGED)})
    assert "llama3-1-8b-cnn-eval.uri" in caught.value.hint
    assert customize.refuse({"env": {**JUDGED, "CM_DATASET_FORM": "tiny"}}) == {"return": 0}


@pytest.mark.parametrize(("expected", "articles"), [("", 13368), ("5000", 5000)])
def test_each_category_has_its_number_of_articles(
    expected: str, articles: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dataset.json").write_text(json.dumps({"count": articles}))
    env = {**JUDGED, "CM_CNNDM_EXPECTED": expected}
    assert customize.postprocess({"env": env}) == {"return": 0}
    (tmp_path / "dataset.json").write_text(json.dumps({"count": 7}))
    with pytest.raises(Error, match=f"the validation set has {articles}"):
        customize.postprocess({"env": env})


def test_there_are_no_prompts_for_calibration(tmp_path: Path) -> None:
    env = {**JUDGED, "CM_DATASET_CALIBRATION": "yes", "CM_DATASET_FORM": "tiny"}
    with pytest.raises(Error, match="calibration"):
        customize.preprocess({"env": {**env, "CM_TMP_RUN_DIR": str(tmp_path)}})


@pytest.mark.parametrize("model", PUBLISHED.values(), ids=list(PUBLISHED))
def test_synthetic_prompts_begin_as_real_ones_do(model: PublishedLlama) -> None:
    prompts, _ = make_llama3.synthetic(model)
    assert {tokens[0] for tokens in prompts.tokens} == {model.begin}
    assert not {*model.ends, model.begin} & {t for tokens in prompts.tokens for t in tokens[1:]}
    assert max(len(tokens) for tokens in prompts.tokens) <= model.longest_prompt
    assert len(prompts.pieces) == model.size.vocabulary
