"""The command line of the endpoint benchmark."""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from common.problems import bad_value
from serving.bench.option_table import (
    BenchOption,
    OptionValues,
    as_number,
    contradiction,
    http_header,
    parse,
)

from . import keys
from .connection import EndpointAddress, parse_address

PROGRAM = "endpoint-bench"
DESCRIPTION = (
    "How fast does an OpenAI-compatible URL answer? First its figures are proved, then measured "
    "with requests in flight, or at a rate, over streams."
)
FILES = ("json", "csv", "html", "png")
MOST_CONNECTIONS = 4096
UNITS = {"us": 1e3, "ms": 1e6, "s": 1e9}
LIMITS = ("ttft", "tpot", "itl", "e2e")
BODY_EXAMPLE = "for example: --body='{\"ignore_eos\": true}'"

OPTIONS = (
    BenchOption("url", "text", "The API: http://HOST:PORT/v1"),
    BenchOption("model", "name", "The model; by default the only one that the server lists"),
    BenchOption(
        "api", "text", "Which route is used", "chat", choices=("chat", "completions")
    ),
    BenchOption(
        "dataset", "text", "random, or a file with a JSON object a line: prompt, messages or turns",
        "random",
    ),
    BenchOption("input_tokens", "range", "Words of random prompts: N, or LEAST:MOST", "256"),
    BenchOption("output_tokens", "range", "Most tokens of an answer: N, or LEAST:MOST", "128"),
    BenchOption("prompts", "count", "How many random prompts are made", "1000"),
    BenchOption(
        "concurrency", "range",
        "Requests in flight: N, a list N,M, FIRST:LAST in doublings, or FIRST:LAST:STEP", "1:32",
    ),
    BenchOption(
        "rate", "range",
        "Requests per second, whatever the server does, as --concurrency; or trace, for the "
        "timestamps of the file",
    ),
    BenchOption(
        "distribution", "text", "How they arrive", "poisson",
        choices=("poisson", "constant", "burst"),
    ),
    BenchOption("burst_size", "count", "How many arrive at once, with --distribution=burst", "8"),
    BenchOption("connections", "count", "The most requests in flight with --rate", "512"),
    BenchOption("duration", "seconds", "How long a load is measured", "30"),
    BenchOption("count", "count", "Stop a load after so many requests"),
    BenchOption("until_stable", "number",
                "Stop when three windows differ by at most so many percent"),
    BenchOption("window", "seconds", "How long a window of --until_stable is", "10"),
    BenchOption("warmup", "count", "Requests of each connection before measuring", "1"),
    BenchOption("slo", "text", "Limits that count as good: ttft:500ms,tpot:30ms,itl:1s,e2e:10s"),
    BenchOption(
        "search", "text", "Find the greatest load at which --slo is kept",
        choices=("", "concurrency", "rate"),
    ),
    BenchOption("percentile", "number", "The share of requests that must keep --slo", "99"),
    BenchOption("seed", "count", "Of prompts and arrivals; a new one by default"),
    BenchOption(
        "salt", "text", "Begin every prompt with new digits, so that no cache has it", "yes",
        choices=("yes", "no"),
    ),
    BenchOption(
        "checks", "text", "Prove the figures before measuring", "yes", choices=("yes", "no")
    ),
    BenchOption(
        "body", "json", 'More of each request\'s body: {"ignore_eos": true}; null leaves one out',
    ),
    BenchOption("api_key_env", "name", f"Variable that holds the key ({keys.KEY} if it is set)"),
    BenchOption("header", "text", "NAME:VALUE, sent with every request", repeats=True),
    BenchOption("tls_ca", "text", "A file of certificates to trust in place of the system's"),
    BenchOption("timeout", "seconds", "The longest that an answer may take", "600"),
    BenchOption(
        "beside", "file", "Results to show beside these: of --json, AIPerf, vllm bench and others",
        repeats=True,
    ),
    BenchOption("json", "file", "Write the results there"),
    BenchOption("csv", "file", "Write a line for each load there"),
    BenchOption("html", "file", "Write a page with the curve there; needs Jinja2"),
    BenchOption("png", "file", "Write the curve there as a picture; needs Pillow"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class EndpointSettings:
    """Where requests go and what they carry; ``timeout`` is in seconds."""

    address: EndpointAddress
    model: str
    chat: bool
    body: Mapping[str, Any]
    headers: tuple[tuple[str, str], ...]
    tls_ca: str
    timeout: float
    checks: bool
    files: Mapping[str, str]
    beside: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PromptSettings:
    """Which prompts are sent; bounds of lengths are in words and tokens."""

    dataset: str
    inputs: tuple[int, int]
    outputs: tuple[int, int]
    count: int
    seed: int
    salted: bool


@dataclass(frozen=True, slots=True)
class LoadSettings:
    """How much is sent: ``loads`` in requests in flight, or 1/s; times in seconds.

    With ``trace`` the prompts have their own times.
    """

    loads: tuple[float, ...]
    open_loop: bool
    trace: bool
    distribution: str
    burst: int
    connections: int
    seconds: float
    count: int
    stable_percent: float
    window: float
    warmup: int
    search: str
    percentile: float


@dataclass(frozen=True, slots=True)
class EndpointCall:
    """A command line, read; ``slo`` has limits in ns by name."""

    endpoint: EndpointSettings
    prompts: PromptSettings
    load: LoadSettings
    slo: Mapping[str, float]


def read(arguments: Sequence[str]) -> tuple[EndpointCall, list[str]]:
    """Return the settings, and notes on how flags were read; raise Problem."""
    values, notes = parse(OPTIONS, arguments, PROGRAM, DESCRIPTION)
    return settings(values), notes


def settings(arguments: Mapping[str, Any]) -> EndpointCall:
    """Return the values of the options; raise Problem where one makes no sense."""
    values = {name: value for name, value in arguments.items() if value not in (None, "")}
    pairs = [("rate", "concurrency"), ("count", "until_stable"), ("search", "until_stable")]
    pairs += [("search", "rate"), ("search", "concurrency"), ("search", "count")]
    contradiction(values, pairs)
    read = OptionValues(OPTIONS, values)
    if not read.text("url"):
        raise bad_value("no endpoint is named", hint="--url=http://HOST:PORT/v1")
    call = EndpointCall(_endpoint(read, values), _prompts(read), _load(read), _slo(read))
    if call.load.search and not call.slo:
        raise bad_value("--search looks for a load that keeps --slo", hint="--slo=ttft:500ms")
    if call.load.trace and call.prompts.dataset == "random":
        raise bad_value("--rate=trace needs timestamps", hint="--dataset=FILE with a timestamp")
    for name, other in (("burst_size", "burst"), ("distribution", ""), ("connections", "")):
        missing = other and call.load.distribution != other
        if name in values and not call.load.trace and (missing or not call.load.open_loop):
            needed = f"--distribution={other}" if missing else "--rate"
            raise bad_value(f"--{name} says nothing without {needed}")
    return call


def _endpoint(read: OptionValues, values: Mapping[str, Any]) -> EndpointSettings:
    headers = [http_header(text) for text in read.several("header")]
    headers += keys.authorization(read.text("api_key_env"))
    for name, value in headers:
        if not (name.isascii() and value.isascii() and name.isprintable() and value.isprintable()):
            raise bad_value(f"the header {name} has characters that HTTP does not allow")
    return EndpointSettings(
        address=parse_address(read.text("url")),
        model=read.text("model"),
        chat=read.text("api") == "chat",
        body=_body(read.text("body")),
        headers=tuple(headers),
        tls_ca=read.text("tls_ca"),
        timeout=read.seconds("timeout"),
        checks=read.text("checks") == "yes",
        files={name: values[name] for name in FILES if name in values},
        beside=tuple(read.several("beside")),
    )


def _body(text: str) -> Mapping[str, Any]:
    try:
        body = json.loads(text) if text else {}
    except ValueError as error:
        raise bad_value(f"--body is not JSON: {error}", hint=BODY_EXAMPLE) from error
    if not isinstance(body, dict):
        raise bad_value("--body is not a JSON object", hint=BODY_EXAMPLE)
    if fixed := {"stream", "model", "messages", "prompt", "n"} & set(body):
        raise bad_value(f"--body sets {', '.join(sorted(fixed))}", hint="leave that out")
    return body


def _prompts(read: OptionValues) -> PromptSettings:
    seed = read.text("seed")
    return PromptSettings(
        dataset=read.text("dataset"),
        inputs=_bounds(read, "input_tokens"),
        outputs=_bounds(read, "output_tokens"),
        count=read.integer("prompts"),
        # The same prompts as yesterday are in the server's cache since yesterday.
        seed=read.integer("seed", 0) if seed else random.SystemRandom().randrange(1 << 31),
        salted=read.text("salt") == "yes",
    )


def _bounds(read: OptionValues, name: str) -> tuple[int, int]:
    least, _, most = read.text(name).partition(":")
    bounds = [int(as_number(f"--{name}", part, 1, whole=True)) for part in (least, most or least)]
    if bounds[1] < bounds[0]:
        raise bad_value(f"--{name}={read.text(name)} is not LEAST:MOST")
    return bounds[0], bounds[1]


def _load(read: OptionValues) -> LoadSettings:
    rate = read.text("rate")
    name = "rate" if rate else "concurrency"
    trace = rate == "trace"
    loads = (0.0,) if trace else tuple(load_steps(read.text(name), name, whole=not rate))
    if max(loads) > MOST_CONNECTIONS and not rate:
        raise bad_value(f"--concurrency is above {MOST_CONNECTIONS}")
    return LoadSettings(
        loads=loads,
        open_loop=bool(rate),
        trace=trace,
        distribution=read.text("distribution"),
        burst=read.integer("burst_size"),
        connections=min(read.integer("connections"), MOST_CONNECTIONS),
        seconds=read.seconds("duration"),
        count=read.integer("count"),
        stable_percent=read.positive("until_stable"),
        window=read.seconds("window"),
        warmup=read.integer("warmup", 0),
        search=read.text("search"),
        percentile=read.number("percentile", 100),
    )


def load_steps(text: str, name: str, *, whole: bool) -> list[float]:
    """``4``, ``1,2,8``, ``1:64`` (1, 2, 4 … 64) or ``10:50:10``; raises Problem."""
    parts = text.split(":" if ":" in text else ",")
    least = 1 if whole else 1e-3
    numbers = [as_number(f"--{name}", part, least, 1e6, whole=whole) for part in parts]
    if ":" not in text:
        return numbers
    if len(numbers) not in (2, 3) or numbers[1] < numbers[0]:
        raise bad_value(f"--{name}={text} is not FIRST:LAST or FIRST:LAST:STEP, ascending")
    first, last = numbers[:2]
    if len(numbers) == 2:
        doublings = math.ceil(math.log2(last / first) - 1e-9)
        return [*(first * 2**power for power in range(doublings)), last]
    count = int((last - first) / numbers[2] + 1e-9) + 1
    if count > 1000:
        raise bad_value(f"--{name}={text} has more than 1,000 steps")
    return [first + step * numbers[2] for step in range(count)]


def _slo(read: OptionValues) -> Mapping[str, float]:
    limits = {}
    for part in filter(None, read.text("slo").split(",")):
        match = re.fullmatch(r"(\w+):([\d.]+)(us|ms|s)?", part.strip())
        if not match or match[1] not in LIMITS:
            names = ", ".join(LIMITS)
            raise bad_value(f"--slo={part} is not NAME:TIME", hint=f"NAME is one of {names}")
        limits[match[1]] = as_number("--slo", match[2], 0) * UNITS[match[3] or "ms"]
    return limits
