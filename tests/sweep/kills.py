"""Kills a sweep over SSH at random moments, and looks what has become of it.

    python tests/sweep/kills.py --times 30 --seed 1

Each turn starts a sweep of its own on two machines, kills one part of it with SIGKILL at a moment
of its course, and starts the same command again: that one has to end the sweep. Every point is
then measured by one run that counts, and nothing is left on the machines or of the jobs here. The
parts: who has started the sweep, alone or with its connections; the worker on a machine, alone or
with all of its session; the server of a machine with its connections, which comes back at once.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from cmbench import LIBRARIES
from common.python_path import add_folder

if __name__ == "__main__":
    add_folder(Path(LIBRARIES).parent / "tests")

import ssh_lab
from ssh_lab import Ssh
from sweep_lab import SWEEP, every, points, runs_of, start, write_scripts

from support import HANG_S, ROOT, Home

HOSTS = ("one", "two")
COMMAND = ("--on=ssh", f"--hosts={','.join(HOSTS)}", "--patience=20")


@dataclass(frozen=True)
class Turn:
    """A part that is killed, at a share of the time that a sweep takes."""

    number: int
    part: str
    host: str
    moment: float

    def __str__(self) -> str:
        return f"turn {self.number}: {self.part} of {self.host} at {self.moment:.2f}"


class Ordeal:
    """Sweeps of so many ``sizes`` on the machines ``ssh``, started by ``home`` in ``world``."""

    def __init__(self, home: Home, ssh: Ssh, world: Path, sizes: int = 3) -> None:
        self._home, self._ssh, self._world, self._sizes = home, ssh, world, sizes
        self._seconds = 0.0
        self._parts: Mapping[str, Callable[[subprocess.Popen[str], str], None]] = {
            "driver": self._driver,
            "driver with its connections": self._family,
            "worker": self._worker,
            "session": self._session,
            "sshd": self._sshd,
        }

    def go(self, times: int, seed: int) -> list[str]:
        """What was wrong in ``times`` turns: empty where all was well."""
        chance = random.Random(seed)
        self._undisturbed()
        wrong = []
        for number in range(1, times + 1):
            part, host = chance.choice(list(self._parts)), chance.choice(HOSTS)
            turn = Turn(number, part, host, chance.random())
            found = [f"{turn}: {what}" for what in self._turn(turn)]
            print("\n".join(found) or f"{turn}: as it should be", flush=True)
            wrong += found
        return wrong

    def _undisturbed(self) -> None:
        """Learn how long a sweep takes that nobody kills."""
        self._write(0)
        began = time.monotonic()
        self._said(start(self._home, *COMMAND))
        self._seconds = time.monotonic() - began

    def _write(self, number: int) -> None:
        """A sweep whose points are those of no other turn."""
        text = SWEEP.replace("to: 12", f"to: {self._sizes}").replace(
            "0.2", f"{0.1 + number / 1e6:.6f}"
        )
        (self._world / "sweep.yaml").write_text(text, encoding="utf-8")

    def _said(self, running: subprocess.Popen[str]) -> str:
        return running.communicate(timeout=HANG_S)[0]

    def _turn(self, turn: Turn) -> list[str]:
        self._write(turn.number)
        self._ssh.count.write_text("", encoding="utf-8")
        running = start(self._home, *COMMAND)
        time.sleep(turn.moment * self._seconds)
        self._parts[turn.part](running, turn.host)
        first = self._said(running)
        again = start(self._home, *COMMAND)
        second = self._said(again)
        wrong = list(self._wrong(again.returncode, turn.part in ("worker", "session")))
        if wrong:
            wrong.append(f"it said\n{first}\nand then\n{second}")
        return wrong

    def _wrong(self, status: int, may_repeat: bool) -> list[str]:
        found = [] if status == 0 else [f"the same command ends with {status}"]
        wanted = every(self._sizes)
        shown = points(self._home.cm("show", "experiment", "sweep", "--json", cwd=self._world))
        told = [(point["status"], len(point["runs"])) for point in shown]
        if told != [("measured", 1)] * len(wanted):
            found.append(f"points are {told}")
        lost = [r["record"] for p in shown for r in p["runs"] if not os.path.isfile(r["record"])]
        if lost:
            found.append(f"no records {lost}")
        done = runs_of(self._ssh.count.read_text(encoding="utf-8").split())
        # Who is killed while it measures has measured nothing that counts.
        if (sorted(set(done)) if may_repeat else done) != wanted:
            found.append(f"measured were {done}")
        if len(done) > len(wanted) + 1:
            found.append(f"one was killed, measured were {done}")
        left = self._left()
        return [*found, *([f"left behind: {left}"] if left else [])]

    def _left(self) -> list[str]:
        """Files and processes on the machines, and jobs here, that should be gone."""
        jobs = self._home.cm_repos / "cmbench" / "sweeps" / "jobs"
        found = [path for path in jobs.iterdir() if path.name != "lock"]
        found += (self._home.cm_repos / "cmbench" / "sweeps").glob(".arriving-*")
        for name in HOSTS:
            found += self._ssh.home(name).glob(".cache/cmbench-ssh/*")
        return [*map(str, found), *(f"process {n}" for n in self._workers())]

    def _workers(self, host: str = "") -> list[int]:
        """The workers on the machines, or on one."""
        sign = f"{self._ssh.home(host) if host else self._ssh.folder}/"
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = path.read_bytes().decode("utf-8", "replace")
            except OSError:
                continue
            if "cmbench_sweep.worker" in words and sign in words:
                found.append(int(path.parent.name))
        return found

    def _driver(self, running: subprocess.Popen[str], host: str) -> None:
        running.kill()

    def _family(self, running: subprocess.Popen[str], host: str) -> None:
        clients = ssh_lab.children(running.pid)
        running.kill()
        for pid in clients:
            ssh_lab.kill(pid)

    def _worker(self, running: subprocess.Popen[str], host: str) -> None:
        # A shell waits for it, and says how it has ended.
        for pid in self._workers(host)[1:]:
            ssh_lab.kill(pid)

    def _session(self, running: subprocess.Popen[str], host: str) -> None:
        for pid in self._workers(host)[:1]:
            os.killpg(os.getpgid(pid), signal.SIGKILL)

    def _sshd(self, running: subprocess.Popen[str], host: str) -> None:
        self._ssh.stop(host)
        self._ssh.start(host)


def _home(folder: Path, ssh: Ssh) -> Home:
    write_scripts(folder)
    home = Home(folder)
    home.register(ROOT, folder / "repo")
    return replace(home, extra_env={**ssh.environment(), "SWEEP_COUNT": str(ssh.count)})


def main() -> int:
    """Print how each turn has gone; the status is 1 where one of them was wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--times", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with ssh_lab.machines() as ssh, tempfile.TemporaryDirectory() as folder:
        wrong = Ordeal(_home(Path(folder), ssh), ssh, Path(folder)).go(given.times, given.seed)
    print(f"{given.times} kills, {len(wrong)} faults")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
