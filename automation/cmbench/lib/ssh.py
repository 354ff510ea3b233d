"""Other machines through the system's OpenSSH client, with the user's own configuration.

Names, users, ports, keys, agents and jump hosts are those of ``ssh_config``. The host key is always
checked, whatever the configuration says: a machine that nobody has accepted is refused. Nothing is
asked: a password or a passphrase belongs into an agent. ``CMBENCH_SSH`` is a command line to use in
place of ``ssh``, such as ``ssh -F file``.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import pairwise
from typing import IO

from cmbench.errors import Error

UNREACHED = 255
"""With this status ``ssh`` ends where it did not get to the other side, or lost it."""
_OPTIONS = (
    *("BatchMode=yes", "StrictHostKeyChecking=yes", "ConnectTimeout=15", "LogLevel=ERROR"),
    *(
        "ServerAliveInterval=15",
        "ServerAliveCountMax=3",
        "ForwardX11=no",
        "ClearAllForwardings=yes",
    ),
)
_SHARED_S = 30
_PLAIN = re.compile(r"[\w./+-]+", re.ASCII)
_HOST = re.compile(r"(?:[\w.+-]+@)?(?:[\w:][\w.%:-]*|\[[\w.%:]+\](?::\d+)?)")
_WITH_PORT = re.compile(r"(?:[\w.+-]+@)?(?:[^:\[\]]+|\[[^\[\]]+\]):\d+")


def client(options: Sequence[str] = ()) -> list[str]:
    """The words that start the client, with our own rules before the ``options`` of the user."""
    ours = [word for option in _OPTIONS for word in ("-o", option)]
    return [*_program(os.environ.get("CMBENCH_SSH", "")), "-T", *ours, *options]


def _program(line: str) -> list[str]:
    """The words of a command line of the user, ``ssh`` for none; raises ``bad-value``."""
    try:
        return shlex.split(line) or ["ssh"]
    except ValueError as problem:
        hint = "write blanks and quotes as in a shell: CMBENCH_SSH=\"ssh -F 'my file'\""
        raise Error("bad-value", f"CMBENCH_SSH={line}: {problem}", hint=hint) from None


def connection(host: str, options: Sequence[str] = ()) -> list[str]:
    """The words before a command for ``host``; further ones go through the same connection.

    A connection that the user's configuration shares is used; else one of our own is shared for
    ``_SHARED_S`` seconds. Raises ``bad-value`` for what is no host, ``ssh-missing``.
    """
    check_name(host)
    words = client(options)
    if not _shares(tuple(words), host):
        # Of this process alone: another one may end its own at any moment.
        path = f"{_folder()}/{os.getpid()}-%C"
        more = ("ControlMaster=auto", f"ControlPath={path}", f"ControlPersist={_SHARED_S}")
        words += [word for option in more for word in ("-o", option)]
    return [*words, *address(host)]


def address(host: str) -> list[str]:
    """The last words for ``ssh``: a host, and before it a port that is written behind it."""
    port = []
    if _WITH_PORT.fullmatch(host):
        host, _, number = host.rpartition(":")
        port = ["-p", number]
    return [*port, "--", re.sub(r"[\[\]]", "", host)]


def typed_command(host: str, options: Sequence[str] = (), *command: str) -> str:
    """Return the command line of ``ssh`` that a user can type for ``host``, with its port."""
    program = _program(os.environ.get("CMBENCH_SSH", ""))
    words = [word for word in address(host) if word != "--"]
    return shlex.join([*program, *options, *words, *command])


def check_name(host: str) -> None:
    """Refuse what ``ssh`` would take for an option or cannot be a host; raises ``bad-value``."""
    if host.startswith("-") or not _HOST.fullmatch(host):
        hint = "write HOST, USER@HOST or HOST:PORT"
        raise Error("bad-value", f"{host!r:.80} is not a host", hint=hint)


@lru_cache(maxsize=64)
def _shares(words: tuple[str, ...], host: str) -> bool:
    """Whether the user's configuration has a control master of its own for ``host``."""
    output = call([*words, "-G", *address(host)], timeout=20).stdout.decode("utf-8", "replace")
    settings = dict(line.partition(" ")[::2] for line in output.splitlines())
    return settings.get("controlpath", "none") != "none" and settings.get("controlmaster") in (
        "auto",
        "true",
        "autoask",
    )


@lru_cache(maxsize=1)
def _folder() -> str:
    """Where the sockets of our connections are: private, and short enough for their names.

    ``ssh`` would take a blank in it for an end, and what follows a ``%`` for a token.
    """
    bases = (os.environ.get("XDG_RUNTIME_DIR") or "", tempfile.gettempdir(), "/tmp")
    for base in filter(_PLAIN.fullmatch, bases):
        path = os.path.join(base, f"cmbench-{os.getuid()}")
        # After `su` the first of them is another user's, or is not there.
        with suppress(OSError):
            if not os.path.isdir(path):
                os.mkdir(path, 0o700)
            info = os.lstat(path)
            private = info.st_uid == os.getuid() and not info.st_mode & 0o77
            if private and len(base) < 40 and os.access(path, os.W_OK):
                return path
    plain = _PLAIN.fullmatch(tempfile.gettempdir())
    return tempfile.mkdtemp(prefix="cmb-", dir=None if plain else "/tmp")


def call(
    words: Sequence[str], data: bytes = b"", timeout: float | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run the client with ``data`` for the other side; ``timeout`` in seconds.

    Raises ``ssh-missing``, and ``ssh-failed`` where it takes longer.
    """
    try:
        return subprocess.run(words, input=data, capture_output=True, timeout=timeout, check=False)
    except FileNotFoundError:
        raise Error(
            "ssh-missing", f"there is no {words[0]} here", hint="install openssh-client"
        ) from None
    except subprocess.TimeoutExpired:
        raise Error(
            "ssh-failed",
            f"{words[-2] if len(words) > 1 else words[0]}: no answer within {timeout:g} s",
            hint="the machine may be down or far away: try it by hand",
        ) from None


def call_with_stream(
    words: Sequence[str], head: bytes, stream: IO[bytes]
) -> subprocess.CompletedProcess[bytes]:
    """As ``call`` with ``head`` and then all of ``stream``, which may be large."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as problems:
        process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=output, stderr=problems)
        assert process.stdin is not None
        # The other side may end early; its output then has the reason.
        with suppress(BrokenPipeError), process.stdin as sink:
            sink.write(head)
            shutil.copyfileobj(stream, sink, 1 << 20)
        status = process.wait()
        for file in (output, problems):
            file.seek(0)
        return subprocess.CompletedProcess(words, status, output.read(), problems.read())


def close(host: str, options: Sequence[str] = ()) -> None:
    """End the connection that was shared with ``host``, if it is one of ours."""
    words = connection(host, options)
    if any(word.startswith("ControlPersist=") for word in words):
        with suppress(Error):
            call([*words[:-2], "-O", "exit", *words[-2:]], timeout=10)


_CAUSES: Mapping[str, tuple[str, str]] = {
    "REMOTE HOST IDENTIFICATION HAS CHANGED": (
        "its host key has changed",
        "find out why: it may be a new machine, or an attack. Then\n`ssh-keygen -R {known}`",
    ),
    "Host key verification failed": (
        "its host key is not known here",
        "connect once by hand and compare the fingerprint: `{ssh}`",
    ),
    "Permission denied": (
        "it accepts none of your keys",
        "add your key to the agent (`ssh-add`) or to the machine (`ssh-copy-id {address}`)",
    ),
    "Could not resolve hostname": ("the name is not known", "correct it, or add it to ssh_config"),
    "Connection refused": ("no SSH server answers", "is it up? Try: `{ssh} true`"),
    "kex_exchange_identification": (
        "the connection was closed before it began",
        "a jump host on the way may be down, or the server full. Try: `{verbose} true`",
    ),
    "timed out": ("it does not answer", "is it up? Try: `{ssh} true`"),
}


def connection_error(host: str, stderr: bytes, options: Sequence[str] = ()) -> Error:
    """Why ``host`` was not reached with ``options``, out of what the client has said."""
    text = stderr.decode("utf-8", "replace")
    lines = [line.strip() for line in text.splitlines() if line.strip(" @\r")]
    for sign, (what, remedy) in _CAUSES.items():
        if sign in text:
            hint = remedy.format_map(_typed_words(host, options))
            return Error("ssh-failed", f"{host}: {what}", context=lines[-6:], hint=hint)
    reason = lines[-1] if lines else "the connection was lost"
    hint = f"try: `{typed_command(host, options, 'true')}`"
    return Error("ssh-failed", f"{host}: {reason}", context=lines[-6:], hint=hint)


def _typed_words(host: str, options: Sequence[str]) -> dict[str, str]:
    """The parts of remedies that are commands, or words of them."""
    *port, name = (word for word in address(host) if word != "--")
    of_keys = [*options, *port]
    number = next((after for word, after in pairwise(of_keys) if word == "-p"), "")
    bare = name.rpartition("@")[2]
    return {
        "ssh": typed_command(host, options),
        "verbose": typed_command(host, ["-v", *options]),
        "address": shlex.join([*of_keys, name]),
        # So known_hosts has a host with a port of its own (sshd(8)).
        "known": f"'[{bare}]:{number}'" if number else bare,
    }
