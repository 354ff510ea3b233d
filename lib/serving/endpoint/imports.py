"""Results of other load generators, on the scales of ours: one point for a load.

Known are ``bench,endpoint`` itself, ``vllm bench serve``, AIPerf, GuideLLM and llama-bench, by
files that they write as JSON. Latencies are in ms. What a program does not report is left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

OURS, VLLM, AIPERF, GUIDELLM, LLAMA_BENCH = (
    *("bench,endpoint", "vllm bench serve", "AIPerf"),
    *("GuideLLM", "llama-bench"),
)
METRICS = ("ttft", "tpot", "itl", "e2e")
PERCENTILES = (50, 90, 95, 99)
LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, slots=True)
class LoadTestMachine:
    """The machine of a server, as far as it is known."""

    name: str = ""
    cpu: str = ""
    cores: int = 0


@dataclass(frozen=True, slots=True)
class LoadTestPoint:
    """One load of one program; ``latencies`` have names such as ``ttft_p50``.

    ``settings`` are those that repeated runs have alike.
    """

    program: str
    model: str
    concurrency: float | None = None
    rate: float | None = None
    requests: int = 0
    failed: int = 0
    seconds: float | None = None
    requests_per_s: float | None = None
    output_tokens_per_s: float | None = None
    joules_per_token: float | None = None
    latencies: Mapping[str, float] = field(default_factory=dict)
    at: str = ""
    notes: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    machine: LoadTestMachine = LoadTestMachine()

    @property
    def tokens_per_s_per_user(self) -> float | None:
        """Return the speed that one user sees: 1/TPOT at the median."""
        middle = self.latencies.get("tpot_p50")
        return 1000 / middle if middle else None

    @property
    def load(self) -> str:
        """Return the load in words."""
        if self.rate is not None:
            return f"{self.rate:g} requests/s"
        return f"{self.concurrency:g} in flight" if self.concurrency else "one after the other"


def program_of(document: object) -> str:
    """Return which program has written a document; empty for none of these."""
    if isinstance(document, Sequence) and not isinstance(document, str) and document:
        first = document[0]
        return LLAMA_BENCH if _has(first, "n_gen", "avg_ts", "model_filename") else ""
    if _has(document, "format", "points") and str(_at(document, "format")).startswith("cmbench-e"):
        return OURS
    if _has(document, "output_throughput", "request_throughput", "mean_ttft_ms"):
        return VLLM
    if isinstance(_at(document, "request_throughput"), Mapping):
        return AIPERF
    benchmarks = _at(document, "benchmarks")
    first = benchmarks[0] if isinstance(benchmarks, list) and benchmarks else None
    return GUIDELLM if _has(_at(first, "metrics"), "requests_per_second") else ""


def points_of(document: Any) -> Iterator[LoadTestPoint]:
    """Yield the points of a document; raise ``ValueError`` for one of no known program."""
    readers: Mapping[str, Callable[[Any], Iterator[LoadTestPoint]]] = {
        OURS: _ours,
        VLLM: _vllm,
        AIPERF: _aiperf,
        GUIDELLM: _guidellm,
        LLAMA_BENCH: _llama_bench,
    }
    program = program_of(document)
    if not program:
        raise ValueError("no load generator that is known has written it")
    yield from readers[program](document)


def _ours(document: Mapping[str, Any]) -> Iterator[LoadTestPoint]:
    settings, machine = _settings(document), _machine(document)
    arrivals = {"distribution": _word(document, "load", "distribution")}
    for point in document["points"]:
        size = number(_at(point, "load", "size"))
        is_open = bool(_at(point, "load", "open_loop"))
        latencies = {
            f"{metric}_p{at}": number(_at(point, "latencies", metric, f"p{at}"))
            for metric in METRICS
            for at in PERCENTILES
        }
        yield LoadTestPoint(
            OURS,
            str(document.get("model") or ""),
            concurrency=None if is_open else size,
            rate=size if is_open else None,
            requests=int(point.get("requests") or 0),
            failed=sum((point.get("failures") or {}).values()),
            seconds=number(_at(point, "tokens", "seconds")),
            requests_per_s=number(point.get("requests_per_s")),
            output_tokens_per_s=number(point.get("output_tokens_per_s")),
            joules_per_token=number(point.get("joules_per_token")),
            latencies=_known(latencies),
            at=str(point.get("begun_at") or document.get("at") or ""),
            notes="; ".join(map(str, document.get("notes") or ())),
            settings=settings | (arrivals if is_open else {}),
            machine=machine,
        )


def _settings(document: Mapping[str, Any]) -> dict[str, str]:
    """Return what was set, without what is a new one in every run: seed, port of an own server."""
    own = _at(document, "server") or {}
    names = {
        "api": _word(document, "endpoint", "api"),
        "url": "" if own else _word(document, "endpoint", "url"),
        "dataset": _word(document, "prompts", "dataset"),
        "output_tokens": _between(_at(document, "prompts", "outputs")),
        "salted": _word(document, "prompts", "salted"),
        "prefix_cache": _word(document, "checks", "cache", "cached"),
        "duration_s": _word(document, "load", "seconds"),
        "slo_ms": ",".join(f"{k}:{v:g}" for k, v in (document.get("slo_ms") or {}).items()),
        "body": _as_text(_at(document, "endpoint", "body")),
    }
    if names["dataset"] == "random":
        names["input_tokens"] = _between(_at(document, "prompts", "inputs"))
    names |= {f"server_{name}": str(value) for name, value in own.items()}
    return {name: value for name, value in names.items() if value}


def _machine(document: Mapping[str, Any]) -> LoadTestMachine:
    """Return the machine of the server; its processor is known where it is that of the client."""
    host = urlsplit(_word(document, "endpoint", "url")).hostname or ""
    if host not in LOOPBACK:
        return LoadTestMachine(host)
    cores = _at(document, "host", "cores")
    return LoadTestMachine(
        _word(document, "host", "name"),
        _word(document, "host", "cpu"),
        cores if isinstance(cores, int) else 0,
    )


def _word(document: Mapping[str, Any], *names: str) -> str:
    """Return a value as a user writes it: yes, 30, text; empty where there is none."""
    value = _at(document, *names)
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, int | float) else str(value)


def _between(bounds: object) -> str:
    numbers = [str(bound) for bound in bounds] if isinstance(bounds, list) else []
    return ":".join(dict.fromkeys(numbers))


def _as_text(value: object) -> str:
    return json.dumps(value, sort_keys=True) if value else ""


def _vllm(document: Mapping[str, Any]) -> Iterator[LoadTestPoint]:
    latencies = {
        f"{metric}_p{at}": number(document.get(f"p{at}_{name}_ms"))
        for metric, name in (("ttft", "ttft"), ("tpot", "tpot"), ("itl", "itl"), ("e2e", "e2el"))
        for at in PERCENTILES
    }
    for metric, name in (("ttft", "ttft"), ("tpot", "tpot"), ("itl", "itl"), ("e2e", "e2el")):
        latencies[f"{metric}_p50"] = number(document.get(f"median_{name}_ms"))
    yield LoadTestPoint(
        VLLM,
        str(document.get("model_id") or ""),
        concurrency=number(document.get("max_concurrency")),
        rate=number(document.get("request_rate")),
        requests=int(document.get("completed") or 0),
        failed=int(document.get("failed") or 0),
        seconds=number(document.get("duration")),
        requests_per_s=number(document.get("request_throughput")),
        output_tokens_per_s=number(document.get("output_throughput")),
        latencies=_known(latencies),
        at=str(document.get("date") or ""),
        notes="it sends its prompts again in every call: an open prefix cache answers some",
    )


def _aiperf(document: Mapping[str, Any]) -> Iterator[LoadTestPoint]:
    names = (("ttft", "time_to_first_token"), ("itl", "inter_token_latency"),
             ("e2e", "request_latency"))  # fmt: skip
    latencies = {
        f"{metric}_p{at}": number(_at(document, name, f"p{at}"))
        for metric, name in names
        for at in PERCENTILES
    }
    # Its gap between tokens is the mean of a request, which others call time per output token.
    latencies |= {f"tpot_p{at}": latencies.pop(f"itl_p{at}") for at in PERCENTILES}
    # As 0.13 writes it; before, the settings were those of its command line.
    settings = document.get("input_config")
    load = _find(settings, "concurrency"), _find(settings, "request_rate")
    names_of_models = _find(settings, "model_names")
    items = _at(settings, "models", "items")
    model = _first_text(names_of_models) or str(_at(items[0] if items else None, "name") or "")
    yield LoadTestPoint(
        AIPERF,
        model,
        concurrency=number(load[0]),
        rate=number(load[1]),
        requests=int(number(_at(document, "request_count", "avg")) or 0),
        failed=int(number(_at(document, "error_request_count", "avg")) or 0),
        seconds=number(_at(document, "benchmark_duration", "avg")),
        requests_per_s=number(_at(document, "request_throughput", "avg")),
        output_tokens_per_s=number(_at(document, "output_token_throughput", "avg")),
        latencies=_known(latencies),
        at=str(document.get("start_time") or ""),
    )


def _guidellm(document: Mapping[str, Any]) -> Iterator[LoadTestPoint]:
    names = {
        "ttft": ("time_to_first_token_ms", 1.0),
        "tpot": ("time_per_output_token_ms", 1.0),
        "itl": ("inter_token_latency_ms", 1.0),
        "e2e": ("request_latency", 1000.0),
    }
    for benchmark in document["benchmarks"]:
        metrics = benchmark["metrics"]
        latencies = {}
        for metric, (name, factor) in names.items():
            for at in PERCENTILES:
                value = number(_at(metrics, name, "successful", "percentiles", f"p{at}"))
                latencies[f"{metric}_p{at}"] = None if value is None else factor * value
        strategy = _at(benchmark, "config", "strategy")
        yield LoadTestPoint(
            GUIDELLM,
            _first_text(_find(document, "model")),
            concurrency=number(_at(strategy, "streams")),
            rate=number(_at(strategy, "rate")),
            requests=int(number(_at(metrics, "request_totals", "successful")) or 0),
            failed=int(number(_at(metrics, "request_totals", "errored")) or 0),
            seconds=number(benchmark.get("duration")),
            requests_per_s=number(_at(metrics, "requests_per_second", "successful", "mean")),
            output_tokens_per_s=number(
                _at(metrics, "output_tokens_per_second", "successful", "mean")
            ),
            latencies=_known(latencies),
            at=str(benchmark.get("start_time") or ""),
        )


def _llama_bench(document: Sequence[Mapping[str, Any]]) -> Iterator[LoadTestPoint]:
    for entry in document:
        generated = int(entry.get("n_gen") or 0)
        speed = number(entry.get("avg_ts"))
        if not generated or not speed:
            continue
        settings = {
            name: str(entry[name])
            for name in ("n_prompt", "n_gen", "n_threads", "n_gpu_layers", "model_type")
            if entry.get(name) is not None
        }
        yield LoadTestPoint(
            LLAMA_BENCH,
            str(entry.get("model_filename") or ""),
            concurrency=1.0,
            output_tokens_per_s=speed,
            latencies={"tpot_p50": 1000 / speed},
            at=str(entry.get("test_time") or ""),
            notes="decoding alone, without a server, prompts or sampling",
            settings=settings,
        )


def number(value: object) -> float | None:
    """Return a finite number out of foreign data, None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        parsed = float(value)
    except ValueError:
        return None
    return parsed if abs(parsed) != float("inf") and parsed == parsed else None


def _known(values: Mapping[str, float | None]) -> dict[str, float]:
    return {name: value for name, value in values.items() if value is not None}


def _has(document: object, *names: str) -> bool:
    return isinstance(document, Mapping) and all(name in document for name in names)


def _at(document: object, *names: str) -> Any:
    value: Any = document
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _find(document: object, name: str, depth: int = 6) -> Any:
    """Return the first value of a name, however deep it lies; None where there is none."""
    if depth == 0 or not isinstance(document, Mapping | list):
        return None
    if isinstance(document, Mapping) and document.get(name) is not None:
        return document[name]
    values = document.values() if isinstance(document, Mapping) else document
    deeper = (_find(value, name, depth - 1) for value in values)
    return next((value for value in deeper if value is not None), None)


def _first_text(value: object) -> str:
    return str(value[0]) if isinstance(value, list) and value else str(value or "")
