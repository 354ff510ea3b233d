"""Find the cause in what a failed program printed; its last line is seldom the one that has it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from .cause_patterns import (
    ACCELERATORS,
    ADVICE,
    CERTAIN,
    CHAINED,
    CONSEQUENCE,
    ENDED,
    IGNORED,
    LEAD,
    LIKELY,
    ROOT_OF_JAVA,
    SIGNALS,
    TRACEBACK,
    CausePattern,
)

MESSAGE_LINES = 5
"""So many lines below the first one of an exception's message are shown at most."""
DEEPEST_TRACEBACK = 1_000
"""So many lines below its head a traceback is followed at most."""


def first_cause(output: Iterable[str]) -> tuple[str, ...]:
    """Return the lines that name the cause of a failure, by the kind of program that wrote them.

    That is the first cause in the output, followed by the last exception where it is another one:
    of chained exceptions the first and the last. Empty where no line names a cause.
    """
    lines = _without_ignored([_bare(line) for line in output])
    exceptions = list(_exceptions(lines))
    root = _first(lines, CERTAIN)
    if exceptions and (root is None or exceptions[0][0] <= root[0]):
        root = exceptions[0]
    if root is None:
        root = _first(lines, LIKELY) or _first(lines, SIGNALS)
    if root is None:
        return ()
    last = exceptions[-1] if exceptions and not CONSEQUENCE.search(exceptions[-1][1][0]) else root
    return tuple(dict.fromkeys([*root[1], *last[1]]))


def library_errors(output: Sequence[str]) -> tuple[str, ...]:
    """Return the first error that a library of an accelerator printed; mostly empty."""
    first = _first([_bare(line) for line in output], ACCELERATORS)
    return first[1] if first else ()


def explained(output: Sequence[str], last: int) -> tuple[str, ...]:
    """Return the cause in ``output``, above those of its ``last`` lines that say more."""
    cause = first_cause(output)
    tail = [line for line in output[-last:] if not ADVICE.match(_bare(line))]
    bare = [_bare(line).strip() for line in tail]
    # A reader looks at the first line and at the last one.
    if bare[: len(cause)] == [*cause] or bare[-len(cause) :] == [*cause]:
        return tuple(tail)
    if any(TRACEBACK.match(line) for line in bare):
        return (*cause, *tail)
    return (*cause, *(line for line, text in zip(tail, bare, strict=True) if text not in cause))


def without_advice(message: str) -> str:
    """Return an exception's message without the lines that torch adds to each of its own."""
    lines = [line for line in message.splitlines() if not ADVICE.match(line.strip())]
    return "\n".join(lines).rstrip() or message


def _bare(line: str) -> str:
    """Return a line without what a launcher has put in front of it; indentation stays."""
    text = line.rstrip()
    unmarked = LEAD.sub("", text.lstrip())
    return text if unmarked == text.lstrip() else unmarked


def _without_ignored(lines: list[str]) -> list[str]:
    """Return ``lines`` with those emptied that belong to exceptions that Python has ignored."""
    for number, line in enumerate(lines):
        if IGNORED.match(line):
            below = lines[number + 1 : number + DEEPEST_TRACEBACK]
            frames = next((n for n, text in enumerate(below) if n and not text[:1].isspace()), 0)
            lines[number : number + 2 + frames] = [""] * len(lines[number : number + 2 + frames])
    return lines


def _first(
    lines: Sequence[str], patterns: Sequence[CausePattern]
) -> tuple[int, tuple[str, ...]] | None:
    for number, line in enumerate(lines):
        text = line.strip()
        if not text or CONSEQUENCE.search(text) or ADVICE.match(text):
            continue
        row = next((row for row in patterns if row.line.search(text)), None)
        if row is not None:
            return number, tuple(_block(lines, number, row))
    return None


def _block(lines: Sequence[str], number: int, row: CausePattern) -> Iterator[str]:
    """Yield the line of a cause, and those below it that belong to it."""
    if row.kind == "java":
        roots = [line.strip() for line in lines[number:] if ROOT_OF_JAVA.match(line.strip())]
        yield from roots[-1:]
    yield lines[number].strip()
    below = [line for line in lines[number + 1 : number + 2 + row.more] if line.strip()]
    for line in below[: row.more]:
        if not (line.startswith("ERROR: ") if row.kind == "pip" else line[0].isspace()):
            return
        yield line.strip()


def _exceptions(lines: Sequence[str]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield for each traceback of Python where it begins, and the exception with its message."""
    for number, line in enumerate(lines):
        if not TRACEBACK.match(line):
            continue
        depth = len(line) - len(line.lstrip())
        message = _message(lines[number + 1 : number + DEEPEST_TRACEBACK], depth)
        if message:
            yield number, message


def _message(lines: Sequence[str], depth: int) -> tuple[str, ...]:
    """Return the exception below a traceback that is indented by ``depth``; empty if cut off."""
    for number, line in enumerate(lines):
        is_frame = line[depth : depth + 1].isspace() or not line.strip()
        if not is_frame:
            if TRACEBACK.match(line) or not re.match(r"[\w.]+(?::|$)", line.strip()):
                return ()
            return tuple(_message_lines(lines[number:]))
    return ()


def _message_lines(lines: Sequence[str]) -> Iterator[str]:
    for line in lines[: MESSAGE_LINES + 1]:
        text = line.strip()
        if (
            not text
            or ENDED.match(text)
            or ADVICE.match(text)
            or CHAINED.match(text)
            or TRACEBACK.match(line)
        ):
            return
        yield text
