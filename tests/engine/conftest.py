"""Every engine test gets a small world of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab import Lab


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    # What a script leaves where the user stands must not stay in the checkout.
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return Lab(tmp_path)
