"""Runs that the pages start: processes of their own, seen by all, ended with all they began."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from cmbench import api
from cmbench.errors import Error
from cmbench.record import NAMED, new_run_directory, new_run_id
from cmbench_gui.jobs import control
from cmbench_gui.jobs.views import drawn
from cmbench_gui.jobs.watch import MOST_LINES, LogReader, events, progress, tree
from cmbench_gui.site import Site
from support import HANG_S, LONG_S, Home, python_env, wait_for


@pytest.fixture
def site(lab_site: Site) -> Site:
    return lab_site


@pytest.fixture
def ended(site: Site) -> Callable[[str], control.Job]:
    def wait(run: str) -> control.Job:
        wait_for(lambda: not control.job(site, run).running)
        return control.job(site, run)

    return wait


def test_a_run_is_seen_by_the_page_the_api_and_the_command_line(
    site: Site, client: TestClient, ended: Callable[[str], control.Job], tmp_path: Path
) -> None:
    answer = client.post(
        "/jobs", data={"token": site.token, "command": "cm run script --tags=is-quick,test"}
    )
    assert answer.status_code == 303
    run = answer.headers["location"].removeprefix("/jobs/")
    job = ended(run)
    assert (job.status, job.command) == ("done", ("cm", "run", "script", "--tags=is-quick,test"))
    assert [step.label for step in tree(job)] == ["quick"]
    assert tree(job)[0].status == "done"
    assert "all is well" in api.log(site.workspace(), run).lines
    assert run in client.get("/jobs").text
    assert "Run again" in client.get(f"/jobs/{run}").text
    assert "all is well" in client.get(f"/jobs/{run}/log").text
    assert "all is well" in Home(tmp_path).cm("log", "script", run).ok().stdout


def test_a_stopped_run_is_interrupted_and_has_not_failed(
    site: Site, client: TestClient, ended: Callable[[str], control.Job], tmp_path: Path
) -> None:
    run = control.start(site, ["cm", "run", "script", "--tags=is-long"])
    wait_for(running_sleeps)
    os.kill(control.job(site, run).run.pid, signal.SIGINT)
    assert ended(run).status == "interrupted"
    assert 'class="badge plain">interrupted<' in client.get("/jobs").text
    assert "interrupted" in Home(tmp_path).cm("show", "runs").ok().stdout


def test_a_job_that_measured_has_its_figures_as_a_table_and_its_report(
    site: Site, client: TestClient, ended: Callable[[str], control.Job]
) -> None:
    run = control.start(site, ["cm", "run", "script", "--tags=is-quick,test"])
    job = ended(run)
    assert client.get(f"/jobs/{run}/report").status_code == 404
    assert 'id="report"' not in client.get(f"/jobs/{run}").text
    folder = Path(job.run.folder, "results")
    folder.mkdir()
    (folder / "report.html").write_text("<h1>measured</h1>", encoding="utf-8")
    each = {"scenario": "Offline", "value": 5120.5, "unit": "samples/s", "validity": "VALID"}
    document = {"benchmark": "resnet50", "results": [each]}
    (folder / "results.json").write_text(json.dumps(document), encoding="utf-8")
    shown = client.get(f"/jobs/{run}").text
    assert '<th scope="row">resnet50 Offline</th>' in shown
    assert "samples/s" in shown[shown.index("resnet50 Offline") :]
    assert "resnet50 Offline" in client.get("/jobs").text
    entered = client.get(f"/jobs/{run}/report")
    assert entered.headers["location"] == f"/jobs/{run}/report/", "its links are relative to it"
    answer = client.get(f"/jobs/{run}/report/")
    assert answer.text == "<h1>measured</h1>"
    assert "script-src" not in answer.headers["content-security-policy"]
    logs = folder / "offline" / "performance" / "run_1"
    logs.mkdir(parents=True)
    (logs / "a log.txt").write_text("<b>42</b>", encoding="utf-8")
    (folder / "outside").symlink_to("/etc")
    listed = client.get(f"/jobs/{run}/report/offline/performance/")
    assert 'href="./run_1/"' in listed.text
    log = client.get(f"/jobs/{run}/report/offline/performance/run_1/a%20log.txt")
    assert (log.text, log.headers["content-type"][:10]) == ("<b>42</b>", "text/plain")
    for place in ("nothing", "../record.json", "%2e%2e/record.json", "outside/passwd"):
        assert client.get(f"/jobs/{run}/report/{place}").status_code == 404


def told(site: Site, run: str, mark: str = "") -> list[tuple[str, object]]:
    """The events of a run's stream, to its end."""

    async def read() -> list[str]:
        return [text async for text in events(lambda: control.job(site, run), drawn, mark)]

    found = []
    for text in asyncio.run(read()):
        parts = dict(line.split(": ", 1) for line in text.strip().splitlines() if line[0] != ":")
        if parts:
            found.append((parts["event"], json.loads(parts["data"])))
    return found


def test_the_stream_tells_steps_and_lines_and_goes_on_where_it_was(
    site: Site, ended: Callable[[str], control.Job]
) -> None:
    run = control.start(site, ["cm", "run", "script", "--tags=is-fails"])
    job = ended(run)
    assert job.status == "failed"
    assert "ended with" in job.error or "fails" in job.error
    [top] = tree(job)
    assert (top.label, top.status, top.open) == ("fails", "failed", True)
    assert [(each.label, each.status) for each in top.below] == [("quick", "done")]

    stream = told(site, run)
    assert stream[0][0] == "steps"
    assert stream[-1] == ("end", {"status": "failed"})
    lines = [line for kind, data in stream if kind == "log" for line in data]  # type: ignore[attr-defined]
    assert [number for number, _, _ in lines] == list(range(1, len(lines) + 1))
    assert {text for _, text, trouble in lines if trouble} >= {"warning: a thing to see"}
    reader = LogReader(os.path.join(job.run.folder, "log.txt"))
    reader.lines()
    # A browser that comes back says how far it was.
    assert all(kind != "log" for kind, _ in told(site, run, f"{reader.at}-{reader.number}"))


def test_the_stream_of_a_run_that_is_removed_ends(
    site: Site, ended: Callable[[str], control.Job]
) -> None:
    job = ended(control.start(site, ["cm", "run", "script", "--tags=is-quick,test"]))

    async def read() -> list[str]:
        found = []
        async for text in events(lambda: control.job(site, job.id), drawn):
            found.append(text)
            shutil.rmtree(job.run.folder, ignore_errors=True)
        return found

    last = asyncio.run(read())[-1]
    assert (last.partition("data: ")[2].strip()) == '{"status": "gone"}'


def test_the_stream_tells_how_far_a_run_is(
    site: Site, ended: Callable[[str], control.Job], tmp_path: Path
) -> None:
    hold = tmp_path / "hold"
    run = control.start(site, ["cm", "run", "script", "--tags=is-far", f"--hold={hold}"])
    found = []

    async def read() -> None:
        async for text in events(lambda: control.job(site, run), drawn):
            if text.startswith("event: progress"):
                found.append(json.loads(text.partition("data: ")[2]))
                hold.touch()

    asyncio.run(read())
    assert found[0] == {"text": "fetching 30 B of 120 B (25%)", "share": 0.25}
    job = ended(run)
    assert progress(job) == {"text": ""}
    assert not os.path.exists(os.path.join(job.run.folder, "progress.json"))


def test_a_run_goes_on_from_a_step(
    site: Site, client: TestClient, ended: Callable[[str], control.Job]
) -> None:
    first = control.start(site, ["cm", "run", "script", "--tags=is-fails"])
    ended(first)
    assert 'aria-label="Run from quick"' in client.get(f"/jobs/{first}").text
    at, form = f"/jobs/{first}/again", {"token": site.token}
    assert client.post(at, data={**form, "step": "--tags=x"}).status_code == 400
    answer = client.post(at, data={**form, "step": "quick"})
    assert answer.status_code == 303
    again = ended(answer.headers["location"].rpartition("/")[2])
    assert again.command == ("cm", "run", "script", "--renew_from=quick", "--tags=is-fails")
    # From another step of that one, the first is left out.
    answer = client.post(f"/jobs/{again.id}/again", data={**form, "step": "fails"})
    third = ended(answer.headers["location"].rpartition("/")[2])
    assert third.command == ("cm", "run", "script", "--renew_from=fails", "--tags=is-fails")


def test_stopping_ends_all_that_a_run_has_begun_and_may_be_asked_twice(
    site: Site, client: TestClient, ended: Callable[[str], control.Job]
) -> None:
    run = control.start(site, ["cm", "run", "script", "--tags=is-long"])
    wait_for(running_sleeps)
    # The other browser presses "run" as well, and sees the same one.
    assert control.start(site, ["cm", "run", "script", "--tags=is-long"]) == run
    assert control.job(site, run).running
    for _ in range(2):
        answer = client.post(f"/jobs/{run}/stop", data={"token": site.token})
        assert (answer.status_code, answer.headers["location"]) == (303, f"/jobs/{run}")
    assert ended(run).status in ("interrupted", "killed")
    assert running_sleeps() == []


def test_two_servers_of_a_home_start_a_command_once(
    site: Site, ended: Callable[[str], control.Job]
) -> None:
    code = (
        "from cmbench_gui.jobs import control; from cmbench_gui.site import Site\n"
        "input()\n"
        f"print(control.start(Site({site.home!r}, b'', folder={site.folder!r}),"
        " ['cm', 'run', 'script', '--tags=is-long']), flush=True)\n"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    servers = [
        subprocess.Popen([sys.executable, "-c", code], env=python_env(), **pipes) for _ in range(3)
    ]
    for server in servers:
        server.stdin.write("\n")
        server.stdin.flush()
    started = {server.communicate(timeout=HANG_S)[0].strip() for server in servers}
    assert len(started) == 1
    [run] = started
    assert control.stop(site, run)
    ended(run)
    assert running_sleeps() == []


def test_a_run_that_cannot_be_noted_on_a_full_disk_does_not_go_on(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = control.jobs(site)

    def full(*_: object) -> None:
        wait_for(running_sleeps)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(control.os, "rename", full)
    with pytest.raises(Error, match="No space left on device") as caught:
        control.start(site, ["cm", "run", "script", "--tags=is-long"])
    assert (caught.value.code, caught.value.hint) == (
        "cannot-start",
        "free some of the disk: cm gc cache",
    )
    wait_for(lambda: running_sleeps() == [])
    assert control.jobs(site) == before


def running_sleeps() -> list[str]:
    found = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout
    return [line for line in found.splitlines() if line == f"sleep {LONG_S}"]


def test_a_run_survives_its_server_and_another_one_ends_it(
    site: Site, ended: Callable[[str], control.Job]
) -> None:
    code = (
        "from cmbench_gui.jobs import control; from cmbench_gui.site import Site; import os\n"
        f"print(control.start(Site({site.home!r}, b'', folder={site.folder!r}),"
        " ['cm', 'run', 'script', '--tags=is-long']), flush=True)\n"
        "os.kill(os.getpid(), 9)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], env=python_env(), capture_output=True, text=True
    ).stdout.strip()
    wait_for(running_sleeps)
    assert control.job(site, run).running
    assert control.stop(site, run)
    ended(run)
    assert running_sleeps() == []


def test_a_run_of_a_command_line_is_watched_and_stopped_too(
    site: Site, ended: Callable[[str], control.Job], tmp_path: Path
) -> None:
    home = Home(tmp_path)
    words = [str(home.bin / "cm"), "run", "script", "--tags=is-long"]
    typed = subprocess.Popen(words, cwd=tmp_path, env=home.environment())
    wait_for(running_sleeps)
    [job] = [each for each in control.jobs(site) if each.running]
    assert job.command == ("cm", "run", "script", "--tags=is-long")
    assert control.stop(site, job.id)
    assert typed.wait() == 130
    assert ended(job.id).status == "interrupted"
    assert running_sleeps() == []


def test_a_home_without_room_for_a_run_is_one_clear_error(
    site: Site, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = os.makedirs

    def full(path: str, *more: int, **named: bool) -> None:
        if "/runs/" in path:
            raise OSError(28, "No space left on device")
        made(path, *more, **named)

    monkeypatch.setattr(os, "makedirs", full)
    words = "cm run script --tags=is-quick,test"
    answer = client.post("/jobs", data={"token": site.token, "command": words})
    assert answer.status_code == 400
    assert "No space left on device" in answer.text
    assert control.jobs(site) == []


@pytest.fixture
def killed(site: Site, ended: Callable[[str], control.Job]) -> control.Job:
    run = control.start(site, ["cm", "run", "script", "--tags=is-long"])
    wait_for(running_sleeps)
    os.kill(control.job(site, run).run.pid, signal.SIGKILL)
    return ended(run)


def test_a_killed_run_is_told_as_that(site: Site, killed: control.Job) -> None:
    assert (killed.status, killed.left) == ("killed", True)
    assert tree(killed)[0].status == "ended"
    # The next run sweeps what it has left.
    control.start(site, ["cm", "run", "script", "--tags=is-quick"])
    wait_for(lambda: not running_sleeps())


def test_what_a_killed_run_has_left_is_told_and_stopped(
    site: Site, client: TestClient, killed: control.Job
) -> None:
    page, said = f"/jobs/{killed.id}", "still running"
    shown = client.get(page).text
    assert said in shown
    assert 'id="stop"' in shown
    assert said in client.get("/jobs").text
    assert client.post(f"{page}/stop", data={"token": site.token}).status_code == 303
    assert running_sleeps() == []
    shown = client.get(page).text
    assert said not in shown
    assert 'id="stop"' not in shown
    assert said not in client.get("/jobs").text
    assert not control.stop(site, killed.id)


def test_a_killed_run_took_the_time_until_it_last_wrote(site: Site, killed: control.Job) -> None:
    assert killed.run.seconds > 0
    wrote = killed.run.started + 100
    os.utime(os.path.join(killed.run.folder, "log.txt"), (wrote, wrote))
    assert control.job(site, killed.id).run.seconds == pytest.approx(100, abs=0.01)
    control.stop(site, killed.id)


def test_what_fails_before_it_begins_says_why(
    site: Site, client: TestClient, ended: Callable[[str], control.Job]
) -> None:
    run = control.start(site, ["cm", "run", "script", "--tags=is-quick", "--jobs=many"])
    job = ended(run)
    assert job.status == "failed"
    assert "--jobs=many is not a number" in job.error
    assert "--jobs=many" in client.get(f"/jobs/{run}").text


@pytest.mark.parametrize(
    "command",
    [
        "",
        "rm -rf /",
        "cm rm cache --all -f",
        "cm run script --tags=is-quick --nonsense=1",
        "cm run script --tags=is-quick,_none",
        "cm run script --tags=nothing-like-it",
        "cm run script --tags=is-quick @/etc/passwd",
    ],
)
def test_only_commands_that_run_a_script_are_started(
    site: Site, client: TestClient, command: str
) -> None:
    answer = client.post("/jobs", data={"token": site.token, "command": command})
    assert answer.status_code in (400, 404)
    assert control.jobs(site) == []


def test_a_server_without_runs_starts_none(site: Site) -> None:
    with pytest.raises(Error, match="runs nothing"):
        control.start(replace(site, may_run=False), ["cm", "run", "script", "--tags=is-quick"])


@pytest.mark.parametrize(
    "run", ["last", "20260101-000000-aaaaaa", "%252e%252e", "a%00b", "20260101-000000-aaaaaa%0a"]
)
def test_a_crafted_address_is_no_run(client: TestClient, site: Site, run: str) -> None:
    assert client.get(f"/jobs/{run}").status_code == 404
    assert client.get(f"/jobs/{run}/log").status_code == 404
    assert client.get(f"/jobs/{run}/events").status_code == 404
    assert client.post(f"/jobs/{run}/stop", data={"token": site.token}).status_code == 404


def test_whoever_starts_a_run_may_name_it_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = new_run_id()
    monkeypatch.setenv(NAMED, run)
    first = Path(new_run_directory(str(tmp_path)))
    assert first.name == run
    assert NAMED not in os.environ
    (first / "log.txt").touch()
    for name in (run, "../../x", ""):
        monkeypatch.setenv(NAMED, name)
        other = Path(new_run_directory(str(tmp_path)))
        assert other.name != run
        assert other.parent == first.parent


def test_a_long_log_is_shown_from_its_end(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_bytes(b"".join(b"line %d\n" % n for n in range(1, 400_001)) + b"half")
    reader = LogReader(str(path))
    shown = []
    while more := reader.lines():
        shown += more
    assert len(shown) == MOST_LINES - 1, "the page holds no more, and the last one is not whole"
    assert shown[-1] == (400_000, "line 400000", False)
    assert [text for _, text, _ in shown] == [f"line {number}" for number, _, _ in shown]
    with path.open("a") as out:
        out.write(" a line\n")
    assert reader.lines() == [(400_001, "half a line", False)]


def test_long_lines_and_those_written_over_are_shown_as_a_terminal_has_them(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_bytes(b"first\n" + b"x" * 3_000_000 + b"\n")
    reader = LogReader(str(path))
    shown = []
    while more := reader.lines():
        shown += more
    assert "".join(text for _, text, _ in shown).endswith("x" * 1_000_000)
    path.write_bytes(b"10 %\r100 %\rdone\nWindows\r\n")
    assert LogReader(str(path)).lines() == [(1, "done", False), (2, "Windows", False)]
