"""Whole sessions against a server on loopback: figures, checks, and every bad answer."""

from __future__ import annotations

import csv
import itertools
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from endpoint_lab import (
    EndpointLab,
    EndpointRequest,
    Piece,
    answer,
    as_sse,
    endpoint,
    finish,
    role,
    token,
    usage,
)
from serving.endpoint import checks
from serving.endpoint.comparison import read_compared
from serving.endpoint.session import main
from support import Home

QUICK = ("--count=6", "--concurrency=2", "--warmup=0", "--input_tokens=8", "--output_tokens=8")


def session(
    lab: EndpointLab, *words: str, folder: Path, status: int = 0, checked: bool = False
) -> dict[str, Any]:
    """The JSON of a session with ``words``."""
    file = folder / "result.json"
    file.unlink(missing_ok=True)
    more = () if checked else ("--checks=no",)
    assert main([f"--url={lab.url}", f"--json={file}", *more, *words]) == status
    document: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    return document


def test_tokens_and_latencies_of_every_request(tmp_path: Path) -> None:
    with endpoint(answer(5)) as lab:
        (point,) = session(lab, *QUICK, folder=tmp_path)["points"]
    assert (point["requests"], point["failures"]) == (6, {})
    assert (point["tokens"]["output"], point["tokens"]["input"]) == (30, 42)
    assert point["latencies"]["ttft"]["count"] == 6
    # A busy host reads an answer at once: it has no time per token.
    timed = (point["latencies"]["tpot"] or {"count": 0})["count"]
    assert timed + point["tokens"]["at_once"] == 6
    assert point["latencies"]["itl"]["count"] == 24
    ttft, e2e = point["latencies"]["ttft"], point["latencies"]["e2e"]
    assert ttft["max"] <= e2e["max"]


def test_no_prompt_is_sent_twice(tmp_path: Path) -> None:
    with endpoint() as lab:
        session(lab, *QUICK, "--prompts=2", folder=tmp_path)
        texts = [request.text for request in lab.requests]
        assert len(texts) == len(set(texts)) == 6
        session(lab, *QUICK, "--prompts=2", "--salt=no", folder=tmp_path)
        assert len({request.text for request in lab.requests[6:]}) == 2


def test_requests_are_those_of_the_api(tmp_path: Path) -> None:
    with endpoint() as lab:
        more = ('--body={"ignore_eos": true}', "--header=X-Team: blue")
        session(lab, *QUICK, *more, folder=tmp_path)
        session(lab, *QUICK, "--api=completions", folder=tmp_path)
    chat, text = lab.requests[0], lab.requests[-1]
    assert chat.route == "/v1/chat/completions"
    assert chat.headers["x-team"] == "blue"
    assert chat.body["model"] == "tiny"
    assert chat.body["max_tokens"] == 8
    assert chat.body["ignore_eos"] is True
    assert chat.body["stream"] is True
    assert chat.body["stream_options"] == {"include_usage": True}
    assert text.route == "/v1/completions"
    assert isinstance(text.body["prompt"], str)


def test_a_conversation_sends_back_what_was_answered(tmp_path: Path) -> None:
    file = tmp_path / "prompts.jsonl"
    file.write_text('{"turns": ["one", "two", "three"]}\n')
    with endpoint(answer(2)) as lab:
        words = (f"--dataset={file}", "--count=3", "--concurrency=1", "--warmup=0", "--salt=no")
        session(lab, *words, folder=tmp_path)
    last = lab.requests[-1].body["messages"]
    assert [message["role"] for message in last] == ["user", "assistant"] * 2 + ["user"]
    assert [message["content"] for message in last[:3]] == ["one", "w0 w1 ", "two"]


def test_a_trace_is_replayed_at_its_times(tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    lines = [{"prompt": f"p{n}", "timestamp": 1000 + 60 * n, "output_tokens": 3} for n in (2, 0, 1)]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with endpoint() as lab:
        words = (f"--dataset={file}", "--rate=trace", "--warmup=0", "--salt=no")
        (point,) = session(lab, *words, folder=tmp_path)["points"]
    assert [request.text for request in lab.requests] == ["p0", "p1", "p2"]
    assert point["requests"] == 3
    assert point["seconds"] >= 0.12


def test_a_rate_is_sent_whatever_the_server_does(tmp_path: Path) -> None:
    with endpoint() as lab:
        words = ("--rate=50", "--count=10", "--distribution=constant", "--connections=4")
        (point,) = session(lab, *words, "--warmup=0", folder=tmp_path)["points"]
    assert point["load"]["open_loop"] is True
    assert point["requests"] == 10
    assert point["late"]["count"] == 10


def test_a_line_for_each_load(tmp_path: Path) -> None:
    file = tmp_path / "loads.csv"
    with endpoint() as lab:
        session(lab, "--concurrency=1:4", "--count=4", f"--csv={file}", folder=tmp_path)
    rows = list(csv.DictReader(file.open()))
    assert [row["load"] for row in rows] == ["1", "2", "4"]
    assert {row["requests"] for row in rows} == {"4"}


def test_a_search_finds_how_many_streams_keep_the_limits(tmp_path: Path) -> None:
    active: list[int] = []

    def three_at_once(request: EndpointRequest) -> Iterator[Piece]:
        """Answers late where three are under way already."""
        active.append(1)
        try:
            yield as_sse(role())
            yield 2.0 if len(active) > 3 else 0.01
            yield as_sse(token("a")) + as_sse(finish()) + as_sse(usage(1))
        finally:
            active.pop()

    with endpoint(three_at_once) as lab:
        words = ("--slo=ttft:1s", "--search=concurrency", "--duration=0.5", "--warmup=0")
        document = session(lab, *words, folder=tmp_path)
    assert document["best_load"] == 3


def test_what_the_checks_show(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seen: set[str] = set()

    def with_cache(request: EndpointRequest) -> Iterator[Piece]:
        """Three tokens an event; a repeated prompt is counted as cached; answers by the prompt."""
        known, text = request.text in seen, request.text
        seen.add(text)
        yield as_sse(token(f"{len(text)} x")) + as_sse(finish())
        yield as_sse(usage(3, len(text.split()), len(text.split()) if known else 0))

    with endpoint(with_cache) as lab:
        document = session(lab, *QUICK, folder=tmp_path, checked=True)
        out = capsys.readouterr().out
        assert document["checks"]["cache"]["cached"] is True
        assert "prefix cache on" in out
        assert "every prompt begins with new digits" in out
        assert "several tokens come in one event" in out
        assert document["checks"]["equal"] == document["checks"]["compared"] == 8
        session(lab, *QUICK, "--salt=no", folder=tmp_path, checked=True)
        assert "the server's prefix cache is part of these figures" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("again", "reported", "cached"),
    [
        ([10.0] * 5, 0, True),
        ([99.0] * 5, 0, False),
        ([10.0, 10.0, 10.0, 99.0, 99.0], 0, None),
        ([99.0] * 5, 5 * 512, True),
        ([99.0] * 5, 5 * 20, False),
    ],
)
def test_a_cache_is_seen_by_time_or_by_count(
    again: list[float], reported: int, cached: bool | None
) -> None:
    assert checks.judge([100.0] * 5, again, reported).cached is cached


def test_a_model_with_a_short_context_is_checked_with_shorter_prompts(tmp_path: Path) -> None:
    def short(request: EndpointRequest) -> Iterator[Piece]:
        yield as_sse(token("a")) + as_sse(finish()) + as_sse(usage(1, prompt=40, cached=30))

    with endpoint(short) as lab:
        lab.refuses = lambda request: len(request.text.split()) > 40
        document = session(lab, *QUICK, folder=tmp_path, checked=True)
    assert document["checks"]["cache"]["cached"] is True


def test_answers_that_batching_changes_are_counted(tmp_path: Path) -> None:
    counter = iter(range(1000))

    def never_the_same(request: EndpointRequest) -> Iterator[Piece]:
        yield as_sse(token(f"{next(counter)}")) + as_sse(finish()) + as_sse(usage(1))

    with endpoint(never_the_same) as lab:
        document = session(lab, *QUICK, folder=tmp_path, checked=True)
    assert document["checks"]["equal"] == 0
    assert any("greedy answers change" in note for note in document["notes"])


def test_loads_without_a_complete_answer_measure_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def slow(request: EndpointRequest) -> Iterator[Piece]:
        yield as_sse(token("a"))
        time.sleep(1.0)
        yield as_sse(finish()) + as_sse(usage(1)) + as_sse("[DONE]")

    load = ("--duration=0.5", "--concurrency=1", "--warmup=0")
    with endpoint(slow) as lab:
        document = session(lab, *load, folder=tmp_path, status=1)
    (point,) = document["points"]
    assert (point["requests"], point["tokens"]["requests"]) == (1, 0)
    assert point["output_tokens_per_s"] is point["requests_per_s"] is point["good_share"] is None
    assert "fewer --output_tokens" in capsys.readouterr().err


def test_requests_that_fail_together_are_no_changed_answers(tmp_path: Path) -> None:
    numbers = itertools.count(1)

    def busy(request: EndpointRequest) -> Iterator[Piece]:
        """Refuses three of the eight that come together, after one, ten and eight alone."""
        if next(numbers) in (20, 21, 22):
            yield as_sse({"error": {"message": "busy"}})
        yield as_sse(token("a")) + as_sse(finish()) + as_sse(usage(1))

    words = ("--count=2", "--concurrency=1", "--warmup=0", "--output_tokens=8")
    with endpoint(busy) as lab:
        document = session(lab, *words, folder=tmp_path, checked=True)
    found = document["checks"]
    assert found["failed_together"] == 3
    assert found["equal"] == found["compared"] == 5
    assert any("requests at once failed: (server-error) busy" in note for note in document["notes"])


def test_energy_of_a_token_where_the_machine_has_counters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started = time.monotonic()

    def counters() -> dict[str, tuple[float, float]]:
        return {"rapl 0 package-0": (100 * (time.monotonic() - started), 1e6)}

    monkeypatch.setattr("mlperf.harness.measuring.energy.counters", counters)
    with endpoint(answer(5, gap=0.01)) as lab:
        (point,) = session(lab, *QUICK, folder=tmp_path)["points"]
    assert point["energy"]["samples"] == 30
    assert point["joules_per_token"] == pytest.approx(
        point["energy"]["sources"]["CPU"]["joules"] / 30, rel=1e-3
    )
    assert "J/token" in capsys.readouterr().out


def test_other_runs_are_beside_in_table_and_curve(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    earlier, page = tmp_path / "earlier.json", tmp_path / "page.html"
    llama = [{"model_filename": "m", "n_prompt": 0, "n_gen": 128, "avg_ts": 500.0, "n_threads": 2}]
    (tmp_path / "llama.json").write_text(json.dumps(llama))
    beside = (f"--beside={earlier}", f"--beside={tmp_path / 'llama.json'}")
    words = ("--concurrency=1:4", "--count=4", "--warmup=0", "--slo=tpot:1s")
    with endpoint(answer(5, gap=0.002)) as lab:
        session(lab, *words, folder=tmp_path)
        (tmp_path / "result.json").rename(earlier)
        capsys.readouterr()
        files = (f"--html={page}", f"--png={tmp_path / 'curve.png'}")
        now = session(lab, *words, *beside, *files, folder=tmp_path)
        out = capsys.readouterr().out
        session(lab, f"--beside={page}", folder=tmp_path, status=2)
    assert "earlier" in out
    assert "llama-bench: decoding alone" in out
    text = page.read_text(encoding="utf-8")
    # On a slow machine answers may come in one piece, and a load without TPOT is no point.
    for number, document in enumerate((now, json.loads(earlier.read_text()))):
        timed = [p for p in document["points"] if p["tokens_per_s_per_user"]]
        assert text.count(f'class="point s{number}') == len(timed)
    assert text.count('class="point s2') == 1
    assert "limit: TPOT 1000 ms" in text
    assert "Beside other runs" in text
    with Image.open(tmp_path / "curve.png") as drawn:
        colours = {colour for _, colour in drawn.convert("RGB").getcolors(1 << 20)}
    # A line of our own, a point of llama-bench's, the dashes of the limit.
    assert {(37, 99, 201), (20, 128, 74), (86, 97, 116)} <= colours


def test_a_picture_needs_pillow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with endpoint() as lab:
        session(lab, *QUICK, f"--png={tmp_path / 'curve.png'}", folder=tmp_path, status=1)
    assert "Python package Pillow, which is not installed" in str(capsys.readouterr())
    assert not lab.requests


def test_files_of_one_sweep_are_one_run(tmp_path: Path) -> None:
    paths = []
    for place, users in enumerate((1, 2, 2)):
        folder = tmp_path / str(place)
        folder.mkdir()
        document = {"model_id": "m", "max_concurrency": users, "output_throughput": 9.0 * users,
                    "request_throughput": users, "mean_ttft_ms": 9.0, "completed": 9,
                    "duration": 1.0}  # fmt: skip
        (folder / "result.json").write_text(json.dumps(document))
        paths.append(str(folder / "result.json"))
    assert [len(run.points) for run in read_compared(paths)] == [2, 1], "a repeat is another run"


def test_answers_in_one_piece_have_no_time_per_token(tmp_path: Path) -> None:
    whole = as_sse(token("a")) + as_sse(token("b")) + as_sse(finish()) + as_sse(usage(1))
    with endpoint(failing(whole)) as lab:
        document = session(lab, *QUICK, folder=tmp_path)
    (point,) = document["points"]
    assert point["latencies"]["tpot"] is point["tokens_per_s_per_user"] is None
    assert any("more events with text than usage" in note for note in document["notes"])


def test_a_field_of_null_is_left_out(tmp_path: Path) -> None:
    body = '--body={"max_tokens": null, "max_completion_tokens": 8}'
    with endpoint() as lab:
        session(lab, *QUICK, body, folder=tmp_path)
        session(lab, *QUICK, '--body={"n": 2}', folder=tmp_path, status=2)
    assert "max_tokens" not in lab.requests[0].body
    assert lab.requests[0].body["max_completion_tokens"] == 8


def test_an_error_of_the_program_is_none_of_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr("serving.endpoint.load.answer_steps", broken)
    with endpoint() as lab, pytest.raises(RuntimeError, match="a fault of ours"):
        session(lab, *QUICK, folder=tmp_path)


def failing(*pieces: bytes) -> Any:
    def stream(request: EndpointRequest) -> Iterator[Piece]:
        yield from pieces

    return stream


@pytest.mark.parametrize(
    ("pieces", "kind"),
    [
        ((as_sse(role()), as_sse(token("a"))), "cut-off"),
        ((as_sse(token("a")), b'data: {"choi'), "cut-off"),
        ((as_sse(finish()), as_sse("[DONE]")), "empty"),
        ((as_sse(token("a")) + as_sse(finish()) + as_sse(finish()),), "protocol"),
        ((as_sse(token("a")) + as_sse(finish()) + as_sse(usage(999)),), "too-long"),
        ((as_sse({"error": {"message": "CUDA out of memory"}}),), "server-error"),
        ((b"data: <html>\n\n",), "protocol"),
        ((as_sse(token("a")) + as_sse(finish()) + as_sse(usage(-5)),), "protocol"),
    ],
)
def test_a_bad_stream_is_counted_and_measures_nothing(
    pieces: tuple[bytes, ...], kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with endpoint(failing(*pieces)) as lab:
        document = session(lab, *QUICK, folder=tmp_path, status=1)
    assert f"6 {kind}\n  next: " in capsys.readouterr().err
    (point,) = document["points"]
    assert point["failures"] == {kind: 6}
    assert (point["requests"], point["tokens"]["output"]) == (0, 0)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"status": 429, "head": {"retry-after": "7"}, "plain": b'{"error": "slow down"}'},
         "(status-429) HTTP 429: slow down (Retry-After: 7)|wait 7 s"),
        ({"status": 503, "plain": b"loading"}, "(status-503) HTTP 503: loading"),
        ({"status": 401, "plain": b'{"error": {"message": "no key"}}'}, "no key|--api_key_env"),
        ({"status": 404, "plain": b"not here"}, "HTTP 404|does the URL end in /v1"),
        ({"status": 501, "plain": b"<!DOCTYPE HTML> <html>"}, "a page of HTML|the URL end in /v1"),
        ({"plain": b"<html>", "head": {"content-type": "text/html"}},
         "text/html, not a stream|ends in /v1"),
        ({"status": 400, "plain": b'{"error": {"message": "unknown field: max_tokens"}}'},
         'unknown field|"FIELD": null'),
        ({"status": 308, "head": {"location": "http://elsewhere/v1"}},
         "redirects to http://elsewhere/v1|--url="),
        ({"status": 429, "head": {"retry-after": "Sat, 28 Nov 2026 08:00:00 GMT"}},
         "wait until Sat, 28 Nov"),
        ({"plain": b'{"choices": []}', "head": {"content-type": "application/json"}},
         "application/json, not a stream"),
    ],
)  # fmt: skip
def test_a_server_that_refuses_is_told_before_the_load(
    settings: dict[str, Any], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with endpoint(**settings) as lab:
        session(lab, *QUICK, folder=tmp_path, status=1, checked=True)
    err = capsys.readouterr().err
    assert all(part in err for part in words.split("|"))


def test_a_wrong_model_is_named_with_those_that_are_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with endpoint(models=["llama-3.1-8b", "qwen"]) as lab:
        session(lab, *QUICK, "--model=llama3-8b", folder=tmp_path, status=1)
        assert "next: --model=llama-3.1-8b" in capsys.readouterr().err
        session(lab, *QUICK, folder=tmp_path, status=1)
        assert "llama-3.1-8b, qwen" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text", ["", "{", '{"promt": "x"}\n', '{"turns": "x"}', '{"messages": []}', "[1]", "\udcff"]
)
def test_a_file_of_prompts_that_is_none(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "prompts.jsonl"
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    with endpoint() as lab:
        session(lab, f"--dataset={file}", folder=tmp_path, status=2)
    assert str(file) in capsys.readouterr().err


def test_a_key_is_written_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    with endpoint() as lab:
        words = (*QUICK, "--header=X-Token: hush-hush", f"--csv={tmp_path / 'a.csv'}")
        session(lab, *words, folder=tmp_path)
    assert lab.requests[0].headers["authorization"] == "Bearer sk-very-secret"
    written = "".join(path.read_text() for path in tmp_path.iterdir()) + str(capsys.readouterr())
    assert "very-secret" not in written
    assert "hush-hush" not in written


@pytest.mark.slow
def test_the_script_measures_and_exports_figures(home: Home, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    with endpoint() as server:
        words = [f"--url={server.url}", *QUICK, "--checks=no", f"--html={page}"]
        done = home.cm("run", "script", "--tags=bench,endpoint", *words).ok()
    assert "tok/s/user" in done.stdout
    assert "Output tokens per second: " in done.stdout
    assert "Output tokens per second" in page.read_text()
    kept = home.cm("find", "results", "--benchmark=endpoint").ok()
    assert "endpoint 2 in flight" in kept.stdout
    assert home.cm("show", "results", "last").ok().stdout.count("endpoint 2 in flight") == 1


def test_the_plan_refuses_what_the_program_does_not_understand(home: Home) -> None:
    words = ("--url=h:1", "--slo=speed:1ms")
    done = home.cm("plan", "script", "--tags=bench,endpoint", *words)
    assert done.status != 0
    assert "NAME is one of" in done.stderr
