"""Makes the libraries and the tests' own modules importable, for the programs of this folder."""

from __future__ import annotations

import sys
from pathlib import Path

import cmbench

TESTS = str(Path(cmbench.LIBRARIES).parent / "tests")
if TESTS not in sys.path:
    sys.path.append(TESTS)
