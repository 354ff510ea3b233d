"""``python -m mlperf.harness.quantization CONFIG.json``."""

from __future__ import annotations

import sys
from pathlib import Path

from mlperf.harness.errors import exit_status
from mlperf.harness.quantization import quantize

sys.exit(exit_status(quantize.main, Path(sys.argv[1])))
