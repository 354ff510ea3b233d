"""What NVIDIA's configurations cost: CPU seconds to read and check them all, each in a new process.

python benchmarks/nvidia_configs.py [--check]: with --check, status 1 where a target is missed.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
from pathlib import Path

SRC = Path(__file__).resolve().parents[1] / "script/run-harness/src"
RUNS = 5
TARGETS = {"all configurations read and checked": 0.3}
"""CPU seconds, without the start of Python and the imports."""
PROGRAM = """
import sys, time
sys.path.append(sys.argv[1])
from nvidia_flow import registry
start = time.process_time()
known = registry.load()
print(time.process_time() - start, len(known.tables), known.registrations, len(known.faults))
"""


def measure() -> tuple[float, str]:
    """The median of a few runs, and what was read."""
    words = [sys.executable, "-c", PROGRAM, str(SRC)]
    rows = [
        subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
        for _ in range(RUNS)
    ]
    files, configurations, faults = rows[0][1:]
    seconds = statistics.median(float(row[0]) for row in rows)
    return seconds, f"{files} files, {configurations} configurations, {faults} faults"


def main() -> int:
    """Print the table; the status is 1 where ``--check`` was asked for and a target is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    seconds, what = measure()
    ((name, target),) = TARGETS.items()
    verdict = "ok" if seconds <= target else "MISSED"
    print(f"{name}: {seconds:.3f} s of CPU, target {target} s: {verdict} ({what})")
    return 1 if check and seconds > target else 0


if __name__ == "__main__":
    sys.exit(main())
