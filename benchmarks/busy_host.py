"""A busy host: takes a share of all cores in bursts, and runs a command beside that many times.

    python benchmarks/busy_host.py --times 20 -- make benchmark

Each end is told with its exit status and the lines that say why; the whole ends with the number
of those that did not end with 0. Without a command it only takes the time, until it is ended.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import re
import subprocess
import sys
import time

TOLD = re.compile(r"VALID|warning|busy|error|still|quiet after")


def take(share: float, longest_s: float) -> None:
    """Work in bursts of up to ``longest_s`` seconds that come to ``share`` of one core."""
    while True:
        burst_s = random.uniform(0.05, longest_s)
        end = time.thread_time() + burst_s
        while time.thread_time() < end:
            pass
        time.sleep(burst_s * (1 - share) / share * random.uniform(0.5, 1.5))


def repeat(command: list[str], times: int) -> int:
    """Run a command some times and say what each end said; how many did not end with 0."""
    failed = 0
    for number in range(1, times + 1):
        began = time.monotonic()
        done = subprocess.run(
            command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        failed += done.returncode != 0
        print(f"{number}: exit {done.returncode}, {time.monotonic() - began:.0f} s, ", end="")
        print(f"load {os.getloadavg()[0]:.1f}")
        for line in done.stdout.splitlines():
            if TOLD.search(line):
                print(f"    {line}")
        sys.stdout.flush()
    print(f"{times - failed} of {times} ended with 0")
    return failed


def main() -> int:
    """Take the time of every core; the exit status is the number of failed runs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--share", type=float, default=0.3, help="of each core")
    parser.add_argument("--burst", type=float, default=0.6, help="longest burst in seconds")
    parser.add_argument("--times", type=int, default=20, help="how often the command is run")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    given = parser.parse_args()
    cores = range(len(os.sched_getaffinity(0)))
    takers = [
        multiprocessing.Process(target=take, args=(given.share, given.burst), daemon=True)
        for _ in cores
    ]
    for taker in takers:
        taker.start()
    command = [word for word in given.command if word != "--"]
    if command:
        return repeat(command, given.times)
    for taker in takers:
        taker.join()
    return 0


if __name__ == "__main__":
    sys.exit(main())
