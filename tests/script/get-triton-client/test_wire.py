"""The protocol's bytes: what is sent is what a server reads, and no answer gets past the checks."""

from __future__ import annotations

import array
import contextlib
import json
import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.http_client import HttpFault, read_head
from serving.kserve import CODES, ConnectionOptions, KserveError, TensorInfo, WireTensor, tensor_of
from serving.kserve.address import read_address
from serving.kserve.rest import HttpConnection
from serving.kserve.tensors import check_size, packed_strings, strings, tensor_in
from serving.kserve.values import read_model, read_statistics
from serving.kserve.wire import decode_outputs, encode_request, read_layout

NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1, max_size=12)
SHAPES = st.lists(st.integers(0, 4), max_size=4).map(tuple)
ARRAYS = st.tuples(SHAPES, st.sampled_from(sorted(CODES))).map(
    lambda pair: np.arange(math.prod(pair[0])).astype(CODES[pair[1]]).reshape(pair[0])
)


def refused(ask: Callable[[], object]) -> str | None:
    """The kind of the refusal; None when there was none."""
    try:
        ask()
    except (KserveError, HttpFault) as error:
        return error.kind
    return None


def mirrored(text: bytes, parts: list[memoryview]) -> tuple[bytes, memoryview]:
    """The response of a server that gives back its inputs."""
    told = json.loads(text)
    return json.dumps({"outputs": told["inputs"]}).encode(), memoryview(b"".join(parts))


@given(st.dictionaries(NAMES, ARRAYS, max_size=4))
def test_what_a_mirror_gives_back_is_what_was_sent(arrays: dict[str, np.ndarray]) -> None:
    inputs = {name: tensor_of(value) for name, value in arrays.items()}
    answer, data = mirrored(*encode_request(inputs, {}))
    found = decode_outputs(read_layout(answer), data, {})
    assert list(found) == list(arrays)
    for name, value in arrays.items():
        assert found[name].array().dtype == value.dtype
        np.testing.assert_array_equal(found[name].array(), value)
        assert list(found[name].values()) == value.ravel().tolist()


@given(st.lists(st.one_of(st.binary(max_size=9), st.text(st.characters(codec="utf-8")))))
def test_strings_come_back(values: list[bytes | str]) -> None:
    tensor = tensor_of(values)
    check_size("x", tensor)
    wanted = [each.encode() if isinstance(each, str) else each for each in values]
    assert list(tensor.values()) == list(tensor.array()) == wanted


@given(st.binary(max_size=40), st.integers(0, 5))
def test_strings_that_are_cut_are_noticed(data: bytes, count: int) -> None:
    tensor = WireTensor("BYTES", (count,), memoryview(data))
    if refused(lambda: check_size("x", tensor)) is None:
        assert packed_strings(strings(tensor.data)) == data
        assert len(list(strings(tensor.data))) == count


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 1 << 70) | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["name", "datatype", "shape", "parameters", "data", "binary_data_size"]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)
OUTPUTS = st.lists(
    st.fixed_dictionaries(
        {
            "name": st.sampled_from(["a", "b"]) | JSON,
            "datatype": st.sampled_from(["FP32", "BYTES", "BF16", "X"]) | JSON,
            "shape": SHAPES.map(list) | JSON,
        },
        optional={
            "parameters": st.fixed_dictionaries({"binary_data_size": st.integers(-1, 64)}) | JSON,
            "data": st.lists(st.floats(width=32), max_size=4) | JSON,
        },
    )
    | JSON,
    max_size=3,
)


@given(OUTPUTS | JSON, st.binary(max_size=64))
def test_an_answer_is_whole_or_refused_by_its_kind(outputs: object, data: bytes) -> None:
    text = json.dumps({"outputs": outputs}).encode()
    found: dict[str, WireTensor] = {}
    kind = refused(lambda: found.update(decode_outputs(read_layout(text), memoryview(data), {})))
    assert kind in (None, "protocol")
    assert all(tensor.array().shape == tensor.shape for tensor in found.values())


@given(st.binary(max_size=200))
def test_a_head_is_one_or_refused(text: bytes) -> None:
    for line in (text, b"HTTP/1.1 200 OK\r\n" + text):
        assert refused(lambda line=line: read_head(line)) in (None, "protocol")


def test_values_need_no_numpy() -> None:
    tensor = tensor_of(array.array("f", [1.5, -2.0]))
    assert (tensor.datatype, tensor.shape) == ("FP32", (2,))
    assert list(tensor.values()) == [1.5, -2.0]
    brain = WireTensor("BF16", (2,), memoryview(b"\x80\x3f\xc0\xbf"))
    assert list(brain.values()) == [1.0, -1.5] == list(brain.array())


def test_arrays_of_texts_and_with_gaps_are_sent() -> None:
    texts = tensor_of(np.array([["a", "bc"]], object))
    assert (texts.shape, list(texts.values())) == ((1, 2), [b"a", b"bc"])
    gaps = tensor_of(np.arange(6, dtype="i4").reshape(2, 3).T)
    assert gaps.array().tolist() == [[0, 3], [1, 4], [2, 5]]


@pytest.mark.parametrize("value", [np.zeros(2, ">f4"), np.zeros(2, "c16"), {"a": 1}, 1.5, [1.5]])
def test_what_has_no_place_in_the_protocol_is_refused(value: object) -> None:
    with pytest.raises(KserveError) as caught:
        tensor_of(value)
    assert caught.value.kind == "input"


@pytest.mark.parametrize(
    ("url", "host", "port", "tls", "path"),
    [
        ("localhost", "localhost", 8000, False, ""),
        ("10.0.0.1:9000", "10.0.0.1", 9000, False, ""),
        ("[::1]:8000", "::1", 8000, False, ""),
        ("https://host/prefix/", "host", 443, True, "/prefix"),
        ("HTTP://host:80", "host", 80, False, ""),
    ],
)
def test_addresses_are_read(url: str, host: str, port: int, tls: bool, path: str) -> None:
    address = read_address(url, "http")
    assert (address.host, address.port, address.tls, address.path) == (host, port, tls, path)


@pytest.mark.parametrize("scheme", ["https", "grpcs"])
def test_grpc_over_tls_is_written_either_way(scheme: str) -> None:
    address = read_address(f"{scheme}://host:9001", "grpc")
    assert (address.host, address.port, address.tls) == ("host", 9001, True)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "http://",
        "grpc://h",
        "ftp://h",
        "h:99999",
        "h:x",
        "u:p@h",
        "h?x",
        "h h",
        "[::1",
        "h/\u65e5",
    ],
)
def test_addresses_that_are_none_are_refused(url: str) -> None:
    with pytest.raises(KserveError) as caught:
        read_address(url, "http")
    assert caught.value.kind == "input"


def test_numbers_may_be_texts_as_grpc_has_them() -> None:
    told = {"name": "m", "inference_count": "7", "inference_stats": {"queue": {"ns": "5"}}}
    told["batch_stats"] = [{"batch_size": "4", "compute_infer": {"count": "2", "ns": "9"}}]
    found = read_statistics(told)
    assert (found.inferences, found.queue.ns, found.batches[0].compute_infer.count) == (7, 5, 2)
    inputs = [{"name": "i", "datatype": "FP32", "shape": ["-1", "3"]}]
    model = read_model({"name": "m", "inputs": inputs})
    assert model.inputs == (TensorInfo("i", "FP32", (-1, 3)),)


@given(st.lists(st.binary(max_size=20), max_size=5), st.binary(max_size=40))
def test_strings_in_shared_memory_end_where_the_last_one_does(
    values: list[bytes], rest: bytes
) -> None:
    written = packed_strings(values)
    found = tensor_in("y", "BYTES", (len(values),), memoryview(written + rest))
    assert (found.values(), bytes(found.data)) == (values, written)
    if values:
        with pytest.raises(KserveError, match="y "):
            tensor_in("y", "BYTES", (len(values),), memoryview(written)[:-1])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ("name", "version", "versions", "inputs", "outputs", "shape", "datatype", "model_stats",
             "inference_stats", "batch_stats", "success", "count", "ns", "extensions", "x")
        ),
        inner,
        max_size=4,
    ),
    max_leaves=8,
)  # fmt: skip


@given(JSON)
def test_what_a_server_says_of_itself_is_read_or_refused(told: object) -> None:
    class Liar(HttpConnection):
        def _ask(self, question: str, **fields: object) -> object:
            return told

    connection = Liar(read_address("localhost", "http"), ConnectionOptions())
    asked = (
        connection.server,
        connection.index,
        connection.regions,
        lambda: connection.model("m"),
        lambda: connection.config("m"),
        lambda: connection.statistics("m"),
    )
    for ask in asked:
        with contextlib.suppress(KserveError):
            ask()
