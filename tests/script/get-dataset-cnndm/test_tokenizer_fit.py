"""A tokenizer that does not fit: seen by its digest and its tokens, before anything is measured."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

import benchmark_forms as forms
import benchmark_lab as lab
from common.problems import Problem
from mlperf import catalog
from mlperf.harness.benchmarks.text_generation import TextGeneration
from mlperf.harness.errors import OTHER_TOKENIZER, HarnessError
from mlperf.harness.session import precheck
from mlperf.harness.settings import ModelSpec, SessionSettings
from modelzoo import tokenizer_files
from modelzoo.datasets.cnndm import make_dataset, make_llama3
from modelzoo.judging import spec_of
from modelzoo.llama import convert, folder
from modelzoo.llama.published import LLAMA3_8B
from modelzoo.program import ProgramError

SHIPPED = forms.SCRIPT / "get-ml-model-llama3" / "tiny"
customize = lab.module_of(forms.SCRIPT / "get-ml-model-llama3" / "customize.py")
Document = dict[str, Any]


def document() -> Document:
    return json.loads(json.dumps(make_llama3.tiny_tokenizer().document()))  # type: ignore[no-any-return]


def swapped_merges(other: Document) -> None:
    merges = other["model"]["merges"]
    merges[0], merges[1] = merges[1], merges[0]


def swapped_tokens(other: Document) -> None:
    known = other["model"]["vocab"]
    known["a"], known["b"] = known["b"], known["a"]


def other_end(other: Document) -> None:
    other["added_tokens"][1]["content"] = "</s>"


def plain_end(other: Document) -> None:
    other["added_tokens"][1]["special"] = False


def more_tokens(other: Document) -> None:
    other["model"]["vocab"]["zzz"] = len(other["model"]["vocab"])


OTHERS = [swapped_merges, swapped_tokens, other_end, plain_end, more_tokens]


@pytest.mark.parametrize("change", OTHERS)
def test_another_tokenizer_has_another_digest(change: Callable[[Document], None]) -> None:
    other = document()
    change(other)
    assert tokenizer_files.digest(other) != tokenizer_files.digest(document())


def test_the_same_tokenizer_has_one_digest_in_any_format(tmp_path: Path) -> None:
    own, other = tokenizer_files.digest(document()), document()
    model = other["model"]
    model["merges"] = [" ".join(pair) for pair in model["merges"]]
    model["vocab"] = dict(reversed(model["vocab"].items()))
    other |= {"version": "2.0", "padding": {"length": 3}}
    (tmp_path / "tokenizer.json").write_text(json.dumps(other, indent=8), encoding="utf-8")
    assert tokenizer_files.digest_of(tmp_path) == own
    assert tokenizer_files.digest_of(SHIPPED) == own
    for name in folder.FACTS.values():
        assert json.loads((SHIPPED / name).read_text())["options"]["tokenizer"] == own
    assert json.loads((forms.llama3_articles() / "dataset.json").read_text())["tokenizer"] == own


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "git lfs pull"),
        (b"\n<!doctype html><title>Sign in</title>", "a web page"),
        (b'{"model": {"vocab": {"a": 0', "cut off or damaged"),
        (b"", "cut off or damaged"),
        (b"\xff\xfe\x00", "cut off or damaged"),
        (b"[" * 100_000, "cut off or damaged"),
        (b"[]", "it has no model"),
        (b'{"model": null}', "it has no model"),
        (b'{"model": {}}', "no vocabulary"),
        (b'{"model": {"vocab": 7}}', "no vocabulary"),
        (b'{"model": {"vocab": {"a": null}}}', "no vocabulary"),
        (b'{"model": {"vocab": {}, "merges": [1]}}', "no vocabulary"),
        (b'{"model": {"vocab": {}}, "added_tokens": [3]}', "no vocabulary"),
    ],
)
def test_what_is_no_tokenizer_is_said(data: bytes, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_bytes(data)
    with pytest.raises(ProgramError, match=reason) as caught:
        tokenizer_files.digest_of(path)
    assert "tokenizer.json" in str(caught.value)


# ---------------------------------------------------------------- at the start of a run


def model(**options: Any) -> ModelSpec:
    spec = spec_of(json.loads((SHIPPED / "model.json").read_text()), SHIPPED)
    return replace(spec, options={**spec.options, **options})


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return Path(shutil.copytree(forms.llama3_articles(20), tmp_path / "data"))


def start(data: Path, spec: ModelSpec) -> None:
    TextGeneration(data, spec, catalog.benchmark("llama3.1-8b"))


def rewrite(data: Path, **facts: Any) -> None:
    path = data / "dataset.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | facts))


def notes(data: Path, spec: ModelSpec) -> list[str]:
    settings = cast(SessionSettings, SimpleNamespace(dataset=str(data), model=spec))
    return list(precheck.tokenizer_notes(settings))


def test_a_data_set_of_another_tokenizer_is_refused(data: Path) -> None:
    start(data, model())
    assert not notes(data, model())
    rewrite(data, tokenizer="0" * 64)
    with pytest.raises(HarnessError, match=r"another tokenizer \(0000000") as caught:
        start(data, model())
    assert caught.value.hint == OTHER_TOKENIZER


@pytest.mark.parametrize("silent", ["data set", "model"])
def test_what_names_no_tokenizer_is_accepted_with_a_note(silent: str, data: Path) -> None:
    if silent == "data set":
        rewrite(data, tokenizer="")
    spec = model(tokenizer="" if silent == "model" else "1")
    start(data, spec)
    assert [f"the {silent} does not say" in note for note in notes(data, spec)] == [True]


@pytest.mark.parametrize("token", [573, 2_000_000_000, -1])
def test_a_prompt_of_tokens_that_there_are_not_is_refused(token: int, data: Path) -> None:
    tokens = np.load(data / "prompts.npy")
    tokens[7] = token
    np.save(data / "prompts.npy", tokens)
    with pytest.raises(HarnessError, match=f"{token}.* the model knows 573") as caught:
        start(data, model())
    assert caught.value.hint == OTHER_TOKENIZER


# ---------------------------------------------------------------- when data and models are made


@pytest.mark.parametrize("token", [573, -1, 2**40])
def test_prompts_of_another_tokenizer_are_not_written(token: int, tmp_path: Path) -> None:
    prompts, _ = make_llama3.tiny(2)
    prompts.tokens[1][3] = token
    with pytest.raises(ProgramError, match="the tokenizer has 573"):
        make_dataset.write(prompts, [], "cnn_eval.json", tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SHIPPED, tmp_path / "checkpoint"))


def test_a_checkpoint_states_its_tokenizer_and_one_without_none(
    checkpoint: Path, tmp_path: Path
) -> None:
    options = []
    for name in ("with", "without"):
        out = tmp_path / name
        out.mkdir()
        convert.convert(LLAMA3_8B, checkpoint, out, "pytorch", other_size=True)
        facts = (out / "model-pytorch.json").read_text()
        options.append(json.loads(facts)["options"])
        assert (checkpoint / "model-pytorch.json").read_text() != facts
        (checkpoint / "tokenizer.json").unlink(missing_ok=True)
    assert options[0]["tokenizer"] == tokenizer_files.digest(document())
    assert "tokenizer" not in options[1]


def test_llama_cpp_needs_the_tokenizer_before_anything_is_converted(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    env = {"CM_ML_MODEL_FRAMEWORK": "gguf", "LLAMA3_CHECKPOINT_PATH": str(checkpoint)}
    relied = customize.preprocess({"env": dict(env)})["relies_on"]
    assert str(checkpoint / "tokenizer.json") in relied
    (checkpoint / "tokenizer.json").unlink()
    with pytest.raises(Problem, match=r"there is no .*tokenizer\.json") as caught:
        customize.preprocess({"env": dict(env)})
    assert caught.value.code == "model-file"
