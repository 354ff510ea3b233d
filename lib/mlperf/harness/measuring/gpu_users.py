"""What GPUs have left before a run: who else uses them, and how much memory is free."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence

PATIENCE_S = 10.0
QUERIES = {
    "apps": ("--query-compute-apps=gpu_uuid,pid,process_name,used_memory",),
    "gpus": ("--query-gpu=index,uuid,memory.used,memory.total,utilization.gpu",),
}
FORMAT = "--format=csv,noheader,nounits"
# A GPU without a program has some hundred MiB in use, for its driver.
IDLE_MIB, IDLE_PERCENT = 1024, 5


def notes(device: str) -> Iterator[str]:
    """Yield who computes on the GPUs that CUDA shows, with the memory that is taken.

    Nothing without ``nvidia-smi``, or where it fails or hangs.
    """
    if device != "cuda":
        return
    gpus = [row for row in _rows("gpus", 5) if _is_shown(row[0], row[1])]
    apps = _rows("apps", 4) if gpus else []
    for number, uuid, used, total, busy in gpus:
        users = [row for row in apps if row[0] == uuid]
        names = ", ".join(f"{name} (process {pid}, {_mib(size)})" for _, pid, name, size in users)
        if not names and (_number(used) > IDLE_MIB or _number(busy) > IDLE_PERCENT):
            names = "processes that nvidia-smi does not name here"
        if names:
            text = f"GPU {number} is used by others: {names}; {used} of {total} MiB are taken"
            yield f"{text}, and the figures suffer from it"


def most_free_bytes(device: str) -> int | None:
    """Return the free memory of the GPU that has most of it; None where that is not known."""
    rows = _rows("gpus", 5) if device == "cuda" else []
    free = [
        (int(total) - int(used)) << 20
        for number, uuid, used, total, _ in rows
        if used.isdigit() and total.isdigit() and _is_shown(number, uuid)
    ]
    return max(free, default=None)


def _is_shown(number: str, uuid: str) -> bool:
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    words = [word.strip() for word in (named or "").split(",") if word.strip()]
    # Which GPU a MIG instance is a part of is not asked for a note.
    plain = [word for word in words if not word.startswith("MIG-")]
    return plain != words or not words or number in words or any(uuid.startswith(w) for w in words)


def _rows(query: str, cells: int) -> list[Sequence[str]]:
    """Return the lines of an answer that have so many cells."""
    command = ["nvidia-smi", *QUERIES[query], FORMAT]
    try:
        answer = subprocess.run(
            command, capture_output=True, text=True, timeout=PATIENCE_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return []
    rows = [[cell.strip() for cell in line.split(",")] for line in answer.stdout.splitlines()]
    return [row for row in rows if len(row) == cells]


def _mib(text: str) -> str:
    return f"{text} MiB" if text.isdigit() else "memory not known"


def _number(text: str) -> int:
    return int(text) if text.isdigit() else 0
