"""What goes wrong in the middle of a run: it is said, and nothing is left that looks whole."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import benchmark_lab as lab
from common.problems import Problem
from mlperf.catalog import OFFLINE, SINGLE_STREAM
from mlperf.harness import records
from mlperf.harness.errors import HarnessError
from mlperf.harness.jobs import STALLED
from mlperf.harness.session import launch, preparation
from mlperf.harness.session import session as sessions
from mlperf.harness.settings import ModelSpec, RunSettings, SessionSettings, Targets, WorkerShape
from mlperf.harness.tuning import tune
from support import HANG_S, run, wait_for

# A run that is to be ended before: longer than a test waits for anything.
LONG_MS = 2000 * HANG_S


def run_settings(folder: Path, **changes: Any) -> RunSettings:
    values: dict[str, Any] = {
        "benchmark": "resnet50",
        "backend": "onnxruntime",
        "device": "cpu",
        "model": records.decode(ModelSpec, lab.model()),
        "dataset": str(lab.arrays()),
        "scenario": "SingleStream",
        "mode": "performance",
        "style": "test",
        "shape": WorkerShape(1, 1, 8),
        "targets": Targets(latency_ms=0.02, min_duration_ms=300),
        "overrides": records.decode(SessionSettings, lab.settings(folder)).overrides,
        "folder": str(folder),
    }
    return RunSettings(**{**values, **changes})


def fixed_batch_model(folder: Path) -> dict[str, Any]:
    """The shipped model with its batch dimension N fixed to 1, so that it fails on batches.

    In the file the dimension is the three bytes of a field with the text "N"; they make room for
    the number field, with 1 written as a number of two bytes.
    """
    spec = lab.model()
    data = Path(spec["path"]).read_bytes().replace(b"\x12\x01N", b"\x08\x81\x00", 1)
    path = folder / "batch_of_one.onnx"
    path.write_bytes(data)
    return {**spec, "path": str(path), "sha256": hashlib.sha256(data).hexdigest()}


# ---------------------------------------------------------------- a run by itself


def test_an_exception_in_the_model_fails_the_run_after_it_has_ended(tmp_path: Path) -> None:
    config = tmp_path / "run.json"
    spec = records.decode(ModelSpec, fixed_batch_model(tmp_path))
    aim = Targets(latency_ms=0.1, min_duration_ms=300)
    records.write(config, run_settings(tmp_path, scenario="MultiStream", model=spec, targets=aim))
    done = run(lab.harness_command("run", config), env=lab.harness_environment(), timeout=HANG_S)
    assert done.status == 1, "neither a crash of LoadGen nor a success"
    outcome = json.loads((tmp_path / "outcome.json").read_text(encoding="utf-8"))
    assert outcome["failure"].startswith("running the model: ")
    assert "Got: 8 Expected: 1" in outcome["failure"]
    assert outcome["samples"] == 0
    assert (tmp_path / "run_1" / "mlperf_log_summary.txt").read_text(encoding="utf-8")


FAILING = """
import sys
from pathlib import Path
from mlperf.harness.benchmarks import image_classification
from mlperf.harness.session import subprocess_main
class Failing(image_classification.ImageClassification):
    def {method}(self, *arguments):
        raise RuntimeError("the disk is gone")
image_classification.ImageClassification = Failing
sys.exit(subprocess_main.main("run", Path(sys.argv[1])))
"""


@pytest.mark.parametrize(
    ("method", "doing"),
    [
        ("load", "loading samples"),
        ("unload", "unloading samples"),
        ("postprocess", "running the model"),
    ],
)
@pytest.mark.parametrize("scenario", [SINGLE_STREAM, OFFLINE])
def test_an_exception_in_any_callback_is_caught(
    tmp_path: Path, method: str, doing: str, scenario: str
) -> None:
    config = tmp_path / "run.json"
    records.write(config, run_settings(tmp_path, scenario=scenario, mode="accuracy"))
    code = [sys.executable, "-c", FAILING.format(method=method), str(config)]
    done = run(code, env=lab.harness_environment(), timeout=HANG_S)
    assert done.status == 1
    assert f"{doing}: RuntimeError: the disk is gone" in done.stderr


def test_a_failed_run_that_would_last_long_is_cut_off(tmp_path: Path) -> None:
    config = tmp_path / "run.json"
    aim = Targets(latency_ms=0.5, min_duration_ms=LONG_MS)
    records.write(config, run_settings(tmp_path, targets=aim))
    code = FAILING.format(method="postprocess").replace(
        "import sys\n",
        "import sys\nfrom mlperf.harness.measuring import loadgen_run\n"
        "loadgen_run.PATIENCE_S = 0.3\n",
        1,
    )
    words = [sys.executable, "-c", code, str(config)]
    done = run(words, env=lab.harness_environment(), timeout=HANG_S)
    assert done.status == 1
    outcome = json.loads((tmp_path / "outcome.json").read_text(encoding="utf-8"))
    assert outcome["failure"] == "running the model: RuntimeError: the disk is gone"


STALLING = """import sys, threading
from pathlib import Path
from mlperf.harness.measuring import loadgen_run
from mlperf.harness.session import subprocess_main

loadgen_run.LOOK_S = 0.1
start = loadgen_run.mlperf_loadgen.StartTestWithLogSettings

def stalled(*arguments):
    start(*arguments)
    threading.Event().wait()

loadgen_run.mlperf_loadgen.StartTestWithLogSettings = stalled
sys.exit(subprocess_main.main("run", Path(sys.argv[1])))
"""


def test_a_loadgen_that_does_not_end_is_ended(tmp_path: Path) -> None:
    config = tmp_path / "run.json"
    aim = Targets(qps=500.0, min_duration_ms=300)
    records.write(config, run_settings(tmp_path, scenario="Server", targets=aim))
    words = [sys.executable, "-c", STALLING, str(config)]
    assert run(words, env=lab.harness_environment(), timeout=HANG_S).status == STALLED
    assert not (tmp_path / "outcome.json").exists()


@pytest.mark.parametrize("statuses", [[STALLED, 0], [STALLED, 1], [STALLED, STALLED]])
def test_a_run_that_stalled_is_made_again_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statuses: list[int]
) -> None:
    left = list(statuses)
    monkeypatch.setattr(launch.process, "run", lambda *_: left.pop(0))
    (tmp_path / "console.txt").write_text("the disk is gone\n")
    if statuses[1] == 0:
        launch.Launcher().execute("run", tmp_path, Targets(), "Server", 1.0)
    else:
        reason = "twice" if statuses[1] == STALLED else "the disk is gone"
        with pytest.raises(HarnessError, match=reason):
            launch.Launcher().execute("run", tmp_path, Targets(), "Server", 1.0)
    assert not left


# ---------------------------------------------------------------- a session


def fails(folder: Path, **changes: Any) -> str:
    with pytest.raises(Problem) as caught:
        sessions.MeasurementSession(
            records.decode(SessionSettings, lab.settings(folder, **changes))
        ).run()
    return str(caught.value)


def test_a_run_that_fails_is_kept_apart_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = tmp_path / "results"
    measured = lab.settings(results, scenarios=["Offline"])
    asked = records.decode(SessionSettings, measured)
    found = tune.tune(preparation.request(asked, asked.model, {}))
    # A busy machine may find single samples to be the best batch, which this model can do.
    batches_of_8 = replace(found.offline, shape=replace(found.offline.shape, batch=8))
    calibrated = replace(found, offline=batches_of_8)
    monkeypatch.setattr(preparation, "measure_profile", lambda *_: calibrated)
    message = fails(results, scenarios=["Offline"], model=fixed_batch_model(tmp_path))
    assert message.startswith("Offline performance failed: running the model: ")
    kept = Path(message.rpartition(" ")[2])
    assert kept.name == "performance-1"
    assert (kept / "run_1" / "mlperf_log_detail.txt").exists()
    assert not (kept.parents[1] / "performance").exists()
    assert not list(results.rglob("results.json"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"inputs": [{"name": "input_tensor:0", "dtype": "float32", "shape": [3, 224, 224]}]},
            "the images of .* are float32",
        ),
        (
            {"inputs": [{"name": "image", "dtype": "float32", "shape": [3, 28, 28]}]},
            "the model has no input image; its inputs are: input_tensor:0",
        ),
        (
            {"outputs": [{"name": "ArgMax:0", "dtype": "int32", "shape": []}]},
            r"output ArgMax:0 of the model is int64 \[N\], but int32 \[N\] is needed",
        ),
        ({"sha256": "0" * 64}, "has sha256 .*, expected 0000"),
        ({"path": "/nowhere/model.onnx"}, "cannot read the model /nowhere/model.onnx"),
    ],
    ids=["other images", "other input", "other output", "changed file", "no file"],
)
def test_a_model_that_does_not_fit_is_refused_before_any_run(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    assert re.search(message, fails(tmp_path, model=lab.model(**change)))


def test_a_failing_process_hands_its_advice_to_the_user(tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(lab.arrays(), data)
    (data / "samples.npy").unlink()
    config = tmp_path / "session.json"
    records.write(config, lab.settings(tmp_path / "results", dataset=str(data)))
    failed = run(lab.harness_command("session", config), env=lab.harness_environment())
    told, advice = failed.stderr.splitlines()
    assert told.startswith("mlperf.harness: the data cannot be read: ")
    assert "samples.npy" in told
    assert advice.startswith("next: ")
    assert advice.endswith("cm verify cache")


def test_a_damaged_model_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "damaged.onnx"
    path.write_bytes(b"not a model")
    digest = hashlib.sha256(b"not a model").hexdigest()
    message = fails(tmp_path, model=lab.model(path=str(path), sha256=digest))
    assert f"onnxruntime cannot open {path}" in message


def test_a_device_that_is_not_there_is_refused(tmp_path: Path) -> None:
    assert "onnxruntime has no device tpu" in fails(tmp_path, device="tpu")


def test_a_backend_that_is_not_there_is_refused(tmp_path: Path) -> None:
    assert "no backend abacus" in fails(tmp_path, backend="abacus")


# ---------------------------------------------------------------- ended from outside


def started(
    folder: Path, duration_ms: int, before: tuple[str, ...] = ()
) -> tuple[subprocess.Popen[str], Path]:
    """A session in the middle of its one performance run, and that run's hidden folder.

    ``before`` are words in front of its command.
    """
    config = folder / "session.json"
    asked = lab.settings(
        folder / "results",
        scenarios=["Offline"],
        modes=["performance"],
        overrides={"min_duration": duration_ms},
    )
    records.write(config, asked)
    process = subprocess.Popen(
        [*before, *lab.harness_command("session", config)],
        env={**lab.harness_environment(), "CM_TMP_RUN_DIR": str(folder)},
        stdout=subprocess.PIPE,
        text=True,
    )
    logs = "results/*/*/*/offline/.performance.*/run_1/mlperf_log_detail.txt"
    (log,) = wait_for(lambda: list(folder.glob(logs)))
    return process, log.parents[1]


def children_in(folder: Path) -> list[int]:
    """Processes that work in ``folder``, from the system's own list."""
    numbers = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    return [number for number in numbers if directory_of(number).startswith(str(folder))]


def directory_of(process: int) -> str:
    """Where a process works; empty when it has ended meanwhile or is not ours to look at."""
    try:
        return os.readlink(f"/proc/{process}/cwd")
    except OSError:
        return ""


needs_proc = pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="needs Linux's /proc")


@needs_proc
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stopped_session_takes_its_run_with_it(tmp_path: Path, number: signal.Signals) -> None:
    process, hidden = started(tmp_path, LONG_MS)
    assert children_in(hidden)
    process.send_signal(number)
    printed, _ = process.communicate(timeout=HANG_S)
    assert process.returncode == 128 + number
    assert f"ended by {number.name}; nothing unfinished is left" in printed
    assert not children_in(hidden)
    assert not hidden.exists()
    assert not list(tmp_path.rglob("performance"))
    assert not list(tmp_path.rglob("results.json"))


@needs_proc
def test_a_killed_session_leaves_nothing_that_runs_or_looks_whole(tmp_path: Path) -> None:
    process, hidden = started(tmp_path, LONG_MS)
    process.kill()
    process.communicate(timeout=HANG_S)
    wait_for(lambda: not children_in(hidden))
    assert not list(tmp_path.rglob("performance"))
    asked = lab.settings(tmp_path / "results", scenarios=["Offline"], modes=["performance"])
    sessions.MeasurementSession(records.decode(SessionSettings, asked)).run()
    assert not hidden.exists(), "the next session sweeps what a killed one left"
    assert [path.name for path in hidden.parent.glob("performance")] == ["performance"]


@needs_proc
def test_a_session_ends_with_the_call_that_it_belongs_to(tmp_path: Path) -> None:
    process, hidden = started(tmp_path, LONG_MS, before=("sh", "-c", '"$@" & wait', "sh"))
    process.kill()
    process.communicate(timeout=HANG_S)
    wait_for(lambda: not hidden.exists())
    assert not children_in(hidden)


def test_progress_is_reported(tmp_path: Path) -> None:
    config, file = tmp_path / "session.json", tmp_path / "progress.json"
    records.write(
        config, lab.settings(tmp_path / "results", scenarios=["Offline"], modes=["performance"])
    )
    environment = {**lab.harness_environment(), "CM_PROGRESS_FILE": str(file)}
    run(lab.harness_command("session", config), env=environment).ok()
    report = json.loads(file.read_text(encoding="utf-8"))
    # A slow machine has answered nothing yet when so short a run ends, and is told the rest.
    parts = ("longer than expected", r"all runs end in \d+ s", r"[\d.]+ samples/s")
    expected = "(, )?".join(f"({part})?" for part in parts)
    assert re.fullmatch(expected, report["more"]), report
    assert report["label"] == "Offline performance"
    # A run that lasts longer than expected is not shown as complete.
    assert 0 <= report["done"] <= 0.96 * report["total"]
    assert report["unit"] == "s"


@pytest.mark.parametrize("words", [[], ["fly", "x.json"], ["session"]])
def test_wrong_words_get_the_usage(words: list[str]) -> None:
    command = [sys.executable, "-m", "mlperf.harness", *words]
    done = run(command, env=lab.harness_environment())
    assert done.status == 2
    assert "usage:" in done.stderr


def test_a_wrong_configuration_is_one_line(tmp_path: Path) -> None:
    config = tmp_path / "session.json"
    config.write_text("{}", encoding="utf-8")
    done = run(lab.harness_command("session", config), env=lab.harness_environment())
    assert done.status == 1
    assert done.stderr.startswith("mlperf.harness: SessionSettings: ")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("limit", "number", "told"),
    [
        ("unlimited", signal.SIGSEGV, "ended by SIGSEGV"),
        ("unlimited", signal.SIGKILL, "ended by SIGKILL, as the system does when it runs out of "),
        ("2048000", signal.SIGSEGV, "perhaps out of memory: its limit is 2000 MiB (ulimit -v)"),
    ],
)
def test_a_process_that_ends_by_a_signal_is_explained(
    limit: str, number: signal.Signals, told: str, tmp_path: Path
) -> None:
    program = (
        "from pathlib import Path; from mlperf.harness.session import launch; "
        f"print(launch.reason(-{int(number)}, Path('.'), Path('console')))"
    )
    words = ["bash", "-c", f'ulimit -v {limit}; exec "$0" -c "$1"', sys.executable, program]
    assert told in run(words, cwd=tmp_path, env=lab.harness_environment()).stdout


def test_the_cause_of_a_program_is_not_its_last_line(tmp_path: Path) -> None:
    console, torch = tmp_path / "console", "Compile with `TORCH_USE_CUDA_DSA` to enable assertions."
    console.write_text(f"mlperf.harness: the model failed: CUDA error: off\n{torch}\nnext: wait\n")
    assert launch.reason(1, tmp_path, console) == "the model failed: CUDA error: off"
    console.write_text("Traceback (most recent call last):\n  File 'a'\nOSError: off\nexit\n")
    assert launch.reason(1, tmp_path, console).splitlines()[0] == "OSError: off"
    ort = "[E:onnxruntime:Default, x.cc:1] Failed to load library: libcublasLt.so.12: cannot open"
    console.write_text(f"{ort}\nmlperf.harness: the session uses the CPU\nnext: wait\n")
    assert launch.reason(1, tmp_path, console) == f"the session uses the CPU\n{ort}"
    console.write_text("something odd\n")
    assert launch.reason(1, tmp_path, console) == "something odd"
