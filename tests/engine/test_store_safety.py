"""The store under fire: killed at any moment, used by many at once, broken behind its back."""

from __future__ import annotations

import errno
import json
import os
import random
import signal
import sqlite3
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from cmbench.cache.cache_entry import damage
from cmbench.cache.inventory import check
from lab import Lab, Result
from support import HANG_S, wait_for

SEED = int(os.environ.get("CMBENCH_SEED", "20261121"))
KILLS = int(os.environ.get("CMBENCH_KILLS", "40"))
"""The usual run kills at 40 moments; CMBENCH_KILLS=500 is the full measure."""

LEVELS = 3


def fork(work: Callable[[], Any]) -> int:
    """Do ``work`` in a process of its own, whose status is 0 when it returns 0; gives the pid.

    A fork is at work at once: what is killed is the engine and not the start of an interpreter.
    """
    pid = os.fork()
    if pid:
        return pid
    status = 99
    try:
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(nothing, stream)
        status = int(work())
    finally:
        os._exit(status)


def ended(pid: int, seconds: float = HANG_S) -> int:
    """The status of a process; fails where it does not end."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    raise AssertionError("a process hangs")


# ---------------------------------------------------------------- killed at any moment


def workload(lab: Lab) -> None:
    """Three cached steps above one another, native and not, each with several files."""
    lab.script(
        "get-base",
        cache=True,
        new_env_keys=["BASE*"],
        run="""
for n in 1 2 3 4 5; do echo "$LEVEL $n" > file$n; done
mkdir sub; echo "$LEVEL 6" > sub/file6
echo "BASE=$LEVEL" > tmp-run-env.out
echo "BASE_FILE=$PWD/file5" >> tmp-run-env.out
""",
    )
    for name, below in (("mid", "base"), ("high", "mid")):
        lab.script(
            f"get-{name}",
            cache=True,
            deps=[{"tags": f"get,{below}"}],
            new_env_keys=[f"{name.upper()}*"],
            customize=f"""
import os
from support import HANG_S, wait_for
def preprocess(i):
    env = i['env']
    with open(env['{below.upper()}_FILE']) as stream:
        assert stream.read().split()[0] == env['LEVEL']
    for n in range(1, 7):
        with open('file%d' % n, 'w') as stream:
            stream.write('%s %d\\n' % (env['LEVEL'], n))
    env['{name.upper()}'] = env['{below.upper()}']
    env['{name.upper()}_FILE'] = os.path.join(os.getcwd(), 'file6')
    return {{'return': 0}}
""",
        )
    lab.script(
        "p-top",
        tags="p,top",
        deps=[{"tags": "get,high"}, {"tags": "get,base"}],
        input_mapping={"level": "LEVEL"},
        new_env_keys=["HIGH", "BASE"],
    )


Action = Callable[[Lab], Result]


def actions(rng: random.Random) -> Action:
    """One piece of the mixed workload, chosen by ``rng``."""
    level = str(rng.randrange(LEVELS))
    tags = rng.choice(["get,base", "get,mid", "get,high"])
    choice = rng.random()
    if choice < 0.3:
        return lambda lab: lab.run("p,top", level=level)
    if choice < 0.55:
        return lambda lab: lab.run("p,top", level=level, new=True)
    if choice < 0.75:
        return lambda lab: lab.run(tags, renew=True, env={"LEVEL": level})
    if choice < 0.85:
        return lambda lab: lab.call("delete", "cache", tags=tags, force=True)
    if choice < 0.92:
        return lambda lab: lab.call("gc", "cache", yes=True, max_size="100B", keep_runs="0s")
    if choice < 0.96:
        return lambda lab: lab.call("pin", "cache", tags=tags, all=True)
    return lambda lab: lab.call("unpin", "cache", all=True)


def assert_whole(lab: Lab) -> int:
    """Every entry that can be seen is complete and holds what it says; gives their number."""
    store = lab.store
    assert all(row.script for row in store.own_metadata())
    entries = store.entries()
    for entry in entries:
        assert damage(entry) == ""
        found = check(entry, store.files(entry))
        assert (found.recorded, found.faults) == (True, ())
        assert found.read == 6
        level = next(entry.new_env[k] for k in ("BASE", "MID", "HIGH") if k in entry.new_env)
        texts = [p.read_text() for p in Path(entry.path).rglob("file*")]
        assert sorted(texts) == [f"{level} {n}\n" for n in range(1, 7)]
        assert entry.reads.get("LEVEL", level) == level
    return len(entries)


def staged(lab: Lab) -> list[str]:
    return [n for n in os.listdir(lab.store.place("staging")) if not n.endswith(".new")]


def assert_swept(lab: Lab) -> None:
    """Nothing is on the disk that belongs to no entry and to nobody who lives."""
    store = lab.store
    assert staged(lab) == []
    uids = {entry.uid for entry in store.entries()}
    payloads = {name.rpartition("_")[2] for name in os.listdir(store.place("store"))}
    assert payloads == uids
    assert {n.removesuffix(".json") for n in os.listdir(store.place("files"))} == uids
    drafts = [p for p in Path(store.place("entries")).rglob(".*") if p.is_file()]
    assert drafts == []


@dataclass
class Tally:
    """What the kills met."""

    tried: int = 0
    met: int = 0
    half_made: int = 0
    partners: int = 0
    late: int = 0
    entries: list[int] = field(default_factory=list)


def assert_survived(lab: Lab, level: str, tally: Tally) -> None:
    """What is to be seen after a kill, and what the next run makes of it."""
    tally.entries.append(assert_whole(lab))
    uids = {entry.uid for entry in lab.store.entries()}
    with suppress(OSError):
        made = os.listdir(lab.store.place("store"))
        tally.half_made += any(name.rpartition("_")[2] not in uids for name in made)
    again = lab.run("p,top", level=level)
    assert again.answer["return"] == 0, again.err
    assert (again.env["HIGH"], again.env["BASE"]) == (level, level)
    assert_whole(lab)
    tally.late += swept_late(lab)
    assert_swept(lab)


def swept_late(lab: Lab) -> bool:
    """Whether the next run found locks of the dead still held, for a moment, and left them.

    A program that is just being started holds the files of its parent until it has begun: killed
    in that instant, the parent seems to live on. A later sweep finds it dead.
    """
    deadline = time.monotonic() + HANG_S
    late = False
    while time.monotonic() < deadline and staged(lab):
        late = True
        time.sleep(0.05)
        lab.store.staging.sweep()
    return late


def one_moment(lab: Lab, rng: random.Random, longest: float, tally: Tally) -> None:
    """Start one or two processes, kill one after a random time, look, and run again."""
    works = [actions(rng) for _ in range(rng.choice([1, 1, 2]))]
    # Another process may have taken away what is to be pinned: that is an answer, not a failure.
    fine = (0, 16)
    pids = [fork(lambda work=work: work(lab).answer["return"]) for work in works]
    time.sleep(rng.uniform(0, longest))
    with suppress(ProcessLookupError):
        os.kill(pids[0], signal.SIGKILL)
    statuses = [ended(pid) for pid in pids]
    tally.tried += 1
    tally.partners += len(statuses) - 1
    assert all(status in fine for status in statuses[1:]), statuses
    assert statuses[0] in (*fine, -signal.SIGKILL), statuses
    if statuses[0] == -signal.SIGKILL:
        tally.met += 1
        assert_survived(lab, str(rng.randrange(LEVELS)), tally)


def test_killed_at_random_moments(lab: Lab) -> None:
    """KILLS counts what met a living process; more are tried, and nothing is looked at then."""
    rng = random.Random(SEED)
    workload(lab)
    times = []
    for level in range(LEVELS):
        started = time.perf_counter()
        assert lab.run("p,top", level=str(level)).answer["return"] == 0
        times.append(time.perf_counter() - started)
    longest = 1.2 * statistics.median(times)
    tally = Tally()
    while tally.met < KILLS and tally.tried < 10 * KILLS:
        print(f"seed {SEED}, moment {tally.tried}")
        one_moment(lab, rng, longest, tally)
    print(
        f"seed {SEED}: {tally.met} of {tally.tried} kills met a living process, "
        f"{tally.half_made} left something half-made, {tally.partners} had a second process, "
        f"{tally.late} were swept by the run after the next, "
        f"{statistics.mean(tally.entries):.1f} entries seen on average"
    )
    assert tally.met == KILLS
    assert tally.half_made >= KILLS * 0.05


class Fuse:
    """Ends this process by force right before its ``left``-th touch of a file below ``home``."""

    def __init__(self, home: Path, left: int) -> None:
        self.home = str(home)
        self.left = left
        self.seen = 0

    def __call__(self, event: str, args: tuple[Any, ...]) -> None:
        if event == "fcntl.flock" or (
            event in ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.utime")
            and isinstance(args[0], str)
            and args[0].startswith(self.home)
        ):
            self.seen += 1
            if self.seen == self.left:
                os.kill(os.getpid(), signal.SIGKILL)


def fused(lab: Lab, work: Action, left: int) -> int:
    """Do ``work`` with a fuse in a process of its own."""

    def go() -> int:
        # An audit hook cannot be taken off again; this process ends anyway.
        sys.addaudithook(Fuse(lab.home, left))
        return int(work(lab).answer["return"])

    return ended(fork(go))


WORKS: dict[str, Action] = {
    "make": lambda lab: lab.run("p,top", level="1"),
    "renew": lambda lab: lab.run("get,base", renew=True, env={"LEVEL": "1"}),
    "remove": lambda lab: lab.call("delete", "cache", all=True, force=True),
    "gc": lambda lab: lab.call("gc", "cache", yes=True, max_size="0", keep_runs="0s"),
    "pin": lambda lab: lab.call("pin", "cache", all=True),
}


@pytest.mark.parametrize("name", WORKS)
def test_killed_before_each_touch_of_a_file(lab: Lab, name: str) -> None:
    """One after the other before every open, rename, remove, lock ... that the work does."""
    rng = random.Random(SEED)
    workload(lab)
    work = WORKS[name]
    tally = Tally()
    touch = 0
    step = 1 if KILLS >= 500 else 7
    while True:
        touch += rng.randint(1, 2 * step - 1)
        lab.call("delete", "cache", all=True, force=True)
        if name != "make":
            lab.run("p,top", level="1")
        status = fused(lab, work, touch)
        assert status in (0, -signal.SIGKILL), touch
        tally.met += status != 0
        print(f"seed {SEED}, touch {touch}: {status}")
        assert_survived(lab, "1", tally)
        lab.call("unpin", "cache", all=True)
        if status == 0:
            break
    print(f"seed {SEED}: {name} killed at {tally.met} touches, {tally.half_made} left half-made")
    assert tally.met


class Failing(Fuse):
    """From the ``left``-th touch on nothing below ``home`` can be written: ``error`` instead."""

    def __init__(self, home: Path, left: int, error: int) -> None:
        super().__init__(home, left)
        self.error = error

    def __call__(self, event: str, args: tuple[Any, ...]) -> None:
        writes = event in ("os.rename", "os.mkdir") or (
            event == "open" and isinstance(args[2], int) and args[2] & (os.O_RDWR | os.O_WRONLY)
        )
        if writes and isinstance(args[0], str) and args[0].startswith(self.home):
            self.seen += 1
            if self.seen >= self.left:
                raise OSError(self.error, os.strerror(self.error), args[0])


def failing(lab: Lab, left: int, error: int, told: Path) -> int:
    """A run on a disk that fails from one touch on; what it printed is in ``told``."""

    def go() -> int:
        sys.addaudithook(Failing(lab.home, left, error))
        result = lab.run("p,top", level="1")
        told.write_text(result.err)
        return int(result.answer["return"])

    return ended(fork(go))


@pytest.mark.parametrize(
    ("error", "code"), [(errno.ENOSPC, "no-space"), (errno.EROFS, "not-writable")]
)
def test_a_disk_that_fails_from_any_touch_on(
    lab: Lab, tmp_path: Path, error: int, code: str
) -> None:
    rng = random.Random(SEED)
    workload(lab)
    assert lab.run("p,top", level="0").answer["return"] == 0
    told = tmp_path / "told"
    touch = met = 0
    step = 1 if KILLS >= 500 else 6
    while True:
        touch += rng.randint(1, 2 * step - 1)
        lab.call("delete", "cache", all=True, force=True)
        status = failing(lab, touch, error, told)
        text = told.read_text()
        if status:
            met += 1
            assert text.count("error [") == 1, text
            # A program of a step may be the one that cannot write: it has its own words.
            assert code in text or "script-failed" in text, text
            assert "CM_REPOS" in text, text
            assert "Traceback" not in text
        tally = Tally()
        assert_survived(lab, "1", tally)
        if not status and touch > 60:
            break
    print(f"seed {SEED}: {met} touches failed with {code}")
    assert met


# ---------------------------------------------------------------- many at once


def test_fifty_processes_over_twenty_entries(lab: Lab, tmp_path: Path) -> None:
    rng = random.Random(SEED)
    for n in range(20):
        below = [{"tags": f"get,n{k}"} for k in rng.sample(range(n), min(n, 2))]
        lab.script(
            f"get-n{n}",
            cache=True,
            deps=below,
            new_env_keys=[f"N{n}"],
            run=f"echo run >> {tmp_path}/n{n}; sleep 0.01; echo N{n}=$PWD > tmp-run-env.out",
        )
    tops = []
    for n in range(12):
        needs = sorted({n, 19 - n % 4, *rng.sample(range(20), 4)})
        deps = [{"tags": f"get,n{k}"} for k in needs]
        lab.script(f"p-{n}", tags=f"p,top{n}", deps=deps, new_env_keys=["N*"])
        tops.append(f"p,top{n}")
    pids = [fork(lambda n=n: lab.run(tops[n % 12]).answer["return"]) for n in range(50)]
    assert [ended(pid, 120) for pid in pids] == [0] * 50, f"seed {SEED}"
    assert [(tmp_path / f"n{n}").read_text().split() for n in range(20)] == [["run"]] * 20
    store = lab.store
    assert sorted(e.script for e in store.entries()) == sorted(f"get-n{n}" for n in range(20))
    assert all(store.entry(key) for e in store.entries() for key in e.deps)
    assert os.listdir(store.place("staging")) == os.listdir(store.place("locks")) == []
    records = list((lab.home / "cmbench/runs").glob("*/record.json"))
    assert [json.loads(r.read_text())["status"] for r in records] == ["done"] * 50
    with sqlite3.connect(lab.home / "cmbench/index.db") as database:
        assert database.execute("pragma integrity_check").fetchall() == [("ok",)]
    assert lab.call("search", tags="get").answer["return"] == 0


def test_what_is_removed_stays_for_the_runs_that_use_it(lab: Lab, tmp_path: Path) -> None:
    """A run was told of an entry, somebody removes it, the run goes on to read it."""
    go, told = tmp_path / "go", tmp_path / "told"
    workload(lab)
    lab.script(
        "p-reader",
        tags="p,reader",
        deps=[{"tags": "get,base"}],
        input_mapping={"level": "LEVEL"},
        run=f"touch {told}; until [ -e {go} ]; do sleep 0.01; done; cat $BASE_FILE; ls $BASE_FILE",
    )
    lab.run("get,base", env={"LEVEL": "1"})
    path = Path(lab.store.entries()[0].path)
    pid = fork(lambda: lab.run("p,reader", level="1").answer["return"])
    wait_for(told.exists)
    assert lab.call("delete", "cache", all=True, force=True).answer["removed"]
    assert lab.store.entries() == []
    assert path.is_dir()
    lab.script("p-other", tags="p,other")
    lab.run("p,other")
    assert path.is_dir()
    go.touch()
    assert ended(pid) == 0
    lab.run("p,other")
    assert not path.exists()
    assert_swept(lab)


def test_a_removal_that_was_cut_short_is_finished(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    workload(lab)
    lab.run("get,base", env={"LEVEL": "1"})
    entry = lab.store.entries()[0]

    def cut_short() -> int:
        monkeypatch.setattr("cmbench.cache.staging.remove_tree", lambda path: os._exit(7))
        return int(lab.call("delete", "cache", all=True, force=True).answer["return"])

    assert ended(fork(cut_short)) == 7
    assert lab.store.entries() == []
    assert Path(entry.path).is_dir()
    lab.store.staging.sweep()
    assert_swept(lab)


# ---------------------------------------------------------------- broken behind its back


@pytest.fixture
def two(lab: Lab) -> Lab:
    """Two levels of the workload in the cache."""
    workload(lab)
    for level in ("1", "2"):
        assert lab.run("p,top", level=level).answer["return"] == 0
    return lab


def entry_of(lab: Lab, script: str, level: str) -> Any:
    return next(
        e
        for e in lab.store.entries()
        if e.script == script and level in (e.new_env.get("BASE"), e.new_env.get("HIGH"))
    )


def assert_repaired(lab: Lab, *made: str) -> None:
    """The next run succeeds and makes no more than ``made``; the other level lost nothing."""
    again = lab.run("p,top", level="1")
    assert again.answer["return"] == 0, again.err
    assert again.env["HIGH"] == "1"
    steps = again.record["steps"]
    assert {s["step"] for s in steps if s["entry"] and s["status"] == "done"} == set(made)
    other = lab.run("p,top", level="2")
    assert other.env["HIGH"] == "2"
    assert {s["status"] for s in other.record["steps"] if s["entry"]} == {"cached"}
    assert_whole(lab)


ALL = ("get-base", "get-mid", "get-high")


def remove_payload(path: Path) -> None:
    subprocess.run(["rm", "-r", path], check=True)


def remove_output(path: Path) -> None:
    (path / "file5").unlink()


def edit_output(path: Path) -> None:
    (path / "file5").write_text("2 5\n")


def link_away(path: Path) -> None:
    elsewhere = path.parent.parent.parent / "elsewhere"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


def put_file(path: Path) -> None:
    remove_payload(path)
    path.write_text("")


@pytest.mark.parametrize(
    "harm",
    [remove_payload, remove_output, edit_output, link_away, put_file],
    ids=lambda h: h.__name__,
)
def test_a_payload_changed_behind_our_back(two: Lab, harm: Callable[[Path], None]) -> None:
    harm(Path(entry_of(two, "get-base", "1").path))
    assert_repaired(two, *ALL)
    elsewhere = two.home / "cmbench/elsewhere"
    if harm is link_away:
        assert len(list(elsewhere.iterdir())) == 6
    assert_swept(two)


def metadata_of(lab: Lab, script: str, level: str) -> Path:
    return Path(lab.store.metadata(entry_of(lab, script, level)))


@pytest.mark.parametrize("part", [0, 1, 20, 200, -1])
def test_metadata_cut_off_anywhere(two: Lab, part: int) -> None:
    path = metadata_of(two, "get-base", "1")
    path.write_text(path.read_text()[:part])
    assert len(two.store.entries()) == 5
    bad = [row for row in two.store.own_metadata() if not row.script]
    assert list(map(two.store.metadata, bad)) == [str(path)]
    again = two.run("p,top", level="1")
    assert again.env["HIGH"] == "1"
    shown = two.call("gc", "cache")
    assert "unreadable metadata" in shown.out
    assert path.exists()
    two.call("gc", "cache", yes=True)
    assert not path.exists()
    assert_repaired(two)
    assert_swept(two)


def test_metadata_edited_by_hand_is_no_hit(two: Lab) -> None:
    path = metadata_of(two, "get-high", "1")
    path.write_text(path.read_text().replace('"HIGH": "1"', '"HIGH": "9"'))
    again = two.run("p,top", level="1")
    assert again.env["HIGH"] == "1"
    path = metadata_of(two, "get-high", "2")
    path.write_text("[]")
    assert two.run("p,top", level="2").env["HIGH"] == "2"


def test_an_entry_with_a_folder_in_the_place_of_its_metadata(two: Lab) -> None:
    path = metadata_of(two, "get-high", "1")
    path.unlink()
    path.mkdir()
    assert two.run("p,top", level="1").env["HIGH"] == "1"
    two.call("gc", "cache", yes=True)
    assert_repaired(two)
    assert_swept(two)


def test_a_file_list_that_is_damaged_is_no_verdict(two: Lab) -> None:
    entry = entry_of(two, "get-base", "1")
    Path(two.store.place("files", entry.uid + ".json")).write_text("{")
    shown = two.call("verify", "cache")
    assert shown.answer["return"] == 0
    assert f"unknown get-base_{entry.uid}" in shown.out


@pytest.mark.parametrize("folder", ["staging", "store", "entries", "locks"])
@pytest.mark.parametrize("kind", ["file", "dangling link"])
def test_something_else_where_a_folder_was(two: Lab, folder: str, kind: str) -> None:
    place = Path(two.store.place(folder))
    aside = place.with_name("aside")
    if place.exists():
        place.rename(aside)
    if kind == "file":
        place.write_text("")
    else:
        place.symlink_to("nowhere")
    failed = two.run("p,top", level="0")
    assert failed.answer["return"] == 1
    assert failed.answer["code"] == "file-error"
    assert str(place) in failed.err
    assert "Traceback" not in failed.err
    place.unlink()
    if aside.exists():
        aside.rename(place)
    assert_repaired(two)


def test_a_link_to_another_disk_is_a_folder(two: Lab, tmp_path: Path) -> None:
    for folder in ("store", "entries"):
        place = Path(two.store.place(folder))
        place.rename(tmp_path / folder)
        place.symlink_to(tmp_path / folder)
    assert_repaired(two)
    assert len(two.call("delete", "cache", all=True, force=True).answer["removed"]) == 6
    assert_swept(two)


def test_a_copied_home_makes_its_own_files(two: Lab, tmp_path: Path) -> None:
    """The original may remove its files at any time: no lock of the copy keeps them."""
    home = two.home
    two.home = tmp_path / "copy"
    subprocess.run(["cp", "-a", home, two.home], check=True)
    why = two.call("why", "cache", tags="get,high").out
    assert "is in another home" in why
    assert f"{home}/" in why
    again = two.run("p,top", level="1")
    made = [step["step"] for step in again.record["steps"] if step["status"] == "done"]
    assert {*ALL} <= {*made}
    assert str(home) not in repr(two.run("p,top", level="1").answer["new_env"])
    assert two.call("gc", "cache", yes=True).answer["return"] == 0
    two.home = home
    assert_repaired(two)


def test_a_home_by_another_name_is_the_same(two: Lab, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(two.home)
    two.home = link
    assert_repaired(two)


def test_a_clock_that_was_set_back(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.script(
        "get-x",
        cache=True,
        new_env_keys=["OUT"],
        input_mapping={"level": "LEVEL"},
        run="echo OUT=$LEVEL > tmp-run-env.out",
    )
    lab.run("get,x", name="mine", level="old")
    lab.run("get,x", level="plain")
    real = time.time
    monkeypatch.setattr("time.time", lambda: real() - 400 * 86400)
    assert lab.run("get,x", level="plain").answer["cached"]
    lab.run("get,x", name="mine", level="new", new=True)
    assert lab.run("get,x", name="mine").env["OUT"] == "new"
    renewed = lab.run("get,x", level="plain", renew=True).answer["entry"]
    assert lab.run("get,x", level="plain").answer["entry"] == renewed
    doomed = lab.call("gc", "cache", older_than="30d", keep_runs="0s")
    assert doomed.answer["would_remove"] == []
    assert "s ago" in lab.call("show", "cache").out


# ---------------------------------------------------------------- disks


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of one megabyte; needs the right to mount one."""
    path = tmp_path / "disk"
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", path]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("needs the right to mount a tmpfs")
    yield path
    while subprocess.run(["umount", "-l", path], capture_output=True).returncode == 0:
        pass


def fill(disk: Path, leave: int) -> Path:
    """Fill the disk but for ``leave`` bytes."""
    filler = disk / "filler"
    subprocess.run(["dd", "if=/dev/zero", f"of={filler}", "bs=4k"], capture_output=True)
    os.truncate(filler, max(0, filler.stat().st_size - leave))
    return filler


@pytest.mark.parametrize("leave", range(0, 65536, 8192))
def test_a_disk_that_fills_up_at_any_point(lab: Lab, disk: Path, leave: int) -> None:
    workload(lab)
    lab.home = disk
    for level in ("1", "2"):
        assert lab.run("p,top", level=level).answer["return"] == 0
    filler = fill(disk, leave)
    failed = lab.run("p,top", level="0")
    if failed.answer["return"]:
        assert failed.err.count("error [") == 1, failed.err
        assert "CM_REPOS" in failed.err, failed.err
        assert "Traceback" not in failed.err
    assert_whole(lab)
    # Room can be made on a disk that is full.
    before = len(lab.store.entries())
    if leave % 16384:
        freed = lab.call("delete", "cache", tags="get,high", force=True)
    else:
        freed = lab.call("gc", "cache", max_size="0", keep_runs="0s", yes=True)
    assert freed.answer["return"] == 0, freed.err
    assert len(lab.store.entries()) < before
    filler.unlink()
    assert lab.run("p,top", level="0").env["HIGH"] == "0"
    assert lab.run("p,top", level="1").env["HIGH"] == "1"
    assert_whole(lab)
    assert_swept(lab)


def test_a_cache_that_is_read_only(two: Lab, disk: Path) -> None:
    subprocess.run(["cp", "-a", f"{two.home}/.", disk], check=True)
    two.home = disk
    assert two.run("p,top", level="1").answer["return"] == 0
    subprocess.run(["mount", "--bind", "-o", "ro", disk, disk], check=True)
    for answer in (
        two.run("p,top", level="1"),
        two.call("delete", "cache", all=True, force=True),
        two.call("pin", "cache", all=True),
    ):
        assert answer.answer["code"] == "not-writable", answer.err
        assert "Traceback" not in answer.err
    shown = two.call("show", "cache")
    assert shown.answer["return"] == two.call("du", "cache").answer["return"] == 0
    subprocess.run(["umount", "-l", disk], check=True)
    assert len(two.call("show", "cache").answer["list"]) == len(shown.answer["list"])
    assert two.run("p,top", level="1").answer["return"] == 0
