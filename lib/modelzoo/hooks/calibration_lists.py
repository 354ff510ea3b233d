"""Lists of what MLPerf's rules allow to calibrate a model with: text files, one entry a line."""

from __future__ import annotations

import re

from common.problems import Problem

SHOWN = 40


def entries(path: str, count: int, pattern: re.Pattern[str], what: str = "entries") -> list[str]:
    """Return the different entries of the list in ``path``, in its order.

    An entry is the first word of a line: one of the rules' lists numbers its lines in a second
    column. A repeated one counts once. Raises Problem unless the file can be read, all entries
    match ``pattern``, and ``count`` of them differ; ``what`` names the entries in messages.
    """
    wrong = f"{path} is not a list of {count} {what}"
    hint = "give the list of MLCommons' inference repository as --env.CM_PACKAGE_URL=FILE"
    try:
        line_numbers = _words(path)
    except OSError as error:
        message = f"cannot read the list of {count} {what} {path}: {error.strerror}"
        raise Problem("data-missing", message, hint=hint) from error
    for word, number in line_numbers.items():
        if not pattern.fullmatch(word):
            raise Problem("data-wrong", f'{wrong}: line {number} says "{word[:SHOWN]}"', hint=hint)
    if len(line_numbers) != count:
        raise Problem("data-wrong", f"{wrong}: it names {len(line_numbers)}", hint=hint)
    return list(line_numbers)


def _words(path: str) -> dict[str, int]:
    """Return the first words of the lines, with the number of the first line that has them."""
    line_numbers: dict[str, int] = {}
    with open(path, encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                line_numbers.setdefault(line.split()[0], number)
    return line_numbers
