"""The server of volunteers' results, on SQLite and on PostgreSQL, with real logs of LoadGen."""

from __future__ import annotations

import errno
import gzip
import json
import os
import re
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from crowd_lab import (
    DETAIL,
    OF_ACCURACY,
    ROLES,
    SUMMARY,
    Http,
    Logs,
    Served,
    Volunteer,
    checked,
    figure,
    public_of,
    run_logs,
    sample,
    sign,
    words,
)
from starlette.requests import Request
from starlette.testclient import TestClient

from cmbench.cli.reply import Command
from cmbench.errors import Error
from cmbench.session.workspace import Workspace
from cmbench_crowd import manifest as m
from cmbench_crowd_server import api, judge, verbs, work
from cmbench_crowd_server.app import create_app
from cmbench_crowd_server.files import Unpacker
from cmbench_crowd_server.ledger import Ledger, Limits
from cmbench_crowd_server.roofline import plausible
from cmbench_gui.site import Site
from cmbench_results import query
from cmbench_results.result_sources import SourceFiles
from cmbench_results.sql import sa
from cmbench_results.store import Store
from support import HANG_S, wait_for

WORK = "/api/v1/work"


def test_an_honest_an_agreeing_and_a_lying_volunteer(
    crowd: api.CrowdServer, volunteer: Callable[[], Volunteer], logs: list[Logs], client: TestClient
) -> None:
    honest, agreeing, liar = volunteer(), volunteer(), volunteer()
    # Two hosts whose runs differ as little as those of one: each takes a bit longer than the last.
    first = [honest.send(each) for each in logs[0:6:2]]
    checked(crowd)
    assert [honest.get(run)["tier"] for run in first] == ["checked"] * 3
    second = [agreeing.send(each) for each in logs[1:6:2]]
    checked(crowd)
    for run in first + second:
        told = honest.get(run)
        assert told["tier"] == "reproduced", told
        assert told["state"] == "published"
        assert "not verified by MLCommons" in told["verified"]
        assert any("1 of 1 independent hosts" in each["words"] for each in told["checks"])

    true = logs[6]
    value = figure(true[DETAIL])
    twice = f"{2 * value:.6g}".encode()
    was = re.search(rb'"result_samples_per_second", "value": ([\d.e+]+)', true[DETAIL])
    assert was
    lies = {
        "it does not fit": liar.send(true, value=2 * value),
        "the summary says": liar.send(
            {
                **logs[7],
                SUMMARY: re.sub(rb"(per second: )[\d.e+]+", rb"\g<1>99999", logs[7][SUMMARY]),
            }
        ),
        "samples/s": liar.send(
            {**true, DETAIL: true[DETAIL].replace(was[1], twice)}, value=2 * value
        ),
        "the same log was sent before": liar.send(logs[0]),
        "qsl_rng_seed is": liar.send(logs[8], workload=replace(sample().workload, round="4.1")),
    }
    checked(crowd)
    for why, run in lies.items():
        told = liar.get(run)
        assert told["state"] == "refused", (why, told)
        assert told["figure"] is None
        assert any(why in each for each in words(told)), (why, words(told))
    shown = query.find(crowd.ledger.store, query.Filter(), "", 50, 0).rows
    assert {row["tier"] for row in shown} == {"reproduced"}
    assert len(shown) == 6
    assert all(row["figures_from"] == "LoadGen's logs" for row in shown)
    page = client.get("/results").text
    assert "reproduced" in page
    assert "not verified by MLCommons" in page
    one = client.get("/contributors/" + honest.get(first[0])["contributor"]).text
    assert "Compared with others on the same hardware" in one
    assert "checked device time" in one
    assert ">Compose<" not in one  # this server composes nothing
    upload = client.get(f"/uploads/{first[0]}").text
    assert upload.count(">passed<") > 3
    assert ">failed<" not in upload
    assert ">failed<" in client.get(f"/uploads/{next(iter(lies.values()))}").text
    # Each host that goes takes its agreement with it.
    for run in second:
        crowd.checker.reject(run, "me", "a test")
    assert {honest.get(run)["tier"] for run in first} == {"checked"}


def test_an_upload_goes_on_where_it_stopped(
    crowd: api.CrowdServer, volunteer: Callable[[], Volunteer]
) -> None:
    one, data = volunteer(), os.urandom(3000)
    told = one.manifest({DETAIL: data, SUMMARY: b""}, value=1.0)
    first, again = one.post(told), one.post(told)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json()
    assert first.json()["wanted"] == [{"sha256": told.files[0].sha256, "offset": 0}]
    packed = gzip.compress(data[:1000], mtime=0)
    where = {"Content-Range": "bytes 0-999/3000", "Content-Encoding": "gzip"}
    assert one.put_body(told.id, told.files[0].sha256, packed, **where).status_code == 204
    path = f"/api/v1/runs/{told.id}/files/{told.files[0].sha256}"
    assert one.client.head(path).headers["upload-offset"] == "1000"
    wrong = one.put(told.id, data, 1500)
    assert (wrong.status_code, wrong.json()["code"]) == (409, "wrong-offset")
    early = one.client.post(f"/api/v1/runs/{told.id}/finalize")
    assert (early.status_code, early.json()["code"]) == (409, "wrong-state")
    assert one.put(told.id, data, 1000).headers["upload-offset"] == "3000"
    assert one.post(told).json()["wanted"] == []
    assert one.put(told.id, data).status_code == 204
    assert one.client.post(f"/api/v1/runs/{told.id}/finalize").status_code == 202


def test_an_upload_is_removed_with_its_token_and_cannot_come_back(
    crowd: api.CrowdServer, volunteer: Callable[[], Volunteer]
) -> None:
    one = volunteer()
    told = one.manifest({}, value=1.0, files=(), consent=1, software=None)
    token = one.post(told).json()["delete_token"]
    stale = one.client.delete(f"/api/v1/runs/{told.id}", headers={api.DELETE_HEADER: "x" * 64})
    assert (stale.status_code, stale.json()["code"]) == (403, "bad-token")
    gone = one.client.delete(f"/api/v1/runs/{told.id}", headers={api.DELETE_HEADER: token})
    assert gone.status_code == 204
    assert one.client.get(f"/api/v1/runs/{told.id}").status_code == 410
    assert one.post(told).status_code == 410
    row = crowd.ledger.rows()[0]
    assert (row["state"], row["manifest"]) == ("removed", "")


def test_what_is_sent_without_logs_shows_no_number(
    crowd: api.CrowdServer, volunteer: Callable[[], Volunteer], client: TestClient
) -> None:
    one = volunteer()
    told = one.manifest({}, value=12345.0, files=(), consent=1, software=None)
    one.post(told)
    client.post(f"/api/v1/runs/{told.id}/finalize")
    checked(crowd)
    assert one.get(told.id)["state"] == "quarantine"
    assert query.find(crowd.ledger.store, query.Filter(), "", 50, 0).rows == ()
    crowd.checker.accept(told.id, "me")
    (row,) = query.find(crowd.ledger.store, query.Filter(), "", 50, 0).rows
    assert (row["tier"], row["value"]) == ("uploaded", None)
    assert crowd.ledger.events(told.id)[0]["who"] == "me"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda data: data.replace(b"12.5", b"NaN"), "bad-manifest"),
        (lambda data: data.replace(b'{"config"', b'{"format":1,"config"'), "bad-manifest"),
        (lambda data: data.replace(b"Intel CPU", b"S" * 300), "bad-manifest"),
        (lambda data: data + b" ", "bad-manifest"),
        (lambda data: b" " * (m.LARGEST + 1), "too-large"),
        (lambda data: b"[" * 100_000, "bad-manifest"),
        (lambda data: b"\xff", "bad-manifest"),
        (
            lambda data: data.replace(
                b'"metrics":[', b'"metrics":[' + b'{"name":"a","unit":"","value":1.0},' * 5000
            ),
            "bad-manifest",
        ),
    ],
)
def test_a_manifest_that_is_none_is_refused(
    volunteer: Callable[[], Volunteer],
    crowd: api.CrowdServer,
    change: Callable[[bytes], bytes],
    code: str,
) -> None:
    one = volunteer()
    answer = one.post_bytes(change(m.encode(one.manifest({}, 12.5, files=()))))
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["code"] == code
    assert answer.json()["detail"]
    assert crowd.ledger.rows() == []


def test_a_signature_of_another_key_is_refused(volunteer: Callable[[], Volunteer]) -> None:
    one, other = volunteer(), volunteer()
    data = m.encode(one.manifest({}, 1.0, files=()))
    assert other.post_bytes(data).json()["code"] == "bad-signature"


def test_names_are_shown_as_text(
    crowd: api.CrowdServer, volunteer: Callable[[], Volunteer], client: TestClient
) -> None:
    one = volunteer()
    name = "<script>alert(1)</script>'; DROP TABLE crowd_run; --"
    told = one.manifest({}, 1.0, files=(), system=m.ManifestSystem(cpu=name))
    assert "system.cpu is not the name" in one.post(told).text
    told = replace(told, system=m.ManifestSystem(cpu="AT&T CPU"))
    one.post(told)
    client.post(f"/api/v1/runs/{told.id}/finalize")
    checked(crowd)
    crowd.checker.accept(told.id, "me")
    sender = one.get(told.id)["contributor"]
    for path in ("/results", f"/contributors/{sender}", f"/uploads/{told.id}", "/contributors"):
        page = client.get(path)
        assert page.status_code == 200
        assert "<script>alert" not in page.text
    assert "AT&amp;T" in client.get(f"/contributors/{sender}").text


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model": ""}, "workload.model is empty"),
        ({"dataset": ""}, "workload.dataset is empty"),
        ({"model": "bert-99_tiny"}, "which is not of division closed"),
    ],
)
def test_what_says_too_little_of_its_work_is_refused(
    volunteer: Callable[[], Volunteer], changes: dict[str, str], words: str
) -> None:
    one = volunteer()
    told = one.manifest({}, 1.0, files=())
    told = replace(told, workload=replace(told.workload, **changes))
    assert words in one.post(told).text


def test_a_setting_that_no_client_sends_is_refused(volunteer: Callable[[], Volunteer]) -> None:
    one = volunteer()
    told = one.manifest({}, 1.0, files=())
    for settings in ({"VERIFIED": "1"}, {"batch": "see elsewhere"}):
        answer = one.post(replace(told, config=replace(told.config, settings=settings)))
        assert "is not a setting with a number" in answer.text


def test_a_stand_in_is_shown_as_one_with_a_command_of_the_servers(
    crowd: api.CrowdServer, volunteer: Callable[[], Volunteer], logs: list[Logs], store: Store
) -> None:
    one = volunteer()
    work = replace(sample().workload, model="bert-99_tiny", dataset="made", division="open")
    config = m.ManifestConfig("onnxruntime", "cpu", "test", {"batch": "8"}, "cm run script evil")
    run = one.send(logs[0], workload=work, config=config)
    checked(crowd)
    (row,) = query.find(store, query.Filter()).rows
    assert (row["form"], row["division"], row["model"]) == (
        "tiny, test run",
        "open",
        "bert-99_tiny",
    )
    assert store.result(row["uid"]).command == (
        "cm run script --tags=run-mlperf,inference,_tiny --model=bert-99 --scenario=Offline"
        " --backend=onnxruntime --device=cpu --precision=float32 --execution_mode=test"
        " --batch_size=8"
    )
    checks = {item["check"] for item in one.get(run)["checks"]}
    assert "does not apply" in checks


CONTRADICTIONS = (
    (rb'reported_total_count", "value": 10833', b'reported_total_count", "value": 5', "5 samples"),
    (rb'loadgen_version", "value": "[^"]*', b'loadgen_version", "value": "99.9', "LoadGen 99.9"),
    (rb'"loadgen_version"', b'"other_version"', "names no version of LoadGen"),
    (rb'test_datetime", "value": "\d{4}', b'test_datetime", "value": "1999', "log is of 1999"),
)


@pytest.mark.parametrize(("old", "new", "words"), CONTRADICTIONS)
def test_what_its_log_contradicts_is_refused(
    crowd: api.CrowdServer,
    volunteer: Callable[[], Volunteer],
    logs: list[Logs],
    old: bytes,
    new: bytes,
    words: str,
) -> None:
    one, edited = volunteer(), dict(logs[0])
    edited[DETAIL], count = re.subn(old, new, edited[DETAIL])
    assert count
    run = one.send(edited)
    checked(crowd)
    told = one.get(run)
    assert told["state"] == "refused"
    assert any(words in item["words"] for item in told["checks"] if item["passed"] is False)


@pytest.mark.parametrize("packed", [True, False])
def test_a_bomb_ends_at_what_was_announced(
    volunteer: Callable[[], Volunteer], crowd: api.CrowdServer, packed: bool
) -> None:
    one, data = volunteer(), b"x" * 1000
    told = one.manifest({DETAIL: data}, value=1.0)
    one.post(told)
    bomb = b"\0" * (32 << 20)
    where = {"Content-Range": "bytes 0-999/1000"} | ({"Content-Encoding": "gzip"} if packed else {})
    body = gzip.compress(bomb) if packed else bomb
    answer = one.put_body(told.id, told.files[0].sha256, body, **where)
    assert (answer.status_code, answer.json()["code"]) == (413, "too-large")
    sizes = [p.stat().st_size for p in crowd.files.root.rglob("*") if p.is_file()]
    assert sum(sizes) <= 1000


def test_a_ratio_no_log_has_is_refused() -> None:
    with pytest.raises(Error, match="200 times"):
        list(Unpacker(64 << 20, True).feed(gzip.compress(b"\0" * (60 << 20))))


def test_a_wrong_file_is_refused_and_can_be_sent_again(volunteer: Callable[[], Volunteer]) -> None:
    one, data = volunteer(), b"a log"
    told = one.manifest({DETAIL: data}, value=1.0)
    one.post(told)
    where = {"Content-Range": "bytes 0-4/5"}
    answer = one.put_body(told.id, told.files[0].sha256, b"other", **where)
    assert (answer.status_code, answer.json()["code"]) == (422, "bad-file")
    for odd in ("bytes 0-9/10", "bytes 4-0/5", "bytes */5", "items 0-4/5", ""):
        answer = one.put_body(told.id, told.files[0].sha256, data, **{"Content-Range": odd})
        assert (answer.status_code, answer.json()["code"]) == (400, "bad-value")
    assert one.put(told.id, data).status_code == 204
    for foreign in ("..%2f..%2fkey", "0" * 64):
        assert one.put_body(told.id, foreign, b"x", **where).status_code == 404


def test_logs_that_are_none_are_refused_in_words(
    crowd: api.CrowdServer, volunteer: Callable[[], Volunteer]
) -> None:
    one = volunteer()
    runs = [
        one.send({DETAIL: junk, SUMMARY: b"\0"}, value=1.0)
        for junk in (os.urandom(5000), b":::MLLOG " + b"[" * 50_000, b'{"a": 1}\n' * 10)
    ]
    checked(crowd)
    for run in runs:
        told = one.get(run)
        assert told["state"] == "refused", told
        assert words(told)


@pytest.mark.parametrize("limits", [Limits(of_key=2)])
def test_a_key_sends_so_much_in_an_hour(volunteer: Callable[[], Volunteer], limits: Limits) -> None:
    one = volunteer()
    answers = [one.post(one.manifest({}, 1.0, files=())) for _ in range(3)]
    assert [each.status_code for each in answers] == [201, 201, 429]
    assert answers[2].headers["retry-after"]
    assert volunteer().post(volunteer().manifest({}, 1.0, files=())).status_code == 422


@pytest.mark.parametrize("limits", [Limits(of_network=1)])
def test_a_network_is_counted_without_its_address(crowd: api.CrowdServer, limits: Limits) -> None:
    ledger = crowd.ledger
    near = [ledger.network(each) for each in ("203.0.113.7", "203.0.113.200")]
    assert near[0] == near[1] != ledger.network("198.51.100.1")
    assert "203" not in near[0]
    told = [Volunteer(None).manifest({}, 1.0, files=()) for _ in range(2)]
    ledger.receive(m.encode(told[0]), told[0], near[0])
    with pytest.raises(Error, match="one network"):
        ledger.receive(m.encode(told[1]), told[1], near[1])


@pytest.mark.parametrize("proxied", [False, True])
@pytest.mark.parametrize("header", ["", "X-Forwarded-For", "Forwarded", "Via"])
def test_what_a_proxy_hands_on_is_of_one_network(
    crowd: api.CrowdServer, header: str, proxied: bool
) -> None:
    """Where it does not say for whom, or is not believed, all would count as independent."""
    headers = [(header.lower().encode(), b"203.0.113.7")] if header else []
    scope = {"type": "http", "client": ("127.0.0.1", 7), "headers": headers}
    found = replace(crowd, proxied=proxied).network(Request(scope))
    assert bool(found) == bool(header or proxied)
    assert found == crowd.ledger.network("::1", bool(header or proxied))


def test_an_address_is_the_same_by_both_versions(crowd: api.CrowdServer) -> None:
    networks = [crowd.ledger.network(f"::ffff:{each}") for each in ("203.0.113.7", "8.8.8.8")]
    assert networks == [crowd.ledger.network(each) for each in ("203.0.113.9", "8.8.8.1")]
    assert networks[0] != networks[1]
    assert crowd.ledger.network("::ffff:127.0.0.1") == ""


def test_a_token_that_left_the_file_is_stale(
    crowd: api.CrowdServer, places: SourceFiles, tmp_path: Path
) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("first-token-of-many\nsecond-token-of-many\n")
    app = create_app(Site(home=str(tmp_path), key=b"k" * 32), replace(crowd, tokens=tokens))
    one = Volunteer(TestClient(app, base_url="http://results.example"))
    told = one.manifest({}, 1.0, files=())
    assert one.post(told).status_code == 401
    one.headers = {"Authorization": "Bearer second-token-of-many"}
    assert one.post(told).status_code == 201
    asked = partial(one.client.get, "/api/v1/ready", headers=one.headers)
    assert asked().status_code == 204
    tokens.write_text("first-token-of-many\n")
    assert one.post(told).json()["code"] == "bad-token"
    assert asked().json()["code"] == "bad-token"


def test_pages_of_others_cannot_write_and_names_cannot_be_rebound(client: TestClient) -> None:
    foreign = client.post("/api/v1/runs", content=b"{}", headers={"Origin": "http://evil.example"})
    assert foreign.status_code == 403
    assert client.get("/results", headers={"Host": "evil.example"}).status_code == 403
    answer = client.get("/api")
    assert "default-src 'self'" in answer.headers["content-security-policy"]
    assert not re.search(r'(?:src|href)="(?:https?:)?//', answer.text)


def test_the_interface_is_described(client: TestClient) -> None:
    told = client.get("/api/v1/openapi.json").json()
    assert told["openapi"].startswith("3.1")
    paths = {route.path for route in api.routes()}
    assert set(told["paths"]) == paths - {"/api/v1/openapi.json"}


def test_the_log_of_events_is_only_added_to(crowd: api.CrowdServer) -> None:
    crowd.ledger.tell("me", "did", "something")
    for statement in ("UPDATE crowd_event SET who = 'you'", "DELETE FROM crowd_event"):
        with (
            pytest.raises(Error, match="only added to"),
            crowd.ledger.store.reading() as connection,
        ):
            connection.execute(sa.text(statement))
    assert [event["who"] for event in crowd.ledger.events()] == ["me"]


def test_work_is_leased_found_again_and_given_back(
    crowd: api.CrowdServer, volunteer: Callable[[], Volunteer], client: TestClient
) -> None:
    spec = {"benchmark": "bert-99", "scenario": "Offline"}
    work.want(crowd.ledger, spec, hosts=1)
    one, other = volunteer(), volunteer()

    def ask(who: Volunteer, path: str, **told: str) -> Any:
        does, name = ("return", path.partition("/")[0]) if "/" in path else ("lease", "")
        data = json.dumps({"key": public_of(who.key), "do": does, "work": name, **told}).encode()
        headers = {m.SIGNATURE_HEADER: sign(who.key, data)}
        return client.post(f"{WORK}/{path}", content=data, headers=headers)

    assert client.get("/api/v1/work").json()["work"][0]["spec"] == spec
    first = ask(one, "lease")
    assert first.status_code == 201
    assert ask(one, "lease").json() == first.json()
    assert ask(other, "lease").json()["code"] == "no-work"
    lease = first.json()["id"]
    assert ask(other, f"{lease}/return").json()["code"] == "lease-not-found"
    assert ask(one, f"{lease}/return").status_code == 204
    second = ask(other, "lease").json()
    assert second["seed"] != first.json()["seed"]
    assert second["deadline"] > time.time()
    forged = client.post(
        f"{WORK}/lease",
        content=json.dumps({"key": public_of(one.key)}).encode(),
        headers={m.SIGNATURE_HEADER: "AAAA"},
    )
    assert forged.json()["code"] == "bad-signature"
    assert "bert-99" in client.get("/wanted").text


def test_leased_work_has_seeds_of_its_own_that_serve_once(
    crowd: api.CrowdServer, volunteer: Callable[[], Volunteer], logs: list[Logs], tmp_path: Path
) -> None:
    spec = {"benchmark": "bert-99", "scenario": "Offline", "backend": "onnxruntime"}
    for hosts in range(3):
        work.want(crowd.ledger, {**spec, "round": "5.1", "note": str(hosts)}, hosts=1)
    one, other = volunteer(), volunteer()
    leases = [work.lease(crowd.ledger, one.name, e["id"]) for e in work.open_work(crowd.ledger)]
    own, second = run_logs(tmp_path / "leased", [lease["seed"] for lease in leases[:2]])
    units = [lease["id"] for lease in leases]
    lies = {
        "its work unit has": one.send(logs[0], work_unit=units[0]),
        "was not leased to this key": other.send(own, work_unit=units[0]),
        "qsl_rng_seed is": one.send(second),
        "asks for another scenario": one.send(
            second,
            work_unit=units[1],
            workload=replace(sample().workload, scenario="Server"),
        ),
    }
    checked(crowd)
    for why, run in lies.items():
        assert one.get(run)["state"] == "refused"
        assert any(why in each for each in words(one.get(run))), (why, words(one.get(run)))
    # What was refused leaves the lease as it was: an honest run of it still counts.
    honest = one.send(own, work_unit=units[0])
    checked(crowd)
    told = one.get(honest)
    assert (told["state"], told["tier"]) == ("published", "checked"), told
    assert "the seeds are those of its work unit" in {e["words"] for e in told["checks"]}
    assert [e["id"] for e in work.open_work(crowd.ledger)] != [], "others are wanted still"
    again = one.send(second, work_unit=units[0])
    checked(crowd)
    assert "its work unit was done before" in words(one.get(again))


def row(sender: str, number: int, value: float, network: str = "") -> dict[str, Any]:
    run = f"{sender}{number}"
    return {"sender": sender, "id": run, "value": value, "network": network or sender}


def test_hosts_agree_only_if_independent_close_and_measured_often() -> None:
    def tier(*rows: dict[str, Any]) -> set[str]:
        return {found for found, _ in judge.tiers(rows).values()}

    mine = [row("a", n, 100 + n / 10) for n in range(3)]
    assert tier(*mine) == {"checked"}
    assert tier(*mine, *(row("b", n, 103) for n in range(3))) == {"reproduced"}
    assert tier(*mine, *(row("b", n, 103) for n in range(2))) == {"checked"}
    assert tier(*mine, *(row("b", n, 110) for n in range(3))) == {"checked"}
    assert tier(*mine, *(row("b", n, 103, "a") for n in range(3))) == {"checked"}
    noisy = [row("a", n, v) for n, v in enumerate((20, 100, 500))]
    assert tier(*noisy, *(row("b", n, 140) for n in range(3))) == {"checked"}


def test_a_figure_far_from_five_others_is_an_outlier() -> None:
    others = [row(name, 0, 100 + n) for n, name in enumerate("bcdef")]
    assert judge.outlier(row("a", 0, 101), others) == ""
    assert "3.43 times" in judge.outlier(row("a", 0, 350), others)
    assert judge.outlier(row("a", 0, 350), others[:4]) == ""


def test_a_full_disk_is_told_and_loses_nothing(
    crowd: api.CrowdServer, volunteer: Callable[[], Volunteer], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, data = volunteer(), b"z" * 5000
    told = one.manifest({DETAIL: data}, value=1.0)
    one.post(told)
    one.put(told.id, data, 0, 2000)

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("cmbench_crowd_server.files.os.write", full)
        answer = one.put(told.id, data, 2000)
    assert (answer.status_code, answer.json()["code"]) == (507, "no-space")
    assert crowd.files.offset(told.id, told.files[0]) == 2000
    assert one.put(told.id, data, 2000).status_code == 204


def test_a_server_that_is_killed_in_mid_upload_goes_on(served: Served, logs: list[Logs]) -> None:
    run, base = served()
    one = Volunteer(Http(), base)
    told = one.manifest(logs[0])
    detail = logs[0][DETAIL]
    token = one.post(told).json()["delete_token"]
    half = len(detail) // 2 + 1
    for kill, at in enumerate((0, half)):
        end = min(at + half, len(detail))
        assert one.put(told.id, detail, at, end).headers["upload-offset"] == str(end)
        if kill < 1:
            # In the middle of a request whose body does not come to its end.
            left = socket.create_connection(("127.0.0.1", int(base.rpartition(":")[2])), 10)
            left.sendall(
                f"PUT /api/v1/runs/{told.id}/files/{told.files[0].sha256} HTTP/1.1\r\n"
                f"Host: 127.0.0.1\r\nContent-Length: {len(detail) - end}\r\n"
                f"Content-Range: bytes {end}-{len(detail) - 1}/{len(detail)}\r\n\r\n".encode()
            )
            run.send_signal(signal.SIGKILL)
            run.wait(HANG_S)
            left.close()
            run, base = served()
            answer = one.post(told).json()
            assert answer["delete_token"] == token
            assert answer["wanted"][0]["offset"] == end
    for name in (SUMMARY, OF_ACCURACY, ROLES["accuracy-summary"]):
        assert one.put(told.id, logs[0][name]).status_code == 204
    assert one.client.post(f"{base}/api/v1/runs/{told.id}/finalize").status_code == 202
    # Killed while it checks, or before: the queue is in the database.
    run.send_signal(signal.SIGKILL)
    run.wait(HANG_S)
    run, base = served()
    wait_for(lambda: one.get(told.id)["state"] == "published")
    assert one.get(told.id)["tier"] == "checked", one.get(told.id)
    assert one.post(told).status_code == 200


def test_who_says_nothing_is_hung_up_on(
    served: Served,
) -> None:
    _, base = served()
    with socket.create_connection(("127.0.0.1", int(base.rpartition(":")[2])), 10) as slow:
        slow.settimeout(HANG_S)
        slow.sendall(b"GET /api/v1/work HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: ")
        assert slow.recv(1000) == b""


def test_work_needs_more_hosts_of_the_unknown_and_fewer_of_the_good() -> None:
    assert [work.standing(*told) for told in ((0, 2, 0), (0, 3, 0), (0, 9, 9))] == [
        work.NEW,
        work.KNOWN,
        work.NEW,
    ]
    assert work.standing(10, 10, 0) == work.standing(10, 12, 1) == work.GOOD
    assert work.standing(10, 12, 2) == work.KNOWN, "trust falls on failure"
    cases = {
        (frozenset(), False): 0,
        (frozenset(), True): 0,
        (frozenset({work.NEW}), False): 1,
        (frozenset({work.NEW, work.KNOWN}), False): 0,
        (frozenset({work.NEW, work.GOOD}), False): -1,
        (frozenset({work.GOOD}), True): 1,
    }
    assert {case: work._more(set(case[0]), case[1]) for case in cases} == cases


def test_one_of_ten_works_is_audited_by_chance_that_nobody_knows(crowd: api.CrowdServer) -> None:
    names = [f"{number:032x}" for number in range(2000)]
    picked = {name for name in names if crowd.ledger.is_audited(name)}
    assert 100 < len(picked) < 300
    other = Ledger(crowd.ledger.store, b"another secret")
    assert picked != {name for name in names if other.is_audited(name)}


def test_a_new_contributor_is_measured_after_by_one_more(
    crowd: api.CrowdServer, volunteer: Callable[[], Volunteer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Ledger, "is_audited", lambda *_: False)
    one = volunteer()
    told = one.manifest({}, 1.0, files=())
    run = one.post(told).json()["id"]
    of = tuple(crowd.ledger.row(run)[name] for name in ("hardware", "work"))
    work.want(crowd.ledger, work.spec_of(told), of=of)
    assert work.open_work(crowd.ledger)[0]["wanted"] == 2
    crowd.ledger.move(run, ("receiving",), "published", tier="checked", value=1.0)
    (stand,) = work.open_work(crowd.ledger)
    assert (stand["senders"], stand["wanted"]) == ({one.name}, 3)
    for number in range(10):
        more = one.manifest({}, 1.0 + number, files=())
        crowd.ledger.receive(m.encode(more), more, "")
        crowd.ledger.move(more.id, ("receiving",), "published", tier="reproduced", value=1.0)
    assert work.open_work(crowd.ledger) == [], "of good standing one is enough"
    assert one.client.get("/api/v1/work").json()["work"] == []


def test_what_no_hardware_can_compute_is_refused_with_the_figure() -> None:
    """The largest published results are well below the bound, a thousandfold of them is not."""
    cpu = sample(system=m.ManifestSystem(cpu="Intel CPU", cores=2))
    passed, said = plausible(cpu, 20.0, "samples/s")
    assert passed
    passed, said = plausible(cpu, 1e5, "samples/s")
    assert passed is False
    assert said == (
        "1e+05 samples/s of 50 GFLOP each are 5e+03 TFLOP/s; 2 cores can compute 1.79 at most"
    )
    assert plausible(cpu, 0.01, "ms")[0] is False
    assert plausible(cpu, 100.0, "ms")[0]
    # H100 x 8 at round 4.1: bert-99 Offline, llama2-70b-99 Offline.
    large = m.ManifestSystem(cpu="Intel CPU", cores=112, accelerator="NVIDIA GPU", accelerators=8)
    gpus = sample(system=large, workload=replace(sample().workload, precision="int8"))
    assert plausible(gpus, 73_310.0, "samples/s")[0]
    llama = replace(gpus, workload=replace(gpus.workload, benchmark="llama2-70b-99.9"))
    assert plausible(llama, 24_525.0, "tokens/s")[0]
    assert plausible(llama, 24_525_000.0, "tokens/s")[0] is False
    for changes in ({"division": "open"}, {"model": "bert_tiny"}, {"benchmark": "dlrm-99"}):
        other = replace(cpu, workload=replace(cpu.workload, **changes))
        assert plausible(other, 1e5, "samples/s")[0]
        assert plausible(other, 1.6e15, "samples/s")[0] is False
    undescribed = sample(system=m.ManifestSystem())
    assert plausible(undescribed, 100.0, "samples/s")[0]
    assert plausible(undescribed, 1e9, "samples/s")[0] is False
    # Nobody knows what accelerators can do whose number is not told.
    for many in (None, 0):
        silent = replace(gpus, system=replace(large, accelerators=many))
        assert plausible(silent, 73_310.0, "samples/s")[0]
        assert plausible(silent, 1e9, "samples/s")[0] is False
    assert m.parse(m.encode(silent)).system.accelerators == 0


def test_one_home_has_one_server(tmp_path: Path) -> None:
    """Two would check the same uploads, and take them from each other."""
    with verbs.alone(tmp_path):
        with pytest.raises(Error, match=f"process {os.getpid()}") as caught, verbs.alone(tmp_path):
            pass
        assert caught.value.code == "cannot-listen"
        with verbs.alone(tmp_path / "other"):
            pass
    with verbs.alone(tmp_path):
        pass


def test_files_of_a_lost_database_are_not_taken_for_none(tmp_path: Path) -> None:
    store = Store(SourceFiles(tmp_path / "cmbench"))
    ledger = Ledger(store, b"secret")
    verbs._check_database_has_uploads(ledger, tmp_path)
    (tmp_path / "files" / "a").mkdir(parents=True)
    with pytest.raises(Error, match="not in the database, which is new"):
        verbs._check_database_has_uploads(ledger, tmp_path)
    store.close()


def test_a_home_on_a_file_system_without_locks_has_servers_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(handle: int) -> bool:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(verbs.locks, "try_lock", none)
    with verbs.alone(tmp_path), verbs.alone(tmp_path):
        pass


def test_a_review_does_nothing_where_one_word_of_it_means_nothing(
    crowd: api.CrowdServer,
    volunteer: Callable[[], Volunteer],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    one = volunteer()
    told = one.manifest({}, value=12345.0, files=(), consent=1, software=None)
    one.post(told)
    workspace = Workspace.open(str(tmp_path))
    monkeypatch.setattr(verbs, "_opened", lambda command: crowd)

    def review(*names: str, **flags: Any) -> Any:
        given = {**flags, "artifacts": [*names]}
        return verbs.review_results(Command("results", workspace, given))

    for flags, message, hint in (
        ({"block": one.name[:-1] + "x"}, "has sent nothing", f'did you mean "{one.name}"?'),
        ({"block": "NOBODY"}, "has sent nothing", "cm review results"),
        ({"block": told.id}, "is a result", f"--block={one.name}"),
        ({"reject": told.id, "block": "NOBODY"}, "has sent nothing", ""),
        ({"reject": f"{told.id},nothing"}, "no result has the id nothing", ""),
    ):
        with pytest.raises(Error, match=message) as caught:
            review(**flags)
        assert hint in caught.value.hint
    assert one.get(told.id)["state"] != "rejected"
    assert one.name in str(review(told.id).text)
    assert review(block=one.name).text == f"nothing more is accepted from {one.name}"
    assert [each["what"] for each in crowd.ledger.events(one.name)] == ["blocked"]
