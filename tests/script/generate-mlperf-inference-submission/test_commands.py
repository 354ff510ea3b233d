"""The command of the guides, as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import submission_lab as lab
from support import Home

GENERATE = (
    "run",
    "script",
    "--tags=generate,inference,submission",
    "--adr.python.name=mlperf",
    "--device=cpu",
    "--clean",
    "--submitter=Tester",
    "--hw_notes_extra=Result taken by a test",
    "--quiet",
)


def test_the_command_of_the_guides(home: Home, measured: Path) -> None:
    source = lab.checkout(home.path / "inference")
    home.cm("run", "script", "--tags=install,python-venv", "--name=mlperf").ok()
    out = home.path / "out"
    words = (
        *GENERATE,
        f"--results_dir={measured}/test_results",
        f"--submission_dir={out}",
        "--run-checker",
        "--adr.inference-src.version=master",
        f"--inference_src={source}",
    )
    done = home.cm(*words).ok()
    assert "flow complete; not submittable because" in " ".join(done.stdout.split())
    assert "submission_checker: refused for 1 reason" in done.stdout
    assert "performance.duration: found by our checks too" in done.stdout
    (system,) = (out / "open/Tester/systems").glob("*.json")
    assert json.loads(system.read_text())["hw_notes"] == "Result taken by a test"
    assert (home.path / "out-report/report.html").is_file()


def test_the_official_checker_runs_whatever_ours_say(home: Home, measured: Path) -> None:
    """The runs are of the newest round, the tree is asked for as one of an older one."""
    out, source = home.path / "out", lab.checkout(home.path / "inference")
    words = (f"--results_dir={measured}", f"--submission_dir={out}", "--round=5.1", "--run-checker")
    command = [word for word in GENERATE if not word.startswith("--adr.python")]
    done = home.cm(*command, *words, f"--inference_src={source}")
    assert done.status == 1
    assert "performance.seeds" in done.stdout
    assert "submission_checker: refused" in done.stdout
    for readme in out.rglob("README.md"):
        assert str(home.path) not in readme.read_text("utf-8")


def test_nobody_is_named(home: Home, measured: Path) -> None:
    words = [word for word in GENERATE if not word.startswith("--submitter")]
    done = home.cm(*words, f"--results_dir={measured}", f"--submission_dir={home.path}/out")
    assert done.status == 1
    assert "give --submitter=NAME" in done.stdout + done.stderr
    assert not (home.path / "out").exists()
