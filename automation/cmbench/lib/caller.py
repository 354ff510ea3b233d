"""What a program that starts ``cm`` can request: to end with it, and to report the reason.

Both are asked for in the environment, and for that one process: what it starts does not see them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager, suppress
from typing import IO, Any

from cmbench.values import field, immutable

ENDS_WITH = "CM_ENDS_WITH"
"""The number of the process without which the work has no more use."""
ERROR_FD = "CM_ERROR_FD"
"""The file descriptor that an error is written to as JSON, instead of the terminal."""
_LOOK_S = 0.5


@immutable(frozen=True, slots=True, eq=True, repr=False)
class Caller:
    """The process that started this one; 0 if it requested nothing."""

    pid: int = 0
    error_fd: int = 0

    @classmethod
    def take_from(cls, env: MutableMapping[str, str]) -> Caller:
        """Return the requests in the environment; remove them from it."""
        return cls(*(_number(env.pop(name, "")) for name in (ENDS_WITH, ERROR_FD)))

    @contextmanager
    def end_with_it(self) -> Iterator[None]:
        """Have this process end by SIGTERM when its caller has ended, as one that was killed."""
        if not self.pid:
            yield
            return
        import threading

        done = threading.Event()
        threading.Thread(target=_watch, args=(self.pid, done), daemon=True).start()
        try:
            yield
        finally:
            done.set()

    def send_error(self, answer: Mapping[str, Any]) -> bool:
        """Send the error of an answer to the caller; return whether that succeeded."""
        if not self.error_fd:
            return False
        with suppress(OSError):
            os.write(self.error_fd, json.dumps(answer).encode())
            return True
        return False


def _watch(pid: int, done: Any) -> None:
    """End this process by SIGTERM when another one is not there any more."""
    child = os.getppid() == pid
    while not done.wait(_LOOK_S):
        # A process that was not waited for yet still has its number.
        if (child and os.getppid() != pid) or not _is_there(pid):
            import signal

            os.kill(os.getpid(), signal.SIGTERM)
            return


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else 0


def _file() -> IO[bytes]:
    import tempfile

    # It has no name: a killed process leaves no file.
    return tempfile.TemporaryFile()


@immutable(frozen=True, slots=True, eq=False, repr=False)
class CallerChannel:
    """A link to one ``cm``: its environment, the descriptors it inherits, its error afterwards."""

    file: IO[bytes] = field(default_factory=_file)

    def env(self, env: Mapping[str, str]) -> dict[str, str]:
        """The environment of that process."""
        return {**env, ENDS_WITH: str(os.getpid()), ERROR_FD: str(self.file.fileno())}

    def fds(self) -> Sequence[int]:
        """The file descriptors that it has to inherit."""
        return (self.file.fileno(),)

    def error(self) -> dict[str, Any]:
        """Return its error as ``--out=json`` prints it; empty where it has sent none."""
        with self.file as file:
            file.seek(0)
            try:
                answer: dict[str, Any] = json.loads(file.read())
            except ValueError:
                return {}
        return answer
