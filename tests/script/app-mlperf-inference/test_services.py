"""find-performance, reports, checks beforehand, and what is kept when a session is killed."""

from __future__ import annotations

import html
import json
import re
import signal
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
import yaml

import benchmark_lab as lab
from mlperf import catalog
from mlperf.harness import records
from mlperf.harness.errors import HarnessError
from mlperf.harness.jobs import Probe
from mlperf.harness.reporting.course import rates
from mlperf.harness.reporting.results import Results
from mlperf.harness.session import precheck, session
from mlperf.harness.settings import USUAL_SCENARIOS, SessionSettings
from support import HANG_S, wait_for

SEED = catalog.rounds.qsl_seeds()["6.1"]


def settings(folder: Path, **changes: Any) -> SessionSettings:
    return records.decode(SessionSettings, lab.settings(folder, **changes))


def measure(folder: Path, **changes: Any) -> Results:
    return session.MeasurementSession(settings(folder, **changes)).run()


# ---------------------------------------------------------------- find-performance


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("found")
    changes: dict[str, Any] = {
        "modes": ["find-performance"],
        "sut_dir": str(folder / "sut"),
        "overrides": {"min_duration": 80},
    }
    return {"folder": folder, "results": measure(folder / "a", **changes), "changes": changes}


def test_all_four_scenarios_are_found_and_stored(found: dict[str, Any]) -> None:
    results: Results = found["results"]
    path = Path(results.sut_file)
    assert path.parent == found["folder"] / "sut" / "lab"
    stored = yaml.safe_load(path.read_text(encoding="utf-8"))["resnet50-tiny"]
    assert set(stored) == set(USUAL_SCENARIOS)
    for result in results.results:
        assert result.find is not None
        assert result.find.value is not None
        value = stored[result.scenario][result.find.quantity]
        assert value == pytest.approx(result.find.value, rel=1e-4)
        assert result.find.stored == str(path)
    server = next(each for each in results.results if each.scenario == "Server").find
    assert server is not None
    assert any(not each.passed for each in server.tries), "the limit was reached"
    summary = (Path(results.folder) / "summary.txt").read_text(encoding="utf-8")
    assert "Server search:" in summary
    assert str(path) in summary


def test_later_runs_use_what_was_found_and_say_so(
    found: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    sut = found["changes"]["sut_dir"]
    later = measure(
        found["folder"] / "b", sut_dir=sut, scenarios=["Offline"], modes=["performance"], attempts=1
    )
    run = later.results[0].performance_run
    assert run is not None
    assert run.targets.origin == "stored target"
    first: Results = found["results"]
    stored = next(each.find for each in first.results if each.scenario == "Offline")
    assert stored is not None
    assert run.targets.qps == pytest.approx(1.02 * (stored.value or 0), rel=1e-4)
    assert "(stored target)" in capsys.readouterr().out


# ---------------------------------------------------------------- reports


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Results:
    folder = tmp_path_factory.mktemp("reported")
    provenance = {
        "command": "cm run script --tags=x --name='a b'",
        "revision": "abc",
        "repository": "https://example.org/r.git",
        "steps": ["cm run script --tags=get,thing"],
    }
    changes: dict[str, Any] = {
        "scenarios": ["SingleStream", "Server"],
        "sut_dir": str(folder / "sut"),
        "attempts": 1,
        "provenance": provenance,
        "hw_name": "<b>&lab",
    }
    measure(folder / "first", **changes, modes=["performance"])
    return measure(folder / "second", **changes)


def test_the_page_is_one_file_without_a_network(reported: Results) -> None:
    text = (Path(reported.folder) / "report.html").read_text(encoding="utf-8")
    assert text.startswith("<!DOCTYPE html>")
    assert not re.search(r"(src|url)\s*[=(]", text)
    for place in re.findall(r'href="(.*?)"', text):
        beside = Path(reported.folder) / unquote(place)
        assert f'id="{place[1:]}"' in text if place.startswith("#") else beside.exists()
    assert "<pre>cm run script --tags=x --name='a b'</pre>" in html.unescape(text)
    assert "<script" not in text
    assert "<b>&lab" not in text
    for result in reported.results:
        assert f"<h2>{result.scenario}</h2>" in text
        assert f'aria-label="results in {result.unit}"' in text, "the first run is shown too"
    assert text.count('aria-label="queries by latency"') == 2
    assert text.count('aria-label="samples/s over time"') >= 1
    assert "prefers-color-scheme: dark" in text


def test_the_course_of_a_run_is_recorded(reported: Results) -> None:
    for result in reported.results:
        run = result.performance_run
        assert run is not None
        series = json.loads((Path(run.log_dir).parent / "series.json").read_text())
        assert sum(series["counts"]) == series["recorded"]
        assert run.queries is not None
        assert 0.2 * min(run.queries, 65536) <= series["recorded"] <= run.queries
        assert series["progress"][-1][1] == run.queries
        assert run.circumstances.telemetry is not None
        assert run.circumstances.telemetry.memory_total_bytes > 0
        assert run.circumstances.command.startswith("cm run script")


def test_the_readme_lets_another_person_repeat_it(reported: Results) -> None:
    path = Path(reported.folder) / "singlestream" / "README.md"
    text = path.read_text(encoding="utf-8")
    for wanted in (
        "cm run script --tags=x --name='a b'",
        "cm pull repo --url=https://example.org/r.git --checkout=abc",
        "cm run script --tags=get,thing",
        lab.model()["sha256"],
        str(reported.dataset["sha256"]),
        f"loadgen {reported.versions['loadgen']}",
    ):
        assert wanted in text


def test_a_readme_is_made_of_what_is_there_without_measuring(
    reported: Results, capsys: pytest.CaptureFixture[str]
) -> None:
    place = Path(reported.folder)
    readme = place / "server" / "README.md"
    readme.unlink()
    again = measure(place.parents[2], scenarios=["Server"], modes=["readme"], hw_name="<b>&lab")
    assert "tuned on" not in capsys.readouterr().out
    assert again.folder == reported.folder
    assert "samples/s" in readme.read_text(encoding="utf-8")


def test_rates_are_those_between_looks() -> None:
    progress = [(0, 0), (1, 0), *((k, 100 * (k - 1)) for k in range(2, 12)), (12, 1000)]
    assert {round(rate) for _, rate in rates(progress)} == {100}
    assert rates([]) == []
    assert rates([(0, 0), (1, 0)]) == []


# ---------------------------------------------------------------- before the start


def check(folder: Path, seed: int = SEED, count: int = 50_000, **changes: Any) -> tuple[str, ...]:
    asked = settings(folder, **{"form": "", "overrides": {"min_duration": None}, **changes})
    probe = Probe({"loadgen": "6.0.17"}, seed, count, 300_000_000)
    return precheck.check(asked, catalog.benchmark("resnet50"), probe, folder / "root")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"seed": catalog.rounds.qsl_seeds()["5.1"]},
            r"carries the seeds of 5\.1, round 6\.1 fixes others",
        ),
        ({"seed": 12}, "carries the seeds of no round"),
        ({"round": "3.1"}, r"no LoadGen for round 3\.1"),
        ({"style": "valid", "count": 540}, "540 samples would be loaded, round 6.1 asks for 1024"),
        (
            {"style": "valid", "overrides": {"min_duration": None, "max_query_count": 100}},
            "--max_query_count=100 leaves Offline below the 24576 samples",
        ),
        ({"style": "valid", "overrides": {"min_duration": 1000}}, "below the 600000 ms"),
    ],
)
def test_what_cannot_become_valid_stops_before_it_starts(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(HarnessError, match=message) as caught:
        check(tmp_path, **changes)
    assert caught.value.hint


def test_a_left_over_audit_file_stops_before_it_starts(tmp_path: Path) -> None:
    assert check(tmp_path) == ("resnet50 Server is not part of round 6.1; its last round was 5.0",)
    (tmp_path / "root" / "offline").mkdir(parents=True)
    (tmp_path / "root" / "offline" / "audit.config").write_text("")
    with pytest.raises(HarnessError, match=r"offline/audit\.config is left over"):
        check(tmp_path)


def test_small_forms_are_reported_and_go_on(tmp_path: Path) -> None:
    notes = check(tmp_path, style="valid", form="tiny", count=540, scenarios=["Offline"])
    (note,) = notes
    assert note.startswith("540 samples would be loaded, round 6.1 asks for 1024")


def test_the_loadgen_of_another_round_is_refused_for_real(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match=r"carries the seeds of 6\.1, round 5\.1 fixes others"):
        measure(tmp_path, round="5.1", scenarios=["Offline"])
    assert not list(tmp_path.rglob("performance"))


# ---------------------------------------------------------------- killed in the middle


def test_a_killed_session_keeps_its_finished_scenarios(tmp_path: Path) -> None:
    config = tmp_path / "session.json"
    asked = lab.settings(
        tmp_path / "results",
        scenarios=["SingleStream", "Offline"],
        modes=["performance"],
        reuse=True,
        attempts=1,
        overrides={"min_duration": 1500},
    )
    records.write(config, asked)
    process = subprocess.Popen(
        lab.harness_command("session", config),
        env=lab.harness_environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    hidden = "results/*/*/*/offline/.performance.*/run_1/mlperf_log_detail.txt"
    wait_for(lambda: list(tmp_path.glob(hidden)))
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=HANG_S)
    (kept,) = tmp_path.glob("results/*/*/*/singlestream/performance/result.json")
    assert not list(tmp_path.glob("results/*/*/*/offline/performance"))
    place = kept.parents[2]
    assert "<h2>SingleStream</h2>" in (place / "report.html").read_text(encoding="utf-8")
    assert "has not come to its end" in (place / "summary.txt").read_text(encoding="utf-8")
    assert not (place / "results.json").exists()
    before = kept.read_bytes()
    done = subprocess.run(
        lab.harness_command("session", config),
        env=lab.harness_environment(),
        capture_output=True,
        text=True,
        check=True,
        timeout=HANG_S,
    )
    assert "SingleStream performance: kept" in done.stdout
    assert "Offline performance: kept" not in done.stdout
    assert kept.read_bytes() == before
    assert "has not come to its end" not in (place / "summary.txt").read_text(encoding="utf-8")
    assert list(tmp_path.glob("results/*/*/*/offline/performance/result.json"))


def test_the_time_is_estimated_before(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    measure(tmp_path, scenarios=["SingleStream"], modes=["performance"])
    printed = capsys.readouterr().out
    assert re.search(r"1 run to make, about \d+ s; an INVALID run is made again, 2 times", printed)
