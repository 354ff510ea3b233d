"""Reading the answers back that LoadGen has logged in an accuracy run."""

from __future__ import annotations

import json
from pathlib import Path

from ..errors import HarnessError


def read_answers(log: Path, count: int) -> tuple[list[bytes], int]:
    """What was answered for each of ``count`` samples, and how many answers came twice.

    LoadGen fills the last MultiStream query of an accuracy run up with samples it has had
    already. Raises HarnessError when a sample is missing, unknown or answered differently.
    """
    try:
        entries = json.loads(log.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise HarnessError(f"cannot read {log}: {error}") from error
    answers: list[bytes | None] = [None] * count
    duplicates = 0
    for entry in entries:
        index, data = int(entry["qsl_idx"]), bytes.fromhex(entry["data"])
        if not 0 <= index < count:
            raise HarnessError(f"{log} has an answer for sample {index}, there are {count}")
        if answers[index] is not None:
            duplicates += 1
            if answers[index] != data:
                raise HarnessError(f"{log} has two different answers for sample {index}")
        answers[index] = data
    present = [answer for answer in answers if answer is not None]
    if len(present) < count:
        missing = count - len(present)
        raise HarnessError(f"{log} lacks the answers for {missing} of {count} samples")
    return present, duplicates


def read_logged(log: Path) -> list[tuple[int, bytes]]:
    """Return every entry as sample and answer, however many; raises HarnessError if unreadable."""
    try:
        entries = json.loads(log.read_text(encoding="utf-8"))
        return [(int(entry["qsl_idx"]), bytes.fromhex(entry["data"])) for entry in entries]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise HarnessError(f"cannot read {log}: {error}") from error
