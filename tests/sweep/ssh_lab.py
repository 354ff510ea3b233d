"""Three machines that are reached by SSH, all of them this one: an sshd each, on a free port.

Each has a host key, a home and a folder of temporary files of its own, so that each counts as a
machine. As root each has a user of its own too, whom only its sshd knows: it runs in a mount
namespace with a file of users of its own. Else they share the user, as an unprivileged sshd lets
nobody else in. ``with machines() as ssh`` starts them; ``ssh.environment()`` lets ``cm`` find them
by their names.
"""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType

from support import HANG_S

NAMES = ("one", "two", "three")
_FIRST_USER = 62_001
_SYSTEM = "/usr/local/bin:/usr/bin:/bin"
_NEWER = "import sys; sys.exit(sys.version_info < (3, 10))"
_SSHD = """\
ListenAddress 127.0.0.1
Port {port}
HostKey {folder}/host_key
PidFile {folder}/sshd.pid
AuthorizedKeysFile {keys}
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
MaxStartups 100
Banner {folder}/banner
SetEnv {environment}
"""
_SSH = """\
Host {name}
  HostName 127.0.0.1
  Port {port}
  HostKeyAlias lab-{name}
  User {user}
"""
_COMMON = """\
Host *
  IdentityFile {folder}/key
  IdentitiesOnly yes
  UserKnownHostsFile {folder}/known_hosts
  GlobalKnownHostsFile /dev/null
"""


def missing() -> str:
    """Why it cannot be started here; empty where it can."""
    lacking = [name for name in ("ssh", "ssh-keygen") if shutil.which(name) is None]
    if sshd() is None:
        lacking.append("sshd")
    return f"apt-get install openssh-server: {', '.join(lacking)} missing" if lacking else ""


def sshd() -> str | None:
    """The server, which Debian keeps off the PATH of users."""
    return shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")


def has_users() -> bool:
    """Whether each machine can have a user of its own here, and a disk."""
    if os.getuid() or shutil.which("unshare") is None:
        return False
    user = ["setpriv", f"--reuid={_FIRST_USER}", "--clear-groups", "env", f"PATH={_SYSTEM}"]
    words = ["unshare", "-m", *user, "python3", "-c", _NEWER]
    return subprocess.run(words, capture_output=True, timeout=HANG_S).returncode == 0


class Ssh:
    """The three; ``extra`` are variables of the shells there.

    ``count`` is a file that all may write into, ``SWEEP_COUNT`` of the shells.
    """

    def __init__(self, folder: Path, **extra: str) -> None:
        self.folder = folder
        self.count = folder / "count"
        self._extra = {"SWEEP_COUNT": str(self.count), **extra}
        self._own_users = has_users()
        self._ports: dict[str, int] = {}
        self._servers: dict[str, subprocess.Popen[bytes]] = {}

    def environment(self) -> dict[str, str]:
        """What ``cm`` needs to find them."""
        return {"CMBENCH_SSH": f"ssh -F {self.folder / 'config'}"}

    def home(self, name: str) -> Path:
        """The home on a machine."""
        return self.folder / name / "home"

    def __enter__(self) -> Ssh:
        self.folder.mkdir(parents=True)
        for path in (self.folder.parent, self.folder):
            path.chmod(0o755)
        self.count.touch()
        self.count.chmod(0o666)
        if os.getuid() == 0:
            # Root's sshd wants it; it stays empty.
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        self._key(self.folder / "key")
        shutil.copy(self.folder / "key.pub", self.folder / "authorized_keys")
        try:
            for name in NAMES:
                self._make(name)
                self.start(name)
            self.configure()
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
        for name in list(self._servers):
            self.stop(name)

    def _key(self, path: Path) -> None:
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)]
        subprocess.run(words, check=True, stdin=subprocess.DEVNULL, timeout=HANG_S)

    def _make(self, name: str) -> None:
        place = self.folder / name
        for part in ("home", "tmp"):
            (place / part).mkdir(parents=True)
        self._key(place / "host_key")
        (place / "banner").write_text("Authorized use only.\n", encoding="utf-8")
        if self._own_users:
            number = _FIRST_USER + NAMES.index(name)
            for path in (place / "home", place / "tmp"):
                os.chown(path, number, number)
            known = Path("/etc/passwd").read_text(encoding="utf-8").rstrip()
            own = f"lab-{name}:*:{number}:{number}::{place / 'home'}:/bin/bash"
            (place / "passwd").write_text(f"{known}\n{own}\n", encoding="utf-8")
        self._ports[name] = _free_port()

    def new_key(self, name: str) -> None:
        """Give a machine another host key, as one has that was installed anew."""
        self.stop(name)
        for path in self.folder.glob(f"{name}/host_key*"):
            path.unlink()
        self._key(self.folder / name / "host_key")
        self.start(name)

    def start(self, name: str, room: str = "", **environment: str) -> None:
        """Start the server of a machine; ``room`` is the size of its home, such as ``2m``."""
        place = self.folder / name
        python = "" if self._own_users else f"{Path(sys.executable).parent}:"
        given = {
            "HOME": str(place / "home"),
            "TMPDIR": str(place / "tmp"),
            "PATH": f"{python}{_SYSTEM}",
            **self._extra,
            **environment,
        }
        text = _SSHD.format(
            port=self._ports[name],
            folder=place,
            keys=self.folder / "authorized_keys",
            environment=" ".join(f'"{key}={value}"' for key, value in given.items()),
        )
        (place / "sshd_config").write_text(text, encoding="utf-8")
        program = sshd()
        assert program is not None
        with open(place / "log", "ab") as log:
            self._servers[name] = subprocess.Popen(
                [*self._apart(name, room), program, "-D", "-e", "-f", str(place / "sshd_config")],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._wait(name)

    def _apart(self, name: str, room: str) -> list[str]:
        """The words that start a server with a user of its own, and with a disk of its own."""
        if not self._own_users:
            return []
        place = self.folder / name
        number = _FIRST_USER + NAMES.index(name)
        steps = [f"mount --bind {place / 'passwd'} /etc/passwd"]
        if room:
            steps.append(f"mount -t tmpfs -o size={room},uid={number} home {place / 'home'}")
        script = " && ".join([*steps, 'exec "$@"'])
        return ["unshare", "-m", "--propagation", "private", "sh", "-c", script, "sh"]

    def stop(self, name: str) -> None:
        """End a server with all its connections: the machine does not answer any more."""
        server = self._servers.pop(name)
        for pid in children(server.pid):
            for number in (pid, *children(pid)):
                kill(number)
        server.kill()
        server.wait(timeout=HANG_S)

    def configure(self) -> None:
        """Write the client's configuration and the host keys as they are now."""
        parts = [
            _SSH.format(
                name=name, port=port, user=f"lab-{name}" if self._own_users else getpass.getuser()
            )
            for name, port in self._ports.items()
        ]
        parts.append(_COMMON.format(folder=self.folder))
        (self.folder / "config").write_text("".join(parts), encoding="utf-8")
        keys = (
            f"lab-{name} {(self.folder / name / 'host_key.pub').read_text(encoding='utf-8')}"
            for name in self._ports
        )
        (self.folder / "known_hosts").write_text("".join(keys), encoding="utf-8")

    def _wait(self, name: str) -> None:
        end = time.monotonic() + HANG_S
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self._ports[name])) == 0:
                    return
            log = (self.folder / name / "log").read_text(errors="replace")
            assert self._servers[name].poll() is None, log
            assert time.monotonic() < end, log
            time.sleep(0.02)


@contextmanager
def machines(**environment: str) -> Iterator[Ssh]:
    """The three in a folder of a short path; ``environment`` is that of the shells there."""
    with (
        tempfile.TemporaryDirectory(prefix="ssh", ignore_cleanup_errors=True) as folder,
        Ssh(Path(folder) / "s", **environment) as ssh,
    ):
        yield ssh


def children(pid: int) -> list[int]:
    """Processes that a process has started, where the system says so."""
    found = []
    for path in Path("/proc").glob(f"{pid}/task/*/children"):
        found += [int(word) for word in path.read_text().split()]
    return found


def kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
