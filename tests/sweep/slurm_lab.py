"""A real Slurm of three nodes on this machine: Debian's packages, started without systemd.

``with Slurm(folder) as slurm`` starts munged, slurmctld and three slurmd with different features,
all in ``folder``; ``slurm.environment()`` is what its commands need. It runs as root, as Debian's
packages are made for.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from support import HANG_S

PROGRAMS = ("munged", "mungekey", "slurmctld", "slurmd", "sbatch", "sinfo")
NODES: Mapping[str, str] = {"one": "big,fast", "two": "big", "three": "plain"}
_CONFIG = """\
ClusterName=lab
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/linear
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1,defer
JobCompType=jobcomp/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
ReturnToService=2
SlurmctldTimeout=60
SlurmdTimeout=60
MessageTimeout=60
BatchStartTimeout=2
KillWait=2
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
MailProg=/bin/true
{nodes}
PartitionName=main Nodes={names} Default=YES MaxTime=INFINITE State=UP PriorityTier=1
PartitionName=urgent Nodes={names} MaxTime=INFINITE State=UP PriorityTier=9
"""


def missing() -> str:
    """Why it cannot be started here; empty where it can."""
    if os.getuid():
        return "Slurm's daemons are started as root"
    lacking = [name for name in PROGRAMS if shutil.which(name) is None]
    return f"apt-get install slurm-wlm munge: {', '.join(lacking)} missing" if lacking else ""


class Slurm:
    """A cluster; ``folder`` has a short path, for the names of its sockets."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def environment(self) -> dict[str, str]:
        """What the commands of Slurm need to find this cluster."""
        return {"SLURM_CONF": str(self.folder / "slurm.conf")}

    def __enter__(self) -> Slurm:
        self.folder.mkdir(parents=True)
        self.folder.chmod(0o755)
        (self.folder / "state").mkdir()
        try:
            self._munge()
            self._configure()
            self.start_controller()
            for name in NODES:
                (self.folder / f"spool-{name}").mkdir()
                self.start_node(name)
            self._wait_for_nodes()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        for name in reversed(list(self._processes)):
            self.stop(name, signal.SIGTERM)

    def _munge(self) -> None:
        key = self.folder / "munge.key"
        subprocess.run(["mungekey", "--create", f"--keyfile={key}"], check=True)
        place = ("--socket=" + str(self.folder / "munge.socket"), f"--key-file={key}")
        files = (f"--{n}-file={self.folder / f'munge.{n}'}" for n in ("pid", "seed", "log"))
        self._start("munge", "munged", "--foreground", "--force", *place, *files)
        self._wait((self.folder / "munge.socket").exists)

    def _configure(self) -> None:
        host = socket.gethostname().partition(".")[0]
        ports = [_free_port() for _ in range(len(NODES) + 1)]
        lines = [
            f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port}"
            f" CPUs=1 State=UNKNOWN Feature={features}"
            for (name, features), port in zip(NODES.items(), ports, strict=False)
        ]
        text = _CONFIG.format(
            host=host,
            port=ports[-1],
            folder=self.folder,
            nodes="\n".join(lines),
            names=",".join(NODES),
        )
        (self.folder / "slurm.conf").write_text(text, encoding="utf-8")

    def start_controller(self) -> None:
        """Start slurmctld, with the jobs that an earlier one has saved."""
        self._start("controller", "slurmctld", "-D")

    def start_node(self, name: str) -> None:
        """Start the daemon of a node."""
        self._start(name, "slurmd", "-D", "-N", name)

    def hurry(self) -> None:
        """Let tasks that were taken back start at once: Slurm makes them wait for two minutes."""
        for line in self.asked("squeue", "-h", "-r", "-t", "PD", "-o", "%r %i").splitlines():
            reason, task = line.split()
            if reason == "BeginTime":
                self.asked("scontrol", "update", f"jobid={task}", "starttime=now")

    def send(self, name: str, number: int) -> None:
        """Send a signal to a daemon."""
        self._processes[name].send_signal(number)

    def kill_node(self, name: str) -> None:
        """End a node with all that runs on it, and let the controller know."""
        self.stop(name)
        for path in Path("/proc").glob("[0-9]*/environ"):
            with suppress(OSError):
                if f"SLURMD_NODENAME={name}\0".encode() in path.read_bytes():
                    os.kill(int(path.parent.name), signal.SIGKILL)
        self.asked("scontrol", "update", f"nodename={name}", "state=down", "reason=dead")

    def stop(self, name: str, number: int = signal.SIGKILL) -> None:
        """End a daemon: ``controller``, ``munge`` or a node."""
        process = self._processes.pop(name)
        process.send_signal(number)
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _start(self, name: str, *words: str) -> None:
        with open(self.folder / f"{name}.out", "ab") as out:
            self._processes[name] = subprocess.Popen(
                words,
                env={**os.environ, **self.environment()},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def asked(self, *words: str) -> str:
        """The output of a command of Slurm; empty where it fails."""
        env = {**os.environ, **self.environment()}
        done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=HANG_S)
        return done.stdout

    def _wait_for_nodes(self) -> None:
        self._wait(lambda: self.asked("sinfo", "-h", "-p", "main", "-o", "%T %D") == "idle 3\n")

    def _wait(self, look: object) -> None:
        assert callable(look)
        end = time.monotonic() + HANG_S
        while not look():
            assert time.monotonic() < end, self._told()
            ended = [name for name, p in self._processes.items() if p.poll() is not None]
            assert not ended, f"{ended} ended: {self._told()}"
            time.sleep(0.1)

    def _told(self) -> str:
        logs = [*self.folder.glob("*.out"), *self.folder.glob("*.log")]
        return "\n".join(f"{p.name}: {p.read_text(errors='replace')[-1500:]}" for p in logs)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
