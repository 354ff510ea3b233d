"""Reading mlperf_log_detail.txt: LoadGen's own account of a run."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Any

from mlperf.catalog import ResultKey, Scenario
from mlperf.catalog.scenario import NS_PER_MS

PREFIX = ":::MLLOG "
GREATEST = 1e300
# Lines that the value of a record may have.
LONGEST_VALUE = 20
STOPPING_KEYS = (
    "early_stopping_result",
    "early_stopping_ttft_result",
    "early_stopping_tpot_result",
)
TTFT, TPOT = "TTFT", "TPOT"
TOKEN_PERCENTILE = re.compile(
    r"result_(?P<kind>first_token|time_per_output_token)_(?P<share>[\d.]+)_percentile(_latency)?_ns"
)
# How logs of other programs begin, and what they are.
OTHER_LOGS = (
    ('"pid":', "a log of LoadGen 0.5, of before MLPerf's round 0.7, whose lines are no records"),
    (":::ENDPTS", "a log of MLCommons' endpoints harness, and not of LoadGen"),
)


@dataclass(frozen=True, slots=True)
class DetailLog:
    """Key to its last value, and the text of every error and warning line."""

    values: Mapping[str, Any]
    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = field(default=())

    def number(self, key: str) -> float | None:
        """A numeric value in the unit that its key names, or None when the log does not hold it."""
        value = self.values.get(key)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        # An integer of hundreds of digits is no figure of LoadGen's.
        return float(value) if abs(value) < GREATEST or isinstance(value, float) else None

    def milliseconds(self, key: str) -> float | None:
        """Return a value that LoadGen logs in nanoseconds, in milliseconds."""
        value = self.number(key)
        return None if value is None else value / NS_PER_MS

    @property
    def validity(self) -> str:
        """``VALID``, ``INVALID``, or empty when the run did not come to an end."""
        return str(self.values.get("result_validity", ""))

    @property
    def early_stopping(self) -> str:
        """What LoadGen says of early stopping; empty where it says nothing.

        With token latencies there are two messages, for the first token and for those after it,
        under keys of their own: results.cc of LoadGen.
        """
        messages = [str(self.values.get(key) or "") for key in STOPPING_KEYS]
        failed = [text for text in messages if "unsuccessful" in text or "Would need" in text]
        plain = (" ".join(text.replace("*", " ").split()) for text in failed or messages)
        return "; ".join(filter(None, plain))

    @property
    def invalid_reason(self) -> str:
        """Why LoadGen calls the run INVALID, in its own words; empty where it does not say."""
        return " ".join(str(self.values.get("result_invalid_reason") or "").split())

    @property
    def cut_short(self) -> bool:
        """Return whether the user's greatest number of queries ended the run before its time."""
        return any("Max query count reached" in error for error in self.errors)

    def result(self, scenario: str) -> float | None:
        """Return the figure that counts in this scenario, in its unit."""
        return self.figure(Scenario(scenario).result)

    def figure(self, result: ResultKey) -> float | None:
        """Return a result in its unit, or None when the log does not hold it."""
        value = self.number(result.key) or self.number(result.otherwise)
        return None if value is None else value / result.divisor

    @property
    def times_tokens(self) -> bool:
        """Return whether LoadGen was to time tokens."""
        return self.values.get("requested_use_token_latencies") is True

    def token_latencies(self) -> dict[str, dict[str, float]]:
        """Return percentiles in ms of TTFT and TPOT, where LoadGen has logged them."""
        by_name: dict[str, dict[str, float]] = {}
        for key in self.values:
            match = TOKEN_PERCENTILE.fullmatch(key)
            value = self.milliseconds(key) if match else None
            if match and value is not None:
                name = TTFT if match["kind"] == "first_token" else TPOT
                by_name.setdefault(name, {})[match["share"]] = value
        return by_name

    def latencies(self) -> dict[str, float]:
        """The distribution of latencies in ms: min, mean, max and every logged percentile."""
        by_percentile = {}
        for key in self.values:
            name = key.removeprefix("result_").removesuffix("_latency_ns")
            if key.startswith("result_first_token"):
                continue
            if key.startswith("result_") and key.endswith("_latency_ns"):
                value = self.milliseconds(key)
                if value is not None:
                    by_percentile[name.replace("_percentile", "")] = value
        return by_percentile


def parse(text: str) -> DetailLog:
    """Parse the log; lines that are no complete record (a cut log) are left out."""
    values: dict[str, Any] = {}
    errors, warnings = [], []
    lines = text.splitlines()
    for at, line in enumerate(lines):
        entry = record(line) or broken_record(lines, at)
        if entry is None:
            continue
        key, value, metadata = entry
        values[key] = value
        if metadata.get("is_error"):
            errors.append(f"{key}: {value}")
        elif metadata.get("is_warning"):
            warnings.append(f"{key}: {value}")
    return DetailLog(values, tuple(errors), tuple(warnings))


def broken_record(lines: Sequence[str], at: int) -> tuple[str, Any, Mapping[str, Any]] | None:
    """Return the record that begins in line ``at``, and whose value has line breaks; or None.

    LoadGen of round 4.1 and before writes those of ``result_invalid_reason`` as they are.
    """
    if not lines[at].startswith(PREFIX):
        return None
    rest = lines[at + 1 : at + 1 + LONGEST_VALUE]
    following = list(takewhile(lambda line: not line.startswith(PREFIX), rest))
    return record("\n".join([lines[at], *following]), strict=False) if following else None


def record(line: str, strict: bool = True) -> tuple[str, Any, Mapping[str, Any]] | None:
    """Key, value and metadata of a line of the log, or None for one that is no whole record.

    ``strict`` is what the checkers are: a value has no line break then.
    """
    if not line.startswith(PREFIX):
        return None
    try:
        entry = json.loads(line[len(PREFIX) :], strict=strict)
        return str(entry["key"]), entry["value"], entry.get("metadata") or {}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def other_log(path: Path) -> str:
    """Return what a log is that another program has written, by its first line; empty otherwise."""
    try:
        with path.open("rb") as file:
            head = file.read(256).decode("utf-8", "replace").lstrip("\ufeff \t\r\n")
    except OSError:
        return ""
    return next((what for start, what in OTHER_LOGS if head.startswith(start)), "")


def read(path: Path) -> DetailLog:
    """Parse a log file; a missing one is an empty log, which is never VALID."""
    try:
        return parse(path.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return DetailLog({})
