"""A real Ray cluster of two nodes on this machine, installed from the package index.

``with cluster() as ray`` installs Ray, starts a head with the resource ``big`` and a node with
``plain``, and ends both; ``ray.environment()`` lets ``cm`` find them. Tokens are on, as is usual.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from support import HANG_S

TOKEN = "0123456789abcdef" * 4


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Ray:
    """The cluster; the path of ``folder`` is short, for the names of Ray's sockets."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port, self._dashboard = free_port(), free_port()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def environment(self) -> dict[str, str]:
        """What a user of the cluster exports."""
        return {"RAY_API_SERVER_ADDRESS": self.address, "RAY_AUTH_TOKEN": TOKEN}

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._dashboard}"

    def install(self) -> None:
        env = str(self._folder / "env")
        python = [sys.executable, "-m"]
        subprocess.run([*python, "venv", "--without-pip", env], check=True)
        # The pip of this interpreter serves the other: that spares one of its own.
        words = ["pip", "--python", env, "install", "-q", "ray[default]>=2.50"]
        subprocess.run([*python, *words], check=True, timeout=HANG_S)

    def start(self) -> None:
        head = ["--head", f"--port={self._port}", f"--dashboard-port={self._dashboard}"]
        self._start("head", *head, f"--temp-dir={self._folder / 'r'}", '--resources={"big":1}')
        # Ray chooses the address of this machine that its nodes meet at.
        (known,) = self.wait_for_nodes(1)
        self._start("node", f"--address={known}:{self._port}", '--resources={"plain":1}')
        self.wait_for_nodes(2)

    def _start(self, name: str, *words: str) -> None:
        ray = str(self._folder / "env/bin/ray")
        apart = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": TOKEN, "RAY_USAGE_STATS_ENABLED": "0"}
        with open(self._folder / f"{name}.log", "ab") as log:
            self._processes[name] = subprocess.Popen(
                [ray, "start", "--block", "--num-cpus=1", *words],
                env={**os.environ, **apart},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait_for_nodes(self, number: int) -> list[str]:
        """The addresses of the nodes, as soon as so many are alive."""
        url = f"{self.address}/api/v0/nodes?detail=1"
        asked = urllib.request.Request(url, headers={"Authorization": f"Bearer {TOKEN}"})
        end = time.monotonic() + HANG_S
        while True:
            with suppress(OSError, urllib.error.URLError):
                told = json.loads(urllib.request.urlopen(asked, timeout=20).read())
                rows = told["data"]["result"]["result"]
                if [row["state"] for row in rows] == ["ALIVE"] * number:
                    return [row["node_ip"] for row in rows]
            logs = "".join(p.read_text(errors="replace")[-900:] for p in self._folder.glob("*.log"))
            assert time.monotonic() < end, logs
            assert all(p.poll() is None for p in self._processes.values()), logs
            time.sleep(0.2)

    def stop(self) -> None:
        """Kill all of it: asked to end, a node may look for its head for half a minute."""
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                if os.fsencode(self._folder) in path.read_bytes():
                    os.kill(int(path.parent.name), signal.SIGKILL)
        for process in self._processes.values():
            process.wait(timeout=HANG_S)


@contextmanager
def cluster() -> Iterator[Ray]:
    folder = Path(tempfile.mkdtemp(prefix="ry"))
    ray = Ray(folder)
    try:
        ray.install()
        ray.start()
        yield ray
    finally:
        ray.stop()
        shutil.rmtree(folder, ignore_errors=True)
