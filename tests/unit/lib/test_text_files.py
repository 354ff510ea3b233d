"""Small text files, and what is told of texts and sizes."""

from __future__ import annotations

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from cmbench.lib.text_files import sha256


@given(st.text(), st.integers(1, 64))
def test_sha256_of_a_text_is_that_of_hashlib(text: str, digits: int) -> None:
    assert sha256(text, digits) == hashlib.sha256(text.encode()).hexdigest()[:digits]
