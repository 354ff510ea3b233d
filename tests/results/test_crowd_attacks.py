"""A hostile uploader, who knows the pages of the documentation and sends whatever fits HTTP."""

from __future__ import annotations

import json
import os
import re
import socket
import string
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from crowd_lab import (
    DETAIL,
    SUMMARY,
    Http,
    Logs,
    Served,
    Volunteer,
    checked,
    figure,
    public_of,
    run_logs,
    sign,
    words,
)
from starlette.testclient import TestClient

from cmbench.error_codes import CODES
from cmbench.errors import Error
from cmbench_crowd import manifest as m
from cmbench_crowd_server import api, recompute, work
from cmbench_crowd_server.app import SLOWEST, _Pace, create_app
from cmbench_crowd_server.ledger import HOUR_S, Limits
from cmbench_gui.site import Site
from cmbench_results import query, schema
from cmbench_results.sql import sa
from support import HANG_S

WORK = f"{api.BASE}/work"
Make = Callable[[], Volunteer]
JUNK = {DETAIL: b"x" * 3000, SUMMARY: b"y"}


def begun(one: Volunteer, **changes: Any) -> m.Manifest:
    """An upload of which half a file has come."""
    told = one.manifest(JUNK, value=1.0, **changes)
    answer = one.post(told)
    assert answer.status_code == 201, answer.text
    one.put(told.id, JUNK[DETAIL], 0, 1500)
    return told


@pytest.mark.parametrize("limits", [Limits(open_of_key=2)])
def test_half_uploads_do_not_fill_the_disk_or_the_list(
    crowd: api.CrowdServer, volunteer: Make, limits: Limits
) -> None:
    one = volunteer()
    old = [begun(one), begun(one)]
    refused = one.post(one.manifest(JUNK, value=1.0))
    assert (refused.status_code, refused.json()["code"]) == (429, "too-many")
    assert "unfinished results" in refused.json()["detail"]
    assert one.post(old[0]).status_code == 200, "one that was begun goes on"
    begun(volunteer())
    late = schema.crowd_run.update().where(schema.crowd_run.c.id == old[0].id)
    with crowd.ledger.store.writing() as connection:
        connection.execute(late.values(at=time.time() - 25 * HOUR_S))
    crowd.checker._sweep()
    assert not crowd.files.folder(old[0].id).exists()
    assert crowd.files.folder(old[1].id).exists()
    again = one.post(old[0])
    assert again.status_code == 201, "what was forgotten may begin anew"
    assert again.json()["wanted"][0]["offset"] == 0


@pytest.mark.parametrize("limits", [Limits(open_of_network=2, waiting_of_network=3)])
def test_many_keys_of_one_network_are_one_sender(crowd: api.CrowdServer, limits: Limits) -> None:
    near, far = (crowd.ledger.network(each) for each in ("203.0.113.7", "198.51.100.1"))

    def receive(network: str) -> str:
        one = Volunteer(None)
        told = one.manifest({}, 1.0, files=())
        crowd.ledger.receive(m.encode(told), told, network)
        return told.id

    first = [receive(near), receive(near)]
    with pytest.raises(api.Error, match="from one network"):
        receive(near)
    for run in first:
        crowd.ledger.move(run, ("receiving",), "quarantine")
    receive(near)
    with pytest.raises(api.Error, match="waiting for review"):
        receive(near)
    receive(far)


def test_refused_files_go_and_nothing_more_of_them_is_wanted(
    crowd: api.CrowdServer, volunteer: Make
) -> None:
    one = volunteer()
    run = one.send(JUNK, value=1.0)
    checked(crowd)
    assert one.get(run)["state"] == "refused"
    assert not crowd.files.folder(run).exists()
    told = m.parse(crowd.ledger.row(run)["manifest"].encode())
    assert one.post(told).json()["wanted"] == []


def test_an_upload_that_breaks_the_checker_does_not_stop_it(
    crowd: api.CrowdServer, volunteer: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = volunteer()
    poison, next_ = one.send(JUNK, value=1.0), one.send(JUNK, value=1.0)
    real = crowd.checker._checked

    def breaks(row: Any, told: Any) -> Any:
        if row["id"] == poison:
            raise KeyError("what nobody has thought of")
        return real(row, told)

    monkeypatch.setattr(crowd.checker, "_checked", breaks)
    checked(crowd)
    assert [one.get(run)["state"] for run in (poison, next_)] == ["refused", "refused"]
    assert words(one.get(poison))


def test_who_sends_much_that_takes_long_waits_alone(
    crowd: api.CrowdServer, volunteer: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    many, other = volunteer(), volunteer()
    runs = [many.send(JUNK, value=1.0) for _ in range(3)]
    late = other.send(JUNK, value=1.0)
    order: list[str] = []
    monkeypatch.setattr(crowd.checker, "_check", lambda row: order.append(row["id"]))
    for _ in range(4):
        crowd.checker.step()
    assert order == [runs[0], late, *runs[1:]]


def test_odd_words_in_addresses_and_requests_are_refused_in_words(
    crowd: api.CrowdServer, volunteer: Make, client: TestClient
) -> None:
    one = volunteer()
    odd = ("%00", "%ff%fe", "%f0%9f%92%a9", "..%2f..%2fkey", "'%20OR%201=1--", "a" * 3000)
    for word in odd:
        assert client.get(f"/results?q={word}").status_code in (200, 400, 404)
        for path in (f"/api/v1/runs/{word}", f"/uploads/{word}", f"/contributors/{word}"):
            assert client.get(path).status_code == 404, path
        assert one.client.delete(f"/api/v1/runs/{word}").status_code == 404
        answer = one.put_body(word, "0" * 64, b"x", **{"Content-Range": "bytes 0-0/1"})
        assert answer.status_code == 404
        told = {"key": public_of(one.key), "do": "return", "work": word}
        assert signed(one, f"{word}/return", told).status_code in (404, 422)
    for work_ in ("\x00", "\ud800", 7, None, ["x"], {"a": 1}):
        told = {"key": public_of(one.key), "do": "lease", "work": work_}
        assert signed(one, "lease", told).json()["code"] in ("no-work", "bad-signature")
    for body in (b"[]", b"null", b"7", b"\xff", b"[" * 4000, b'{"key":{}}'):
        answer = client.post(f"{WORK}/lease", content=body)
        assert (answer.status_code, answer.json()["code"]) == (422, "bad-signature")


def signed(one: Volunteer, path: str, told: Any) -> Any:
    data = json.dumps(told).encode()
    headers = {m.SIGNATURE_HEADER: sign(one.key, data)}
    return one.client.post(f"{one.base}{WORK}/{path}", content=data, headers=headers)


def test_a_signed_request_serves_for_what_it_was_signed_for_only(
    crowd: api.CrowdServer, volunteer: Make
) -> None:
    work.want(crowd.ledger, {"benchmark": "bert-99", "scenario": "Offline"})
    work.want(crowd.ledger, {"benchmark": "resnet50", "scenario": "Offline"})
    one = volunteer()
    told = {"key": public_of(one.key), "do": "lease", "work": ""}
    lease = signed(one, "lease", told).json()["id"]
    assert signed(one, f"{lease}/return", told).json()["code"] == "bad-signature"
    other = {**told, "do": "return", "work": "0" * 32}
    assert signed(one, f"{lease}/return", other).json()["code"] == "bad-signature"
    assert signed(one, f"{lease}/return", {**other, "work": lease}).status_code == 204
    key = public_of(one.key)
    for text in (f"{key}!!", f"{key}=", key.removeprefix("ed25519:"), f"{key[:-1]}{_next(key)}"):
        assert signed(one, "lease", {**told, "key": text}).json()["code"] == "bad-signature", text


def _next(key: str) -> str:
    """The last sign of a key, with bits that a lax reader drops."""
    signs = string.ascii_uppercase + string.ascii_lowercase + string.digits + "-_"
    return signs[signs.index(key[-1]) + 1]


def test_a_log_that_was_only_written_otherwise_is_a_copy(
    crowd: api.CrowdServer, volunteer: Make, logs: list[Logs]
) -> None:
    """Else one run, six times with another empty line, would be two hosts that agree."""
    log = logs[0]
    detail = log[DETAIL]
    others = (
        detail + b"\n",
        detail.replace(b'": ', b'":  '),
        re.sub(rb'"pid": \d+', b'"pid": 7', detail),
        detail + b':::MLLOG {"key": "result_of_mine", "value": 1, "time_ms": 9e9}\n',
    )
    first = volunteer().send(log)
    value = figure(detail)
    runs = [volunteer().send({**log, DETAIL: each}, value=value) for each in others]
    checked(crowd)
    one = volunteer()
    assert one.get(first)["tier"] == "checked"
    for run in runs:
        told = one.get(run)
        assert told["state"] == "refused", told
        assert any("the same log was sent before" in each for each in words(told)), words(told)


@pytest.mark.parametrize(
    ("what", "value"),
    [
        ("cpu", "\uff38eon"),
        ("cpu", "Z" + "\u0335\u0336\u0337" * 60),
        ("cpu", "\u0425eon with a Cyrillic letter"),
        ("accelerator", "\u202eA100"),
        ("accelerator", "\ufeffA100"),
    ],
)
def test_names_that_look_like_others_are_refused(volunteer: Make, what: str, value: str) -> None:
    data = m.canonical(json.loads(m.canonical(plain(volunteer(), system={what: value}))))
    with pytest.raises(api.Error) as caught:
        m.parse(data)
    assert caught.value.code == "bad-manifest"


def plain(one: Volunteer, **changes: Any) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(m.encode(one.manifest({}, 1.0, files=())))
    for name, inner in changes.items():
        told[name] = {**told[name], **inner} if isinstance(inner, dict) else inner
    return told


@pytest.mark.parametrize(
    "changes",
    [
        {"created": "\uff12\uff10\uff12\uff16-\uff11\uff11-\uff12\uff13"},
        {"created": "2999-01-01"},
        {"created": "0001-01-01"},
        {"workload": {"round": "\u0665.\u0661"}},
        {"workload": {"benchmark": "bert\n"}},
        {"work_unit": "x" * 65},
    ],
)
def test_days_and_digits_of_other_worlds_are_refused(volunteer: Make, changes: Any) -> None:
    one = volunteer()
    answer = one.post_bytes(m.canonical(plain(one, **changes)))
    assert (answer.status_code, answer.json()["code"]) == (422, "bad-manifest"), answer.text


@pytest.mark.parametrize("coding", ["gzip, gzip", "zstd", "br", "deflate", "GZIP", "x-gzip"])
def test_only_one_way_of_packing_is_taken(volunteer: Make, coding: str) -> None:
    one = volunteer()
    told = one.manifest(JUNK, value=1.0)
    one.post(told)
    where = {"Content-Range": "bytes 0-2999/3000", "Content-Encoding": coding}
    answer = one.put_body(told.id, told.files[0].sha256, b"x" * 100, **where)
    assert (answer.status_code, answer.json()["code"]) == (400, "bad-value")


def test_who_guesses_tokens_has_to_wait(crowd: api.CrowdServer, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("a-token-that-is-long-enough\n")
    app = create_app(Site(home=str(tmp_path), key=b"k" * 32), replace(crowd, tokens=tokens))
    one = Volunteer(TestClient(app, base_url="http://results.example"))
    told = one.manifest({}, 1.0, files=())
    codes = []
    for number in range(22):
        one.headers = {"Authorization": f"Bearer guess-{number}"}
        codes.append(one.post(told).json()["code"])
    assert codes == ["bad-token"] * 20 + ["too-many"] * 2
    one.headers = {"Authorization": "Bearer a-token-that-is-long-enough"}
    assert one.post(told).status_code == 429, "else the right one would be seen"
    tokens.write_bytes(b"\xef\xbb\xbfa-token-that-is-long-enough\r\n\xff\xfe\n")
    crowd.guesses.clear()
    assert one.post(told).status_code == 201, "of a file from elsewhere the good tokens are good"


def test_a_long_list_of_work_is_told_quickly(crowd: api.CrowdServer, client: TestClient) -> None:
    rows = [
        {"id": f"{n:032x}", "at": 1.0, "spec": {"benchmark": f"b{n}", "class": []}, "wanted": 2}
        for n in range(3000)
    ]
    with crowd.ledger.store.writing() as connection:
        connection.execute(schema.crowd_work.insert(), rows)
    counted: list[str] = []
    engine = crowd.ledger.store._engine
    sa.event.listen(engine, "before_cursor_execute", lambda *told: counted.append(told[2]))
    told = client.get("/api/v1/work").json()["work"]
    assert len(told) == work.MOST_LISTED
    assert len(counted) < 10


def test_a_request_keeps_a_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("cmbench_crowd_server.app.time.monotonic", lambda: now[0])
    pace = _Pace()
    assert pace.left() == 20
    for _ in range(3):
        now[0] += 10
        pace.taken += 1
    assert pace.left() == 0, "a byte at a time is no upload"
    pace.taken += SLOWEST * 15
    assert 4 < pace.left() <= 6


@pytest.fixture
def crowded(served: Served) -> Iterator[int]:
    """The port of a server, 45 connections to which say nothing."""
    _, base = served()
    port = int(base.rpartition(":")[2])
    many = [socket.create_connection(("127.0.0.1", port), 10) for _ in range(45)]
    yield port
    for each in many:
        each.close()


@pytest.mark.parametrize("url", [""])
def test_one_address_does_not_take_all_connections(crowded: int, url: str) -> None:
    with closing(socket.create_connection(("127.0.0.1", crowded), 10)) as more:
        more.settimeout(10)
        more.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        with suppress(ConnectionResetError):
            assert more.recv(100) == b""
    # Those that say nothing are hung up on, and then it answers again.
    end = time.monotonic() + HANG_S
    while not answers(crowded):
        assert time.monotonic() < end
        time.sleep(0.2)


def answers(port: int) -> bool:
    try:
        return bool(Http().get(f"http://127.0.0.1:{port}/api/v1/work").status_code == 200)
    except OSError:
        return False


ODD = {
    "nul": "a\x00b",
    "surrogate": "\ud800",
    "turned round": "\x1b[31m\u202e\u2028VALID",
    "long": "A" * (4 << 20),
}


@pytest.mark.parametrize("what", ODD)
def test_what_a_log_says_is_told_plainly_and_in_short(
    crowd: api.CrowdServer, volunteer: Make, logs: list[Logs], what: str
) -> None:
    """Else PostgreSQL refuses it, and the server checks the same upload for ever."""
    said = json.dumps(ODD[what]).encode()
    detail = logs[0][DETAIL]
    for key in (b"effective_scenario", b"result_validity", b"effective_qsl_rng_seed"):
        detail = re.sub(rb'("key": "%s", "value": )[^,]+' % key, lambda m: m[1] + said, detail)
    lines = (
        b':::MLLOG {"key": "error_%d", "value": %s, "time_ms": 9e6, "namespace": "x", '
        b'"event_type": "POINT_IN_TIME", "metadata": {"is_error": true}}\n' % (number, said[:99])
        for number in range(300)
    )
    one, other = volunteer(), volunteer()
    run = one.send({**logs[0], DETAIL: detail + b"".join(lines)}, value=1.0)
    late = other.send(logs[1])
    for _ in range(2):
        crowd.checker.step()
    answer = one.client.get(f"/api/v1/runs/{run}")
    told = answer.json()
    assert told["state"] == "refused"
    assert "internal" not in answer.text
    assert any("this is a log of" in each for each in words(told)), words(told)
    assert len(answer.content) < 100_000
    assert all(each["words"].isprintable() for each in told["checks"])
    assert other.get(late)["state"] == "published"
    assert one.client.get(f"/uploads/{run}").status_code == 200
    assert all(each["told"].isprintable() for each in crowd.ledger.events(run))


def test_a_server_without_means_refuses_nobody(
    crowd: api.CrowdServer, volunteer: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk for what is temporary, or no process more, says nothing of a log."""
    one = volunteer()
    run = one.send(JUNK, value=1.0)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    for module, name in ((recompute.tempfile, "mkdtemp"), (recompute.subprocess, "run")):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, full)
            with pytest.raises(Error):
                crowd.checker.step()
        assert one.get(run)["state"] == "checking"
        crowd.ledger.requeue()
    checked(crowd)
    assert one.get(run)["state"] == "refused", "now by what its log says"
    assert not any("2 GiB" in each for each in words(one.get(run)))


def test_an_upload_that_the_database_refuses_does_not_stop_others(
    crowd: api.CrowdServer, volunteer: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = volunteer(), volunteer()
    poison, late = one.send(JUNK, value=1.0), other.send(JUNK, value=1.0)
    real = crowd.checker._checked

    def breaks(row: Any, told: Any) -> Any:
        if row["id"] == poison:
            raise Error("no-database", "it does not take this text")
        return real(row, told)

    monkeypatch.setattr(crowd.checker, "_checked", breaks)
    with pytest.raises(Error):
        crowd.checker.step()
    crowd.ledger.requeue()
    crowd.checker.step()
    assert other.get(late)["state"] == "refused"


@pytest.mark.parametrize("limits", [Limits(of_network=3)])
def test_who_withdraws_does_not_send_more_than_others(
    crowd: api.CrowdServer, limits: Limits
) -> None:
    near = crowd.ledger.network("203.0.113.7")
    runs = []

    def send() -> None:
        one = Volunteer(None)
        told = one.manifest({}, 1.0, files=())
        crowd.ledger.receive(m.encode(told), told, near)
        crowd.ledger.remove(told.id, crowd.ledger.delete_token(told.id))
        runs.append(told.id)

    for _ in range(3):
        send()
    with pytest.raises(api.Error, match="from one network"):
        send()
    crowd.ledger.expire()
    assert crowd.ledger.trace(runs[0])["network"]
    old = schema.crowd_run.update().values(at=time.time() - 2 * HOUR_S)
    with crowd.ledger.store.writing() as connection:
        connection.execute(old)
    crowd.ledger.expire()
    assert {crowd.ledger.trace(run)["network"] for run in runs} == {""}, "of it only the id stays"


def wanted(crowd: api.CrowdServer, many: int) -> None:
    for number in range(many):
        work.want(crowd.ledger, {"benchmark": f"b{number}", "scenario": "Offline"})


@pytest.mark.parametrize("limits", [Limits(leases_of_key=4)])
def test_work_is_not_leased_and_given_back_without_end(
    crowd: api.CrowdServer, volunteer: Make, limits: Limits
) -> None:
    """Each lease has a seed: who could ask for as many as he likes would choose one."""
    wanted(crowd, 1)
    one = volunteer()
    ask = {"key": public_of(one.key), "do": "lease", "work": ""}
    codes = []
    for _ in range(6):
        answer = signed(one, "lease", ask)
        codes.append(answer.status_code)
        if answer.status_code == 201:
            again = signed(one, "lease", ask)
            assert again.json() == answer.json(), "asked again it is the same lease"
            back = {**ask, "do": "return", "work": answer.json()["id"]}
            assert signed(one, f"{answer.json()['id']}/return", back).status_code == 204
    assert codes == [201] * 4 + [429] * 2
    other = volunteer()
    assert signed(other, "lease", {**ask, "key": public_of(other.key)}).status_code == 201


@pytest.mark.parametrize("limits", [Limits(leases_of_network=3)])
def test_many_keys_of_one_network_do_not_take_all_work(
    crowd: api.CrowdServer, limits: Limits
) -> None:
    wanted(crowd, 9)
    near, far = (crowd.ledger.network(each) for each in ("203.0.113.7", "198.51.100.1"))
    taken = [work.lease(crowd.ledger, f"key-{number}", network=near) for number in range(3)]
    with pytest.raises(api.Error, match="to one network"):
        work.lease(crowd.ledger, "key-3", network=near)
    assert work.lease(crowd.ledger, "key-0", network=near) == taken[0]
    assert work.lease(crowd.ledger, "key-4", network=far)["id"]


def test_a_blocked_key_gets_no_work(crowd: api.CrowdServer, volunteer: Make) -> None:
    wanted(crowd, 1)
    one = volunteer()
    one.send(JUNK, value=1.0)
    crowd.ledger.block(one.name, "me")
    answer = signed(one, "lease", {"key": public_of(one.key), "do": "lease", "work": ""})
    assert (answer.status_code, answer.json()["code"]) == (403, "bad-token")


@pytest.mark.parametrize("host", ["[", "[::1", "]", "a]b[", "a b", "\u00ff", "x:y", "@", "/"])
@pytest.mark.parametrize("base", ["http://127.0.0.1:8502", "http://results.example"])
def test_a_host_that_is_none_is_refused_in_words(
    crowd: api.CrowdServer, tmp_path: Path, host: str, base: str
) -> None:
    tokens = tmp_path / "tokens" if "example" in base else None
    app = create_app(Site(home=str(tmp_path), key=b"k" * 32), replace(crowd, tokens=tokens))
    client = TestClient(app, base_url=base)
    for path in ("/api/v1/work", "/wanted", "/nothing", "/api/nothing", "/api/v1/runs/%00"):
        answer = client.get(path, headers={"Host": host.encode("latin-1")})
        assert answer.status_code in (400, 403, 404)
        assert "fault of cmbench" not in answer.text
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_a_fault_of_the_server_is_told_as_one(
    crowd: api.CrowdServer, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a client takes it for its own, and gives up."""
    monkeypatch.setattr(work, "open_work", lambda ledger: 1 / 0)
    answer = client.get("/api/v1/work")
    assert (answer.status_code, answer.json()["code"]) == (500, "internal")
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_all_errors_that_have_a_status_are_known() -> None:
    assert api.STATUS.keys() <= CODES.keys()


@pytest.mark.parametrize("url", [""])
def test_an_error_of_the_server_does_not_tell_where_its_files_are(
    crowd: api.CrowdServer, volunteer: Make, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = volunteer()
    told = one.manifest(JUNK, value=1.0)
    assert one.post(told).status_code == 201
    for number, code in ((28, "no-space"), (13, "not-writable"), (5, "file-error")):

        def fails(*_: object, number: int = number, **__: object) -> int:
            raise OSError(number, os.strerror(number))

        with monkeypatch.context() as patch:
            patch.setattr("cmbench_crowd_server.files.os.open", fails)
            answer = one.put(told.id, JUNK[DETAIL])
        assert (answer.status_code, answer.json()["code"]) == (507 if number == 28 else 500, code)
        assert str(crowd.files.root) not in answer.text
        assert answer.json()["hint"]
    with crowd.ledger.store.writing() as connection:
        connection.execute(sa.text("DROP TABLE crowd_lease"))
    for path in ("/api/v1/work", "/wanted"):
        answer = client.get(path)
        assert answer.status_code == 503
        assert "index.sqlite" not in answer.text


class Asked:
    """A request that names a token."""

    client = None

    def __init__(self, token: str) -> None:
        self.headers = {"authorization": f"Bearer {token}"}


@pytest.mark.parametrize("url", [""])
def test_the_file_of_tokens_is_read_when_it_has_changed(
    crowd: api.CrowdServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "tokens"
    server = replace(crowd, tokens=path)
    reads: list[Path] = []
    real = Path.read_text

    def read_text(self: Path, *told: Any, **more: Any) -> str:
        reads.append(self)
        return real(self, *told, **more)

    def is_let_in(token: str) -> bool:
        try:
            server.check_token(Asked(token))  # type: ignore[arg-type]
        except Error as problem:
            assert problem.code == "bad-token"  # noqa: PT017
            return False
        return True

    monkeypatch.setattr(Path, "read_text", read_text)
    path.write_text("a" * 20)
    long_ago = [time.time() + 3600]
    monkeypatch.setattr(api.time, "time", lambda: long_ago[0])
    assert all(is_let_in("a" * 20) for _ in range(50))
    assert len(reads) == 1
    # Of the same size and with the same time, in place and as another file.
    kept = path.stat().st_mtime_ns
    path.write_text("b" * 20)
    os.utime(path, ns=(kept, kept))
    assert not is_let_in("a" * 20)
    assert is_let_in("b" * 20)
    other = tmp_path / "other"
    other.write_text("c" * 20)
    os.utime(other, ns=(kept, kept))
    other.replace(path)
    assert [is_let_in(each * 20) for each in "bc"] == [False, True]
    path.unlink()
    assert not is_let_in("c" * 20)
    # Who writes twice within one tick of the clock of files is seen too.
    long_ago[0] = time.time()
    for each in "defghijk":
        path.write_text(each * 20)
        assert is_let_in(each * 20)
        assert not is_let_in("a" * 20)


def test_an_address_that_a_proxy_cannot_tell_is_no_trusted_one(crowd: api.CrowdServer) -> None:
    """Else whoever lets it say nonsense has no limit, and is independent of himself."""
    of = crowd.ledger.network
    proxy = of("127.0.0.1", proxied=True)
    assert proxy
    for odd in ("unknown", "_hidden", "", "x" * 3000, "1.2.3", "::1%lo\x00", "fe80::zz"):
        assert of(odd, proxied=True) == proxy, odd
    near = of("203.0.113.7", proxied=True)
    assert near not in ("", proxy)
    for same in ("203.0.113.99", "203.0.113.7:4711", "::ffff:203.0.113.7", " 203.0.113.7 "):
        assert of(same, proxied=True) == near, same
    six = of("2001:db8::1", proxied=True)
    for same in ("[2001:db8::1]:4711", "[2001:db8::2]", "2001:db8:0:1::"):
        assert of(same, proxied=True) == six, same
    # Ways to write addresses of IPv4 within IPv6, of which one person has all.
    for same in ("2002:cb00:7107::1", "64:ff9b::203.0.113.7"):
        assert of(same) == near, same
    assert of("2002:7f00:1::1")
    assert of("testclient") == of("127.0.0.1") == of("::ffff:127.0.0.1") == ""


@pytest.mark.parametrize("style", ["valid", ""])
def test_a_short_run_is_no_full_one_whatever_its_manifest_says(
    crowd: api.CrowdServer, volunteer: Make, logs: list[Logs], style: str
) -> None:
    """Only its log knows how long it took: two seconds are no ten minutes."""
    one, honest = volunteer(), volunteer()
    config = m.ManifestConfig(backend="onnxruntime", device="cpu", style=style)
    run = one.send(logs[0], config=config)
    other = honest.send(logs[1])
    checked(crowd)
    assert one.get(run)["state"] == "published"
    (row, same) = (crowd.ledger.row(each) for each in (run, other))
    assert row["work"] == same["work"], "it is compared with short runs"
    shown = query.find(crowd.ledger.store, query.Filter(), "", 50, 0).rows
    assert {each["form"] for each in shown} == {"test run"}
    (spec,) = (each["spec"] for each in work.open_work(crowd.ledger))
    assert spec["style"] == "test"


def test_a_short_run_does_not_answer_for_a_full_one(
    crowd: api.CrowdServer, volunteer: Make, tmp_path: Path
) -> None:
    spec = {"benchmark": "bert-99", "scenario": "Offline", "style": "valid"}
    work.want(crowd.ledger, spec)
    one = volunteer()
    told = signed(one, "lease", {"key": public_of(one.key), "do": "lease", "work": ""}).json()
    (log,) = run_logs(tmp_path / "leased", [told["seed"]])
    config = m.ManifestConfig(backend="onnxruntime", device="cpu", style="valid")
    run = one.send(log, work_unit=told["id"], config=config)
    checked(crowd)
    assert one.get(run)["state"] == "refused"
    assert words(one.get(run)) == ["its work unit asks for another style"]


def test_latencies_that_were_edited_are_seen(
    crowd: api.CrowdServer, volunteer: Make, logs: list[Logs]
) -> None:
    """Else one line makes a copy another run: the copy would agree with what it is one of."""

    def edited(name: bytes, value: bytes) -> bytes:
        told = re.sub(
            rb'("key": "result_%s_latency_ns", "value": )\d+' % name, rb"\g<1>" + value, d
        )
        assert told != d
        return told

    d = logs[0][DETAIL]
    lies = {
        "ns as min latency": edited(b"min", b"1234567"),
        "ns as mean latency": edited(b"mean", b"1999999999"),
        "ns as 90.00_percentile latency": edited(b"90.00_percentile", b"2000000007"),
        "not in order from min to max": edited(b"50.00_percentile", b"9" * 12),
    }
    one = volunteer()
    runs = {why: one.send({**logs[0], DETAIL: each}) for why, each in lies.items()}
    # As the fastest machines publish it: LoadGen's sum of long latencies has overflowed.
    overflown = {
        role: re.sub(
            rb'(Mean latency \(ns\) *: |result_mean_latency_ns", "value": )\d+', rb"\g<1>9", text
        )
        for role, text in logs[1].items()
    }
    honest = volunteer().send(overflown)
    checked(crowd)
    for why, run in runs.items():
        told = one.get(run)
        assert told["state"] == "refused", why
        assert any(why in each for each in words(told)), (why, words(told))
    assert one.get(honest)["state"] == "published"
