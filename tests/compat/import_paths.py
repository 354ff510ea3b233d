"""Makes the libraries and the tests' own modules importable, for the programs of this folder."""

from __future__ import annotations

from pathlib import Path

import cmbench
from common.python_path import add_folder

add_folder(Path(cmbench.LIBRARIES).parent / "tests")
