"""The main job from an empty home, as its user types it: real packages, LoadGen, ONNX Runtime."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support import HANG_S, ROOT, Home

JOB = (
    "script",
    "--tags=run-mlperf,inference,_tiny,_all-scenarios",
    "--model=resnet50",
    "--backend=onnxruntime",
    "--device=cpu",
    "--quiet",
)
# Without a wait for a quiet moment, which other tests would not grant.
SHORT = ("--min_duration=2000", "--max_wait=0")
SCENARIOS = {"SingleStream", "MultiStream", "Server", "Offline"}
pytestmark = [pytest.mark.slow, pytest.mark.needs_index]


def kept(plan: dict[str, Any]) -> dict[str, str]:
    """What a plan says of every step that the cache may hold."""
    found: dict[str, str] = {}
    pending = [plan["root"]]
    while pending:
        node = pending.pop()
        pending += node["children"]
        if node["cached"] not in ("no", "fact"):
            found[node["tags"]] = node["cached"]
    return found


def start(home: Home, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [str(home.bin / "cm"), "run", *words],
        env=home.environment(),
        cwd=home.path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture(scope="module")
def job_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    home = Home(tmp_path_factory.mktemp("job"))
    home.register(ROOT)
    yield home
    shutil.rmtree(home.path)


def test_a_killed_first_run_leaves_nothing_that_looks_whole(job_home: Home) -> None:
    run = start(job_home, *JOB, *SHORT)
    store = job_home.cm_repos / "cmbench/v1/store"
    deadline = time.monotonic() + HANG_S
    while not list(store.glob("get-generic-python-lib_*")):
        assert time.monotonic() < deadline
        assert run.poll() is None, run.communicate()
        time.sleep(0.05)
    time.sleep(1)
    os.kill(run.pid, signal.SIGKILL)
    run.communicate()
    shown = job_home.cm("show", "cache", "--out=json").ok().json["list"]
    assert {entry["script"] for entry in shown} <= {"get-python3", "install-python-venv"}
    for entry in shown:
        assert Path(entry["path"]).is_dir()


def test_the_first_whole_run(job_home: Home) -> None:
    plan = job_home.cm("plan", *JOB, "--out=json").ok().json["plan"]
    assert "miss" in kept(plan).values()
    results = job_home.path / "results"
    done = job_home.cm("run", *JOB, *SHORT, f"--results_dir={results}", timeout=900).ok()
    lines = done.stdout.splitlines()
    paths = (str(results), "record", "targets:")
    text = [line for line in lines if not any(word in line for word in paths)]
    assert max(map(len, text)) <= 80
    assert "not an MLPerf submission result" in " ".join(lines)
    assert any(line.startswith("made:") for line in lines)
    [path] = results.rglob("results.json")
    found = json.loads(path.read_text(encoding="utf-8"))
    rows = {row["scenario"]: row for row in found["results"]}
    assert set(rows) == SCENARIOS
    for name, row in rows.items():
        # A host that does something else may keep Server from it, which is told.
        told = row["performance_run"]["faults"]
        assert row["validity"] == "VALID" or all(fault.get("host") for fault in told), row
        assert row["accuracy"] >= 97, name
    logs = [p for p in results.rglob("mlperf_log_detail.txt") if "attempts" not in p.parts]
    assert len(logs) == 8
    record = json.loads(Path(lines[-1].removeprefix("record: ")).read_text(encoding="utf-8"))
    assert record["status"] == "done"
    kept_results = json.loads(job_home.cm("find", "results", "--json").ok().stdout)
    assert {row["scenario"] for row in kept_results["list"]} == SCENARIOS


def test_the_second_run_takes_everything_but_the_measuring_from_the_cache(job_home: Home) -> None:
    plan = job_home.cm("plan", *JOB, "--out=json").ok().json["plan"]
    assert set(kept(plan).values()) == {"hit"}
    shown = job_home.cm("plan", *JOB).ok().stdout
    assert "nothing to fetch from the network" in shown
    words = [word.replace("_tiny", "_tiny,_accuracy-only") for word in JOB]
    done = job_home.cm("run", *words, "--out=json", timeout=900).ok().json
    assert set(done["new_state"]) == {"cm-mlperf-inference-results"}
    record = json.loads(Path(done["record"]).read_text(encoding="utf-8"))
    made = {step["step"] for step in record["steps"] if step["status"] == "done"}
    assert {name.split(",")[0] for name in made} == {
        "app-mlperf-inference",
        "run-mlperf-inference-app",
    }


def test_runs_and_their_submission_in_one_command(job_home: Home) -> None:
    out = job_home.path / "tree"
    done = job_home.cm(
        "run",
        "script",
        "--tags=run-mlperf,inference,_tiny,_short,_submission",
        "--model=resnet50",
        "--backend=onnxruntime",
        "--division=open",
        "--min_duration=300",
        "--max_wait=0",
        f"--results_dir={job_home.path}/for-tree",
        f"--submission_dir={out}",
        "--submitter=Tester",
        "--quiet",
        timeout=900,
    ).ok()
    assert "checks passed; not submittable: too short" in done.stdout
    assert "verdict: flow complete; not submittable because" in done.stdout
    cells = (out / "open/Tester/results").glob("*/resnet/*/accuracy/accuracy.txt")
    assert sorted(each.parts[-3] for each in cells) == ["MultiStream", "Offline", "SingleStream"]
    assert (job_home.path / "tree-report/report.html").is_file()
