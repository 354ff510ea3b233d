"""The command line: guide 003's flags, and further ones of perf_analyzer.

One table says everything of an option; the script's ``meta.yaml`` names the same ones.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from common.problems import Problem

from . import perf_analyzer
from .option_table import (
    ENDLESS,
    BenchOption,
    OptionValues,
    as_number,
    contradiction,
    http_header,
    parse,
)

PROGRAM = "triton-http-client.py"
DESCRIPTION = (
    "Ask a model of Triton, or of another server with KServe's protocol: is it there and right, "
    "and with --benchmark, how fast is it?"
)

DEFAULT_URLS = {"http": "localhost:8000", "grpc": "localhost:8001"}
FILES = ("json", "csv", "markdown", "html")
MEASURING = ("rate", "concurrency", "duration", "count", "until_stable", "search_p99_ms", *FILES)
PERCENTILES = (50.0, 75.0, 90.0, 95.0, 99.0, 99.9)
# More than any client sends; a schedule of more could not even be counted.
MOST_RATE = 1e6
# What says nothing without one of the others.
NEEDS = {
    "distribution": ("rate", "search_p99_ms"),
    "connections": ("rate", "search_p99_ms"),
    "burst_size": ("distribution",),
    "window": ("until_stable",),
    "tolerance": ("golden",),
}


OPTIONS = (
    BenchOption("model_name", "name", "The model to ask", short="m"),
    BenchOption("model_version", "name", "Its version; the server's choice without one"),
    BenchOption("batch_size", "count", "Samples in a request", "1", short="b"),
    BenchOption("benchmark", "yes",
                "Measure; without it one request is sent and checked", short="k"),
    BenchOption("limit", "seconds", "How long to measure", "60", short="l"),
    BenchOption("num_threads", "count", "Threads, each with one request in flight", "1", short="t"),
    BenchOption("url", "text", "Where the server is: HOST:PORT, or a URL with its scheme"),
    BenchOption("protocol", "text", "How to talk to it", "http", choices=("http", "grpc")),
    BenchOption("shared_memory", "text", "Where tensors lie", "none", choices=("none", "system")),
    BenchOption("input", "text",
                "random, zero, or a file: .npy, .npz, .json, or raw bytes", "random"),
    BenchOption("shape", "text", "INPUT:D1,D2 where the model leaves lengths open", repeats=True),
    BenchOption("seed", "count", "Of random inputs and random arrivals", "0"),
    BenchOption("golden", "text", "A file (.npz, .npy, .json) of the outputs that are right"),
    BenchOption("tolerance", "number", "How far an output may be from it, also relatively", "1e-5"),
    BenchOption("concurrency", "range",
                "Requests in flight: N, a list N,M, or a range FIRST:LAST:STEP"),
    BenchOption("rate", "range", "Requests per second, whatever the server does: as --concurrency"),
    BenchOption(
        "distribution", "text", "How they arrive", "constant",
        choices=("constant", "poisson", "burst"),
    ),
    BenchOption("burst_size", "count", "How many arrive at once, with --distribution=burst", "8"),
    BenchOption("connections", "count", "The most requests in flight with --rate", "32"),
    BenchOption("duration", "seconds", "The same as --limit"),
    BenchOption("count", "count", "Stop after so many requests"),
    BenchOption("until_stable", "number",
                "Stop when three windows differ by at most so many percent"),
    BenchOption("window", "seconds", "How long a window of --until_stable is", "5"),
    BenchOption("warmup", "text", "Before measuring: N requests, or Ns for seconds", "1"),
    BenchOption("percentile", "number", "Which percentile of the latency is looked at first", "99"),
    BenchOption("search_p99_ms", "number", "Find the highest rate whose p99 is below so many ms"),
    BenchOption("timeout", "seconds", "The longest that a request may take", "60"),
    BenchOption("header", "text", "NAME:VALUE, sent with every request", repeats=True),
    BenchOption("tls_ca", "text", "A file of certificates to trust in place of the system's"),
    BenchOption(
        "compression", "text", "Of requests and answers", "none",
        choices=("none", "gzip", "deflate"),
    ),
    BenchOption("json", "file", "Write the results there"),
    BenchOption("csv", "file", "Write a line for each measurement there"),
    BenchOption("markdown", "file", "Write a page there"),
    BenchOption("html", "file", "Write a page with charts there; needs Jinja2"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class BenchSettings:
    """Settings of a session; times in seconds, ``loads`` in requests in flight or 1/s."""

    model: str
    version: str
    batch: int
    benchmark: bool
    seconds: float
    url: str
    protocol: str
    shared_memory: str
    source: str
    shapes: dict[str, tuple[int, ...]]
    seed: int
    golden: str
    tolerance: float
    loads: tuple[float, ...]
    open_loop: bool
    distribution: str
    burst: int
    connections: int
    count: int
    stable_percent: float
    window: float
    warmup_requests: int
    warmup_seconds: float
    percentile: float
    search_ms: float
    timeout: float
    headers: tuple[tuple[str, str], ...]
    tls_ca: str
    compression: str
    files: dict[str, str]


def read(arguments: Sequence[str]) -> tuple[BenchSettings, list[str]]:
    """Return the settings, and notes on how flags were read; raise Problem."""
    values, notes = parse(OPTIONS, arguments, PROGRAM, DESCRIPTION, _in_place_of)
    return settings(values), notes


def _in_place_of(name: str) -> str:
    """Return the hint for an option of perf_analyzer; empty for another word."""
    if perf_analyzer.is_not_here(name):
        return "streams and sequences of requests are not measured here"
    if ours := perf_analyzer.ours(name):
        option = next(each for each in OPTIONS if each.name == ours)
        return f"what perf_analyzer calls so is --{ours} here: {option.desc}"
    return ""


def settings(arguments: dict[str, Any]) -> BenchSettings:
    """Return the values of the options; raise Problem where one makes no sense."""
    values = {name: value for name, value in arguments.items() if value not in (None, "")}
    _contradictions(values)
    read = OptionValues(OPTIONS, values)
    if not values.get("model_name"):
        raise Problem("bad-value", "no model is named", hint="-m NAME")
    by_rate = "rate" in values
    loads = "rate" if by_rate else "concurrency" if "concurrency" in values else "num_threads"
    warm_requests, warm_seconds = _warmup(read.text("warmup"))
    return BenchSettings(
        model=read.text("model_name"),
        version=read.text("model_version"),
        batch=read.integer("batch_size"),
        benchmark=_measures(values),
        seconds=_longest(values, read.seconds),
        url=read.text("url") or DEFAULT_URLS[read.text("protocol")],
        protocol=read.text("protocol"),
        shared_memory=read.text("shared_memory"),
        source=read.text("input"),
        shapes=dict(_shape(text) for text in read.several("shape")),
        seed=read.integer("seed", 0),
        golden=read.text("golden"),
        tolerance=read.number("tolerance"),
        loads=tuple(load_points(read.text(loads), loads, whole=not by_rate)),
        open_loop=by_rate,
        distribution=read.text("distribution"),
        burst=read.integer("burst_size"),
        connections=read.integer("connections"),
        count=read.integer("count"),
        stable_percent=read.positive("until_stable"),
        window=read.seconds("window"),
        warmup_requests=warm_requests,
        warmup_seconds=warm_seconds,
        percentile=read.number("percentile", 100),
        search_ms=read.positive("search_p99_ms"),
        timeout=read.seconds("timeout"),
        headers=tuple(http_header(text) for text in read.several("header")),
        tls_ca=read.text("tls_ca"),
        compression=read.text("compression"),
        files={name: values[name] for name in FILES if name in values},
    )


def _contradictions(values: dict[str, Any]) -> None:
    pairs = (
        ("rate", "concurrency"),
        ("rate", "num_threads"),
        ("concurrency", "num_threads"),
        ("duration", "limit"),
        ("count", "until_stable"),
        ("search_p99_ms", "rate"),
        ("search_p99_ms", "count"),
        ("search_p99_ms", "until_stable"),
    )
    contradiction(values, pairs)
    _idle(values)


def _idle(values: dict[str, Any]) -> None:
    """Raise Problem for an option that says nothing without another one."""
    for name, others in NEEDS.items():
        if name in values and not set(others) & set(values):
            wanted = " or ".join(f"--{other}" for other in others)
            raise Problem(
                "bad-value", f"--{name} says nothing without {wanted}", hint=f"leave out --{name}"
            )
    if "burst_size" in values and values["distribution"] != "burst":
        raise Problem(
            "bad-value", "--burst_size is of --distribution=burst", hint="leave out --burst_size"
        )


def _longest(values: dict[str, Any], seconds: Callable[[str], float]) -> float:
    """Return where something else ends a measurement, time does so only when it was given."""
    if ("count" in values or "until_stable" in values) and not {"limit", "duration"} & set(values):
        return ENDLESS
    return seconds("duration" if "duration" in values else "limit")


def _measures(values: dict[str, Any]) -> bool:
    """Options that make sense only where something is measured ask for it."""
    return bool(values.get("benchmark")) or any(name in values for name in MEASURING)


def load_points(text: str, name: str, *, whole: bool) -> list[float]:
    """``4``, ``1,2,8``, ``1:16`` or ``100:1000:100``; raises Problem."""
    parts = text.split(":" if ":" in text else ",")
    least, most = (1, math.inf) if whole else (1e-3, MOST_RATE)
    bounds = [as_number(f"--{name}", part, least, most, whole=whole) for part in parts]
    if ":" not in text:
        return bounds
    if len(parts) > 3:
        raise Problem("bad-value", f"--{name}={text} is not FIRST:LAST:STEP")
    first, last, step = (bounds + [1.0])[:3]
    if last < first or (last - first) / step > 1000:
        raise Problem(
            "bad-value", f"--{name}={text} is not an ascending range of at most 1,000 steps"
        )
    count = int((last - first) / step + 1e-9) + 1
    return [first + place * step for place in range(count)]


def _warmup(text: str) -> tuple[int, float]:
    if text.endswith("s"):
        return 0, as_number("--warmup", text[:-1], 0)
    return int(as_number("--warmup", text, 0, whole=True)), 0.0


def _shape(text: str) -> tuple[str, tuple[int, ...]]:
    name, colon, sizes = text.rpartition(":")
    if not colon or not name or not re.fullmatch(r"\d+(,\d+)*", sizes):
        raise Problem("bad-value", f"--shape={text} is not INPUT:D1,D2")
    return name, tuple(int(size) for size in sizes.split(","))
