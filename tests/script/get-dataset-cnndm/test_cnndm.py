"""The made-up news as prompts, and CNN/DailyMail from files of the same layout."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest

import benchmark_forms as forms
import benchmark_lab as lab
from cmbench.errors import Error

SCRIPT = forms.SCRIPT / "get-dataset-cnndm"
if str(SCRIPT / "src") not in sys.path:
    sys.path.insert(0, str(SCRIPT / "src"))
import make_dataset  # noqa: E402
import news  # noqa: E402

customize = lab.module_of(SCRIPT / "customize.py")


def test_a_summary_is_the_tagged_sentences_in_order() -> None:
    for story in news.stories(50, 3):
        sentences = [sentence.strip() + " ." for sentence in story.article.split(" .") if sentence]
        tagged = [s for s in sentences if s.split()[0] in news.ORDINALS]
        tagged.sort(key=lambda sentence: news.ORDINALS.index(sentence.split()[0]))
        assert " ".join(tagged) == story.summary


def test_prompts_spell_the_articles() -> None:
    folder = forms.articles()
    facts = json.loads((folder / "dataset.json").read_text())
    assert (facts["count"], facts["qsl_count"], facts["vocabulary"]) == (400, 13368, 162)
    for name, file in facts["files"].items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == file["sha256"]
    pieces = json.loads((folder / "pieces.json").read_text())
    entries = json.loads((folder / "cnn_eval.json").read_text())
    prompts, offsets = np.load(folder / "prompts.npy"), np.load(folder / "offsets.npy")
    for row in (0, 399):
        text = "".join(pieces[token] for token in prompts[offsets[row] : offsets[row + 1]])
        assert text.strip() == entries[row]["input"] + " summary :"
    assert make_dataset.tiny_tokens("the unheard-of") == [
        news.vocabulary().index("the"),
        news.SPECIAL.index("<unk>"),
    ]


def test_full_articles_use_the_given_tokenizer(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    coder = tokenizers.ByteLevelBPETokenizer()
    text = "A café opened in Paris. " * 9
    coder.train_from_iterator([text], vocab_size=300, special_tokens=["<|endoftext|>"])
    coder.save(str(tmp_path / "tokenizer.json"))
    entry = {"instruction": "Summarize:", "input": text, "output": "A café opened."}
    (tmp_path / "cnn_eval.json").write_text(json.dumps([entry]))
    out = tmp_path / "out"
    out.mkdir()
    words = ["--articles", str(tmp_path / "cnn_eval.json")]
    words += ["--tokenizer", str(tmp_path / "tokenizer.json"), "--out", str(out)]
    assert make_dataset.main(words) == 0
    pieces = json.loads((out / "pieces.json").read_text())
    spelled = "".join(pieces[token] for token in np.load(out / "prompts.npy"))
    prompt = make_dataset.PROMPT.format(**entry)
    assert spelled.encode("latin-1").decode("utf-8") == prompt
    assert pieces[0] == "", "special tokens spell nothing"


def test_what_the_user_must_bring_is_said(tmp_path: Path) -> None:
    with pytest.raises(Error, match="--articles=FILE and --tokenizer=FILE"):
        customize.real({})
    env = {"CM_CNNDM_ARTICLES": str(tmp_path / "a"), "CM_CNNDM_TOKENIZER": str(tmp_path / "t")}
    with pytest.raises(Error, match="is no file"):
        customize.real(env)
    for path in env.values():
        Path(path).write_text("")
    words, files = customize.real(env)
    assert words == ["--articles", files[0], "--tokenizer", files[1]]


def test_the_older_files_of_a_tokenizer_give_the_same_prompts(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    coder = tokenizers.ByteLevelBPETokenizer()
    text = "The river rose. " * 9
    coder.train_from_iterator([text], vocab_size=290)
    coder.save_model(str(tmp_path))
    (tmp_path / "added_tokens.json").write_text(json.dumps({"<|extratoken_1|>": 290}))
    articles = tmp_path / "cnn_eval.json"
    entry = {"instruction": "Summarize:", "input": text, "output": "It rose."}
    articles.write_text(json.dumps([entry]))
    given, files = customize.tokenizer_files(str(tmp_path))
    assert [Path(path).name for path in files] == ["vocab.json", "merges.txt"]
    prompts, _ = make_dataset.full(articles, Path(given))
    spelled = "".join(prompts.pieces[token] for token in prompts.tokens[0])
    assert spelled == make_dataset.PROMPT.format(**entry)
    assert (len(prompts.pieces), prompts.pieces[-1]) == (coder.get_vocab_size() + 1, "")
    coder.save(str(tmp_path / "tokenizer.json"))
    given, files = customize.tokenizer_files(str(tmp_path))
    assert files == [given] == [str(tmp_path / "tokenizer.json")]


def test_what_is_no_tokenizer_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tokenizers")
    (tmp_path / "tokenizer.json").write_text("[]")
    (tmp_path / "cnn_eval.json").write_text("[]")
    words = ["--articles", str(tmp_path / "cnn_eval.json")]
    words += ["--tokenizer", str(tmp_path / "tokenizer.json"), "--out", str(tmp_path)]
    assert make_dataset.main(words) == 1
    assert "tokenizer.json holds no tokenizer" in capsys.readouterr().err


def test_synthetic_prompts_are_as_long_as_the_rules_allow() -> None:
    prompts, _ = make_dataset.synthetic()
    lengths = [len(tokens) for tokens in prompts.tokens]
    assert 700 < np.mean(lengths) < 1000
    assert max(lengths) == make_dataset.LARGEST_PROMPT
    assert len(prompts.pieces) == make_dataset.REAL_TOKENS
