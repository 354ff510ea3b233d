"""A power measurement beside a performance run, as the client and the server of PTDaemon leave it.

Every figure is made up here; the files agree with each other, as those of one session do.
"""

from __future__ import annotations

import hashlib
import json
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from submission_lab import ScenarioCell, SubmissionTree, line, put

START = datetime(2024, 11, 21, 6, 0, 0, tzinfo=timezone.utc)
LENGTH_S = 600
SESSION = "2024-11-21_06-00-00_box"
WATTS = 45.5
METER = "YokogawaWT310"
METER_NUMBER = 49
# The modules of the session's programs, whose hashes the official checker knows.
SOURCES = "tools/submission/submission_checker/checks/power/sources_checksums.json"
SAID = "Starting untimed measurement, maximum 500000 samples at 1000ms with 0 rampup samples"
# What the server tells the meter: ranges by itself, then fixed ones, at the end by itself again.
COMMANDS = (
    ("Hello", "Hello, PTDaemon here!"),
    ("Identify", f"{METER},123,1.02,version=1.11.1-abcdef,SPEC"),
    ("RR", "Ranges,1,-1,1,-1"),
    ("SR,A,Auto", "Range A changed"),
    ("SR,V,Auto", "Range V changed"),
    (f"Go,1000,0,{SESSION}_ranging", SAID),
    ("Stop", "Stopping untimed measurement"),
    ("SR,A,1", "Range A changed"),
    ("SR,A,2", "Range A changed"),
    ("SR,V,300", "Range V changed"),
    (f"Go,1000,0,{SESSION}_testing", SAID),
    ("Stop", "Stopping untimed measurement"),
    ("SR,A,Auto", "Range A changed"),
    ("SR,V,Auto", "Range V changed"),
    ("Stop", "Error: no measurement to stop"),
)


def measure(tree: SubmissionTree, cell: ScenarioCell, checkout: Path | None = None) -> None:
    """Add a power measurement to the performance run of a scenario."""
    ranging = cell.results / "performance" / "ranging"
    put(ranging / "mlperf_log_summary.txt", (cell.run / "mlperf_log_summary.txt").read_text())
    put(ranging / "mlperf_log_detail.txt", (cell.run / "mlperf_log_detail.txt").read_text())
    times = {}
    for name, folder, begin in (("ranging", ranging, 60), ("testing", cell.run, 900)):
        times[name] = [[float(START.timestamp()) + each] for each in _phases(begin)]
        _run(folder, START + timedelta(seconds=begin))
    power = cell.results / "performance" / "power"
    put(power / "ptd_logs.txt", _daemon_log())
    put(power / "client.log", "client: done\n")
    put(power / "server.log", "server: done\n")
    performance = cell.results / "performance"
    hashes = {
        path.relative_to(performance).as_posix(): hashlib.sha1(path.read_bytes()).hexdigest()
        for path in sorted(performance.rglob("*"))
        if path.is_file()
    }
    session = _session(times, hashes, checkout)
    put(power / "client.json", json.dumps(session))
    meter = {"cmd": "", "reply": ""}
    told = [{**meter, "cmd": command, "reply": reply} for command, reply in COMMANDS]
    config = [{"device_type": METER_NUMBER, "command": [], "channel": None}]
    put(
        power / "server.json",
        json.dumps({**session, "ptd_messages": told, "ptd_config": config, "debug": False}),
    )
    put(cell.measurements / "analyzer_table.md", "| analyzer | WT310 |\n")
    put(cell.measurements / "power_settings.md", "governor: performance\n")
    described = cell.root / "systems" / f"{cell.system}.json"
    fields = json.loads(described.read_text(encoding="utf-8"))
    put(described, json.dumps({**fields, "system_power_capacity": "300"}))


def _phases(begin: int) -> tuple[int, ...]:
    """When the session prepares, lets the run begin, has seen its end, and is ready."""
    return (begin - 30, begin - 10, begin + LENGTH_S + 10, begin + LENGTH_S + 20)


def _run(folder: Path, begin: datetime) -> None:
    """The times of a run in its log, and a reading every second around it."""
    end = begin + timedelta(seconds=LENGTH_S)
    log = folder / "mlperf_log_detail.txt"
    times = [line("power_begin", _stamp(begin)), line("power_end", _stamp(end))]
    put(log, log.read_text(encoding="utf-8") + "\n".join(times) + "\n")
    readings = [
        f"Time,{_stamp(begin + timedelta(seconds=k))},Watts,{WATTS},Volts,230.0,Amps,0.2,"
        f"PF,0.98,Mark,{SESSION}"
        for k in range(-5, LENGTH_S + 5)
    ]
    put(folder / "spl.txt", "\n".join(readings) + "\n")


def _stamp(at: datetime) -> str:
    return at.strftime("%m-%d-%Y %H:%M:%S.") + f"{at.microsecond // 1000:03d}"


def _daemon_log() -> str:
    said = (
        (0, f" Uncertainty checking for {METER} is activated"),
        (40, f" Go with mark '{SESSION}_ranging'"),
        (680, " Completed test"),
    )
    return "".join(f"{_stamp(START + timedelta(seconds=at))}:{text}\n" for at, text in said)


def _session(
    times: dict[str, list[list[float]]], hashes: dict[str, str], checkout: Path | None
) -> dict[str, Any]:
    """What client and server tell alike."""
    sources = json.loads((checkout / SOURCES).read_text(encoding="utf-8")) if checkout else [{}]
    hello = {"cmd": "mlcommons/power client v3", "reply": "mlcommons/power server v3"}
    name = "00000000-0000-4000-8000-00000000000"
    return {
        "version": 3,
        "timezone": "0",
        "modules": {},
        "sources": sources[0],
        "messages": [hello, {"cmd": "session", "reply": "OK"}],
        "uuid": {"client": f"{name}1", "server": f"{name}2"},
        "session_name": SESSION,
        "results": hashes,
        "phases": times,
    }
