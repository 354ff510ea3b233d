"""What is sent, and whether what comes back is right."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from common.problems import Problem
from serving.bench import checks, files, inputs
from serving.kserve import SIZES, Model, TensorInfo, WireTensor, tensor_of

IMAGE = TensorInfo("input", "FP32", (-1, 4, 3))
MODEL = Model("m", ("1",), "python", (IMAGE,), (TensorInfo("output", "FP32", (-1, 5)),))


def made(source: str, batch: int = 2, model: Model = MODEL, **changes: object) -> list:
    options = {"shapes": {}, "seed": 0, **changes}
    return inputs.make(model, True, batch, source, **options)


def model_of(*infos: TensorInfo) -> Model:
    return Model("m", ("1",), "python", infos, ())


def test_random_inputs_are_those_of_their_seed() -> None:
    first, again, other = made("random"), made("random"), made("random", seed=1)
    assert bytes(first[0]["input"].data) == bytes(again[0]["input"].data)
    assert bytes(first[0]["input"].data) != bytes(other[0]["input"].data)
    values = first[0]["input"].array()
    assert values.shape == (2, 4, 3)
    assert values.min() >= 0
    assert values.max() < 1
    assert not made("zero")[0]["input"].array().any()


@pytest.mark.parametrize("datatype", [*SIZES, "BYTES"])
@pytest.mark.parametrize("source", ["random", "zero"])
def test_every_type_can_be_sent(datatype: str, source: str) -> None:
    sample = made(source, model=model_of(TensorInfo("i", datatype, (-1, 3))))[0]
    assert sample["i"].array().shape == (2, 3)


def test_without_numpy_inputs_are_the_same_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "numpy", None)
    for datatype in SIZES:
        tensor = made("random", model=model_of(TensorInfo("i", datatype, (-1, 3))))[0]["i"]
        assert len(tensor.data) == 6 * SIZES[datatype]
        assert checks.finite(tensor)


def test_open_lengths_are_asked_for() -> None:
    text = model_of(TensorInfo("ids", "INT64", (-1, -1)))
    with pytest.raises(Problem) as caught:
        made("random", model=text)
    assert "--shape=ids:N" in caught.value.hint
    assert made("random", model=text, shapes={"ids": (7,)})[0]["ids"].shape == (2, 7)
    for wrong in ({"idz": (7,)}, {"ids": (7, 1)}):
        with pytest.raises(Problem):
            made("random", model=text, shapes=wrong)


def test_all_lengths_that_are_open_are_asked_for_at_once() -> None:
    mask = TensorInfo("mask", "BOOL", (-1, 4, -1))
    model = model_of(TensorInfo("ids", "INT64", (-1, -1)), mask, IMAGE)
    with pytest.raises(Problem) as caught:
        made("random", model=model)
    assert caught.value.hint == "--shape=ids:N --shape=mask:4,N, or --input=FILE"


@given(arrays.arrays(st.sampled_from([f"<{each}" for each in files.LETTERS]),
                     arrays.array_shapes(min_dims=0, max_dims=3, min_side=0)))  # fmt: skip
def test_arrays_of_numpy_are_read_without_it(array: np.ndarray) -> None:
    import io

    out = io.BytesIO()
    np.save(out, array)
    found = files.parse_npy(out.getvalue())
    assert (found.shape, bytes(found.data)) == (array.shape, array.tobytes())


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_what_is_no_array_is_refused(head: bytes, rest: bytes) -> None:
    data = files.MAGIC + b"\x01\x00" + len(head).to_bytes(2, "little") + head + rest
    with pytest.raises(ValueError):  # noqa: PT011
        files.parse_npy(data)


def test_samples_of_a_file_are_cut_into_requests(tmp_path: Path) -> None:
    values = np.arange(7 * 12, dtype="f4").reshape(7, 4, 3)
    np.save(tmp_path / "a.npy", values)
    np.savez(tmp_path / "a.npz", input=values, other=values)
    (tmp_path / "a.json").write_text(
        json.dumps({"data": [{"input": each.ravel().tolist()} for each in values]})
    )
    (tmp_path / "b.json").write_text(json.dumps({"data": [{"input": v.tolist()} for v in values]}))
    values[:2].tofile(tmp_path / "a.raw")
    for name in ("a.npy", "a.npz", "a.json", "b.json"):
        found = made(str(tmp_path / name))
        assert len(found) == 3
        np.testing.assert_array_equal(found[2]["input"].array(), values[4:6])
    assert bytes(made(str(tmp_path / "a.raw"))[0]["input"].data) == values[:2].tobytes()


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.npy", b"nothing", "no array"),
        ("a.npz", b"nothing", "cannot be read"),
        ("a.json", b"{", "cannot be read"),
        ("a.json", b'{"data": [{"x": [1]}]}', "lacks the input input"),
        ("a.json", b'{"data": [{"input": [1, 2]}]}', "2 values"),
        ("a.json", b'{"data": [{"input": ["a"]}]}', "cannot be read"),
        ("a.bin", b"abc", "3 bytes, a request 96"),
    ],
)
def test_a_file_that_does_not_fit_is_one_message(
    tmp_path: Path, name: str, content: bytes, words: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(Problem) as caught:
        made(str(tmp_path / name))
    assert words in str(caught.value)


def test_types_that_only_json_has_are_read_from_it(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"data": [{"x": [1.5, -2.0]}, {"x": [0.25, 3.0]}]}))
    half = model_of(TensorInfo("x", "BF16", (-1, 2)))
    (found,) = made(str(path), model=half)
    assert found["x"].values() == [1.5, -2.0, 0.25, 3.0]
    path.write_text(json.dumps({"data": [{"x": ["a", "bc"]}, {"x": ["", "d"]}]}))
    (found,) = made(str(path), model=model_of(TensorInfo("x", "BYTES", (-1, 2))))
    assert found["x"].values() == [b"a", b"bc", b"", b"d"]


@pytest.mark.parametrize(
    ("datatype", "source", "words"),
    [
        ("FP32", "/dev/zero", "no end"),
        ("BYTES", __file__, "raw bytes, x is BYTES"),
        ("FP8", "random", "FP8, which is not sent"),
        ("FP8", "zero", "FP8, which is not sent"),
        ("FP8", __file__, "raw bytes, x is FP8"),
    ],
)
def test_what_cannot_be_sent_is_one_message(datatype: str, source: str, words: str) -> None:
    with pytest.raises(Problem) as caught:
        made(source, model=model_of(TensorInfo("x", datatype, (-1, 2))))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.zeros((4, 4, 3)), "FP64"),
        (np.zeros((4, 4, 4), "f4"), "shape"),
        (np.zeros((1, 4, 3), "f4"), "fewer than 2"),
        (np.asfortranarray(np.zeros((4, 4, 3), "f4")), "Fortran"),
    ],
)
def test_arrays_unlike_the_model_are_refused(tmp_path: Path, array: np.ndarray, words: str) -> None:
    np.save(tmp_path / "a.npy", array)
    with pytest.raises(Problem) as caught:
        made(str(tmp_path / "a.npy"))
    assert words in str(caught.value)
    with pytest.raises(Problem):
        made(str(tmp_path / "none.npy"))


def output(**changes: object) -> dict[str, WireTensor]:
    values = np.ones(changes.get("shape", (2, 5)), changes.get("dtype", "f4"))  # type: ignore[call-overload]
    values.ravel()[:1] = changes.get("value", 1)
    return {str(changes.get("name", "output")): tensor_of(values)}


@pytest.mark.parametrize(
    ("outputs", "words"),
    [
        (output(), ""),
        (output(name="other"), "output is missing"),
        (output(shape=(1, 5)), "shape [1, 5], not [2, 5]"),
        (output(shape=(2, 5, 1)), "shape"),
        (output(dtype="f8"), "FP64, not FP32"),
        (output(value=math.nan), "no finite"),
        (output(value=math.inf), "no finite"),
        (output() | output(name="more"), "more is not an output"),
    ],
)
def test_answers_are_checked(outputs: dict[str, WireTensor], words: str) -> None:
    problems = checks.describe_problems(outputs, MODEL.outputs, 2)
    assert bool(problems) == bool(words)
    assert words in "; ".join(problems)


@pytest.mark.parametrize(
    ("outputs", "words"),
    [
        (output(value=1.0000001), ""),
        (output(value=1.1), "at 0, golden 1.0"),
        (output(value=math.nan), "nan"),
        (output(shape=(3, 5)), "shape"),
        ({}, "missing"),
    ],
)
def test_answers_are_compared_with_golden_ones(outputs: dict[str, WireTensor], words: str) -> None:
    problems = checks.differences(outputs, output(), 1e-5)
    assert bool(problems) == bool(words)
    assert words in "; ".join(problems)
