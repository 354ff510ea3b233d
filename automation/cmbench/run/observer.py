"""Starts a program and writes down which files it and its children start, open and look for.

A program of its own, started as ``python -I -S observer.py PLAN COMMAND...``: it answers such
system calls at once, whatever the engine does, and goes on when the engine is killed. So it
imports nothing of the engine.

The kernel reports the calls to a file descriptor that is had when the filter is installed (seccomp
with user notification, Linux 5.5). The filter holds for all threads and children, also after they
have become other programs or have left the process group. Every call is let through as it is.
"""

from __future__ import annotations

import array
import ctypes
import errno
import fcntl
import json
import os
import platform
import re
import resource
import select
import signal
import socket
import stat
import struct
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NoReturn

STARTED, OPENED, LOOKED = "started", "opened", "looked"
_SET_NO_NEW_PRIVS, _SET_CHILD_SUBREAPER = 38, 36
_FILTER_MODE, _NEW_LISTENER, _WAIT_KILLABLE = 1, 1 << 3, 1 << 5
_ALLOW, _NOTIFY = 0x7FFF0000, 0x7FC00000
_RECEIVE, _SEND = 0xC0502100, 0xC0182101
_CONTINUE = 1
_LOAD, _AND, _JUMP_EQUAL, _RETURN = 0x20, 0x54, 0x15, 0x06
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16
_EMPTY_PATH = 0x1000
_AT_CWD = -100
_PAGE = 4096
_LONGEST = 4096
"""Bytes of a path, by the kernel's ``PATH_MAX``."""
_REAP_SECONDS = 0.5
_DENIED = frozenset((errno.EPERM, errno.EACCES))


class _Call:
    """One system call: which of its arguments are the folder, the path and the flags.

    With ``skips``, the kernel does not report it where the flags, masked by the first number, are
    the second one: it only writes, or means an open file.
    """

    def __init__(
        self,
        kind: str,
        path: int,
        folder: int = -1,
        flags: int = -1,
        skips: tuple[int, int] = (0, 1),
    ) -> None:
        self.kind, self.path, self.folder, self.flags, self.skips = kind, path, folder, flags, skips


_WRITES = (os.O_ACCMODE, os.O_WRONLY)
_OF_OPEN_FILE = (_EMPTY_PATH, _EMPTY_PATH)
_EXECVE, _EXECVEAT = _Call(STARTED, 0), _Call(STARTED, 1, 0)
_OPEN, _OPENAT = _Call(OPENED, 0, -1, 1, _WRITES), _Call(OPENED, 1, 0, 2, _WRITES)
_OPENAT2 = _Call(OPENED, 1, 0)
_STAT, _STATAT = _Call(LOOKED, 0), _Call(LOOKED, 1, 0)
_FSTATAT, _STATX = _Call(LOOKED, 1, 0, 3, _OF_OPEN_FILE), _Call(LOOKED, 1, 0, 2, _OF_OPEN_FILE)
_LINK, _LINKAT = _Call(OPENED, 0), _Call(OPENED, 1, 0)
"""A file that gets another name, or a second one, is used like one that is opened."""
_SYMLINK = _Call(LOOKED, 0)
"""A link that is removed again shows no more where it led."""
_CALLS: Mapping[int, Mapping[int, _Call]] = {
    0xC000003E: {
        59: _EXECVE,
        322: _EXECVEAT,
        2: _OPEN,
        257: _OPENAT,
        437: _OPENAT2,
        4: _STAT,
        6: _STAT,
        21: _STAT,
        89: _STAT,
        262: _FSTATAT,
        332: _STATX,
        267: _STATAT,
        269: _STATAT,
        439: _STATAT,
        86: _LINK,
        82: _LINK,
        88: _SYMLINK,
        266: _SYMLINK,
        265: _LINKAT,
        264: _LINKAT,
        316: _LINKAT,
    },
    0x40000003: {
        11: _EXECVE,
        358: _EXECVEAT,
        5: _OPEN,
        295: _OPENAT,
        437: _OPENAT2,
        106: _STAT,
        107: _STAT,
        195: _STAT,
        196: _STAT,
        33: _STAT,
        85: _STAT,
        300: _FSTATAT,
        383: _STATX,
        305: _STATAT,
        307: _STATAT,
        439: _STATAT,
        9: _LINK,
        38: _LINK,
        83: _SYMLINK,
        304: _SYMLINK,
        303: _LINKAT,
        302: _LINKAT,
        353: _LINKAT,
    },
    0xC00000B7: {
        221: _EXECVE,
        281: _EXECVEAT,
        56: _OPENAT,
        437: _OPENAT2,
        79: _FSTATAT,
        291: _STATX,
        78: _STATAT,
        48: _STATAT,
        439: _STATAT,
        36: _SYMLINK,
        37: _LINKAT,
        38: _LINKAT,
        276: _LINKAT,
    },
}
"""By the number of an architecture (x86-64, its 32-bit programs, arm64) and of a system call."""
_MACHINES = {"x86_64": (0xC000003E, 0x40000003), "aarch64": (0xC00000B7,)}
_SECCOMP = {"x86_64": 317, "aarch64": 277}


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_void_p)]


def filter_code(machine: str) -> bytes:
    """Return the filter for a ``machine``, as the kernel runs it; raises ``KeyError``."""
    code = [(_LOAD, 0, 0, _ARCHITECTURE_AT)]
    for architecture in _MACHINES[machine]:
        block = [(_LOAD, 0, 0, _NUMBER_AT)]
        for number, call in _CALLS[architecture].items():
            block += _look_for(number, call)
        block.append((_RETURN, 0, 0, _ALLOW))
        code += [(_JUMP_EQUAL, 0, len(block), architecture), *block]
    code.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("HBBI", *item) for item in code)


def _look_for(number: int, call: _Call) -> list[tuple[int, int, int, int]]:
    body = [(_RETURN, 0, 0, _NOTIFY)]
    if call.flags >= 0:
        mask, value = call.skips
        body = [
            (_LOAD, 0, 0, _ARGUMENTS_AT + 8 * call.flags),
            (_AND, 0, 0, mask),
            (_JUMP_EQUAL, 0, 1, value),
            (_RETURN, 0, 0, _ALLOW),
            *body,
        ]
    return [(_JUMP_EQUAL, 0, len(body), number), *body]


def install() -> tuple[int, bool]:
    """Install the filter in this process; return its listener, and whether privileges are lost.

    An administrator keeps them. Raises ``OSError`` where the kernel or another listener does not
    allow it, and ``KeyError`` on a machine whose system calls are not known here.
    """
    library = ctypes.CDLL(None, use_errno=True)
    machine = platform.machine()
    code = ctypes.create_string_buffer(filter_code(machine))
    program = _Program(len(code.raw) // 8, ctypes.addressof(code))
    for loses in (False, True):
        if loses:
            library.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        for flags in (_NEW_LISTENER | _WAIT_KILLABLE, _NEW_LISTENER):
            number = _SECCOMP[machine]
            listener = library.syscall(number, _FILTER_MODE, flags, ctypes.byref(program))
            if listener >= 0:
                return listener, loses
            if ctypes.get_errno() != errno.EINVAL:
                break
        if ctypes.get_errno() != errno.EACCES:
            break
    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


class Observer:
    """Answers the kernel for one listener, and collects what is looked at.

    Paths that begin with one of ``ignored`` are not kept. ``trouble`` says why something was
    missed; ``refused`` names a program that needs privileges which it did not get.
    """

    def __init__(self, listener: int, ignored: tuple[bytes, ...], loses: bool) -> None:
        self.listener = listener
        self.seen: dict[str, set[bytes]] = {kind: set() for kind in (STARTED, OPENED, LOOKED)}
        self.trouble = ""
        self.refused = ""
        self._ignored = ignored
        self._loses = loses
        self._buffer = bytearray(80)

    def answer(self, keeps: bool = True) -> None:
        """Answer one call of a program, which waits for that."""
        self._buffer[:] = bytes(80)
        try:
            fcntl.ioctl(self.listener, _RECEIVE, self._buffer)
        except OSError:
            # Whoever called has been killed meanwhile.
            return
        identity, pid, _, number, architecture, _, *arguments = struct.unpack(
            "QIIiIQ6Q", self._buffer
        )
        if keeps:
            self._keep(_CALLS[architecture][number], pid, arguments)
        with suppress(OSError):
            fcntl.ioctl(self.listener, _SEND, struct.pack("QqiI", identity, 0, 0, _CONTINUE))

    def _keep(self, call: _Call, pid: int, arguments: list[int]) -> None:
        try:
            path = _text(pid, arguments[call.path])
            if path[:1] != b"/":
                if call is _SYMLINK:
                    return
                path = _folder(call, pid, arguments) + b"/" + path
            if path.startswith(b"/proc/"):
                path = _behind_process(path, pid)
        except OSError as problem:
            if problem.errno in _DENIED:
                self.trouble = f"a process of it cannot be looked into: {problem.strerror}"
            return
        kind = call.kind
        if kind == OPENED and call.flags >= 0 and arguments[call.flags] & os.O_PATH:
            kind = LOOKED
        if path in self.seen[kind] or path.startswith(self._ignored):
            return
        self.seen[kind].add(path)
        if self._loses and kind == STARTED and _needs_privileges(path):
            self.refused = os.fsdecode(path)


def _folder(call: _Call, pid: int, arguments: list[int]) -> bytes:
    """Return the folder that the relative path of a call starts from; raises ``OSError``."""
    folder = ctypes.c_int(arguments[call.folder]).value if call.folder >= 0 else _AT_CWD
    link = "cwd" if folder == _AT_CWD else f"fd/{folder}"
    return os.readlink(f"/proc/{pid}/{link}".encode())


def _behind_process(path: bytes, pid: int) -> bytes:
    """Return a path through the folder or an open file of a process as the file it means."""
    match = re.match(rb"/proc/(self|thread-self|\d+)/(cwd|root|fd/\d+)(?=/|$)", path)
    if match:
        with suppress(OSError):
            process = str(pid).encode() if b"self" in match[1] else match[1]
            target = os.readlink(b"/proc/%s/%s" % (process, match[2]))
            return target.rstrip(b"/") + path[match.end() :] if target[:1] == b"/" else path
    return path


def _text(pid: int, address: int) -> bytes:
    """Return the text at ``address`` of a process; raises ``OSError``."""
    handle = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = os.pread(handle, min(256, _PAGE - address % _PAGE), address)
        while b"\0" not in data and len(data) < _LONGEST:
            more = os.pread(handle, _PAGE, address + len(data))
            if not more:
                break
            data += more
    finally:
        os.close(handle)
    return data.partition(b"\0")[0]


def _needs_privileges(path: bytes) -> bool:
    with suppress(OSError):
        if os.stat(path).st_mode & (stat.S_ISUID | stat.S_ISGID):
            return True
        return bool(os.getxattr(path, "security.capability"))
    return False


def main(plan_text: str, command: list[str]) -> NoReturn:
    """Run ``command`` and write the report; ends as the command has ended."""
    plan = json.loads(plan_text)
    ours, theirs = socket.socketpair()
    child = os.fork()
    if not child:
        ours.close()
        _become(command, theirs)
    theirs.close()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        # The command decides what to do about it; its calls are answered meanwhile.
        signal.signal(number, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    listener, word = _received(ours)
    began = time.time_ns()
    observer = Observer(listener, tuple(map(os.fsencode, plan["ignored"])), word == "loses")
    if listener < 0:
        status = os.waitpid(child, 0)[1]
        observer.trouble = word
    else:
        status = _watch(observer, child)
    _write(plan["report"], observer, began)
    if listener >= 0:
        _stay(observer)
    _end_as(status)


def _become(command: list[str], peer: socket.socket) -> NoReturn:
    """Turn this process into ``command``, with the filter where that is possible."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        # Python itself ignores them.
        signal.signal(number, signal.SIG_DFL)
    try:
        listener, loses = install()
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [listener]))]
        peer.sendmsg([b"loses" if loses else b"keeps"], rights)
        peer.recv(1)
    except (OSError, KeyError) as problem:
        busy = isinstance(problem, OSError) and problem.errno == errno.EBUSY
        why = "it runs below another observed step" if busy else f"the kernel refuses: {problem}"
        peer.send(why.encode())
    environ = _own_environment()
    try:
        os.execvpe(command[0], command, environ)
    except OSError as problem:
        os.write(2, f"{command[0]}: {problem.strerror}\n".encode())
        os._exit(126 if problem.errno == errno.EACCES else 127)


def _own_environment() -> dict[bytes, bytes]:
    """Return the environment that this program was started with: Python may add to it."""
    with open("/proc/self/environ", "rb") as stream:
        parts = (item.partition(b"=") for item in stream.read().split(b"\0"))
        return {name: value for name, equals, value in parts if equals}


def _received(peer: socket.socket) -> tuple[int, str]:
    """Return the listener that the child sends, or -1 and why there is none."""
    text, extra, _, _ = peer.recvmsg(1000, socket.CMSG_SPACE(4))
    listener = -1
    for _, _, data in extra:
        listener = array.array("i", data)[0]
    if listener >= 0:
        peer.send(b"x")
    return listener, text.decode(errors="replace") or "it has ended at once"


def _watch(observer: Observer, child: int) -> int:
    """Answer until ``child`` has ended; return its status. Orphans below it are reaped."""
    poll = select.poll()
    poll.register(observer.listener, select.POLLIN)
    ends = os.pidfd_open(child)
    poll.register(ends, select.POLLIN)
    status = 0
    over = False
    reaped = time.monotonic()
    while True:
        events = dict(poll.poll(0 if over else _REAP_SECONDS * 1000))
        if events.get(observer.listener, 0) & select.POLLIN:
            observer.answer()
        elif over:
            return status
        if ends in events or time.monotonic() > reaped + _REAP_SECONDS:
            reaped = time.monotonic()
            for pid, ended in _ended():
                if pid == child:
                    over, status = True, ended
                    poll.unregister(ends)


def _ended() -> list[tuple[int, int]]:
    ended = []
    with suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                break
            ended.append((pid, status))
    return ended


def _write(path: str, observer: Observer, began: int) -> None:
    report: dict[str, Any] = {
        kind: sorted(map(os.fsdecode, paths)) for kind, paths in observer.seen.items()
    }
    report |= {"trouble": observer.trouble, "refused": observer.refused, "began": began}
    with suppress(OSError), open(path, "w", encoding="ascii") as stream:
        json.dump(report, stream)


def _stay(observer: Observer) -> None:
    """Leave a process behind that answers for what the command has left running, if anything."""
    poll = select.poll()
    poll.register(observer.listener, select.POLLIN)
    events = poll.poll(0)
    if (events and events[0][1] & select.POLLHUP) or os.fork():
        return
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nothing, number)
    while not any(event & select.POLLHUP for _, event in poll.poll()):
        observer.answer(keeps=False)
    os._exit(0)


def _end_as(status: int) -> NoReturn:
    """End this process as the command ended, by a signal too."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with suppress(OSError):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(status))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
