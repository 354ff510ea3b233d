"""What a stranger may say of a result: refused, left to a person, or shown as reported."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from crowd_lab import (
    ACCURACY,
    DETAIL,
    OF_ACCURACY,
    ROLES,
    SUMMARY,
    Logs,
    Volunteer,
    checked,
    figure,
    sample,
    words,
)
from starlette.testclient import TestClient

from cmbench.cli.reply import Command
from cmbench.errors import Error
from cmbench.session.workspace import Workspace
from cmbench_crowd import manifest as m
from cmbench_crowd_server import api, claims, hardware, part_names, standing, traces, verbs
from cmbench_results import query, render
from cmbench_results.store import Store
from cmbench_results.values import BenchmarkResult, BenchmarkWorkload, SystemDescription

ANSWERS = b'[\n{ "seq_id" : 0, "qsl_idx" : 3, "data" : "0A000000" }\n]\n'
one_database = pytest.mark.parametrize("url", ["sqlite"], indirect=True)
SYSTEM, WORK, CONFIG = sample().system, sample().workload, sample().config
GPUS = replace(SYSTEM, accelerator="NVIDIA L4", accelerators=1)
ON_GPU = {"system": GPUS, "config": replace(CONFIG, device="cuda")}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"system": replace(SYSTEM, cpu="Officially Verified CPU")}, "system.cpu says"),
        ({"workload": replace(WORK, model="MLCommons-bert")}, "workload.model says"),
        ({"config": replace(CONFIG, backend="certified")}, "config.backend says"),
        ({"workload": replace(WORK, model="bert-tiny")}, "not of division closed"),
        ({"workload": replace(WORK, model="bert_Tiny.v2")}, "not of division closed"),
        ({"workload": replace(WORK, dataset="squad-synthetic")}, "not of division closed"),
        ({"config": replace(CONFIG, settings={"batch": "9" * 20})}, "settings.batch"),
        ({"software": m.ManifestSoftware(os="Best OS")}, "software.os"),
        ({"software": m.ManifestSoftware(versions={"cheats": "1"})}, "versions.cheats"),
        ({"metrics": (replace(ACCURACY, value=250.0),)}, "250 %, which is no share"),
    ],
)
def test_what_no_client_sends_is_refused(changes: dict[str, Any], words: str) -> None:
    claims.refuse(sample())
    with pytest.raises(Error, match=re.escape(words)):
        claims.refuse(sample(**changes))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"system": replace(SYSTEM, cpu="Wonderful Best CPU")}, "use: wonderful, best"),
        (
            {
                "system": replace(SYSTEM, accelerator="none", accelerators=8),
                "config": replace(CONFIG, device="cuda"),
            },
            "accelerator 'none'",
        ),
        ({"system": replace(SYSTEM, cpu="Apple M3")}, "not of the architecture x86_64"),
        ({"system": replace(SYSTEM, cores=2048)}, "2,048 cores in a node"),
        ({"system": replace(SYSTEM, memory_gb=1e9)}, "GB of memory in a node"),
        ({"system": replace(SYSTEM, nodes=100_000)}, "it is of 100,000 nodes"),
        ({"workload": replace(WORK, model="mine")}, "model 'mine' is not called as one of"),
        ({"workload": replace(WORK, dataset="imagenet")}, "data set 'imagenet' is not called"),
        ({"workload": replace(WORK, precision="int4")}, "precision 'int4'"),
        ({"config": replace(CONFIG, backend="mine")}, "backend 'mine'"),
        ({"config": replace(CONFIG, device="cuda")}, "on a machine without accelerators"),
        ({"metrics": ()}, "reports no accuracy"),
        ({"metrics": (replace(ACCURACY, value=42.0),)}, "an accuracy of 42 %, the rules ask"),
        ({"metrics": (replace(ACCURACY, unit="points"),)}, "an accuracy of 91 points, the rules"),
        (
            {"system": replace(SYSTEM, accelerator="NVIDIA H100 80GB HBM3", accelerators=8)},
            "computed by cpu, on a machine described by NVIDIA H100",
        ),
        (
            {
                "config": replace(CONFIG, backend="openvino", device="cuda"),
                "system": replace(SYSTEM, accelerator="NVIDIA L4", accelerators=1),
            },
            "openvino does not compute on cuda",
        ),
        ({"workload": replace(WORK, precision="fp8")}, "onnxruntime does not compute in fp8"),
        ({"workload": replace(WORK, model="bert-pruned97")}, "one that was trained anew"),
        ({"metrics": (replace(ACCURACY, value=99.0),)}, "its reference has 90.874"),
        (
            {
                "workload": replace(WORK, benchmark="bert-99.9", division="open"),
                "metrics": (replace(ACCURACY, value=90.2),),
            },
            "the rules ask 90.7831 % of bert-99.9",
        ),
        ({"files": ()}, "no log of its accuracy run"),
        ({"software": m.ManifestSoftware("macOS 14"), **ON_GPU}, "which macOS 14 does not have"),
    ],
)
def test_what_only_a_person_can_judge_is_told(changes: dict[str, Any], words: str) -> None:
    honest = sample(metrics=(ACCURACY,))
    assert list(claims.unusual(honest)) == []
    (said,) = claims.unusual(replace(honest, **changes))
    assert words in said


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"cpu": "AMD EPYC 9654 96-Core Processor", "sockets": 1, "cores": 193}, "193 cores are"),
        ({"cpu": "AMD EPYC 9654 96-Core Processor", "cores": 385}, "385 cores are more"),
        ({"cpu": "AMD EPYC 9654 96-Core Processor", "sockets": 2, "cores": 384}, ""),
        ({"cpu": "Intel(R) Core(TM) i7-1260P", "cores": 64}, "64 cores are more"),
        ({"sockets": 4, "cores": 2}, "2 cores in 4 sockets"),
        ({"cpu": "Apple M3", "architecture": "arm64", "sockets": 2}, "2 of its processor"),
        ({"architecture": "riscv64"}, "not of the architecture riscv64"),
        ({"cpu": "Neoverse-N1", "architecture": "aarch64"}, ""),
        ({"memory_gb": 0.01}, "less than machines have"),
        ({"nodes": 2}, "no log shows how many took part"),
        ({"accelerator": "NVIDIA H100", "accelerators": None}, "how many NVIDIA H100"),
        ({"accelerator": "NVIDIA L4", "accelerators": 40}, "no node has 40"),
        ({"accelerator": "NVIDIA GB200 NVL", "accelerators": 72}, ""),
        ({"accelerator": "NVIDIA RTX 4060 Laptop GPU", "accelerators": 2}, "no node has 2"),
        ({"accelerator": "AMD Instinct MI300X", "accelerators": 8}, "by cuda, which AMD"),
    ],
)
def test_parts_that_contradict_each_other_are_told(parts: dict[str, Any], words: str) -> None:
    system = replace(SYSTEM, **parts)
    device = "cuda" if system.accelerator else "cpu"
    found = list(hardware.unusual(sample(system=system, config=replace(CONFIG, device=device))))
    assert len(found) == bool(words)
    assert words in "".join(found)


def test_a_device_that_grows_is_told() -> None:
    """A container may have fewer cores: a person decides."""
    doubled = replace(SYSTEM, cores=2 * SYSTEM.cores)
    assert list(hardware.changed(SYSTEM, [SYSTEM, replace(SYSTEM, cpu="Apple M3", cores=8)])) == []
    (words,) = hardware.changed(doubled, [SYSTEM])
    assert words == "this device has 4 cores, in an earlier result it had 2"
    assert list(hardware.changed(replace(GPUS, accelerators=8), [GPUS, SYSTEM]))


def test_what_a_manifest_says_of_its_log_is_looked_up_there() -> None:
    log = {"loadgen_version": "6.0.17 @ d6147c7eb7", "effective_target_qps": 1000}
    assert list(claims.of_versions(log, {"loadgen": "6.0.17", "numpy": "4.0"})) == []
    assert list(claims.of_versions(log, {"loadgen": "4.0"}))
    assert list(claims.of_settings(log, {"target_qps": "1000.0", "batch": "64"})) == []
    assert list(claims.of_settings(log, {"target_qps": "5"}))
    assert list(claims.of_settings(log, {"workers": "1000000000"}))


def test_a_day_to_come_is_told() -> None:
    noon = 1_800_014_400.0
    day = datetime.fromtimestamp(noon, timezone.utc).date()
    later = [(day + timedelta(days=days)).isoformat() for days in (0, 1)]
    assert len(list(claims.of_the_future(later, noon))) == 1
    assert list(claims.of_the_future(later, noon + 11.5 * 3600)) == [], "within the skew"
    old = {"test_datetime": "2025-01-01T00:00:00Z", "loadgen_build_date_utc": "2026-07-24T17:39:47"}
    assert list(claims.of_day(old, "2025-01-01")) == [
        "its log is of 2025-01-01, its LoadGen was built on 2026-07-24"
    ]


@one_database
def test_a_log_of_tomorrow_waits_for_a_person(
    crowd: api.CrowdServer, volunteer: Callable[[], Volunteer], logs: list[Logs]
) -> None:
    tomorrow = (datetime.now(timezone.utc) + timedelta(days=1)).date().isoformat()
    pattern = rb'("test_datetime", "value": ")[\d-]{10}'
    dated = {
        name: re.sub(pattern, rb"\g<1>" + tomorrow.encode(), data) for name, data in logs[0].items()
    }
    one = volunteer()
    run = one.send(dated, created=tomorrow)
    checked(crowd)
    told = one.get(run)
    assert (told["state"], told["tier"]) == ("quarantine", "uploaded"), told
    assert any(f"it is of {tomorrow}" in item["words"] for item in told["checks"])


@one_database
def test_an_accuracy_run_is_looked_at(
    crowd: api.CrowdServer, volunteer: Callable[[], Volunteer], logs: list[Logs]
) -> None:
    one, log = volunteer(), logs[0][OF_ACCURACY]
    lies = {
        "made in the mode PerformanceOnly": {OF_ACCURACY: logs[0][DETAIL]},
        "has 50000 samples": {OF_ACCURACY: log.replace(b'"value": 10833', b'"value": 50000')},
        "qsl_rng_seed is 1": {
            OF_ACCURACY: re.sub(rb'(effective_qsl_rng_seed", "value": )\d+', rb"\g<1>1", log)
        },
        "it has answers for 1 samples": {ROLES["accuracy-log"]: ANSWERS},
    }
    sent = {said: one.send({**logs[n], **lie}) for n, (said, lie) in enumerate(lies.items(), 1)}
    other = one.send({**logs[5], OF_ACCURACY: log.replace(b"6.0.", b"6.1.")})
    checked(crowd)
    for said, run in sent.items():
        assert any(said in found for found in words(one.get(run))), (said, one.get(run))
    told = one.get(other)
    assert told["state"] == "quarantine"
    assert any("LoadGen is another one" in item["words"] for item in told["checks"])


@pytest.mark.parametrize(
    "name",
    [
        *("AMD EPYC 9654 96-Core Processor", "Intel(R) Xeon(R) Platinum 8480C @ 2.00GHz"),
        *("Apple M3 Max", "Neoverse-N1", "Raspberry Pi 5 Model B Rev 1.0", "AMD EPYC-Milan"),
        *("NVIDIA H100 80GB HBM3", "NVIDIA GeForce RTX 4090", "NVIDIA A100-SXM4-80GB", "***"),
        *(
            "AWS Inferentia2",
            "12th Gen Intel(R) Core(TM) i7-1260P",
            "Intel Xeon Processor (Icelake)",
        ),
    ],
)
def test_names_of_makers_are_known(name: str) -> None:
    assert list(part_names.unknown_words(name)) in ([], ["gen"])


def scaled(log: Logs, by: float) -> Logs:
    """A log whose figures are all others, in one way, so that none contradicts another."""
    value = f"{figure(log[DETAIL]) * by:.6g}".encode()
    detail, summary = log[DETAIL], log[SUMMARY]
    for pattern in (rb'("result_[^"]*latency_ns", "value": )(\d+)', rb"(latency \(ns\)\s*: )(\d+)"):
        shorter = lambda match: match[1] + str(int(int(match[2]) / by)).encode()  # noqa: E731
        detail, summary = (re.sub(pattern, shorter, text) for text in (detail, summary))
    detail = re.sub(rb'(samples_per_second", "value": )[\d.]+', rb"\g<1>" + value, detail)
    return {DETAIL: detail, SUMMARY: re.sub(rb"(per second: )[\d.]+", rb"\g<1>" + value, summary)}


@one_database
def test_a_log_with_other_figures_is_the_same_log(
    crowd: api.CrowdServer, volunteer: Callable[[], Volunteer], logs: list[Logs]
) -> None:
    run, copy = volunteer().send(logs[0]), volunteer().send(scaled(logs[0], 1.01))
    checked(crowd)
    assert crowd.ledger.row(run)["state"] == "published"
    row = crowd.ledger.row(copy)
    assert [item["words"] for item in row["checks"] if item["passed"] is False] == [
        "the same log was sent before"
    ]


def test_logs_of_one_machine_at_one_moment_are_not_copies(logs: list[Logs], tmp_path: Path) -> None:
    found = []
    for number, log in enumerate(logs):
        (tmp_path / str(number)).write_bytes(log[DETAIL])
        found.append(traces.of_log(tmp_path / str(number), lambda path: {"min": path.name}))
    ours = [f"{number:016d}{trace[16:]}" for number, trace in enumerate(found)]
    pairs = [(a, b) for number, a in enumerate(ours) for b in ours[:number]]
    assert not any(traces.are_of_one_log(a, b) for a, b in pairs)
    assert traces.are_of_one_log(ours[0], f"{'f' * 16}{ours[0][16:]}")
    assert all(16 + 4 * 6 <= len(trace) <= traces.LENGTH for trace in found)
    # A server's earlier digest, of the times alone, has the same beginning.
    assert traces.are_of_one_log(ours[1], f"{ours[1][:16]}{'0' * 48}")


@one_database
def test_settings_that_follow_a_result_are_refused(
    crowd: api.CrowdServer, volunteer: Callable[[], Volunteer], logs: list[Logs]
) -> None:
    detail = logs[0][DETAIL]
    last = re.findall(rb'"time_ms": ([\d.]+)', detail)[-1]
    setting = next(line for line in detail.splitlines() if b'"effective_min_duration_ms"' in line)
    late = re.sub(rb'"time_ms": [\d.]+', b'"time_ms": ' + last, setting)
    one = volunteer()
    run = one.send({**logs[0], DETAIL: detail.replace(setting + b"\n", b"") + late + b"\n"})
    checked(crowd)
    assert any("which LoadGen logs before a run" in said for said in words(one.get(run)))


@one_database
def test_a_loadgen_that_nobody_published_waits_for_a_person(
    crowd: api.CrowdServer, volunteer: Callable[[], Volunteer], logs: list[Logs]
) -> None:
    """An honest log has the digests of the sources that LoadGen was built from."""
    detail = logs[0][DETAIL]
    match = re.search(rb'"/loadgen.cc": ?"([0-9a-f]{40})"', detail)
    assert match
    one = volunteer()
    altered = one.send({**logs[0], DETAIL: detail.replace(match[1], b"0" * 40)})
    lines = [line for line in logs[1][DETAIL].splitlines(True) if b"loadgen_file_sha1" not in line]
    without = one.send({**logs[1], DETAIL: b"".join(lines)})
    checked(crowd)
    for run, said in ((altered, "sources of no release"), (without, "does not name the sources")):
        told = one.get(run)
        assert (told["state"], told["tier"]) == ("quarantine", "uploaded"), told
        assert [e for e in told["checks"] if said in e["words"] and e["passed"] is None]


@one_database
def test_a_person_sees_the_whole_claim_before_it_is_published(
    crowd: api.CrowdServer,
    volunteer: Callable[[], Volunteer],
    logs: list[Logs],
    client: TestClient,
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    one = volunteer()
    run = one.send(logs[0], workload=replace(WORK, model="mine"))
    checked(crowd)
    assert one.get(run)["state"] == "quarantine", "also where what passes is published"
    assert one.get(run)["tier"] == "uploaded", "it counts for nobody before a person has looked"
    monkeypatch.setattr(verbs, "_opened", lambda command: crowd)
    command = Command("results", Workspace.open(str(tmp_path)), {"artifacts": []})
    text, page = str(verbs.review_results(command).text), client.get(f"/uploads/{run}").text
    assert '<span class="word">--scenario=Offline</span>' in page, "no line breaks in a flag"
    page = re.sub(r"</?span[^>]*>", "", page)
    seen = (
        *("bert-99 Offline", f"{figure(logs[0][DETAIL]):.4g} samples/s", "nothing published here"),
        *("91 %, as reported", "Intel CPU @ 2.60GHz", "onnxruntime, cpu, float32", one.name),
        *("v5.1 closed", "squad", "mine", "1 sent, 0 published", "test run"),
        "cm run script --tags=run-mlperf,inference --model=bert-99 --scenario=Offline",
    )
    for shown in (text, page):
        assert [words for words in seen if words not in shown] == []
        assert "is not called as one of bert-99" in shown.replace("&#39;", "'")
    assert text.index("is not called") < text.index("ok  "), "what a person must judge comes first"
    assert query.find(store, query.Filter()).rows == ()
    crowd.checker.accept(run, "me")
    (row,) = query.find(store, query.Filter()).rows
    assert (row["accuracy"], row["tier"], one.get(run)["tier"]) == (91.0, "checked", "checked")
    for path in ("/results", f"/results/{row['uid']}"):
        assert "as reported" in client.get(path).text
    table = client.get("/results").text
    for shown in ("float32 as reported", "per core as reported", "mine as reported"):
        assert shown in table
    assert "per core as reported" in " ".join(render.table([row], 1).split())
    assert '"hardware, software, accuracy"' in client.get("/results/export.csv").text
    bars = client.get("/results/plot?draw=bars&benchmark=bert-99&scenario=Offline").text
    assert "mine" in bars


@one_database
def test_what_beats_all_that_is_published_waits_for_a_person(store: Store) -> None:
    work = BenchmarkWorkload("bert-99", "Offline", division="closed")
    system = SystemDescription("box", accelerator="NVIDIA H100", accelerators=1)
    best = {"value": 100.0, "unit": "samples/s", "accelerator": "NVIDIA H100", "accelerators": 8}
    best |= {"organization": "Lab", "throughput_per_accelerator": 12.5}

    def words(value: float, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        result = BenchmarkResult("k", work, system, metric="m", value=value, unit="samples/s")
        monkeypatch.setattr(standing, "_first", lambda *_: best)
        monkeypatch.setattr(standing, "rates", lambda _: {"throughput_per_accelerator": value})
        return list(standing.beyond(store, result))

    with pytest.MonkeyPatch.context() as patch:
        assert words(12.0, patch) == []
        (part,) = words(50.0, patch)
        assert part == "an accelerator does 4 times what the best published NVIDIA H100 does"
        assert "2 times as good as 100 samples/s of Lab (8 x NVIDIA H100)" in words(200.0, patch)[0]
