"""A parcel arrives once and whole, whatever the network, the server or the machine does."""

from __future__ import annotations

import base64
import gzip
import json
import os
import random
import stat
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from crowd_lab import Faulty, Request, measured

from cmbench.cli.reply import Command
from cmbench.errors import Error
from cmbench.session.workspace import Workspace
from cmbench_crowd import bundle, client_home, contribute, drafts, http_client, leases, verbs
from cmbench_crowd import manifest as m
from cmbench_crowd.client_home import ClientHome
from cmbench_crowd.contribute import UploadOptions
from cmbench_crowd.drafts import Draft
from cmbench_crowd.http_client import CrowdClient, RetryPolicy
from cmbench_results.result_sources import SourceFiles
from support import HANG_S, python_env

QUICK = RetryPolicy(attempts=3, pause=0.01, connect=2, read=0.5)
YES = UploadOptions(consent=m.LOGS, yes=True)


def send(
    root: Path, url: str, wish: UploadOptions = YES, patience: RetryPolicy = QUICK
) -> dict[str, Any]:
    kept = ClientHome(root)
    draft, place = contribute.drafted(root, "last", wish)
    parcel = contribute.packed(kept, draft, place)
    return contribute.sent(
        kept, parcel, place, CrowdClient.at(url, "", patience), lambda text: None
    )


def code_of(does: Callable[[], object]) -> str:
    with pytest.raises(Error) as caught:
        does()
    return caught.value.code


def whole(lab: Faulty) -> None:
    """One result arrived, with all of its files as they were signed."""
    (run,) = lab.runs.values()
    manifest = m.parse(run["data"])
    assert run.get("final")
    assert {m.digest(bytes(data)) for data in run["files"].values()} == {
        each.sha256 for each in manifest.files
    }


def test_a_result_arrives_whole_and_is_withdrawn(root: Path) -> None:
    with Faulty() as lab:
        assert send(root, lab.url)["state"] == "quarantine"
        whole(lab)
        first = set(lab.runs)
        send(root, lab.url)
        assert set(lab.runs) == first, "sent again, it is the same one"
        shown, _ = contribute.drafted(root, "last", YES)
        assert {shown.manifest.id} == first, "what is shown is what would be sent"
        assert contribute.withdrawn(root, "last") == list(first)
        assert lab.runs == {}
        send(root, lab.url)
        assert not set(lab.runs) & first, "a server takes no id twice that was withdrawn"
        assert len(contribute.withdrawn(root, "all")) == 1
    assert code_of(lambda: contribute.withdrawn(root, "all")) == "result-not-found"


def test_other_fields_of_a_sent_result_are_no_second_result(root: Path) -> None:
    with Faulty() as lab:
        send(root, lab.url)
        less = replace(YES, without=("system.cpu",))
        assert code_of(lambda: send(root, lab.url, less)) == "already-sent"
        contribute.withdrawn(root, "all")
        send(root, lab.url, less)
        (run,) = lab.runs.values()
        assert m.parse(run["data"]).system.cpu == ""


def drop(request: Request) -> bool:
    request.close_connection = True
    request.connection.close()
    return True


def raw(request: Request, data: bytes) -> bool:
    request.close_connection = True
    request.wfile.write(data)
    return True


def says(status: int, told: Any = None, **headers: str) -> Callable[[Request], bool]:
    def fault(request: Request) -> bool:
        request.answer(status, told, **headers)
        return True

    return fault


def stall(request: Request) -> bool:
    time.sleep(1.2)
    return drop(request)


def drip(request: Request) -> bool:
    request.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n")
    for _ in range(12):
        request.wfile.write(b" ")
        request.wfile.flush()
        time.sleep(0.1)
    return drop(request)


@pytest.mark.parametrize(
    "fault", [drop, stall, drip, says(503), says(429, {"code": "rate", "detail": "later"})]
)
@pytest.mark.parametrize("at", [1, 3, 6])
def test_it_goes_on_after_a_fault_that_passes(root: Path, fault: Any, at: int) -> None:
    with Faulty(lambda request, number: number == at and fault(request)) as lab:
        send(root, lab.url)
        whole(lab)


def test_a_part_that_arrived_without_an_answer_is_not_sent_twice(root: Path) -> None:
    def lose_answer(request: Request, number: int) -> bool:
        if request.command != "PUT" or number > 4:
            return False
        request.answer = lambda *_, **__: drop(request)  # type: ignore[method-assign]
        return False

    with Faulty(lose_answer) as lab:
        send(root, lab.url)
        whole(lab)


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (drop, "server-unreachable"),
        (says(503), "server-unreachable"),
        (says(302, None, Location="http://127.0.0.1:9/"), "bad-server"),
        (says(308, None, Location="https://example.org/"), "bad-server"),
        (says(401), "server-refused"),
        (says(413, {"code": "too-large", "detail": "\x1b[31mno\n"}), "server-refused"),
        (says(200, []), "bad-server"),
        (says(200, {"id": "../../x", "wanted": []}), "bad-server"),
        (says(200, {"id": "x"}), "bad-server"),
        (says(200, {"id": "x", "wanted": [{"sha256": "0" * 64, "offset": 0}]}), "bad-server"),
        (says(200, {"id": "x", "wanted": [{"sha256": {}, "offset": -1}]}), "bad-server"),
        (says(200, {"id": "x", "wanted": [7] * 10_000}), "bad-server"),
        (says(200, {"id": "x", "wanted": [], "delete_token": "t" * 9_999}), "bad-server"),
        (lambda r: raw(r, b"HTTP/1.1 200 OK\r\n\r\n<html>hello"), "bad-server"),
        (lambda r: raw(r, b"SSH-2.0-x\r\n"), "server-unreachable"),
        (lambda r: raw(r, b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * (2 << 20)), "bad-server"),
        (
            lambda r: raw(
                r,
                b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n"
                + gzip.compress(b"x" * (64 << 20)),
            ),
            "bad-server",
        ),
    ],
)
def test_a_server_that_lies_or_refuses_gets_one_clear_error(
    root: Path, fault: Any, code: str
) -> None:
    with Faulty(lambda request, number: fault(request)) as lab:
        with pytest.raises(Error) as caught:
            send(root, lab.url, patience=replace(QUICK, read=20))
        assert caught.value.code == code
        assert caught.value.hint
        assert "\x1b" not in caught.value.render()


def test_a_server_that_says_it_has_more_than_there_is_is_not_believed(root: Path) -> None:
    def lie(request: Request, number: int) -> bool:
        if request.command == "PUT":
            return says(409)(request)
        return request.command == "HEAD" and says(200, None, Upload_Offset="999999999")(request)

    with Faulty(lie) as lab:
        assert code_of(lambda: send(root, lab.url)) == "bad-server"


def test_a_server_that_never_takes_a_part_ends_the_attempt(root: Path) -> None:
    def never(request: Request, number: int) -> bool:
        return request.command == "PUT" and says(409)(request)

    with Faulty(never) as lab:
        assert code_of(lambda: send(root, lab.url)) == "server-unreachable"


def test_without_a_network_nothing_is_lost(root: Path) -> None:
    with Faulty() as lab:
        url = lab.url
    assert code_of(lambda: send(root, url)) == "server-unreachable"
    with Faulty() as lab:
        send(root, lab.url)
        whole(lab)


@pytest.mark.parametrize(
    "url",
    [
        "http://example.org",
        "http://10.0.0.1",
        "http://127.0.0.1.example.org",
        "http://localhost@example.org",
        "https://user:pass@example.org",
        "https://example.org/?token=x",
        "ftp://example.org",
        "//example.org",
        "",
        "file:///etc/passwd",
    ],
)
def test_only_https_or_this_machine_is_sent_to(url: str) -> None:
    assert code_of(lambda: CrowdClient.at(url)) == "bad-value"


def test_no_word_of_netrc_or_python_is_sent(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login ann password secret\n")
    monkeypatch.setenv("NETRC", str(netrc))
    seen: list[dict[str, str]] = []

    def look(request: Request, number: int) -> bool:
        seen.append(dict(request.headers))
        return False

    with Faulty(look) as lab:
        send(root, lab.url)
    told = {name for headers in seen for name in headers}
    assert told <= {
        *("Host", "User-Agent", "Content-Type", "Content-Length", "Content-Range"),
        *("Content-Encoding", "Idempotency-Key", "X-Cmbench-Signature", "Accept-Encoding"),
    }
    assert {headers["User-Agent"] for headers in seen} == {"cmbench"}


KILLED = """
import sys
from pathlib import Path
from cmbench_crowd import manifest as m, contribute, http_client
from cmbench_crowd.client_home import ClientHome
from cmbench_crowd.drafts import Draft
from cmbench_crowd.http_client import RetryPolicy, CrowdClient
root, url = Path(sys.argv[1]), sys.argv[2]
http_client.CHUNK = 64
kept, wish = ClientHome(root), contribute.UploadOptions(consent=m.LOGS, yes=True)
draft, place = contribute.drafted(root, "last", wish)
parcel = contribute.packed(kept, draft, place)
print("go", flush=True)
server = CrowdClient.at(url, "", RetryPolicy(3, 0.01, 2, 5))
contribute.sent(kept, parcel, place, server, lambda text: None)
"""


def test_killed_at_any_moment_a_result_arrives_once(root: Path) -> None:
    """``CMBENCH_KILLS`` says at how many moments."""
    kills = int(os.environ.get("CMBENCH_KILLS", "6"))
    chance = random.Random(17)
    command = [sys.executable, "-c", KILLED, str(root)]
    env = python_env()

    def slow(request: Request, number: int) -> bool:
        time.sleep(0.002)
        return False

    with Faulty(slow) as lab:
        for _ in range(kills):
            process = subprocess.Popen([*command, lab.url], env=env, stdout=subprocess.PIPE)
            assert process.stdout is not None
            if chance.random() < 0.8:
                process.stdout.read(3)
            time.sleep(chance.random() * 0.3)
            process.kill()
            process.wait(HANG_S)
            process.stdout.close()
        subprocess.run(
            [*command, lab.url], env=env, timeout=HANG_S, check=True, capture_output=True
        )
        whole(lab)
        assert len(contribute.withdrawn(root, "all", QUICK)) == 1
        assert lab.runs == {}


def test_a_bundle_is_the_same_bytes_and_is_sent_from_elsewhere(root: Path, tmp_path: Path) -> None:
    kept = ClientHome(root)
    draft, place = contribute.drafted(root, "last", YES)
    parcel = contribute.packed(kept, draft, place)
    assert bundle.pack(parcel) == bundle.pack(parcel) == place.read_bytes()
    assert bundle.read(place) == parcel
    elsewhere = ClientHome(tmp_path / "other" / "cmbench")
    with Faulty() as lab:
        contribute.sent(
            elsewhere, bundle.read(place), place, CrowdClient.at(lab.url), lambda text: None
        )
        whole(lab)


def test_a_damaged_or_hostile_bundle_is_refused(root: Path, tmp_path: Path) -> None:
    import zipfile

    kept = ClientHome(root)
    draft, place = contribute.drafted(root, "last", YES)
    parcel = contribute.packed(kept, draft, place)
    data = place.read_bytes()
    bad = tmp_path / "bad.zip"
    for cut in range(0, len(data), max(1, len(data) // 40)):
        bad.write_bytes(data[:cut])
        assert code_of(lambda: bundle.read(bad)) == "bad-bundle"
        flipped = bytearray(data)
        flipped[cut] ^= 0x41
        bad.write_bytes(flipped)
        try:
            assert bundle.read(bad) == parcel, "a byte that nobody reads, such as a time"
        except Error as problem:
            known = ("bad-bundle", "bad-manifest", "bad-signature")
            assert problem.code in known  # noqa: PT017
    first = next(iter(parcel.files))
    bomb = replace(parcel, files={**parcel.files, first: b"\0" * (80 << 20)})
    bad.write_bytes(bundle.pack(bomb))
    assert code_of(lambda: bundle.read(bad)) == "bad-bundle"
    bad.write_bytes(bundle.pack(replace(parcel, files={**parcel.files, "../../x": b"x"})))
    assert code_of(lambda: bundle.read(bad)) == "bad-bundle"
    with zipfile.ZipFile(place, "a") as archive:
        archive.writestr("more", "x")
    assert code_of(lambda: bundle.read(place)) == "bad-bundle"
    assert code_of(lambda: bundle.read(tmp_path)) == "file-not-found"


def test_the_key_is_one_and_its_owners_alone(tmp_path: Path) -> None:
    root = tmp_path / "cmbench"
    found: list[bytes] = []
    threads = [
        threading.Thread(target=lambda: found.append(ClientHome(root).key().private_bytes_raw()))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANG_S)
    assert len(found) == 8
    assert len(set(found)) == 1
    path = root / "crowd" / "key.pem"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in path.parent.iterdir()] == ["key.pem"]
    path.write_text("x")
    assert code_of(lambda: ClientHome(root).key()) == "broken-key"


def test_a_full_disk_is_one_error_and_leaves_nothing_half_made(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draft, place = contribute.drafted(root, "last", YES)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(client_home.os, "fsync", full)
    assert code_of(lambda: contribute.packed(ClientHome(root), draft, place)) == "no-space"
    assert not list(place.parent.glob("*")), "no half of a file stays"


def test_consent_is_asked_for_once_and_kept(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = ClientHome(root)
    assert code_of(lambda: contribute.level_of(kept, UploadOptions())) == "needs-input"
    asked: list[str] = []

    def answer(text: str) -> str:
        asked.append(text)
        return "y" if len(asked) < 3 else "n"

    monkeypatch.setattr(contribute, "answered", answer)
    assert contribute.level_of(kept, UploadOptions(may_ask=True)) == m.SOFTWARE
    assert contribute.level_of(kept, UploadOptions(may_ask=True)) == m.SOFTWARE
    assert len(asked) == 3
    draft, _ = contribute.drafted(root, "last", UploadOptions())
    assert draft.manifest.software is not None
    assert draft.files == {}
    draft, _ = contribute.drafted(root, "last", UploadOptions(consent=m.METRICS))
    assert draft.manifest.software is None


def test_nothing_is_sent_without_a_yes(root: Path) -> None:
    draft, _ = contribute.drafted(root, "last", YES)
    wish = UploadOptions()
    assert code_of(lambda: contribute.confirmed(draft, wish, "x")) == "not-confirmed"


def told(draft: Draft) -> dict[str, str]:
    """The fields that are not empty."""
    return {name: value for name, value in drafts.lines(draft.manifest) if value}


def test_every_key_that_leaves_is_shown(root: Path) -> None:
    draft, _ = contribute.drafted(root, "last", YES)
    shown = contribute.shown(drafts.without(draft, ["system.cpu", "config.settings"]))
    document = json.loads(m.encode(draft.manifest))
    for name, value in document.items():
        inner = [f"{name}.{key}" for key in value] if isinstance(value, dict) else [name]
        assert all(key in shown for key in inner), name
    _, _, empty = shown.partition("  empty: ")
    assert "system.cpu" in empty
    assert max(map(len, empty.splitlines())) <= 80


def test_every_field_but_the_needed_ones_can_be_switched_off(root: Path) -> None:
    draft, _ = contribute.drafted(root, "last", YES)
    names = told(draft)
    for name in names:
        if name in drafts._FIXED:
            assert code_of(lambda n=name: drafts.without(draft, [n])) == "bad-value"
            continue
        left = drafts.without(draft, [name])
        assert name not in told(left)
    rest = drafts.without(draft, [n for n in names if n not in drafts._FIXED])
    assert set(told(rest)) <= set(drafts._FIXED)
    assert rest.files == {}
    assert code_of(lambda: drafts.without(draft, ["system.hostname"])) == "bad-value"


def test_a_damaged_file_of_another_place_is_in_nobodys_way(root: Path) -> None:
    result = contribute.result_of(root, "last")
    places = SourceFiles(root)
    [place], _ = places.readable()
    (places.root / "places" / "0123456789abcdef.jsonl").write_text("no place")
    assert contribute.result_of(root, result.uid[:6]).uid == result.uid
    places.remove(place)
    assert code_of(lambda: contribute.result_of(root, "last")) == "broken-results"


def test_a_model_of_ones_own_and_published_results_are_not_sent(root: Path) -> None:
    result = contribute.result_of(root, "last")
    key = ClientHome(root).key()
    own = replace(result, workload=replace(result.workload, benchmark="my-model"))
    for each in (own, replace(result, tier="official"), replace(result, organization="Maker")):
        assert code_of(lambda e=each: drafts.draft(e, 3, key)) == "not-sendable"


def test_logs_of_a_later_run_in_the_same_folder_are_not_sent(root: Path) -> None:
    result = contribute.result_of(root, "last")
    path = Path(result.folder) / "results.json"
    told = json.loads(path.read_text())
    told["results"][0]["performance_run"]["value"] = 5.0
    path.write_text(json.dumps(told))
    draft, _ = contribute.drafted(root, "last", YES)
    assert draft.files == {}
    assert "later run" in draft.notes[0]


def test_parts_of_a_file_are_as_large_as_told(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "CHUNK", 50)
    with Faulty() as lab:
        send(root, lab.url)
        whole(lab)
    assert lab.seen > 20


def test_work_is_leased_by_the_key_of_the_device_and_given_back(root: Path) -> None:
    seen: list[tuple[str, str, bytes]] = []
    lease = {"id": "lease-1", "seed": "77", "deadline": time.time() + 60}
    lease["spec"] = {"benchmark": "bert-99", "scenario": "Offline", "hardware": "a; b"}

    def work(request: Request, number: int) -> bool:
        seen.append((request.command, request.path, request.body))
        if request.command == "GET":
            return says(200, {"work": [{"id": "w1"}]})(request)
        signature = request.headers[m.SIGNATURE_HEADER]
        public = ClientHome(root).key().public_key()
        public.verify(base64.urlsafe_b64decode(signature + "=="), request.body)
        assert json.loads(request.body)["key"] == m.key_text(public.public_bytes_raw())
        if request.path.endswith("/return"):
            return says(204)(request)
        return says(201, lease)(request)

    with Faulty(work) as lab:
        server = CrowdClient.at(lab.url, "", QUICK)
        assert server.work() == [{"id": "w1"}]
        assert contribute.leased(root, server, "w1")["id"] == "lease-1"
        assert leases.running_lease(ClientHome(root), "lease-1").env() == {
            "CM_MLPERF_MODEL": "bert-99",
            "CM_MLPERF_LOADGEN_SCENARIO": "Offline",
            "CM_MLPERF_LOADGEN_SEED": "77",
        }
        contribute.returned(root, server, "lease-1")
        assert code_of(lambda: contribute.returned(root, server, "../x")) == "bad-value"
    asked = [path.removeprefix("/api/v1/") for _, path, _ in seen]
    assert asked == ["work", "work/lease", "work/lease-1/return"]
    assert [json.loads(body)["work"] for _, _, body in seen[1:]] == ["w1", "lease-1"]
    for unit in ("lease-2", "../../key.pem", ""):
        assert code_of(lambda: leases.running_lease(ClientHome(root), unit)) == "lease-not-found"  # noqa: B023
    ClientHome(root).keep_lease("lease-1", {**lease, "deadline": time.time() - 1})
    assert code_of(lambda: leases.running_lease(ClientHome(root), "lease-1")) == "lease-not-found"


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": "0"},
        {"seed": 7},
        {"seed": "9" * 40},
        {"id": "../x"},
        {"deadline": "soon"},
        {"deadline": float("nan")},
        {"spec": {"benchmark": "bert-99 --quiet; rm -rf ~"}},
        {"spec": {"backend": "$(x)"}},
        {"spec": {"scenario": ["Offline"]}},
    ],
)
def test_a_lease_that_could_do_harm_is_not_taken(root: Path, changes: dict[str, Any]) -> None:
    told = {"id": "u", "seed": "1", "deadline": 1.0, "spec": {"benchmark": "bert-99"}}
    assert code_of(lambda: leases.keep(ClientHome(root), {**told, **changes})) == "bad-server"


def test_what_a_server_says_is_told_with_what_failed_first() -> None:
    checks = [
        {"passed": True, "words": "signed"},
        {"passed": None, "words": "no data set"},
        {"passed": False, "words": "a forged \x1b[31mfigure"},
        "x",
    ]
    told = {"id": "i", "state": "quarantine", "tier": "uploaded", "checks": checks}
    lines = contribute.answer_text(told, CrowdClient("https://x")).splitlines()
    assert [line.split()[0] for line in lines[1:-1]] == ["failed", "open", "passed"]
    assert "\x1b" not in "".join(lines)
    assert contribute.answer_text({"checks": 7}, CrowdClient("https://x"))


def test_looking_is_not_agreeing(root: Path) -> None:
    """``cm show crowd ID --consent=3``, which a run tells to type, only shows."""
    kept = ClientHome(root)
    draft, _ = contribute.drafted(root, "last", UploadOptions(consent=m.LOGS, look=True))
    assert draft.manifest.consent == m.LOGS
    assert kept.consent() == 0
    kept.agree(m.METRICS)
    contribute.drafted(root, "last", UploadOptions(consent=m.LOGS, look=True))
    assert kept.consent() == m.METRICS
    contribute.drafted(root, "last", YES)
    assert kept.consent() == m.LOGS


def test_a_real_zero_is_not_empty(root: Path) -> None:
    draft, _ = contribute.drafted(root, "last", YES)
    metrics = tuple(
        replace(each, value=0.0, unit="") if each.name == "accuracy" else each
        for each in draft.manifest.metrics
    )
    manifest = replace(draft.manifest, metrics=metrics)
    text, _, empty = contribute.shown(replace(draft, manifest=manifest)).partition("  empty: ")
    values = dict(line.split(None, 1) for line in text.splitlines()[1:] if " " in line.strip())
    assert values["system.accelerators"] == "0"
    assert values["metrics.accuracy"] == "0"
    assert "accelerators" not in empty
    # Nothing has 0 sockets: that is a number which is not known.
    assert "system.sockets" in empty
    # What was switched off is not told as a figure.
    less = drafts.without(draft, ["system.accelerators", "system.cores"])
    assert less.manifest.system.accelerators is None
    off = contribute.shown(less)
    _, _, empty = off.partition("  empty: ")
    assert "system.accelerators," in empty
    assert "system.cores," in empty


def test_what_is_shown_fits_a_terminal(root: Path) -> None:
    draft, _ = contribute.drafted(root, "last", YES)
    long = replace(draft.manifest, config=replace(draft.manifest.config, command="cm run " * 30))
    lines = contribute.shown(replace(draft, manifest=long, notes=("a note " * 30,))).splitlines()
    keys = [line for line in lines if "ed25519:" not in line]
    assert max(map(len, keys)) <= 80
    assert "".join("".join(lines).split()).count("cmrun") == 30
    checks = [{"passed": True, "words": "word " * 40}]
    told = {"id": "i", "state": "queued", "tier": "uploaded", "checks": checks}
    text = contribute.answer_text(told, CrowdClient("https://x"))
    assert max(map(len, text.splitlines())) <= 80
    assert "https://x/uploads/i" in text
    done = contribute.answer_text({**told, "state": "published"}, CrowdClient("https://x"))
    assert "/uploads/i" in done


def test_a_withdrawal_that_cannot_be_noted_is_told_as_one(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Faulty() as lab:
        send(root, lab.url)

        def fails(*_: object, **__: object) -> None:
            raise OSError(30, "Read-only file system")

        with monkeypatch.context() as patch:
            patch.setattr(Path, "unlink", fails)
            with pytest.raises(Error, match="has removed") as caught:
                contribute.withdrawn(root, "all", QUICK)
        assert caught.value.code == "not-writable"
        assert "CM_REPOS" not in caught.value.render()
        assert lab.runs == {}
        assert len(contribute.withdrawn(root, "all", QUICK)) == 1, "told again, and noted"


def test_a_proxy_that_does_not_work_is_named(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTPS_PROXY", "http://ann:secret@127.0.0.1:9")
    with pytest.raises(Error) as caught:
        send(root, "https://results.example")
    text = caught.value.render()
    assert caught.value.code == "server-unreachable"
    assert "proxy of the environment (HTTPS_PROXY)" in text
    for odd in ("secret", "HTTPSConnection", "Error(", "object at"):
        assert odd not in text


def test_a_key_that_others_may_read_is_closed(tmp_path: Path) -> None:
    kept = ClientHome(tmp_path)
    kept.key()
    path = kept.root / "key.pem"
    path.chmod(0o644)
    kept.key()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_consent_that_is_no_number_is_none(tmp_path: Path) -> None:
    kept = ClientHome(tmp_path)
    kept.agree(1)
    for level in (True, 2.0, "3", 0, 9, None):
        (kept.root / "consent.json").write_text(json.dumps({"level": level}))
        assert kept.consent() == 0


def test_a_bundle_with_millions_of_names_is_refused_at_once(root: Path, tmp_path: Path) -> None:
    kept = ClientHome(root)
    draft, place = contribute.drafted(root, "last", YES)
    data = bundle.pack(contribute.packed(kept, draft, place))
    bad = tmp_path / "bad.zip"
    with zipfile.ZipFile(bad, "w") as archive:
        for number in range(200):
            archive.writestr(str(number), b"")
    assert "200" in message_of(bad)
    end = data.rindex(b"PK\5\6")
    of_large = b"PK\6\6" + bytes(52) + b"PK\6\7" + bytes(16)
    others = (
        data[: end + 12] + (1 << 20).to_bytes(4, "little") + data[end + 16 :],
        data[:end] + of_large + data[end:],
        data + b"more",
        data[:-22],
    )
    for each in others:
        bad.write_bytes(each)
        assert "not end like a bundle" in message_of(bad) or "members" in message_of(bad)


def message_of(path: Path) -> str:
    with pytest.raises(Error) as caught:
        bundle.read(path)
    assert caught.value.code == "bad-bundle"
    return caught.value.message


def twice_sent(root: Path, tmp_path: Path) -> None:
    """A second result, measured a minute later, in another folder."""
    folder = measured(tmp_path / "second")
    path = folder / "results.json"
    path.write_text(path.read_text().replace("15:26:34", "15:27:34"))
    SourceFiles(root).add(folder)


def test_a_server_that_is_gone_does_not_keep_others_from_removing(
    root: Path, tmp_path: Path
) -> None:
    twice_sent(root, tmp_path)
    with Faulty() as gone:
        send(root, gone.url)
    with Faulty() as lab:
        for place in SourceFiles(root).readable()[0]:
            for each in SourceFiles(root).results(place):
                kept = ClientHome(root)
                draft, zipped = contribute.drafted(root, each.uid, YES)
                parcel = contribute.packed(kept, draft, zipped)
                where = CrowdClient.at(lab.url, "", QUICK)
                contribute.sent(kept, parcel, zipped, where, lambda text: None)
        assert len(lab.runs) == 2
        with pytest.raises(Error) as caught:
            contribute.withdrawn(root, "all", QUICK)
        assert caught.value.code == "server-unreachable"
        assert gone.url in caught.value.render()
        assert lab.runs == {}
        left = [told["server"] for _, told in ClientHome(root).states()]
        assert left == [gone.url], "it is asked again"
        assert "2 of 3" in caught.value.render()


def test_a_few_letters_do_not_withdraw_several_results(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = ClientHome(root)
    for name in ("abc1", "abc2"):
        kept.note(kept.outbox / f"{name}.zip", "http://127.0.0.1:9", {"id": f"7{name}"})
    asked: list[str] = []
    monkeypatch.setattr(CrowdClient, "withdraw", lambda self, run, token: asked.append(run))
    for word in ("abc", "7a", "a", ""):
        code = code_of(lambda: contribute.withdrawn(root, word))  # noqa: B023
        assert code in ("ambiguous", "result-not-found")
    assert asked == []
    assert contribute.withdrawn(root, "abc1") == ["7abc1"]
    assert contribute.withdrawn(root, "7abc2") == ["7abc2"]


def test_wanted_work_is_listed_for_people(root: Path) -> None:
    """Whatever a server says of it: a line for a terminal, and its id to lease it by."""
    spec = {"benchmark": "bert-99", "scenario": "Offline", "hardware": "Some CPU, 64 cores " * 4}
    wanted = [
        {"id": "d1a2", "spec": spec, "wanted": 3, "leased": 1, "confirmed": 1},
        {"id": 7, "spec": ["x"], "wanted": "many", "\x1b[31m": 1},
        "work",
        None,
    ]
    with Faulty(lambda request, number: says(200, {"work": wanted})(request)) as lab:
        workspace = Workspace.open(str(root.parent))
        given = {"list": True, "server": lab.url}
        text = str(verbs.lease_crowd(Command("crowd", workspace, given)).text)
    assert "d1a2  1 of 3 hosts, 1 at work" in text
    assert "bert-99 Offline Some CPU, 64 cores" in text
    assert max(map(len, text.splitlines())) <= 80
    assert not any(sign in text for sign in ("{", "\x1b", "None"))
