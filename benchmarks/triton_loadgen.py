"""LoadGen over Triton beside the same model in process: turn by turn, medians of the turns.

    python benchmarks/triton_loadgen.py [--rounds 5] [--duration 5000] [--form synthetic]
        [--precision int8] [--runtime openvino] [--memory system] [--scenarios SingleStream]
        [--check] [--json FILE]

Each turn is a command of a user, ``cm run script --tags=run-mlperf,inference``, in the CM home that
is registered; what it needs is installed by the first. Offline is to reach 90 % of what it reaches
in process, and a query of SingleStream to take 1.5 ms more at most (p90 of the queries; LoadGen's
own result is an estimate near the slowest of few). Every other round begins with the other one, so
that a machine which becomes slower favours neither.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from table_row import Row

CM = Path(sys.executable).with_name("cm")
OFFLINE, STREAM = "Offline", "SingleStream"
OFFLINE_SHARE, STREAM_MS = 0.9, 1.5
OVER, ALONE = "over Triton", "in process"


def command(asked: argparse.Namespace, way: str, scenario: str, folder: Path) -> list[str]:
    """The command line of one turn."""
    over = ["--backend=triton", f"--triton_backend={asked.runtime}",
            f"--triton_shared_memory={asked.memory}"]  # fmt: skip
    return [
        *(str(CM), "run", "script"),
        f"--tags=run-mlperf,inference,_{asked.form},_performance-only",
        *(f"--model={asked.model}", f"--precision={asked.precision}", "--device=cpu"),
        *(over if way == OVER else [f"--backend={asked.runtime}"]),
        *(f"--scenario={scenario}", f"--min_duration={asked.duration}", "--execution_mode=test"),
        # Each turn makes its run; how the machine is divided is found once.
        f"--results_dir={tempfile.mkdtemp(dir=folder)}",
        *(f"--sut_dir={folder / 'sut'}", "--quiet"),
    ]


def measured(words: list[str]) -> tuple[float, str]:
    """The figure of a turn (samples/s, or ms at p90), and whether LoadGen takes the run."""
    (folder,) = (word.partition("=")[2] for word in words if word.startswith("--results_dir="))
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    files = sorted(Path(folder).glob("*/*/*/results.json"))
    if not files:
        sys.exit(f"{' '.join(words)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    (result,) = json.loads(files[0].read_text(encoding="utf-8"))["results"]
    latencies = result["performance_run"]["latencies_ms"]
    value = latencies["90.00"] if result["scenario"] == STREAM else result["value"]
    return float(value), str(result["validity"])


def rows(turns: dict[tuple[str, str], list[float]]) -> list[Row]:
    """The table: medians, and their ratio or difference against what is to be reached."""
    found, median = [], statistics.median
    for scenario in dict.fromkeys(scenario for scenario, _ in turns):
        over, alone = median(turns[scenario, OVER]), median(turns[scenario, ALONE])
        if scenario == OFFLINE:
            row = Row(f"{OFFLINE}, over / in process", f"{over:.2f}/s", f"{alone:.2f}/s",
                      over / alone, OFFLINE_SHARE, higher_is_better=True)  # fmt: skip
        else:
            row = Row(f"{STREAM} p90, ms more", f"{over:.3f} ms", f"{alone:.3f} ms",
                      over - alone, STREAM_MS, higher_is_better=False)  # fmt: skip
        found.append(row)
    return found


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--scenarios", nargs="+", choices=(OFFLINE, STREAM), default=(OFFLINE, STREAM)
    )
    parser.add_argument("--duration", type=int, default=5000, help="of each run, in ms")
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--form", default="synthetic")
    parser.add_argument("--precision", default="int8")
    parser.add_argument("--runtime", default="openvino")
    parser.add_argument("--memory", default="system", help="system or none")
    parser.add_argument("--check", action="store_true", help="end with 1 where a limit is missed")
    parser.add_argument("--json", default="")
    return parser.parse_args()


def main() -> int:
    asked = arguments()
    before = os.getloadavg()[0]
    turns: dict[tuple[str, str], list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="triton-loadgen-") as name:
        for number in range(asked.rounds):
            for scenario in asked.scenarios:
                for way in (ALONE, OVER) if number % 2 else (OVER, ALONE):
                    value, validity = measured(command(asked, way, scenario, Path(name)))
                    turns.setdefault((scenario, way), []).append(value)
                    print(f"{number + 1}: {scenario} {way}: {value:g}, {validity}", file=sys.stderr)
    table = rows(turns)
    print(f"{'':28}{'over Triton':>14}{'in process':>14}{'':9}{'limit':>8}")
    for row in table:
        print(f"{row.name:28}{row.ours:>14}{row.against:>14}{row.verdict}")
    print(f"load {before:.2f} before, {os.getloadavg()[0]:.2f} after")
    if asked.json:
        named = {" ".join(turn): figures for turn, figures in turns.items()}
        told: dict[str, Any] = {"turns": named, "rows": [asdict(row) for row in table]}
        Path(asked.json).write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    return 1 if asked.check and not all(row.good for row in table) else 0


if __name__ == "__main__":
    sys.exit(main())
