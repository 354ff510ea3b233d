"""Backends that ask a server for tokens, against one that answers rightly and wrongly."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mlperf.catalog import CatalogError, run_inputs
from mlperf.harness.backends import registry
from mlperf.harness.backends.generation import AnswerStream, TokenGenerator
from mlperf.harness.errors import HarnessError
from mlperf.harness.settings import GraphSpec

END = 2


def event(*tokens: int, **more: Any) -> bytes:
    return b"data: " + line(*tokens, **more) + b"\n\n"


def line(*tokens: int, **more: Any) -> bytes:
    answer = {"tokens": list(tokens), "stop": False, **more}
    return json.dumps(answer, separators=(",", ":")).encode()


def choice(*tokens: int, finish: str | None = None) -> bytes:
    """An event as vLLM sends it."""
    chosen = {"text": "a", "prompt_token_ids": None, "token_ids": list(tokens)}
    return sse({"choices": [{**chosen, "finish_reason": finish}]})


def counts(prompt: int, completion: int) -> bytes:
    """The event with the counts of a server."""
    usage = {"prompt_tokens": prompt, "completion_tokens": completion}
    return sse({"choices": [], "usage": usage})


def sse(document: object) -> bytes:
    return b"data: " + json.dumps(document).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"
GOOD = [choice(7), choice(8, 9), choice(END, finish="stop"), counts(2, 4), DONE]
FINISH = sse({"choices": [{"text": "", "finish_reason": "stop"}]})


class Handler(BaseHTTPRequestHandler):
    """Answers as the last token of the prompt says."""

    protocol_version = "HTTP/1.1"
    requests: list[dict[str, Any]]
    models: list[str]
    keys: set[str | None]

    def do_GET(self) -> None:
        self.keys.add(self.headers["Authorization"])
        body = json.dumps({"data": [{"id": name} for name in self.models]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.requests.append(request)
        self.keys.add(self.headers["Authorization"])
        parts, kind = self.answer(request)
        if isinstance(parts, int):
            text = f"Loading model for {self.headers['Authorization']}"
            body = json.dumps({"error": {"message": text}}).encode()
            self.send_response(parts)
            self.send_header("Retry-After", "7")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            return
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for part in parts:
            self.wfile.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
            self.wfile.flush()
        if request["prompt"][-1] == 28:
            time.sleep(1)
        if request["prompt"][-1] == 13:
            self.close_connection = True
            return
        self.wfile.write(b"0\r\n\r\n")

    def answer(self, request: dict[str, Any]) -> tuple[Any, str]:
        kinds: dict[int, Any] = {
            10: [event(7), event(8, 9), event(END), event(stop=True)],
            # One event in two reads, and what an engine may say after the end.
            11: [event(7)[:9], event(7)[9:] + event(8), event(END, 5), event(stop=True)],
            12: [event(END), event(stop=True)],
            13: [event(7), event(8)[:12]],
            14: 503,
            15: [event(7), event(8), event(stop=True, truncated=True)],
            16: [event(stop=True)],
            17: [event(7), event(8)],
        }
        if "model" in request:
            kinds = {
                10: GOOD,
                12: [choice(END, finish="stop"), DONE],
                14: 503,
                16: [sse({"choices": [{"text": "a"}]}), FINISH, DONE],
                17: [choice(7), choice(8, finish="stop")],
                18: [choice(7), choice(8), DONE],
                19: [choice(7), sse({"error": {"message": "out of memory"}}), DONE],
                20: [choice(7), choice(8), FINISH, FINISH, DONE],
                21: [choice(7), choice(8, finish="length"), counts(2, 2), DONE],
                22: [choice(7), choice(8), choice(END, finish="stop"), counts(1, 3), DONE],
                23: [choice(7), choice(8), FINISH, counts(2, 6), DONE],
                24: [choice(10**12), choice(8), FINISH, DONE],
                25: [choice(7), choice(8), FINISH, choice(9), DONE],
                26: [choice(7), choice(8), FINISH, b'data: {"choi'],
                27: 401,
                28: [choice(7), choice(8)],
                29: [choice(7), choice(901), FINISH, DONE],
                30: [
                    each.replace(b"data: ", b"data:").replace(b'ids":', b'ids" :') for each in GOOD
                ],
                31: [sse({"choices": [{"text": "sk-very-secret"}]}), FINISH, DONE],
                32: [b"\r\n".join(each.split(b"\n")) for each in GOOD],
                33: [bytes([each]) for each in b"".join(GOOD)],
            }
        parts = kinds[request["prompt"][-1]]
        if request["stream"] or isinstance(parts, int):
            return parts, "text/event-stream"
        if "model" in request:
            whole = {"text": "a", "token_ids": [7, 8, 9, END], "finish_reason": "stop"}
            document = {"choices": [whole], "usage": {"prompt_tokens": 2, "completion_tokens": 4}}
            return [json.dumps(document, indent=1).encode()], "application/json"
        return [line(7, 8, 9, END, stop=True)], "application/json"

    def log_message(self, *_: object) -> None:
        pass


class Params(SimpleNamespace):
    def __init__(self) -> None:
        super().__init__(model=SimpleNamespace(), cpuparams=SimpleNamespace())
        self.cpuparams_batch = SimpleNamespace()


@pytest.fixture
def served() -> Iterator[ThreadingHTTPServer]:
    handler = type("Answers", (Handler,), {"requests": [], "models": ["llama"], "keys": set()})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def made(served: ThreadingHTTPServer, monkeypatch: pytest.MonkeyPatch) -> list[Params]:
    """What servers were made with."""
    module: Any = ModuleType("xllamacpp")
    params: list[Params] = []
    server = served

    def opened(made_params: Params) -> SimpleNamespace:
        params.append(made_params)
        return SimpleNamespace(listening_address=f"http://127.0.0.1:{server.server_port}")

    module.CommonParams, module.Server = Params, opened
    module.ggml_type = SimpleNamespace(GGML_TYPE_F32=0)
    monkeypatch.setitem(sys.modules, "xllamacpp", module)
    return params


class Heard:
    """Listens to answers."""

    def __init__(self) -> None:
        self.events: list[tuple[str, tuple[int, ...]]] = []

    def begin(self, rows: Any) -> None:
        self.events.append(("begin", tuple(rows)))

    def end(self, rows: Any) -> None:
        self.events.append(("end", tuple(rows)))


def slot(tmp_path: Path, workers: int = 1, **options: Any) -> TokenGenerator:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF and more")
    facts = {"stop_token_ids": [END], "context": 300}
    graph = GraphSpec("main", str(path), "", (), (), options=facts)
    backend = registry.create("llamacpp", "cpu", "float32", options)
    generator = backend.open(graph, ("tokens",), workers, 3)[-1]
    assert isinstance(generator, TokenGenerator)
    return generator


def answered(generator: TokenGenerator, *kinds: int, timed: bool = True) -> tuple[Any, Heard]:
    """The answers to prompts of these kinds, and what was heard of them."""
    tokens, sizes = np.zeros((len(kinds), 6), np.int64), np.zeros(len(kinds), np.int64)
    heard = Heard()
    stream = AnswerStream(range(len(kinds)), tokens, sizes, heard, timed)
    generator.generate([np.asarray([1, kind]) for kind in kinds], stream)
    return [tokens[row, : size // 8].tolist() for row, size in enumerate(sizes)], heard


def test_tokens_come_by_their_numbers_and_end_with_the_end_token(
    made: list[Params], tmp_path: Path
) -> None:
    answers, heard = answered(slot(tmp_path), 10, 11)
    assert answers == [[7, 8, 9, END], [7, 8, END]]
    assert heard.events == [("begin", (0,)), ("end", (0,)), ("begin", (1,)), ("end", (1,))]


def test_where_the_first_token_is_not_timed_there_is_one_answer(
    made: list[Params], tmp_path: Path
) -> None:
    answers, heard = answered(slot(tmp_path), 10, timed=False)
    assert answers == [[7, 8, 9, END]]
    assert heard.events == [("begin", (0,)), ("end", (0,))]


def test_a_server_has_a_slot_for_each_worker_and_caches_no_prompt(
    made: list[Params], tmp_path: Path
) -> None:
    slot(tmp_path, 4, kv_cache="float32")
    (params,) = made
    assert (params.n_parallel, params.n_ctx) == (4, 4 * 512)
    assert params.cpuparams.n_threads == 3
    assert not params.cache_prompt
    assert params.hostnames == ["127.0.0.1"]
    assert params.cache_type_k == params.cache_type_v == 0


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (12, "was answered with 1 token, and 2 to 6 are needed"),
        (13, "closed the connection"),
        (14, "HTTP 503: Loading model"),
        (15, "cut a prompt that is too long"),
        (16, "answered without the numbers of tokens"),
        (17, "ended an answer before its last event"),
    ],
)
def test_what_a_server_does_wrong_is_an_error(
    kind: int, text: str, made: list[Params], tmp_path: Path
) -> None:
    with pytest.raises(HarnessError, match=text):
        answered(slot(tmp_path), kind)


def remote(server: ThreadingHTTPServer, **options: str) -> TokenGenerator:
    url = f"http://127.0.0.1:{server.server_port}"
    backend = registry.create("openai", "cpu", "float32", {"url": url, **options})
    graph = GraphSpec("main", "", "", (), (), options={"stop_token_ids": [END], "vocabulary": 900})
    generator = backend.open(graph, ("tokens",), 2, 1)[-1]
    assert isinstance(generator, TokenGenerator)
    return generator


def test_a_server_of_somebody_else_is_asked_by_numbers(served: ThreadingHTTPServer) -> None:
    answers, heard = answered(remote(served), 10)
    assert answers == [[7, 8, 9, END]]
    assert heard.events == [("begin", (0,)), ("end", (0,))]
    handler: Any = served.RequestHandlerClass
    (request,) = handler.requests
    assert (request["model"], request["prompt"]) == ("llama", [1, 10])
    assert request["return_token_ids"]
    assert answered(remote(served), 10, timed=False)[0] == answers


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (12, "was answered with 1 token, and 2 to 6 are needed"),
        (16, "answered without the numbers of tokens"),
        (17, "ended an answer before its last event"),
        (18, "the stream ends without a finish_reason"),
        (19, "out of memory"),
        (20, "was finished 2 times"),
        (21, "ended an answer after 2 of 6 tokens"),
        (22, "2 tokens were sent, and the server counts 1: it cuts prompts"),
        (23, "the numbers of 2 tokens came, and usage counts 6"),
        (24, "no numbers of tokens: b'1000000000000'"),
        (25, "tokens came after the answer was finished"),
        (26, "the stream ends within an event"),
        (27, r"HTTP 401: Loading model for Bearer \*\*\*$"),
        (14, r"HTTP 503: Loading model .*\(Retry-After: 7\)"),
        (29, "answered with token 901, the model of the benchmark knows 900: another model"),
        (31, r"without the numbers of tokens: .*\*\*\*"),
    ],
)
def test_what_a_server_of_somebody_else_does_wrong_is_an_error(
    kind: int, text: str, served: ThreadingHTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    with pytest.raises(HarnessError, match=text) as caught:
        answered(remote(served), kind)
    assert caught.value.hint or kind == 17
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("kind", [30, 32, 33], ids=["spaces", "CRLF", "byte by byte"])
def test_events_may_be_framed_as_their_format_allows(
    kind: int, served: ThreadingHTTPServer
) -> None:
    assert answered(remote(served), kind)[0] == [[7, 8, 9, END]]


def test_a_server_that_stalls_is_an_error_after_the_timeout(served: ThreadingHTTPServer) -> None:
    with pytest.raises(HarnessError, match=r"within 0\.2 s") as caught:
        answered(remote(served, timeout="0.2"), 28)
    assert caught.value.hint == "--backend_options=timeout=SECONDS"


def test_a_server_must_be_named_and_so_must_one_of_its_models(
    served: ThreadingHTTPServer,
) -> None:
    handler: Any = served.RequestHandlerClass
    handler.models = ["llama", "other"]
    with pytest.raises(HarnessError, match="serves 2 models: llama, other") as caught:
        remote(served)
    assert caught.value.hint == "--backend_options=model=NAME"
    assert isinstance(remote(served, model="other"), TokenGenerator)
    with pytest.raises(HarnessError, match="no server to send prompts to") as caught:
        registry.create("openai", "cpu", "float32")
    assert caught.value.hint == "--url=http://HOST:PORT/v1"


def test_a_key_comes_from_the_environment_or_a_file(
    served: ThreadingHTTPServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handler: Any = served.RequestHandlerClass
    monkeypatch.setenv("OPENAI_API_KEY", "one")
    monkeypatch.setenv("OTHER_KEY", "two")
    file = tmp_path / "key"
    file.write_text("three\n")
    for options, key in (
        ({}, "one"),
        ({"api_key_env": "OTHER_KEY"}, "two"),
        ({"api_key_file": str(file)}, "three"),
    ):
        handler.keys.clear()
        answered(remote(served, **options), 10)
        assert handler.keys == {f"Bearer {key}"}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"api_key_env": "NO_KEY"}, "the variable NO_KEY is not set"),
        ({"api_key_file": "/nowhere/key"}, "/nowhere/key cannot be read"),
    ],
)
def test_a_key_that_is_missing_is_said_before_a_request(
    options: dict[str, str], text: str, served: ThreadingHTTPServer
) -> None:
    with pytest.raises(HarnessError, match=text) as caught:
        remote(served, **options)
    assert "OPENAI_API_KEY" in caught.value.hint


def test_a_file_that_is_no_gguf_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"<html>")
    backend = registry.create("llamacpp", "cpu", "float32")
    with pytest.raises(HarnessError, match="no model in the format GGUF"):
        backend.open(GraphSpec("main", str(path), "", (), ()), ("tokens",), 1, 1)


def test_only_what_generates_tokens_runs_what_needs_them() -> None:
    env = {"CM_MLPERF_MODEL": "resnet50", "CM_MLPERF_BACKEND": "llamacpp"}
    with pytest.raises(CatalogError, match="generates tokens, and nothing else") as caught:
        run_inputs.backend(env)
    assert "--backend: neuron, onnxruntime" in caught.value.hint
