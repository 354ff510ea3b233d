"""Asking tools: found in absolute folders only, stopped in time, always an answer."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from cmbench.lib.probe import NOT_STARTED, ProbeResult, probe, search_path, which
from support import HANG_S, LONG_S


def tool(path: Path, text: str, mode: int = 0o755) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(mode)
    return path


def test_what_a_tool_says_is_kept(tmp_path: Path) -> None:
    path = tool(tmp_path / "say", 'echo "v1.2 $1 $EXTRA $LC_ALL"; echo more >&2; pwd; exit 3')
    result = probe([path, "a b"], env={"EXTRA": "set"})
    assert result.status == 3
    assert result.stdout == "v1.2 a b set C\n/\n"
    assert result.stderr == "more\n"
    assert result.problem == "exit status 3: more"
    assert not result.ok
    assert probe([tool(tmp_path / "fine", "echo 1")]).problem == ""


def test_bytes_that_are_no_text_do_no_harm(tmp_path: Path) -> None:
    assert "\ufffd" in probe([tool(tmp_path / "say", r"printf '\377\376'")]).stdout


def stopped(path: str) -> ProbeResult:
    """What ``probe`` tells of a hanging tool that has begun, however long that takes here."""
    for seconds in (0.3, 3, 30):
        result = probe([path], timeout=seconds)
        if Path(path).with_name("pid").exists() and result.stdout:
            return result
    return result


def test_a_tool_that_hangs_is_stopped_with_its_children(tmp_path: Path) -> None:
    path = tool(tmp_path / "hang", f"echo started; sleep 300 & echo $! > {tmp_path}/pid; wait")
    result = stopped(path)
    assert result.timed_out
    assert not result.ok
    assert result.stdout == "started\n"
    assert result.problem.startswith("no answer within ")
    child = int((tmp_path / "pid").read_text())
    for _ in range(100):
        if not running(child):
            return
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    pytest.fail("the child of the tool is still running")


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False


def test_a_child_that_left_the_group_cannot_hold_us(tmp_path: Path) -> None:
    # Only who has left the group writes its number, and all of it at once.
    leave = tool(
        tmp_path / "left",
        f"echo $$ > {tmp_path}/new; mv {tmp_path}/new {tmp_path}/pid\nexec sleep {LONG_S}",
    )
    path = tool(tmp_path / "leave", f"echo here; setsid {leave} & sleep {LONG_S}")
    result = stopped(path)
    assert result.timed_out
    assert result.stdout == "here\n"
    left = int((tmp_path / "pid").read_text())
    assert running(left)
    os.kill(left, signal.SIGKILL)


def test_an_interrupt_takes_the_tool_along(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    path = tool(tmp_path / "hang", f"echo $$ > {pid}; exec sleep {LONG_S}")
    main = threading.get_ident()

    def interrupt() -> None:
        while not (pid.exists() and pid.read_text().endswith("\n")):
            time.sleep(0.05)
        signal.pthread_kill(main, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        probe([path], timeout=HANG_S)
    thread.join()
    assert not running(int(pid.read_text()))


def test_an_interrupt_of_its_start_takes_the_tool_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tool may run before ``Popen`` returns: the interrupt comes between."""
    start = subprocess.Popen._execute_child  # type: ignore[attr-defined]
    started: list[int] = []

    def interrupted(self: subprocess.Popen[bytes], *args: object) -> None:
        start(self, *args)
        started.append(self.pid)
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess.Popen, "_execute_child", interrupted)
    with pytest.raises(KeyboardInterrupt):
        probe([tool(tmp_path / "hang", f"exec sleep {LONG_S}")], timeout=HANG_S)
    assert not running(*started)


@pytest.mark.parametrize("name", ["/nowhere/tool", "no-such-tool-anywhere", "./tool"])
def test_a_tool_that_is_not_there_is_a_result(name: str) -> None:
    result = probe([name])
    assert result.status == NOT_STARTED
    assert "tool" in result.problem


def test_a_file_that_cannot_run_is_a_result(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_text("no program at all")
    path.chmod(0o755)
    assert probe([path]).status == NOT_STARTED


def test_nothing_is_taken_from_the_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool(tmp_path / "here/evil", f"touch {tmp_path}/ran")
    good = tool(tmp_path / "good/evil", "echo good")
    monkeypatch.chdir(tmp_path / "here")
    path = f".::here:../here:{tmp_path}/good"
    assert which("evil", path) == good
    assert probe(["evil"], path=path).stdout == "good\n"
    assert probe(["./evil"], path=path).status == NOT_STARTED
    assert which("evil", ".:") is None
    assert not (tmp_path / "ran").exists()


def test_search_path_is_in_order_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/b:/a/:rel:/b/../b:/a")
    assert search_path() == [Path("/b"), Path("/a")]


def test_which_wants_files_that_may_run(tmp_path: Path) -> None:
    (tmp_path / "one/tool").mkdir(parents=True)
    tool(tmp_path / "two/tool", "", mode=0o644)
    last = tool(tmp_path / "three/tool", "")
    path = os.pathsep.join(str(tmp_path / name) for name in ("one", "two", "three"))
    assert which("tool", path) == last


def test_a_place_that_cannot_be_looked_at_has_no_program(tmp_path: Path) -> None:
    """A folder of somebody else, or one that no file system takes, does not end the search."""
    found = tool(tmp_path / "thing", "")
    assert which("thing", os.pathsep.join(["/" + "x" * 5000, str(tmp_path)])) == found
