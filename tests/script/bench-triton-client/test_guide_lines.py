"""What the client says of the first answer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import triton_client_lab  # noqa: F401 - makes the client importable


@pytest.mark.parametrize("stand_in", ["", "neuron on cpu"])
def test_a_stand_in_is_said_beside_the_verdict(stand_in: str) -> None:
    from serving.bench import guide

    found: Any = SimpleNamespace(
        problems=(), settings=SimpleNamespace(model="r50"), first_ms=1.0, stand_in=stand_in
    )
    first, *rest = guide.judged(found)
    assert first == "PASS: r50"
    assert ("note: neuron on cpu" in rest) is bool(stand_in)
