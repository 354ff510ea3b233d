"""The prompts of Llama 2 70B: MLCommons's table, and what is said where it is missing."""

from __future__ import annotations

import json
import pickle
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import benchmark_forms as forms
import benchmark_lab as lab
from cmbench.errors import Error
from modelzoo.datasets.openorca import make_dataset

customize = lab.module_of(forms.SCRIPT / "get-dataset-openorca" / "customize.py")
NAMES = ["<unk>", "<s>", "</s>", "<0x0A>", "\u2581yes", "\u2581\u00fc"]


class Column(list[Any]):
    """A column as pandas returns it, as far as it is used."""

    def tolist(self) -> list[Any]:
        return list(self)


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    tokenizers = pytest.importorskip("tokenizers")
    vocabulary = {name: number for number, name in enumerate(NAMES)}
    path = tmp_path / "tokenizer.json"
    tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocabulary, merges=[])).save(str(path))
    return path


@pytest.fixture
def pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for the library, which reads a pickled dictionary."""
    module = ModuleType("pandas")

    def read_pickle(path: Path) -> Any:
        table = pickle.loads(path.read_bytes())
        return {name: Column(values) for name, values in table.items()}

    module.read_pickle = read_pickle  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pandas", module)


def written(folder: Path, **columns: Sequence[Any]) -> Path:
    path = folder / "samples.pkl"
    path.write_bytes(pickle.dumps(columns))
    return path


def made(folder: Path, samples: Path, tokenizer: Path) -> int:
    out = folder / "out"
    out.mkdir()
    words = ["--samples", str(samples), "--tokenizer", str(tokenizer), "--out", str(out)]
    return make_dataset.main(words)


@pytest.mark.usefixtures("pandas")
def test_mlcommons_tokens_are_taken_as_they_are(tmp_path: Path, tokenizer: Path) -> None:
    tokens: list[Sequence[int]] = [[1, 4, 5], np.asarray([1, 3], dtype=np.int32).tolist()]
    samples = written(tmp_path, tok_input=tokens, output=["Yes.", "No."], origin=["", ""])
    assert made(tmp_path, samples, tokenizer) == 0
    out = tmp_path / "out"
    assert np.load(out / "prompts.npy").tolist() == [1, 4, 5, 1, 3]
    assert json.loads((out / "references.json").read_text()) == ["Yes.", "No."]
    pieces = json.loads((out / "pieces.json").read_text())
    assert pieces[:5] == ["", "", "", "\n", " yes"]
    assert pieces[5].encode("latin-1").decode() == " \u00fc"


@pytest.mark.usefixtures("pandas")
def test_another_table_is_reported(
    tmp_path: Path, tokenizer: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert made(tmp_path, written(tmp_path, text=["x"]), tokenizer) == 1
    assert "no table with tok_input and output" in capsys.readouterr().err


def test_the_file_of_mlcommons_is_named_before_anything_is_installed() -> None:
    with pytest.raises(Error, match="--samples=FILE") as caught:
        customize.refuse({"env": {}})
    assert "llama-2-70b-open-orca-dataset.uri" in caught.value.hint
    assert customize.refuse({"env": {"CM_DATASET_FORM": "tiny"}}) == {"return": 0}
    with pytest.raises(Error, match="calibration"):
        customize.refuse({"env": {"CM_DATASET_CALIBRATION": "yes"}})


def test_the_tokenizer_of_the_checkpoint_is_taken(tmp_path: Path) -> None:
    samples = written(tmp_path, text=[])
    env: dict[str, Any] = {
        "CM_DATASET_OPENORCA_SAMPLES": str(samples),
        "CM_TMP_RUN_DIR": str(tmp_path),
    }
    with pytest.raises(Error, match="--tokenizer=FILE"):
        customize.preprocess({"env": env})
    env["CM_ML_MODEL_TOKENIZER_PATH"] = str(tmp_path)
    with pytest.raises(Error, match=r"tokenizer\.json is not a file"):
        customize.preprocess({"env": env})
    (tmp_path / "tokenizer.json").write_text("{}")
    relied = customize.preprocess({"env": env})["relies_on"]
    assert relied == [str(samples), str(tmp_path / "tokenizer.json")]


def test_the_full_set_has_all_samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dataset.json").write_text(json.dumps({"count": 24576}))
    env: dict[str, Any] = {}
    assert customize.postprocess({"env": env}) == {"return": 0}
    assert (env["CM_DATASET_SIZE"], env["CM_DATASET_PREPROCESSED_FORM"]) == ("24576", "")
    (tmp_path / "dataset.json").write_text(json.dumps({"count": 7}))
    with pytest.raises(Error, match="MLPerf's set has 24576"):
        customize.postprocess({"env": env})


def test_the_tiny_form_is_that_of_the_tiny_llama(tmp_path: Path) -> None:
    assert make_dataset.main(["--tiny", "--out", str(tmp_path)]) == 0
    shared = forms.llama3_articles()
    for name in ("prompts.npy", "references.json", "pieces.json"):
        assert (tmp_path / name).read_bytes() == (shared / name).read_bytes()
