"""Every benchmark in its tiny form, in every scenario, on every backend: does it work, how exact.

    python benchmarks/tiny_forms.py [--models resnet50 rnnt] [--ways openvino onnxruntime:int8]
        [--seconds 2] [--python PYTHON]

A way is a backend, or a backend and a precision. A precision that a benchmark cannot be had in is
left out of the table.

Each row is a call of the real command ``cm run script --tags=run-mlperf,inference,_tiny,...`` with
performance and accuracy mode; with ONNX Runtime in float32 find-performance comes before it, which
stores the targets, and the compliance tests after it, since those do not depend on the backend.
PYTHON is an environment to use in place of the one that the scripts make. The table is Markdown;
runs that fail say why below it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
META = ROOT / "script/run-mlperf-inference-app/meta.yaml"
WAYS = (
    "onnxruntime",
    "openvino",
    "pytorch",
    "openvino:bfloat16",
    "onnxruntime:int8",
    "openvino:int8",
)
TAGS = "--tags=run-mlperf,inference,_tiny,_all-scenarios"
CALLS = ("_find-performance", "_all-modes,_compliance")
CALLS_OF_FURTHER_WAYS = ("_all-modes",)
SCENARIOS = ("SingleStream", "MultiStream", "Server", "Offline")


@dataclass(frozen=True, slots=True)
class Row:
    """One benchmark in one way: scenario to what it reached, or why there is nothing."""

    model: str
    way: str
    cells: dict[str, str]
    found: str = "-"
    accuracy: str = "did not run"
    compliance: str = "-"
    failure: str = ""


def models() -> list[str]:
    """All that run-mlperf,inference knows."""
    meta = yaml.safe_load(META.read_text(encoding="utf-8"))
    return list(meta["input_description"]["model"]["choices"])


def measure(model: str, way: str, calls: Sequence[str], seconds: float, python: str) -> Row | None:
    """Run one benchmark in all its scenarios; None where it cannot be had in that precision."""
    with tempfile.TemporaryDirectory(prefix="tiny-forms-") as folder:
        failures = []
        for modes in calls:
            answer = call(folder, f"{TAGS},{modes}", model, way, seconds, python)
            if answer.get("code") == "not-available":
                return None
            failures += [answer["error"]] if answer["return"] else []
        failure = "; ".join(dict.fromkeys(failures))
        document = next(iter(Path(folder).rglob("results.json")), None)
        if document is None:
            return Row(model, way, {}, failure=failure)
        results = json.loads(document.read_text(encoding="utf-8"))["results"]
    cells = {each["scenario"]: cell(each) for each in results}
    return Row(model, way, cells, figures(results), accuracy(results), compliance(results), failure)


def call(
    folder: str, tags: str, model: str, way: str, seconds: float, python: str
) -> dict[str, Any]:
    """What ``cm`` answers: ``return``, and ``error`` where that is not 0."""
    backend, _, precision = way.partition(":")
    words = ["cm", "run", "script", tags, f"--model={model}", f"--backend={backend}"]
    words += [f"--min_duration={round(1000 * seconds)}", "--device=cpu", "--division=open"]
    words += [f"--results_dir={folder}", f"--sut_dir={folder}/sut", "--quiet", "--out=json"]
    if precision:
        words.append(f"--precision={precision}")
    if python:
        words.append(f"--adr.python.path={python}")
    done = subprocess.run(words, capture_output=True, text=True, cwd=folder, check=False)
    answer: dict[str, Any] = json.loads(done.stdout or "{}")
    return {"return": done.returncode, "error": done.stderr[-300:]} | answer


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


def figures(results: list[dict[str, Any]]) -> str:
    """In how many scenarios find-performance found and confirmed a target."""
    finds = [each["find"] for each in results if each["find"]]
    good = sum(one["confirmed"] and one["value"] is not None for one in finds)
    return f"{good} of {len(finds)}" if finds else "-"


def compliance(results: list[dict[str, Any]]) -> str:
    """Each test with how many of its runs passed."""
    tests = [test for each in results for test in each["compliance"]]
    told = []
    for name in dict.fromkeys(test["test"] for test in tests):
        passed = [test["passed"] for test in tests if test["test"] == name]
        told.append(f"{name} {sum(passed)} of {len(passed)}")
    return ", ".join(told) or "-"


def line(row: Row) -> str:
    """One row of the table."""
    cells = [row.cells.get(name, "") for name in SCENARIOS]
    return (
        f"| {' | '.join((row.model, row.way, *cells, row.found, row.accuracy, row.compliance))} |"
    )


def main() -> int:
    """Measure everything that is asked for and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="*", default=models())
    parser.add_argument("--ways", nargs="*", default=list(WAYS))
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--python", default="")
    options = parser.parse_args()
    heads = ("benchmark", "way", *SCENARIOS, "targets found", "accuracy and target", "compliance")
    print(f"| {' | '.join(heads)} |")
    print("| --- " * len(heads) + "|")
    rows = []
    for model, way in product(options.models, options.ways):
        print(f"{model}, {way} ...", file=sys.stderr, flush=True)
        calls = CALLS if way == WAYS[0] else CALLS_OF_FURTHER_WAYS
        row = measure(model, way, calls, options.seconds, options.python)
        if row is not None:
            rows.append(row)
            print(line(row), flush=True)
    for row in rows:
        if row.failure:
            print(f"\n{row.model}, {row.way}: {row.failure}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
