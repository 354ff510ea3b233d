"""Makes the packages of NVIDIA's configurations and words importable."""

from __future__ import annotations

import sys

from support import ROOT

sys.path.append(str(ROOT / "script/run-harness/src"))
