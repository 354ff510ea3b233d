"""Runs of the reference client ``inference_endpoint``, as it leaves them in its report folder.

A run is ``config.yaml`` with ``performance/result_summary.json`` and, if answers were judged,
``accuracy/accuracy_results.json``. A submission tree has the three side by side. Times in them are
nanoseconds.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.problems import Problem

CONFIG = "config.yaml"
SUMMARY = "result_summary.json"
ACCURACY = "accuracy_results.json"
REPORT = "report.txt"
MAX_THROUGHPUT = "max_throughput"
"""The client's word for sending all requests at once, which Offline does."""
DEEPEST = 4
"""Folders below the first one in which runs are looked for."""
SEEDS = {
    "scheduler_rng_seed": ("scheduler_rng_seed", "scheduler_random_seed"),
    "sample_index_rng_seed": ("sample_index_rng_seed", "dataloader_random_seed"),
    "model_seed": ("model_seed",),
}
"""Seeds by their names in the rules, and what clients call them in their configuration."""


@dataclass(frozen=True, slots=True)
class ClientRun:
    """One run of the client. ``accuracy`` has an entry for every data set that it judged."""

    folder: Path
    config: Mapping[str, Any]
    summary: Mapping[str, Any]
    accuracy: tuple[Mapping[str, Any], ...] = ()
    accuracy_file: Path | None = None
    summary_file: Path | None = None

    @property
    def load_pattern(self) -> str:
        """Return the client's word for how requests were sent."""
        return str(_at(self.config, "settings", "load_pattern", "type") or "")

    @property
    def is_offline(self) -> bool:
        """Return whether all requests were sent at once."""
        return self.load_pattern == MAX_THROUGHPUT

    @property
    def concurrency(self) -> int:
        """Return the requests in flight; for an Offline run, the requests that were sent."""
        if self.is_offline:
            return int(self.summary.get("n_samples_issued") or 0)
        return int(_at(self.config, "settings", "load_pattern", "target_concurrency") or 0)

    @property
    def model(self) -> str:
        """Return the name under which the endpoint serves the model."""
        return str(_at(self.config, "model_params", "name") or "")

    @property
    def seconds(self) -> float:
        """Return how long it was measured."""
        return float(self.summary.get("duration_ns") or 0) / 1e9

    @property
    def least_milliseconds(self) -> int:
        """Return how long it had to last at least."""
        return int(_at(self.config, "settings", "runtime", "min_duration_ms") or 0)

    @property
    def is_complete(self) -> bool:
        """Return whether the client came to the end of it."""
        return bool(self.summary.get("complete", self.summary.get("state") == "complete"))

    @property
    def samples(self) -> tuple[int, int, int]:
        """Return how many requests were issued, completed and failed."""
        names = ("n_samples_issued", "n_samples_completed", "n_samples_failed")
        issued, completed, failed = (int(self.summary.get(name) or 0) for name in names)
        return issued, completed, failed

    @property
    def answer_seconds(self) -> float:
        """Return how long an answer took, on average."""
        return float(_at(self.summary, "latency", "avg") or 0) / 1e9

    @property
    def tokens_per_s(self) -> float | None:
        """Return ``system_tps``, output tokens over the duration (4.1)."""
        total = _at(self.summary, "output_sequence_lengths", "total")
        return float(total) / self.seconds if total and self.seconds > 0 else None

    def milliseconds(self, metric: str, percentile: float) -> float | None:
        """Return a percentile of ``ttft``, ``tpot`` or ``latency``."""
        value = percentile_of(_at(self.summary, metric, "percentiles"), percentile)
        return None if value is None else value / 1e6

    def early_milliseconds(self, metric: str, percentile: float) -> float | None:
        """Return the estimate of a percentile by the rules of early stopping."""
        values = _at(self.summary, metric, "early_stopping_percentiles")
        value = percentile_of(values, percentile)
        return None if value is None else value / 1e6

    def figure(self, name: str) -> float | None:
        """Return a figure that the client states itself, such as ``qps``."""
        return as_number(self.summary.get(name))

    @property
    def tokens_per_s_per_user(self) -> float | None:
        """Return ``tps_per_user``, out of the time per token that 90 % stay below (4.1)."""
        slow = self.milliseconds("tpot", 90)
        return 1000 / slow if slow and slow > 0 else None

    def seed(self, name: str) -> int | None:
        """Return a seed by its name in the rules."""
        runtime = _at(self.config, "settings", "runtime") or {}
        values = [runtime.get(spelling) for spelling in SEEDS[name]]
        if name == "model_seed":
            values.append(_at(self.config, "model_params", "seed"))
        return next((int(value) for value in values if value is not None), None)

    @property
    def has_accuracy_run(self) -> bool:
        """Return whether it has an accuracy run, and not only the score of its own answers."""
        return any(entry.get("dataset_type") != "performance" for entry in self.accuracy)


def percentile_of(values: object, percentile: float) -> float | None:
    """Return a percentile of a mapping whose keys are numbers in any spelling (90, 90.0)."""
    if not isinstance(values, Mapping):
        return None
    pairs = ((as_number(key), as_number(value)) for key, value in values.items())
    return next((value for key, value in pairs if key == percentile), None)


def as_number(value: object) -> float | None:
    """Return a figure of the client's files, which are texts in some; None for none."""
    try:
        return float(str(value))
    except ValueError:
        return None


def find_runs(root: Path) -> Iterator[Path]:
    """Yield the folders of runs in ``root``, which may be one itself, in a fixed order."""
    start = len(root.parts)
    for folder, below, names in os.walk(root):
        below[:] = sorted(name for name in below if not name.startswith("."))
        if len(Path(folder).parts) - start >= DEEPEST:
            below.clear()
        if CONFIG in names and summary_of(Path(folder)) is not None:
            below.clear()
            yield Path(folder)


def summary_of(folder: Path) -> Path | None:
    """Return the file with the figures of a run, or None."""
    return _either(folder, "performance", SUMMARY)


def _either(folder: Path, below: str, name: str) -> Path | None:
    return next((path for path in (folder / name, folder / below / name) if path.is_file()), None)


def read_run(folder: Path) -> ClientRun:
    """Return the run in a folder; raise Problem where a file of it cannot be read."""
    summary_file, accuracy_file = summary_of(folder), _either(folder, "accuracy", ACCURACY)
    if summary_file is None:
        hint = "name the report_dir of a run of inference-endpoint"
        raise Problem("no-results", f"{folder} has no {SUMMARY}", hint=hint)
    return ClientRun(
        folder,
        _mapping(folder / CONFIG),
        _mapping(summary_file),
        entries_of(accuracy_file) if accuracy_file else (),
        accuracy_file,
        summary_file,
    )


def read_config(folder: Path) -> ClientRun:
    """Return a run as its configuration alone has it; raise Problem where that cannot be read."""
    return ClientRun(folder, _mapping(folder / CONFIG), {})


def read_runs(root: Path) -> tuple[ClientRun, ...]:
    """Return all runs in ``root``; raise Problem where one cannot be read."""
    return tuple(read_run(folder) for folder in find_runs(root))


def entries_of(path: Path) -> tuple[Mapping[str, Any], ...]:
    """Return the client's scores of the data sets; raise Problem for another file."""
    document: object = _document(path)
    if isinstance(document, Mapping) and "accuracy_scores" in document:
        document = document["accuracy_scores"]
    if isinstance(document, Mapping):
        document = [
            {"dataset_name": name, **entry}
            for name, entry in document.items()
            if isinstance(entry, Mapping)
        ]
    if isinstance(document, Sequence) and all(isinstance(entry, Mapping) for entry in document):
        return tuple(document)
    raise _unreadable(path, "it is not a list of scores")


def scores_of(entry: Mapping[str, Any]) -> dict[str, float]:
    """Return the figures of an entry by their names; one without a name is ``score``."""
    score = entry.get("score")
    pairs = score.items() if isinstance(score, Mapping) else [("score", score)]
    scores = {str(name): as_number(value) for name, value in pairs}
    return {name: value for name, value in scores.items() if value is not None}


def _mapping(path: Path) -> Mapping[str, Any]:
    document = _document(path)
    if not isinstance(document, Mapping):
        raise _unreadable(path, "it is no mapping")
    return document


def _document(path: Path) -> Any:
    import yaml

    try:
        text = path.read_text(encoding="utf-8")
        return yaml.safe_load(text) if path.suffix == ".yaml" else json.loads(text)
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise _unreadable(path, " ".join(str(error).split())[:200]) from error


def _unreadable(path: Path, why: str) -> Problem:
    hint = "take the file as the client wrote it, or run that point again"
    return Problem("no-results", f"{path}: {why}", hint=hint)


def _at(document: Mapping[str, Any], *names: str) -> Any:
    value: Any = document
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value
