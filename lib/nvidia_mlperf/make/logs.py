"""Logs in NVIDIA's layout, and the lines that are printed of them."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mlperf.catalog.scenario import MULTI_STREAM, OFFLINE, SERVER, SINGLE_STREAM
from nvidia_mlperf.make.work import PlannedRun

LOGS = (
    "mlperf_log_summary.txt",
    "mlperf_log_detail.txt",
    "mlperf_log_accuracy.json",
    "mlperf_log_trace.json",
    "accuracy.txt",
    "user.conf",
)
PERFORMANCE, ACCURACY = "perf_harness_summary.json", "accuracy_summary.json"
COMPLETED = SERVER.result.key
METRICS = {
    OFFLINE: "Samples per second",
    SERVER: "Scheduled samples per second",
    SINGLE_STREAM: "90th percentile latency (ns)",
    MULTI_STREAM: "99th percentile latency (ns)",
}
"""What LoadGen's summary calls the figure of a scenario."""
_KEYS = {
    OFFLINE: (OFFLINE.result.key,),
    SERVER: ("result_scheduled_samples_per_sec", COMPLETED),
    SINGLE_STREAM: (SINGLE_STREAM.result.otherwise,),
    MULTI_STREAM: (MULTI_STREAM.result.otherwise,),
}


@dataclass(slots=True)
class Book:
    """The folder of one call, and both summaries as they grow; each is whole after every run."""

    folder: Path
    system_name: str
    performance: dict[str, dict[str, str]] = field(default_factory=dict)
    accuracy: dict[str, dict[str, str]] = field(default_factory=dict)

    def add(self, item: PlannedRun, scenario_folder: Path, result: Mapping[str, Any]) -> list[str]:
        """Take over the logs of a run, and say what came of it in lines for stdout."""
        lines = []
        for part, source in runs(scenario_folder, result):
            copy(source, self.place(item, part))
            book = self.performance if part == "performance" else self.accuracy
            line = performance(item, source, result) if part == "performance" else accuracy(result)
            key = f"{self.system_name}-{item.config.ver}-{item.config.scenario}"
            book.setdefault(key, {})[item.config.benchmark] = line
            lines.append(f"{key}: {item.config.benchmark}: {line}")
        self.write()
        return lines

    def place(self, item: PlannedRun, part: str) -> Path:
        """Return the folder of a run's logs; accuracy has one of its own."""
        target = "-99.9" if item.ours.endswith("-99.9") else "-99" if "-99" in item.ours else ""
        ver = item.config.ver if "triton" in item.config.ver else ""
        system = f"{self.system_name}_Triton" if ver else self.system_name
        below = self.folder / system / f"{item.config.benchmark}{target}" / item.config.scenario
        return below if part == "performance" else below / "accuracy"

    def write(self) -> None:
        """Write both summaries."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for name, content in ((PERFORMANCE, self.performance), (ACCURACY, self.accuracy)):
            draft = self.folder / f".{name}.{os.getpid()}.new"
            draft.write_text(json.dumps(content, indent=4) + "\n", encoding="utf-8")
            draft.replace(self.folder / name)


def runs(folder: Path, result: Mapping[str, Any]) -> Iterator[tuple[str, Path]]:
    """Yield the parts that were measured, and where their logs lie."""
    if result.get("performance_run"):
        yield "performance", folder / "performance" / "run_1"
    if result.get("accuracy_run"):
        yield "accuracy", folder / "accuracy"


def copy(source: Path, target: Path) -> None:
    """Copy what LoadGen and the accuracy script have written."""
    target.mkdir(parents=True, exist_ok=True)
    for name in LOGS:
        if (source / name).is_file():
            shutil.copy2(source / name, target / name)


def performance(item: PlannedRun, source: Path, result: Mapping[str, Any]) -> str:
    """Return the figure of a performance run, in the words of NVIDIA's summary."""
    scenario = item.config.scenario
    entries = detail(source / "mlperf_log_detail.txt")
    figures = [entries[key] for key in _KEYS[scenario] if key in entries]
    figure = figures[0] if figures else result.get("value")
    text = f"{METRICS[scenario]}: {figure} and Result is : {result.get('validity')}"
    if COMPLETED in entries:
        text += f" (completed samples per second: {entries[COMPLETED]})"
    return text


def accuracy(result: Mapping[str, Any]) -> str:
    """What came of an accuracy run, against its target."""
    verdict = "PASSED" if result.get("accuracy_reached") else "FAILED"
    unit = result.get("accuracy_unit") or ""
    value, target = result.get("accuracy"), result.get("accuracy_target")
    if target is None:
        return f"Accuracy = {value} {unit}. There is no threshold."
    return f"Accuracy = {value} {unit}, Threshold = {target} {unit}. Accuracy test {verdict}."


def detail(log: Path) -> dict[str, Any]:
    """Return the keys and values of LoadGen's detail log; empty without one."""
    entries: dict[str, Any] = {}
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    for line in lines:
        if line.startswith(":::MLLOG "):
            try:
                entry = json.loads(line.removeprefix(":::MLLOG "))
            except ValueError:
                continue
            entries[entry.get("key", "")] = entry.get("value")
    return entries
