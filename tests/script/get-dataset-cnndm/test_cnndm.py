"""The made-up news as prompts, and CNN/DailyMail from files of the same layout."""

from __future__ import annotations

import csv
import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

import benchmark_forms as forms
import benchmark_lab as lab
from cmbench.errors import Error
from modelzoo.datasets.cnndm import make_dataset, news

SCRIPT = forms.SCRIPT / "get-dataset-cnndm"

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
    judged = {"CM_DATASET_CALIBRATION": "no"}
    with pytest.raises(Error, match="--articles=FILE and --tokenizer=FILE"):
        customize.real(judged)
    env = {"CM_CNNDM_ARTICLES": str(tmp_path / "a"), "CM_CNNDM_TOKENIZER": str(tmp_path / "t")}
    with pytest.raises(Error, match="is not a file"):
        customize.real(judged | env)
    for path in env.values():
        Path(path).write_text("")
    words, files = customize.real(judged | env)
    assert dict(zip(words[::2], words[1::2], strict=True)) == {
        "--articles": files[0],
        "--tokenizer": files[1],
    }


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
    prompts = make_dataset.full(make_dataset.entries_of(articles), Path(given))
    spelled = "".join(prompts.pieces[token] for token in prompts.tokens[0])
    assert spelled == make_dataset.PROMPT.format(**entry)
    assert (len(prompts.pieces), prompts.pieces[-1]) == (coder.get_vocab_size() + 1, "")
    coder.save(str(tmp_path / "tokenizer.json"))
    given, files = customize.tokenizer_files(str(tmp_path))
    assert files == [given] == [str(tmp_path / "tokenizer.json")]


def test_what_is_no_tokenizer_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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


# ---------------------------------------------------------------- calibration


def test_articles_for_calibration_are_others_than_those_that_are_judged() -> None:
    judged, calibration = forms.articles(), forms.calibration_articles()
    facts = json.loads((calibration / "dataset.json").read_text())
    assert facts["count"] == 128
    assert "qsl_count" not in facts
    texts = [
        {entry["input"] for entry in json.loads((folder / name).read_text())}
        for folder, name in (
            (judged, make_dataset.ENTRIES),
            (calibration, make_dataset.CALIBRATION_ENTRIES),
        )
    ]
    assert len(texts[1]) == 128
    assert not texts[0] & texts[1]


def test_noise_for_calibration_is_other_noise() -> None:
    words = ["--synthetic", "--calibration", "--out", "nowhere"]
    _, found, _ = make_dataset.load_dataset(make_dataset.parse(words))
    judged, _ = make_dataset.synthetic()
    assert len(found.tokens) == 128
    assert found.tokens[0] != judged.tokens[0]


ROWS = [
    {"id": f"{number:040x}", "article": f'Rain, "{number}".\nSun.', "highlights": f"Wet {number}."}
    for number in range(6)
]


def split(path: Path) -> Path:
    """The rows as a file of the kind that its name tells."""
    with path.open("w", encoding="utf-8", newline="") as file:
        if path.suffix == ".csv":
            writer = csv.DictWriter(file, ["id", "article", "highlights"])
            writer.writeheader()
            writer.writerows(ROWS)
        else:
            file.writelines(json.dumps(row) + "\n" for row in ROWS)
    return path


@pytest.mark.parametrize("name", ["train.csv", "train.jsonl"])
def test_listed_articles_come_in_the_order_of_the_list(name: str, tmp_path: Path) -> None:
    wanted = [ROWS[4], ROWS[1], ROWS[4]]
    (tmp_path / "list").write_text("".join(row["id"] + "\n" for row in wanted))
    found = make_dataset.listed(split(tmp_path / name), tmp_path / "list")
    assert found == [
        {
            "instruction": make_dataset.INSTRUCTION,
            "input": row["article"],
            "output": row["highlights"],
        }
        for row in wanted
    ]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("train.csv", None, "lacks 2 of 3 articles of the list, the first is " + "a" * 40),
        ("train.parquet", "", "a split is a file .csv or .jsonl with id, article, highlights"),
        ("train.jsonl", '{"id": "1", "article": "x"}\n', "row 1 has no id, article, highlights"),
        ("train.jsonl", "[]\n", "row 1 has no id, article, highlights"),
        ("train.jsonl", "{\n", "cannot be read: "),
        ("train.csv", "a,b\n1,2\n", "row 1 has no id, article, highlights"),
        ("train.csv", "id,article,highlights\n1,2\n", "row 1 has no id, article, highlights"),
    ],
)
def test_a_split_without_the_listed_articles_is_one_clear_error(
    name: str, text: str | None, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = split(tmp_path / name)
    if text is not None:
        path.write_text(text)
    (tmp_path / "list").write_text(f"{ROWS[0]['id']}\n{'a' * 40}\n{'b' * 40}\n")
    words = ["--articles", str(path), "--list", str(tmp_path / "list"), "--tokenizer", "none"]
    assert make_dataset.main([*words, "--out", str(tmp_path)]) == 1
    told = capsys.readouterr().err
    assert said in told
    assert len(told.splitlines()) == 1


def test_the_full_form_calibrates_with_the_articles_of_the_rules(tmp_path: Path) -> None:
    env = {"CM_DATASET_CALIBRATION": "yes", "CM_CNNDM_ARTICLES": "what is judged"}
    with pytest.raises(
        Error, match="needs --training_articles=FILE and --tokenizer=FILE"
    ) as caught:
        customize.real(env)
    assert "the split train of cnn_dailymail 3.0.0" in caught.value.hint
    env |= {
        "CM_CNNDM_TRAINING_ARTICLES": str(split(tmp_path / "train.csv")),
        "CM_CNNDM_TOKENIZER": str(tmp_path / "tokenizer.json"),
        "CM_CALIBRATION_LIST_FILE_WITH_PATH": str(tmp_path / "list"),
    }
    (tmp_path / "tokenizer.json").write_text("")
    ids = [*range(997), 5, 9]
    (tmp_path / "list").write_text("".join(f"{number:040x}\n" for number in ids))
    with pytest.raises(Error, match="is not a list of 998 ids of articles: it names 997"):
        customize.real(env)
    with (tmp_path / "list").open("a") as file:
        file.write("e" * 40 + "\n")
    words, files = customize.real(env)
    assert dict(zip(words[::2], words[1::2], strict=True)) == {
        "--articles": files[0],
        "--tokenizer": files[1],
        "--list": str(tmp_path / "list"),
    }
