"""Our client of streamed answers beside others: one server that answers at once, turn by turn.

    python benchmarks/endpoint_client.py [--rounds 5] [--seconds 5] [--streams 32] [--tokens 32]
        [--json FILE] [--venv FOLDER] [--aiperf] [--endpoints PROGRAM]

(a) ``bench,endpoint``, (b) twenty lines of aiohttp, as a user would write them, (c) aiperf, which
installs 1.1 GB, (d) MLCommons' client of MLPerf Endpoints, where ``inference-endpoint`` is
installed. All of them read streams with a role, the tokens in one write, the count and the end.
The server is a process of its own, on two cores beside the client: so the CPU time of the client
per request and per event with a token is given too, with that of its start and of its figures. It
hardly changes with the load of the machine, which requests per second do.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from library_env import library_env

PROMPT_WORDS = 128
LENGTH = re.compile(rb"content-length:\s*(\d+)", re.IGNORECASE)
AIOHTTP = """
import asyncio, json, sys, time
import aiohttp

async def one(session, url, body, stop, counts):
    while time.perf_counter() < stop:
        begin = time.perf_counter()
        first = None
        async with session.post(url, json=body) as response:
            async for line in response.content:
                if not line.startswith(b"data: ") or line.startswith(b"data: [DONE]"):
                    continue
                event = json.loads(line[6:])
                choices = event["choices"]
                if choices and choices[0]["delta"].get("content"):
                    first = first or time.perf_counter() - begin
                    counts[1] += 1
        counts[0] += 1

async def main(url, seconds, streams, words, tokens):
    body = {"model": "null", "max_tokens": tokens, "stream": True,
            "messages": [{"role": "user", "content": " ".join(["word"] * words)}]}
    connector = aiohttp.TCPConnector(limit=streams)
    async with aiohttp.ClientSession(connector=connector) as session:
        counts, begin = [0, 0], time.perf_counter()
        stop = begin + seconds
        await asyncio.gather(*(one(session, url, body, stop, counts) for _ in range(streams)))
        print(json.dumps([counts[0] / (time.perf_counter() - begin), counts[0]]))

url, seconds, streams, words, tokens = sys.argv[1:]
asyncio.run(main(url, float(seconds), int(streams), int(words), int(tokens)))
"""


@dataclass(frozen=True, slots=True)
class ClientTurn:
    """One turn of a client: requests in a second, and its CPU time for one of them in us."""

    client: str
    rate: float
    cpu_us: float

    def event_us(self, tokens: int) -> float:
        """Return its CPU time for an event with a token, one of ``tokens`` in an answer, in us."""
        return self.cpu_us / tokens


@dataclass(frozen=True, slots=True)
class TurnSettings:
    """What a turn sends: seconds, streams at a time, tokens in an answer."""

    seconds: float
    streams: int
    tokens: int


class NullServer(asyncio.Protocol):
    """Answers every request with the same stream, in one write."""

    stream = b""
    models = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin with nothing read."""
        assert isinstance(transport, asyncio.Transport)
        self._transport, self._data = transport, b""

    def data_received(self, data: bytes) -> None:
        """Answer whole requests."""
        self._data += data
        while (end := self._data.find(b"\r\n\r\n")) >= 0:
            length = LENGTH.search(self._data, 0, end)
            size = end + 4 + (int(length[1]) if length else 0)
            if len(self._data) < size:
                return
            is_list = self._data.startswith(b"GET")
            self._data = self._data[size:]
            self._transport.write(self.models if is_list else self.stream)


def streamed(tokens: int) -> bytes:
    """Return the bytes of a whole answer, chunked as servers send it."""

    def event(document: Any) -> bytes:
        text = document if isinstance(document, str) else json.dumps(document)
        data = f"data: {text}\n\n".encode()
        return f"{len(data):x}\r\n".encode() + data + b"\r\n"

    def delta(content: dict[str, str], reason: str | None = None) -> Any:
        choice = {"index": 0, "delta": content, "logprobs": None, "finish_reason": reason}
        return {"id": "chatcmpl-0", "object": "chat.completion.chunk", "created": 1,
                "model": "null", "choices": [choice]}  # fmt: skip

    usage = {"prompt_tokens": PROMPT_WORDS, "completion_tokens": tokens}
    events = [
        delta({"role": "assistant", "content": ""}),
        *(delta({"content": "word "}) for _ in range(tokens)),
        delta({}, "length"),
        {"id": "chatcmpl-0", "choices": [], "usage": usage},
        "[DONE]",
    ]
    head = (
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    )
    return head + b"".join(map(event, events)) + b"0\r\n\r\n"


def serve(tokens: int, ready: Any) -> None:
    """Serve until killed; the port goes into ``ready``."""
    NullServer.stream = streamed(tokens)
    listed = b'{"object": "list", "data": [{"id": "null"}]}'
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(listed)}"
    NullServer.models = head.encode() + b"\r\n\r\n" + listed

    async def run() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(NullServer, "127.0.0.1", 0, backlog=1024)
        ready.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


@contextlib.contextmanager
def null_server(tokens: int) -> Iterator[str]:
    """Yield the URL of a server in another process."""
    here, there = multiprocessing.Pipe()
    process = multiprocessing.Process(target=serve, args=(tokens, there), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{here.recv()}/v1"
    finally:
        process.kill()
        process.join()


def run_client(command: Sequence[str], env: dict[str, str] | None = None) -> tuple[str, float]:
    """Return what a client printed, and the seconds of CPU of it and its children."""

    def used() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    before = used()
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command[:4])} failed:\n{(done.stderr or done.stdout)[-2000:]}")
    return done.stdout, used() - before


def ours(url: str, turn: TurnSettings, folder: Path) -> ClientTurn:
    """Measure ``bench,endpoint``'s program."""
    file = folder / "ours.json"
    words = [
        *(f"--url={url}", f"--concurrency={turn.streams}", f"--duration={turn.seconds:g}"),
        *(f"--input_tokens={PROMPT_WORDS}", f"--output_tokens={turn.tokens}"),
        *("--checks=no", f"--json={file}"),
    ]
    _, cpu = run_client([sys.executable, "-m", "serving.endpoint", *words], dict(library_env()))
    (point,) = json.loads(file.read_text())["points"]
    return ClientTurn("bench,endpoint", point["requests_per_s"], 1e6 * cpu / point["requests"])


def plain_aiohttp(url: str, turn: TurnSettings, python: str) -> ClientTurn:
    """Measure a plain loop of aiohttp."""
    words = [f"{url}/chat/completions", turn.seconds, turn.streams, PROMPT_WORDS, turn.tokens]
    out, cpu = run_client([python, "-c", AIOHTTP, *map(str, words)])
    rate, count = json.loads(out)
    return ClientTurn("aiohttp, 20 lines", rate, 1e6 * cpu / count)


def aiperf(url: str, turn: TurnSettings, program: str, folder: Path) -> ClientTurn:
    """Measure aiperf; its CPU time holds its start."""
    count = max(100, int(turn.seconds * 300))
    command = [
        *(program, "profile", "--model", "null", "--url", url.removesuffix("/v1")),
        *("--endpoint-type", "chat", "--streaming", "--tokenizer", "builtin"),
        *("--concurrency", str(turn.streams), "--request-count", str(count)),
        *("--synthetic-input-tokens-mean", str(PROMPT_WORDS), "--output-tokens-mean"),
        *(str(turn.tokens), "--artifact-dir", str(folder / "aiperf"), "--ui", "none"),
    ]
    _, cpu = run_client(command)
    summary = next((folder / "aiperf").rglob("*aiperf.json"))
    rate = json.loads(summary.read_text())["request_throughput"]["avg"]
    return ClientTurn("aiperf", rate, 1e6 * cpu / count)


def mlcommons(url: str, turn: TurnSettings, program: str, folder: Path) -> ClientTurn:
    """Measure MLCommons' client, with as many streams; its CPU time holds its start.

    It gets one process to send with: by default it starts ten, which share two cores.
    """
    prompts = folder / "prompts.jsonl"
    line = json.dumps({"prompt": " ".join(["word"] * PROMPT_WORDS)})
    prompts.write_text(f"{line}\n" * 1000)
    count = max(1000, int(turn.seconds * 4000))
    report = folder / "mlcommons"
    command = [
        *(program, "benchmark", "online", "--endpoints", url.removesuffix("/v1")),
        *("--model", "null", "--dataset", str(prompts), "--load-pattern", "concurrency"),
        *("--concurrency", str(turn.streams), "--num-samples", str(count), "--workers", "1"),
        *("--max-output-tokens", str(turn.tokens), "--report-dir", str(report)),
    ]
    _, cpu = run_client(command)
    summary = json.loads(next(report.rglob("result_summary.json")).read_text())
    return ClientTurn("inference-endpoint", summary["qps"], 1e6 * cpu / summary["n_samples_issued"])


def environment(folder: Path, packages: Sequence[str]) -> Path:
    """Return the ``bin`` of an environment with ``packages``, made where it is missing."""
    if not (folder / "bin" / "python").exists():
        venv.create(folder, with_pip=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", *packages]
    subprocess.run(pip, check=True)
    return folder / "bin"


def clients(options: argparse.Namespace, folder: Path) -> list[Callable[[str, TurnSettings], Any]]:
    """Return what is measured in a round."""
    packages = ["aiohttp"] + ["aiperf"] * options.aiperf
    programs = environment(Path(options.venv or folder / "venv"), packages)
    made: list[Callable[[str, TurnSettings], Any]] = [
        lambda url, turn: ours(url, turn, folder),
        lambda url, turn: plain_aiohttp(url, turn, str(programs / "python")),
    ]
    if options.aiperf:
        made.append(lambda url, turn: aiperf(url, turn, str(programs / "aiperf"), folder))
    if options.endpoints:
        made.append(lambda url, turn: mlcommons(url, turn, options.endpoints, folder))
    return made


def main() -> None:
    """Measure all clients turn by turn, and print medians beside ours."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--streams", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--json")
    parser.add_argument("--venv", help="a folder for the clients' packages, kept")
    parser.add_argument("--aiperf", action="store_true")
    parser.add_argument("--endpoints", help="the program inference-endpoint")
    options = parser.parse_args()
    turn = TurnSettings(options.seconds, options.streams, options.tokens)
    turns: list[ClientTurn] = []
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores before")
    with tempfile.TemporaryDirectory() as name, null_server(turn.tokens) as url:
        measured = clients(options, Path(name))
        for _ in range(options.rounds):
            for client in measured:
                turns.append(client(url, turn))
                last = turns[-1]
                print(
                    f"{last.client}: {last.rate:.0f} requests/s, {last.cpu_us:.0f} us", flush=True
                )
    summary = []
    for name in dict.fromkeys(each.client for each in turns):
        own = [each for each in turns if each.client == name]
        rate = statistics.median(each.rate for each in own)
        summary.append(ClientTurn(name, rate, statistics.median(each.cpu_us for each in own)))
    print(f"\n{'client':20} requests/s   CPU us/request   us/token event   beside ours")
    for line in summary:
        event_us, share = line.event_us(turn.tokens), line.rate / summary[0].rate
        print(
            f"{line.client:20} {line.rate:10.0f} {line.cpu_us:16.0f} {event_us:16.2f} {share:13.2f}"
        )
    if options.json:
        Path(options.json).write_text(json.dumps([asdict(each) for each in turns], indent=1))


if __name__ == "__main__":
    main()
