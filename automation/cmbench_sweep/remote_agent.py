"""What runs on the other machine: it is sent as text, and needs a Python 3.10 and nothing else.

One call is one request: a line of JSON and bytes come in, a mark, a line of JSON and bytes go out.
What the machine prints before the mark (a banner, a ``.bashrc``) is not ours. Below ``base`` are

    parcels/DIGEST/   code and libraries, by their content
    home/             a CM home: cache entries, points, records
    jobs/ID/          one job: its arguments, its output, its process, how it has ended
"""

from __future__ import annotations

import fcntl
import io
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

_GRACE_S = 5.0
_RUN = 'read go || exit; "$@" < /dev/null; echo $? > end.new && mv end.new end'
"""It waits until its number is kept: an unknown job must not run."""


def probe(request: dict[str, Any]) -> dict[str, Any]:
    """Return the facts of the machine, and reserve a folder for a job."""
    base = Path(os.path.expanduser(os.path.expandvars(request["base"]))).absolute()
    with _alone(base):
        (base / "jobs" / request["job"]).mkdir(parents=True)
        _forget(base, request["job"], request["submitting"])
    try:
        _require(base / "jobs" / request["job"] / "written")
    except OSError:
        leave({**request, "base": str(base), "stay": False})
        raise
    entries = (base / "home" / "cmbench" / "v1" / "entries").glob("*/*.json")
    return {
        "base": str(base),
        "time": time.time(),
        "free": shutil.disk_usage(base).free,
        "host": platform.node(),
        "cpu": platform.machine(),
        "python": ".".join(map(str, sys.version_info[:2])),
        "glibc": _glibc(),
        "pythons": [f"3.{n}" for n in range(8, 20) if shutil.which(f"python3.{n}")],
        "parcels": _names(base / "parcels"),
        "entries": [f"{path.parent.name}/{path.stem}" for path in entries],
    }


def _require(path: Path) -> None:
    """Raise ``OSError`` where there is no room for a file, or no lock for it."""
    with open(path, "wb") as stream:
        stream.write(b"x" * 4096)
        stream.flush()
        try:
            fcntl.flock(stream, fcntl.LOCK_EX)
        except OSError as problem:
            message = f"its file system has no locks ({problem.strerror})"
            raise OSError(problem.errno, message, str(path.parents[2])) from None


@contextmanager
def _alone(base: Path) -> Iterator[None]:
    """Reserve a folder under a lock, so that no other call removes all of them meanwhile.

    The lock is on the folder above, so that nothing is left behind.
    """
    base.parent.mkdir(parents=True, exist_ok=True)
    handle = -1
    # Some file systems lock no folders, and some folders may be passed and not read.
    with suppress(OSError):
        handle = os.open(base.parent, os.O_RDONLY)
        fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        yield
    finally:
        if handle >= 0:
            os.close(handle)


def _glibc() -> str:
    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").removeprefix("glibc").strip()
    except (ValueError, OSError, AttributeError):
        return ""


def _names(folder: Path) -> list[str]:
    return [path.name for path in folder.glob("[!.]*")]


def _forget(base: Path, job: str, submitting: list[str]) -> None:
    """Remove the folders of jobs before ``job`` that were not started, and never will be."""
    for path in base.glob("jobs/*"):
        # Several machines can have one home, with reservations side by side.
        waited_for = path.name >= job or path.name.startswith(tuple(f"{n}-" for n in submitting))
        if not waited_for and not (path / "process").exists():
            shutil.rmtree(path, ignore_errors=True)


def put(request: dict[str, Any]) -> dict[str, Any]:
    """Unpack a parcel, which is there when all of it is."""
    final = Path(request["base"]) / "parcels" / request["parcel"]
    draft = final.with_name(f".{final.name}.{os.getpid()}")
    try:
        with tarfile.open(fileobj=sys.stdin.buffer, mode="r|gz") as tar:
            tar.extractall(draft)  # our own archive
        if not final.exists():
            draft.rename(final)
    except OSError:
        if not final.exists():
            raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return {}


def store_file(request: dict[str, Any]) -> dict[str, Any]:
    """Write a file of a job."""
    path = Path(request["base"]) / "jobs" / request["job"] / request["name"]
    with open(path, "wb") as stream:
        shutil.copyfileobj(sys.stdin.buffer, stream, 1 << 20)
    return {"size": path.stat().st_size}


def start(request: dict[str, Any]) -> dict[str, Any]:
    """Start the program of a job, which outlives this call."""
    base = Path(request["base"])
    folder = base / "jobs" / request["job"]
    for key in _keys(folder):
        # What an earlier job has found out here was fetched, or is not wanted any more.
        shutil.rmtree(base / "home" / "cmbench" / "sweeps" / "points" / key, ignore_errors=True)
    environment = {**os.environ, **request["environment"]}
    for name in {"PYTHONPATH"} & request["environment"].keys() & os.environ.keys():
        environment[name] += os.pathsep + os.environ[name]
    with open(folder / "output", "wb") as output:
        process = subprocess.Popen(
            ["/bin/sh", "-c", _RUN, "sh"]
            + [sys.executable if word == "{python}" else word for word in request["command"]],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    identity = {"pid": process.pid, "since": _since(process.pid)}
    (folder / "process").write_text(json.dumps(identity), encoding="utf-8")
    assert process.stdin is not None
    with process.stdin as go:
        go.write(b"go\n")
    return identity


def _keys(folder: Path) -> set[str]:
    """Return the points of a job."""
    try:
        batch = json.loads((folder / "batch.json").read_text(encoding="utf-8"))
        return {point["key"] for point in batch["points"]}
    except (OSError, ValueError):
        return set()


def _since(pid: int) -> str:
    """When a process began, so that another one of that number is not taken for it."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
        return boot + stat.rpartition(")")[2].split()[19]
    except OSError:
        return ""


def _process(folder: Path) -> tuple[int, bool]:
    """Return the process group of a job, 0 for none, and whether it runs."""
    try:
        identity = json.loads((folder / "process").read_text(encoding="utf-8"))
        os.kill(identity["pid"], 0)
        return identity["pid"], _since(identity["pid"]) == identity["since"]
    except (OSError, ValueError, KeyError):
        return 0, False


def read_progress(request: dict[str, Any]) -> dict[str, Any]:
    """Return the state of a job, its new output, and the finished points that the caller lacks."""
    base = Path(request["base"])
    folder = base / "jobs" / request["job"]
    try:
        return _progress(base, folder, request)
    except FileNotFoundError:
        if folder.exists():
            raise
        # Another one who waited for it has fetched all of it, and left.
        return {"status": "lost", "code": 0, "output": 0, "points": 0, "reason": ""}


def _progress(base: Path, folder: Path, request: dict[str, Any]) -> dict[str, Any]:
    status, code = "running", 0
    alive = _process(folder)[1]
    if not alive:
        try:
            status, code = "ended", int((folder / "end").read_text(encoding="ascii"))
        except (OSError, ValueError):
            status = "lost"
    output = b""
    if (folder / "output").exists():
        with open(folder / "output", "rb") as stream:
            stream.seek(request["at"])
            output = stream.read(1 << 20)
    points = _finished(base, folder, set(request["have"]))
    answer = {"status": status, "code": code, "output": len(output), "points": len(points)}
    answer["reason"] = f"no space left in {base}" if status == "lost" and _is_full(base) else ""
    return {**answer, "_bytes": output + (_packed(base, points) if points else b"")}


def _is_full(base: Path) -> bool:
    """Return whether a worker that has said nothing of its end had no room to do so."""
    return shutil.disk_usage(base).free < 1 << 16


def _finished(base: Path, folder: Path, have: set[str]) -> list[tuple[str, dict[str, Any]]]:
    """Return the points of a job with an outcome that is final, besides those in ``have``."""
    points = []
    for key in _keys(folder) - have:
        path = base / "home" / "cmbench" / "sweeps" / "points" / key / "outcome.json"
        try:
            outcome = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if outcome.get("status") in ("measured", "failed"):
            points.append((key, outcome))
    return points[:50]


def _packed(base: Path, points: list[tuple[str, dict[str, Any]]]) -> bytes:
    """Return the folders of points and the records of their runs as a tar file."""
    home = base / "home" / "cmbench"
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz", compresslevel=3, dereference=True) as tar:
        for key, outcome in points:
            _add(tar, home / "sweeps" / "points" / key, f"points/{key}")
            for record in _records(outcome):
                if record.startswith(str(home / "runs") + os.sep):
                    _add(tar, Path(record).parent, f"runs/{Path(record).parent.name}")
    return made.getvalue()


def _records(outcome: dict[str, Any]) -> Iterator[str]:
    yield from filter(None, [outcome.get("record"), *(r.get("record") for r in outcome["runs"])])


def _add(tar: tarfile.TarFile, folder: Path, name: str) -> None:
    for top, _, files in os.walk(folder):
        for file in files:
            path = Path(top) / file
            if path.is_file() and file != "lock":
                tar.add(path, f"{name}/{path.relative_to(folder)}", recursive=False)


def cancel(request: dict[str, Any]) -> dict[str, Any]:
    """End a job with all that it has started, and leave."""
    folder = Path(request["base"]) / "jobs" / request["job"]
    for number in (signal.SIGTERM, signal.SIGKILL):
        pid, alive = _process(folder)
        if not alive:
            break
        os.killpg(pid, number)
        end = time.monotonic() + _GRACE_S
        while _process(folder)[1] and time.monotonic() < end:
            time.sleep(0.05)
    return leave(request)


def leave(request: dict[str, Any]) -> dict[str, Any]:
    """Remove a job, and, unless ``stay``, all that was brought once no job is left."""
    base = Path(request["base"])
    shutil.rmtree(base / "jobs" / request["job"], ignore_errors=True)
    gone = base.with_name(f".{base.name}.{os.getpid()}.{time.time_ns()}")
    with suppress(OSError), _alone(base):
        (base / "jobs").rmdir()
        if not request["stay"]:
            base.rename(gone)
    # Remove what killed processes have left next to ours.
    for path in base.parent.glob(f".{base.name}.*"):
        shutil.rmtree(path, ignore_errors=True)
    return {}


VERBS = {
    each.__name__: each for each in (probe, put, store_file, start, read_progress, cancel, leave)
}


def main(mark: str) -> None:
    """Answer one request."""
    request = json.loads(sys.stdin.buffer.readline())
    data = b""
    try:
        answer = VERBS[request["verb"]](request)
        data = answer.pop("_bytes", b"")
    except OSError as problem:
        path = str(problem.filename or "")
        answer = {
            "errno": problem.errno or 5,
            "error": problem.strerror or str(problem),
            "path": path,
        }
    except Exception as problem:
        answer = {"errno": 0, "error": f"{type(problem).__name__}: {problem}", "path": ""}
    out = sys.stdout.buffer
    out.write(b"\n" + mark.encode() + json.dumps(answer).encode() + b"\n" + data)
    out.flush()


if __name__ == "__main__":
    main(sys.argv[1])
