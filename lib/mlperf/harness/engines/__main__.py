"""``python -m mlperf.harness.engines CONFIG.json``."""

from __future__ import annotations

import sys
from pathlib import Path

from mlperf.harness.engines import generate
from mlperf.harness.errors import exit_status

sys.exit(exit_status(generate.main, Path(sys.argv[1])))
