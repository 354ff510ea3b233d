"""What several test modules need: this checkout, and a CM home to run ``cm`` in."""

from __future__ import annotations

import ast
import functools
import http.server
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cmbench  # noqa: F401 - makes the libraries importable
from common.python_path import VARIABLE, child_env

ROOT = Path(__file__).resolve().parents[1]
LIB = ROOT / "lib"
AUTOMATION = ROOT / "automation"

HANG_S = 300
"""When a test gives up on what does not come, in seconds: no measure of anything, long for any
host."""

LONG_S = f"{2 * HANG_S}.{os.getpid()}"
"""Seconds that a program sleeps which is to be ended; no other process has this very argument."""

REACHES_IN = {VARIABLE, "PYTHONHOME", "PYTHONSTARTUP", "VIRTUAL_ENV"}
UNTRACKED = {".git", ".venv", ".cm", "build", "dist", "__pycache__", "node_modules"}


def python_env(*folders: Path | str) -> dict[str, str]:
    """Return this process's environment for a Python that imports from ``folders`` first.

    Without folders, it imports from wherever this process does.
    """
    return child_env(*folders)


def readable(terminal: int, seconds: float) -> bool:
    """Whether a terminal has something to read within ``seconds``, whatever its number."""
    poll = select.poll()
    poll.register(terminal, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


def wait_for(look: Callable[[], Any]) -> Any:
    """What ``look`` finds, asked again until it finds something."""
    end = time.monotonic() + HANG_S
    while not (found := look()):
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)
    return found


@dataclass(frozen=True, slots=True)
class Finished:
    """A process that has ended."""

    status: int
    stdout: str
    stderr: str

    @property
    def json(self) -> dict[str, Any]:
        """What it wrote to standard output under ``--out=json``."""
        assert self.stdout, f"status {self.status} and no output\n{self.stderr}"
        parsed: dict[str, Any] = json.loads(self.stdout)
        return parsed

    def ok(self) -> Finished:
        """Itself; a failed process fails the test, with everything that it wrote."""
        assert self.status == 0, f"status {self.status}\n{self.stdout}\n{self.stderr}"
        return self


@dataclass(frozen=True, slots=True)
class Home:
    """A user's home and CM home, both empty at first, and the ``cm`` that runs in them.

    ``bin`` is the folder of the ``cm`` command. Packages installed beside it are not offered as CM
    repositories unless ``installed_repositories`` is true: a developer's own installs must not
    change what a test sees.
    """

    path: Path
    bin: Path = Path(sys.executable).parent
    installed_repositories: bool = False
    extra_env: Mapping[str, str] = field(default_factory=dict)

    @property
    def cm_repos(self) -> Path:
        return self.path / "CM home"

    def register(self, *repositories: Path) -> None:
        """Make these the registered CM repositories, without a network and without ``cm``.

        The local repository is made here too: cmind makes it at its first start, and two first
        starts at once can meet in the half-written file, before any code of ours is loaded.
        """
        local = self.cm_repos / "repos" / "local"
        local.mkdir(parents=True, exist_ok=True)
        (local / "cmr.yaml").write_text("alias: local\nuid: 9a3280b14a4285c9\n", encoding="utf-8")
        listed = json.dumps([str(repository) for repository in repositories])
        (self.cm_repos / "repos.json").write_text(listed, encoding="utf-8")

    def environment(self) -> dict[str, str]:
        """This process's environment without what would reach the code under test from outside."""
        env = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith("CM_") and key not in REACHES_IN
        }
        user_home = self.path / "user home"
        user_home.mkdir(parents=True, exist_ok=True)
        env |= {"HOME": str(user_home), "CM_REPOS": str(self.cm_repos)}
        env["PATH"] = f"{self.bin}{os.pathsep}{env.get('PATH', os.defpath)}"
        if not self.installed_repositories:
            env["CM_CORE_SKIP_INTERNAL_REPOS"] = "yes"
        return env | dict(self.extra_env)

    def cm(self, *words: str, cwd: Path | None = None, timeout: float = 300) -> Finished:
        """Run the real command ``cm words...``; ``timeout`` is in seconds."""
        return run(
            [str(self.bin / "cm"), *words],
            cwd=cwd or self.path,
            env=self.environment(),
            timeout=timeout,
        )

    @contextmanager
    def serving(self, *words: str) -> Iterator[str]:
        """Run ``cm words...``, a server, and end it by Ctrl-C; the address that it prints."""
        server = subprocess.Popen(
            [str(self.bin / "cm"), *words],
            cwd=self.path,
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            yield _address(server)
            server.send_signal(signal.SIGINT)
            assert server.wait(30) == 0, "Ctrl-C is how a server ends, and no failure"
        finally:
            server.kill()
            server.wait()


def _address(server: subprocess.Popen[str]) -> str:
    assert server.stdout is not None
    printed = []
    for line in server.stdout:
        printed.append(line)
        if found := re.search(r"http://127\.0\.0\.1:\S+", line):
            return found[0]
    raise AssertionError(f"no address was printed: {''.join(printed)}")


def run(
    words: list[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float = 300,
) -> Finished:
    """Run a command without a terminal and keep what it writes."""
    done = subprocess.run(
        words,
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    return Finished(done.returncode, done.stdout, done.stderr)


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Nothing on the terminal of the tests."""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a server of the files in ``folder``, on this machine only."""
    handler = functools.partial(_Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


def statements(node: ast.AST) -> Iterator[ast.stmt]:
    """Yield the statements below a node in order: a tenth of what ``ast.walk`` visits."""
    for part in ("body", "handlers", "orelse", "finalbody", "cases"):
        for item in getattr(node, part, ()):
            if isinstance(item, ast.stmt):
                yield item
            yield from statements(item)


def project_files() -> list[Path]:
    """The files of this project: what git tracks or would track, or all of an unpacked sdist."""
    listed = run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT)
    if listed.status == 0:
        paths = [ROOT / name for name in listed.stdout.split("\0") if name]
    else:
        paths = list(_walk(ROOT))
    return sorted(path for path in paths if path.is_file())


def _walk(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.name in UNTRACKED or path.name.endswith(".egg-info"):
            continue
        if path.is_dir():
            yield from _walk(path)
        else:
            yield path


def link_engine(target: Path) -> Path:
    """Make a repository of this checkout's engine and its libraries, without a script."""
    target.mkdir()
    (target / "cmr.yaml").write_text("alias: cmbench\nuid: 2a026040b2e94230\n")
    for folder in (AUTOMATION, LIB):
        (target / folder.name).symlink_to(folder)
    return target


def copy_checkout(target: Path) -> Path:
    """Copy the project's files to ``target``, as a fresh clone would hold them."""
    for path in project_files():
        copy = target / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, copy)
    return target
