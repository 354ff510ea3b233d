from __future__ import annotations

from pathlib import Path

import pytest
from crowd_lab import measured

from cmbench_results.result_sources import SourceFiles


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The folder of cmbench in a home that has one measured result."""
    root = tmp_path / "home" / "cmbench"
    SourceFiles(root).add(measured(tmp_path / "out"))
    return root
