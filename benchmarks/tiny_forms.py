"""Every benchmark in its tiny form, in every scenario, on every backend: does it work, how exact.

    python benchmarks/tiny_forms.py [--models resnet50 rnnt] [--ways openvino onnxruntime:int8]
        [--seconds 2] [--python PYTHON]

A way is a backend, or a backend and a precision. A precision that a benchmark cannot be had in is
left out of the table.

Each cell is a run of the real command ``cm run script --tags=run-mlperf,inference,_tiny,...`` with
performance and accuracy mode. PYTHON is an environment to use in place of the one that the scripts
make. The table is Markdown; runs that fail say why below it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
META = ROOT / "script/run-mlperf-inference-app/meta.yaml"
WAYS = ("onnxruntime", "openvino", "pytorch", "openvino:bfloat16", "onnxruntime:int8")
TAGS = "--tags=run-mlperf,inference,_tiny,_all-scenarios,_all-modes"
SCENARIOS = ("SingleStream", "MultiStream", "Server", "Offline")


@dataclass(frozen=True, slots=True)
class Row:
    """One benchmark in one way: scenario to what it reached, or why there is nothing."""

    model: str
    way: str
    cells: dict[str, str]
    accuracy: str
    failure: str = ""


def models() -> list[str]:
    """All that run-mlperf,inference knows."""
    meta = yaml.safe_load(META.read_text(encoding="utf-8"))
    return list(meta["input_description"]["model"]["choices"])


def measure(model: str, way: str, seconds: float, python: str) -> Row | None:
    """Run one benchmark in all its scenarios; None where it cannot be had in that precision."""
    backend, _, precision = way.partition(":")
    with tempfile.TemporaryDirectory(prefix="tiny-forms-") as folder:
        words = ["cm", "run", "script", TAGS, f"--model={model}", f"--backend={backend}"]
        words += [f"--min_duration={round(1000 * seconds)}", "--device=cpu", "--division=open"]
        words += [f"--results_dir={folder}", "--quiet", "--out=json"]
        if precision:
            words.append(f"--precision={precision}")
        if python:
            words.append(f"--adr.python.path={python}")
        done = subprocess.run(words, capture_output=True, text=True, cwd=folder, check=False)
        answer: dict[str, Any] = json.loads(done.stdout or "{}")
        if answer.get("code") == "not-available":
            return None
        found = next(iter(Path(folder).rglob("results.json")), None)
        if found is None:
            return Row(model, way, {}, "", str(answer.get("error", done.stderr[-300:])))
        results = json.loads(found.read_text(encoding="utf-8"))
    cells = {each["scenario"]: cell(each) for each in results["results"]}
    failure = "" if answer.get("return") == 0 else str(answer.get("error", ""))
    return Row(model, way, cells, accuracy(results["results"]), failure)


def cell(result: dict[str, Any]) -> str:
    """The figure of a scenario and whether LoadGen calls it valid."""
    if result["value"] is None:
        return result["validity"] or "-"
    return f"{result['value']:.4g} {result['unit']}, {result['validity']}"


def accuracy(results: list[dict[str, Any]]) -> str:
    """The accuracies of all scenarios: one figure where they agree."""
    told = {
        f"{each['accuracy']:.2f} of {each['accuracy_target']:.2f} {each['accuracy_unit']}".rstrip()
        for each in results
        if each["accuracy"] is not None
    }
    return "; ".join(sorted(told)) or "-"


def line(row: Row) -> str:
    """One row of the table."""
    cells = " | ".join(row.cells.get(name, "") for name in SCENARIOS)
    return f"| {row.model} | {row.way} | {cells} | {row.accuracy or 'did not run'} |"


def main() -> int:
    """Measure everything that is asked for and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="*", default=models())
    parser.add_argument("--ways", nargs="*", default=list(WAYS))
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--python", default="")
    options = parser.parse_args()
    print("| benchmark | way | " + " | ".join(SCENARIOS) + " | accuracy and target |")
    print("| --- " * (3 + len(SCENARIOS)) + "|")
    rows = []
    for model, way in product(options.models, options.ways):
        print(f"{model}, {way} ...", file=sys.stderr, flush=True)
        row = measure(model, way, options.seconds, options.python)
        if row is not None:
            rows.append(row)
            print(line(row), flush=True)
    for row in rows:
        if row.failure:
            print(f"\n{row.model}, {row.way}: {row.failure}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
