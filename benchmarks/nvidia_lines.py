"""What a make line of NVIDIA's guides costs before its runs: ``python benchmarks/nvidia_lines.py``.

CPU seconds in a fresh process, imports counted, the least of ``--times`` runs: the registry, a plan
of all benchmarks, the checks. ``--check`` fails where a limit is passed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "script/run-harness/src"
LIMITS = {"registry": 0.3, "plan": 0.5, "checks": 2.0}
"""CPU seconds; the registry's is for reading and checking all of it."""
IN_PROCESS = {
    "registry": "from nvidia_flow import registry; registry.load()",
    "plan": (
        "from nvidia_make import flow, work;"
        "from pathlib import Path;"
        "work.plan(flow.Flow(Path('.'), flow.Settings('Me', form='tiny'), {}, 'nvidia', No()))"
    ),
    "checks": (
        "from nvidia_make import flow, checks;"
        "from pathlib import Path;"
        "checks.made(flow.Flow(Path('.'), flow.Settings('Me', form='tiny'), {}, 'nvidia', No()))"
    ),
}
"""What each measures in a process that has imported nothing of it before."""
_HEAD = (
    "import sys, time, yaml; sys.path.insert(0, {path!r})\n"
    "class No:\n"
    "    def machine(self): return None\n"
    "begun = time.process_time()\n"
)


def seconds(code: str) -> float:
    """CPU seconds of the code in a fresh process, its imports counted."""
    text = _HEAD.format(path=str(SOURCES)) + code + "\nprint(time.process_time() - begun)"
    done = subprocess.run(
        [sys.executable, "-c", text], check=True, stdout=subprocess.PIPE, text=True
    )
    return float(done.stdout)


def best(code: str, times: int) -> float:
    """The least of several measurements."""
    return min(seconds(code) for _ in range(times))


def main(words: Sequence[str]) -> int:
    """Print the table; 1 where ``--check`` is given and a limit is passed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition(":")[0])
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args(words)
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        here = Path.cwd()
        os.chdir(folder)
        begun = time.perf_counter()
        for name, code in IN_PROCESS.items():
            found[name] = best(code, given.times)
            print(f"{name:10}{found[name]:8.3f} s of CPU  (limit {LIMITS[name]:g})")
        os.chdir(here)
    print(f"measured in {time.perf_counter() - begun:.0f} s")
    return int(given.check and any(found[name] > LIMITS[name] for name in LIMITS))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
