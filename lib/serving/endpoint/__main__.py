"""``python -m serving.endpoint``."""

from __future__ import annotations

import os
import sys

from .session import main

sys.exit(main(sys.argv[1:], os.environ.get("CM_ENDPOINT_BENCH_ANSWER", "")))
