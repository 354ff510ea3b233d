from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from crowd_lab import sample, sign
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from hypothesis import given
from hypothesis import strategies as st

from cmbench.errors import Error
from cmbench_crowd import manifest as m


def plain(**changes: Any) -> dict[str, Any]:
    return {**json.loads(m.encode(sample())), **changes}


def data_of(told: Any) -> bytes:
    return json.dumps(told, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def refused(data: bytes) -> str:
    with pytest.raises(Error) as caught:
        m.parse(data)
    assert caught.value.code == "bad-manifest"
    return caught.value.message


def test_bytes_and_manifest_are_the_same_thing() -> None:
    told = sample()
    assert m.parse(m.encode(told)) == told
    assert m.encode(m.parse(m.encode(told))) == m.encode(told)


def test_it_is_written_in_one_way_only() -> None:
    data = m.encode(sample())
    assert b": " not in data
    assert refused(json.dumps(json.loads(data)).encode())
    assert "canonical" in refused(data.replace(b'"value":12.5', b'"value":12.50'))


def test_a_key_for_which_everybody_can_sign_is_none() -> None:
    """Of a key of small order this signature fits one of eight messages at least."""
    everybodys = m.to_text(bytes([1, *[0] * 63]))
    fits = 0
    for height in (*m._WEAK, m._PRIME, m._PRIME + 1):
        for sign_ in (0, 1 << 255):
            public = (height | sign_).to_bytes(32, "little")
            for number in range(60):
                data = str(number).encode()
                with suppress(InvalidSignature, ValueError):
                    Ed25519PublicKey.from_public_bytes(public).verify(bytes([1, *[0] * 63]), data)
                    fits += 1
                assert not m.is_signed(data, m.key_text(public), everybodys)
    assert fits > 100, "else this looks at nothing"


def test_a_signature_is_of_these_bytes_and_this_key() -> None:
    key = Ed25519PrivateKey.generate()
    data = m.encode(sample(key))
    assert m.verify(data, sign(key, data)).id == sample().id
    other = Ed25519PrivateKey.generate()
    for signature in (sign(other, data), "", "*", sign(key, data + b" "), sign(key, data) + "=="):
        with pytest.raises(Error) as caught:
            m.verify(data, signature)
        assert caught.value.code == "bad-signature"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"hostname": "box"}, "unknown key 'hostname'"),
        ({"format": 2}, "format is 2"),
        ({"format": True}, "format is not a whole number"),
        ({"id": "0" * 32}, "id is"),
        ({"created": "2026-13-01"}, "not a day"),
        ({"consent": 2}, "files is of consent level 3"),
        ({"consent": 1, "files": []}, "software is of consent level 2"),
        ({"metrics": []}, "metrics is not a list"),
        ({"metrics": [{"name": "x", "unit": "", "value": 1.0}] * 1000}, "metrics is not a list"),
        ({"metrics": [{"name": "x", "unit": "", "value": 1.0}] * 2}, "twice"),
        ({"metrics": [{"name": "x", "unit": "", "value": 1}]}, "not a number with a point"),
        ({"metrics": [{"name": "<b>", "unit": "", "value": 1.0}]}, "does not fit"),
        ({"work_unit": "../x"}, "does not fit"),
        ({"key": "ed25519:short"}, "does not fit"),
        ({"system": None}, "system is not an object"),
        ({"files": {}}, "files is not a list"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(changes: dict[str, Any], said: str) -> None:
    assert said in refused(data_of(plain(**changes)))


def test_texts_are_bounded_and_printable() -> None:
    for cpu in ("x" * 201, "a\nb", "a\u202eb", "\x00", 5, ["x"]):
        told = plain()
        told["system"] = {**told["system"], "cpu": cpu}
        assert "system.cpu" in refused(data_of(told))


def test_no_path_address_or_url_fits_into_a_command_or_a_setting() -> None:
    for value in ("/home/ann", "a\\b", "10.0.0.1:80", "ann@box", "https://x", "$HOME", "a;b"):
        told = plain()
        told["config"] = {**told["config"], "command": f"cm run script --model={value}"}
        assert "config.command" in refused(data_of(told))
        told["config"] = {**plain()["config"], "settings": {"x": value}}
        assert "config.settings" in refused(data_of(told))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"[]",
        b"null",
        b"NaN",
        b'{"a":Infinity}',
        b'{"a":1,"a":2}',
        b"[" * 100_000,
        b'{"a":' * 20_000,
        b'"' + b"x" * m.LARGEST + b'"',
        b"1" * 200_000,
    ],
    ids=range(11),
)
def test_hostile_bytes_are_refused(data: bytes) -> None:
    assert refused(data)


def test_numbers_beyond_all_bounds_are_refused() -> None:
    data = m.encode(sample())
    for word in (b"1e999", b"-1e999", b"NaN", b"1" * 400):
        assert refused(data.replace(b"12.5", word))


def test_a_whole_number_that_no_float_can_hold_is_refused() -> None:
    assert "consent is 1000" in refused(data_of(plain(consent=10**400)))


def test_more_bytes_of_files_than_a_run_may_have_are_refused() -> None:
    files = [
        m.ManifestFile(role, "x.txt", "0" * 64, m.LARGEST_FILE, "text/plain")
        for role in m.ROLES[:3]
    ]
    with pytest.raises(Error, match="together"):
        m.encode(sample(files=tuple(files)))


@given(st.binary(max_size=300) | st.text(max_size=300).map(lambda t: t.encode("utf-8", "replace")))
def test_any_bytes_are_refused_with_one_error(data: bytes) -> None:
    assert refused(data)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=6,
)


@given(st.sampled_from(sorted(plain())), JSON)
def test_any_value_in_any_field_is_taken_as_it_is_or_refused(name: str, value: Any) -> None:
    data = data_of(plain(**{name: value}))
    try:
        told = m.parse(data)
    except Error as problem:
        code = problem.code
    else:
        code = "" if m.encode(told) == data else "changed"
    assert code in ("", "bad-manifest")
