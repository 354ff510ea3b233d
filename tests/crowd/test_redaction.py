"""Nothing that tells of a machine or its user is in any byte of what would leave it."""

from __future__ import annotations

import base64
import io
import json
import os
import pwd
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from crowd_lab import COMMAND, measured
from hypothesis import given
from hypothesis import strategies as st

from cmbench_crowd import bundle, contribute, drafts
from cmbench_crowd import manifest as m
from cmbench_crowd import redaction as redaction_module
from cmbench_crowd.bundle import UploadBundle
from cmbench_crowd.client_home import ClientHome
from cmbench_crowd.redaction import Redaction
from cmbench_results.result_sources import SourceFiles

SEEDED = {
    "host": "quixotic-lathe",
    "domain": "quixotic-lathe.corp.example",
    "user": "zebulonx",
    "home": "/home/zebulonx",
    "token": "hf_QwErTyUiOpAsDfGh",
    "password": "correct;horse",
    "variable": "a value of some variable",
    "mac": "de:ad:be:ef:12:34",
    "ip": "192.168.77.13",
    "ip6": "fe80:0:0:1:2:3:4:5",
    "mail": "zebulonx@corp.example",
    "serial": "SN-77-XYZZY",
    "machine": "0f9e8d7c6b5a49382716051423324150",
    "gpu": "GPU-12345678-9abc-def0-1234-56789abcdef0",
    "model": "/data/secret-models/bert.onnx",
    "container": "3f9d1c0b7a6e5d4c3b2a19080706f5e4d3c2b1a09f8e7d6c5b4a392817061524",
    "boot": "5f0c1d2e-aaaa-4bbb-8ccc-0123456789ab",
    "board": "10000000abcdef77",
    "person": "Zebulon Quackenbush",
    "windows": "C:\\Users\\zebulonx\\x",
}


FOREIGN = {
    "ip6": "2001:db8::17",
    "ip6 of a link": "fe80::a9ff:fe12:3456%eth0",
    "ip6 as bytes": "20010db8000000000000000000000017",
    "mac without colons": "deadbeef1234",
    "mac of a switch": "dead.beef.1234",
    "machine id": "9c1d3e5f7a8b4c2d9e0f1a2b3c4d5e6f",
    "container": "3f9d1c0b7a6e",
    "serial": "Serial-Number:5CG1234XYZ",
    "dmidecode": "UUID=4c4c4544-0042-3510-8053-b4c04f333333",
    "virtual machine": "VMware-564d9a1b2c3d4e5f-60718293a4b5c6d7",
    "user and host": "zebulon@quixotic-lathe",
    "ssh key": "AAAAC3NzaC1lZDI1NTE5AAAAIFzebulonquackenbush",
    "aws account": "123456789012",
    "aws role": "arn:aws:iam::123456789012:role/zebulon",
    "azure": "/subscriptions/0f0e0d0c-0b0a-0908-0706-050403020100",
    "node": "ip-10-1-2-3.ec2.internal",
    "trace": 'File"/srv/zebulon/quackenbush.py",line=3',
    "compiled model": "users/zebulon/bert.neff",
    "share": "smb://lathe/zebulon",
    "domain account": "CORP\\zebulon",
    "bmc": "https://bmc-lathe.example/redfish",
    "session": "session_id=Qx7Zk2Lm9Pq4Rt6Vw8",
}
"""What other machines and their users are known by: this one cannot know these words."""


def forms(text: str) -> Iterator[bytes]:
    """A text as a program may write it."""
    for each in {text, text.upper(), text.lower(), text.replace(":", ""), text.replace(":", "-")}:
        data = each.encode()
        yield from (data, each.encode("utf-16-le"), each.encode("utf-16-be"), data[::-1])
        yield from (quote(each, safe="").encode(), json.dumps(each)[1:-1].encode())
        yield from (data.hex().encode(), data.hex().upper().encode(), base64.b32encode(data))
        for skipped in range(3):
            text64 = base64.b64encode(b"\0" * skipped + data).rstrip(b"=")
            yield text64[(0, 2, 3)[skipped] : None if (len(data) + skipped) % 3 == 0 else -1]


@pytest.fixture
def seeded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with one result of a machine that has all of ``SEEDED`` everywhere it can be."""
    for name, key in (
        ("HOSTNAME", "domain"),
        ("USER", "user"),
        ("HOME", "home"),
        ("HF_TOKEN", "token"),
        ("DB_PASS", "password"),
        ("SOME_SETTING", "variable"),
    ):
        monkeypatch.setenv(name, SEEDED[key])
    monkeypatch.setattr(redaction_module.socket, "gethostname", lambda: SEEDED["domain"])
    files = {
        "/etc/machine-id": SEEDED["machine"],
        "/proc/sys/kernel/random/boot_id": SEEDED["boot"],
        "/proc/cpuinfo": f"Model\t\t: a board\nSerial\t\t: {SEEDED['board']}\n",
        "/proc/self/mountinfo": f"1 2 /lib/docker/containers/{SEEDED['container']}/hosts /etc",
        "product_serial": SEEDED["serial"],
        "address": SEEDED["mac"],
        "fib_trie": f"    |-- {SEEDED['ip']}\n      /32 host LOCAL",
    }
    monkeypatch.setattr(
        redaction_module,
        "read_or_empty",
        lambda path: files.get(str(path)) or files.get(Path(path).name, ""),
    )
    account = pwd.getpwuid(os.getuid())[:4] + (SEEDED["person"] + ",,,", "/", "/bin/sh")
    monkeypatch.setattr("pwd.getpwnam", lambda name: pwd.struct_passwd(account))
    every = " ".join(SEEDED.values())
    flags = " ".join(f"--{name}='{value}'" for name, value in SEEDED.items())
    entry = {"value": every, "time_ms": 1.0, "namespace": "x", "metadata": {"file": every}}
    lines = [
        every,
        flags,
        *SEEDED.values(),
        *(f"SUT name : {value}" for value in SEEDED.values()),
        *(f'{{ "seq_id" : 0, "qsl_idx" : 1, "data" : "{value}" }},' for value in SEEDED.values()),
        *(":::MLLOG " + json.dumps({"key": "sut_name", **entry, key: every}) for key in SEEDED),
        *(":::MLLOG " + json.dumps({**entry, "key": value}) for value in SEEDED.values()),
        ":::MLLOG " + json.dumps({**entry, "key": "a", "value": {every: 1, "b": [every]}}),
        *(
            ":::MLLOG " + json.dumps({**entry, "key": "a", "value": form.decode("latin-1")})
            for value in SEEDED.values()
            for form in (value.encode().hex().encode(), base64.b64encode(value.encode()))
        ),
    ]
    around = {
        "measured_at": "2026-11-22T15:26:34+00:00",
        "versions": {"onnxruntime": f"1.32.0+{SEEDED['user']}", SEEDED["host"]: "1.0"},
        "command": f"{COMMAND} {flags} {SEEDED['home']} --device={SEEDED['user']}",
    }
    run = {
        "value": 1000.0,
        "circumstances": around,
        "shape": {"workers": 2, SEEDED["host"]: 3, "batch": SEEDED["user"]},
        "targets": {"qps": SEEDED["ip"]},
        "latencies_ms": {"99.00": 1.5},
    }
    result = {"scenario": "Offline", "value": 1000.0, "unit": "samples/s", "validity": "VALID"}
    folder = measured(
        tmp_path / SEEDED["user"],
        lines,
        sut=f"{SEEDED['host']}-cmbench-cpu",
        host={
            "system": f"Linux 6.1.0-{SEEDED['host']}",
            "cpu_model": f"CPU of {every}",
            "cores_usable": 2,
            "memory_bytes": 8e9,
        },
        model={"name": SEEDED["model"]},
        dataset={"name": SEEDED["user"]},
        backend_options={"path": SEEDED["model"], "threads": SEEDED["user"]},
        versions=around["versions"],
        notes=[every],
        results=[{**result, "performance_run": run, "accuracy_run": {"circumstances": around}}],
    )
    root = tmp_path / "cm" / "cmbench"
    SourceFiles(root).add(folder)
    return root


def packed(root: Path) -> tuple[bytes, drafts.Draft]:
    client = ClientHome(root)
    draft = drafts.draft(contribute.result_of(root, "last"), m.LOGS, client.key())
    data = m.encode(draft.manifest)
    return bundle.pack(UploadBundle(data, m.to_text(client.key().sign(data)), draft.files)), draft


def test_no_seeded_word_is_in_any_byte_of_a_bundle(seeded: Path) -> None:
    data, draft = packed(seeded)
    assert len(draft.files) >= 4, "logs would leave too, else this looks at nothing"
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        parts = [data, *map(archive.read, archive.namelist())]
    found = [
        (name, form, part[max(part.lower().find(form.lower()) - 60, 0) :][:120])
        for name, value in SEEDED.items()
        for form in forms(value)
        for part in parts
        if len(form) > 3 and form.lower() in part.lower()
    ]
    assert found == []


def test_what_a_server_reads_stays_in_scrubbed_logs(seeded: Path) -> None:
    _, draft = packed(seeded)
    texts = {each.role: draft.files[each.sha256].decode() for each in draft.manifest.files}
    assert '"key": "result_samples_per_second", "value": 1000.0' in texts["performance-detail"]
    assert "result_99.00_percentile_latency_ns" in texts["performance-detail"]
    assert "Scenario : Offline" in texts["performance-summary"]
    assert '"qsl_idx" : 5' in texts["accuracy-log"]
    assert draft.notes


@pytest.mark.parametrize("value", FOREIGN.values(), ids=FOREIGN)
def test_what_looks_like_no_part_of_a_machine_is_hidden(value: str) -> None:
    for name in (f"CPU {value} @ 2.60GHz", value, f"CPU({value})", f"CPU {value},"):
        assert value.lower() not in drafts._name(name, Redaction([])).lower()


@pytest.mark.parametrize("value", FOREIGN.values(), ids=FOREIGN)
def test_no_log_has_a_word_of_another_machine(value: str) -> None:
    for form in {value, *(each.decode("latin-1") for each in forms(value))}:
        detail = [
            {"key": "sut_name", "value": form},
            {"key": "a", "value": {"b": form, "c": [form]}},
            {"key": "a", "value": 1, "metadata": {"file": form, "line_no": form}},
        ]
        logs = {
            "x-detail": "\n".join(":::MLLOG " + json.dumps(each) for each in detail),
            "x-summary": f"SUT name : {form}\n",
            "x-log": f'{form}\n{{ "seq_id" : 0, "qsl_idx" : 1, "data" : "", "{form}": 1 }},\n',
        }
        for role, text in logs.items():
            kept, _ = Redaction([]).log(role, text.encode("utf-8", "replace"))
            assert form.lower() not in kept.decode().lower(), role


@pytest.mark.parametrize("value", FOREIGN.values(), ids=FOREIGN)
def test_no_message_of_a_log_has_an_address_or_a_path(value: str) -> None:
    # A message may have a long number, which is a time in ns.
    for form in {value, value.upper(), value.replace(":", "-"), value[::-1]} - {"123456789012"}:
        if form.isdigit():
            continue
        detail = {"key": "generic_message", "value": f"of {form} it"}
        for role, text in (("x-detail", f":::MLLOG {json.dumps(detail)}"), ("x-summary", form)):
            kept, _ = Redaction([]).log(role, text.encode())
            assert form.lower() not in kept.decode().lower(), role


@pytest.mark.parametrize(
    "text",
    [
        "QPS w/o loadgen overhead : 1.5",
        "Samples per second: 12345.6",
        "90th percentile latency (ns) : 123456789012",
        "50.00 percentile latency (ns)   : 123456",
        "  * Performance constraints satisfied : Yes",
        " * Processed at least 64 queries (5000).",
        " * Early stopping 99.9 percentile estimate: 1234567890123",
        "   Increase expected latency so the loadgen pre-generates more queries.",
        "Min duration satisfied : NO",
        "min_query_count : 24576",
        "sample_index_rng_seed : 198141574272810017",
        "================================================",
        "Completed samples per second    : 99.5",
        "Query's limit (5 of 7) isn't met; see the log.",
    ],
)
def test_what_loadgen_says_stays(text: str) -> None:
    assert Redaction([]).log("x-summary", f"{text}\n".encode()) == (f"{text}\n".encode(), 0)


@pytest.mark.parametrize(
    "name",
    [
        "Intel(R) Xeon(R) Platinum 8380 CPU @ 2.30GHz",
        "Intel(R) Xeon(R) CPU E5-2670 v3 @ 2.30GHz",
        "11th Gen Intel(R) Core(TM) i7-1185G7 @ 3.00GHz",
        "AMD EPYC 9654 96-Core Processor",
        "AMD Ryzen 7 PRO 4750U w/ Radeon Graphics",
        "Genuine Intel(R) CPU @ 2.00GHz (ES, 4/12)",
        "NVIDIA H100 80GB HBM3",
        "NVIDIA A100-SXM4-80GB MIG 1g.10gb",
        "NVIDIA GeForce RTX 3080 Ti Laptop GPU",
        "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",
        "NVIDIA Jetson AGX Orin (64GB), 2x NVDLA v2.0",
        "Neoverse-N1",
        "Cortex-A78AE/Cortex-A55",
        "Apple M2 Max",
        "AWS Inferentia2 [inf2.48xlarge]",
        "IBM POWER9, altivec supported",
        "ARMv8 Processor rev 1 (v8l)",
        "Qualcomm(R) Cloud AI 100 Ultra",
        "Intel(R) Data Center GPU Flex 170 (56c0 & 4905)",
    ],
)
def test_names_of_parts_stay(name: str) -> None:
    assert drafts._name(name, Redaction([])) == name


def test_a_machine_that_is_called_like_a_scenario_keeps_it() -> None:
    line = b':::MLLOG {"key": "effective_scenario", "value": "Server"}\n'
    assert Redaction(["server", "key"]).log("performance-detail", line) == (line, 0)
    assert b"Server" in Redaction(["server"]).log("x-summary", b"Scenario : Server\n")[0]


def test_logs_without_anything_private_stay_as_they_are(root: Path) -> None:
    result = contribute.result_of(root, "last")
    for path in Path(result.folder).rglob("mlperf_log_*"):
        role = {"mlperf_log_detail": "x-detail", "mlperf_log_summary": "x-summary"}
        data = path.read_bytes()
        once, _ = Redaction([]).log(role.get(path.stem, "x-log"), data)
        assert Redaction(["elsewhere"]).log(role.get(path.stem, "x-log"), once) == (once, 0)


@given(st.text(min_size=5, max_size=12), st.text(max_size=20), st.text(max_size=20))
def test_a_word_is_hidden_wherever_it_stands(word: str, before: str, after: str) -> None:
    word = word.strip()
    text = Redaction([word]).text(before + word + after)
    assert len(word) < 5 or word not in text.replace("***", "") or set(word) <= {"*"}


def test_fields_are_the_ones_that_are_listed_and_no_more(root: Path) -> None:
    _, draft = packed(root)
    names = {name for name, _ in drafts.lines(draft.manifest)}
    assert {name.split(".")[0] for name in names} <= {
        *("format", "id", "created", "consent", "key", "system", "software", "workload"),
        *("config", "metrics", "files", "work_unit"),
    }
    assert draft.manifest.config.command == COMMAND
    assert draft.manifest.system.cpu == "Intel CPU @ 2.60GHz"
    assert draft.manifest.config.settings == {
        "workers": "2",
        "threads": "1",
        "batch": "4",
        "target_qps": "900.0",
    }


def test_the_clock_on_the_wall_tells_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """LoadGen writes local time, called UTC: with the times by UTC beside it, it tells the zone."""
    line = ':::MLLOG {"key": "test_datetime", "value": "2026-11-23T02:48:02Z", "time_ms": 0.02}\n'
    for zone, day in (("Asia/Kolkata", 22), ("UTC", 23), ("America/New_York", 23)):
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        data, changed = Redaction([]).log("performance-detail", line.encode())
        assert json.loads(data[8:])["value"] == f"2026-11-{day}T00:00:00Z"
        assert changed == 1
    monkeypatch.undo()
    time.tzset()
    built = "2026-11-23T23:48:02.123456"
    for key, left in (
        ("loadgen_build_date_utc", "2026-11-23T00:00:00Z"),
        ("loadgen_build_date_local", "***"),
    ):
        told = ":::MLLOG " + json.dumps({"key": key, "value": built}) + "\n"
        data, _ = Redaction([]).log("performance-detail", told.encode())
        assert json.loads(data[8:])["value"] == left, "beside each other they tell the zone"
    data, _ = Redaction([]).log("x-detail", line.replace("2026-11-23", "not a day").encode())
    assert json.loads(data[8:])["value"] == "***"


@pytest.mark.parametrize(
    ("key", "value", "left"),
    [
        ("power_begin", "11-23-2026 12:48:02.123", "11-23-2026 00:00:00.000"),
        ("power_end", "11-23-2026 12:58:02.123", "11-23-2026 00:00:00.000"),
        ("power_begin", "at a quarter past ten", "***"),
        ("loadgen_git_commit_date", "2025-04-24T11:48:13-05:00", "2025-04-24T00:00:00Z"),
        ("anything_else", "2026-11-23 02:48:02", "***"),
        ("anything_else", "02:48", "***"),
        ("loadgen_version", "5.0.1 @ 1a2b3c4d5e", "5.0.1 @ 1a2b3c4d5e"),
    ],
)
def test_of_times_only_the_day_leaves(
    monkeypatch: pytest.MonkeyPatch, key: str, value: str, left: str
) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    line = f":::MLLOG {json.dumps({'key': key, 'value': value})}\n"
    data, _ = Redaction([]).log("performance-detail", line.encode())
    assert json.loads(data[8:]) == {"key": key, "value": left}
    monkeypatch.undo()
    time.tzset()


def test_a_summary_tells_no_time() -> None:
    line = b"Test time : 2026-11-23 02:48:02\n"
    assert Redaction([]).log("performance-summary", line)[0] == b"Test time : ***\n"


def test_lines_of_a_log_hold_what_is_listed_and_no_more(root: Path) -> None:
    _, draft = packed(root)
    texts = {each.role: draft.files[each.sha256].decode() for each in draft.manifest.files}
    lines = texts["performance-detail"].splitlines() + texts["accuracy-detail"].splitlines()
    told = [json.loads(line.removeprefix(":::MLLOG ")) for line in lines]
    assert len(told) > 10
    assert set().union(*told) <= {
        *("key", "value", "time_ms", "namespace", "event_type", "metadata")
    }
    assert set().union(*(each["metadata"] for each in told)) <= {
        *("is_error", "is_warning", "file", "line_no")
    }
