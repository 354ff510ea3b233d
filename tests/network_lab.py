"""Nodes of a system under test for tests: real ones, in processes of their own."""

from __future__ import annotations

import contextlib
import os
import random
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import benchmark_lab as lab
from mlperf.harness import records
from support import HANG_S, run, wait_for

SERVES = re.compile(r"^node (\S+) serves \S+ \(\S+\) at (\S+)$", re.MULTILINE)


@contextlib.contextmanager
def node(
    folder: Path, session: dict[str, Any] | None = None, before: Sequence[str] = (), **given: Any
) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A node that is ready: its address and its process. ``before`` are words to start it with."""
    folder.mkdir(parents=True, exist_ok=True)
    config, printed = folder / "node.json", folder / "printed.txt"
    asked = lab.settings(folder, **(session or {"hw_name": folder.name}))
    records.write(config, {"session": asked, "address": f"127.0.0.1:{free_port()}", **given})
    with printed.open("wb") as out:
        process = subprocess.Popen(
            [*before, *lab.harness_command("node", config)],
            env=lab.harness_environment(),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:

        def ready() -> re.Match[str] | None:
            told = printed.read_text(encoding="utf-8")
            assert process.poll() is None, told
            return SERVES.search(told)

        yield wait_for(ready).group(2), process
    finally:
        # Words before it may have made it a child of theirs.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        process.wait(HANG_S)


def free_port() -> int:
    """A port of this machine that nobody listens at, and that no system hands out to a client."""
    for port in random.SystemRandom().sample(range(20_000, 32_000), 100):
        with (
            contextlib.suppress(OSError),
            socket.create_server(("127.0.0.1", port)),
        ):
            return port
    raise AssertionError("no port is free")


def network_namespace() -> bool:
    """Whether this user can make one, with a cable to it."""
    if os.geteuid() != 0 or not (shutil.which("ip") and shutil.which("unshare")):
        return False
    return subprocess.run(["unshare", "--net", "true"], check=False).returncode == 0


@contextlib.contextmanager
def namespace() -> Iterator[tuple[Sequence[str], str]]:
    """A network namespace with a virtual cable: words to start in it, and the address in it."""
    name = f"sut{os.getpid()}"
    subnet = f"10.213.{os.getpid() % 250}"

    def ip(*words: str) -> None:
        run(["ip", *words]).ok()

    ip("netns", "add", name)
    try:
        ip("link", "add", f"{name}a", "type", "veth", "peer", "name", f"{name}b", "netns", name)
        ip("addr", "add", f"{subnet}.1/24", "dev", f"{name}a")
        ip("link", "set", f"{name}a", "up")
        inside = ("-n", name)
        ip(*inside, "addr", "add", f"{subnet}.2/24", "dev", f"{name}b")
        ip(*inside, "link", "set", f"{name}b", "up")
        ip(*inside, "link", "set", "lo", "up")
        yield ("ip", "netns", "exec", name), f"{subnet}.2"
    finally:
        ip("netns", "del", name)
