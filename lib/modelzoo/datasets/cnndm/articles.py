"""Articles of CNN/DailyMail, taken by their ids out of a split of the data set.

A split is a file with an ``id``, an ``article`` and its ``highlights`` per row: ``.csv`` with
the names in the first line, or ``.jsonl`` with an object per line. It has hundreds of
thousands of rows, of which only those that are named are kept.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modelzoo.program import ProgramError

COLUMNS = ("id", "article", "highlights")
# Characters of the longest field: csv refuses such articles otherwise.
LONGEST = 1 << 24


@dataclass(frozen=True, slots=True)
class Article:
    """A text, and what people wrote about it."""

    text: str
    highlights: str


def articles_by_id(split: Path, ids: Sequence[str]) -> list[Article]:
    """Return the articles with these ids, in their order; raise ProgramError if one is missing."""
    requested = set(ids)
    articles = {
        row["id"]: Article(row["article"], row["highlights"])
        for row in rows(split)
        if row["id"] in requested
    }
    missing = [id_ for id_ in dict.fromkeys(ids) if id_ not in articles]
    if missing:
        raise ProgramError(
            f"{split} lacks {len(missing)} of {len(requested)} articles of the list, the first is "
            f"{missing[0]}: is it the training split of version 3.0.0?"
        )
    return [articles[id_] for id_ in ids]


def rows(split: Path) -> Iterator[dict[str, str]]:
    """Every row of a split; ProgramError for a file of another kind."""
    readers = {".csv": _of_csv, ".jsonl": _of_lines}
    if split.suffix not in readers:
        raise ProgramError(f"{split}: a split is a file .csv or .jsonl with {', '.join(COLUMNS)}")
    try:
        for number, row in enumerate(readers[split.suffix](split), 1):
            if not isinstance(row, dict) or not all(isinstance(row.get(c), str) for c in COLUMNS):
                raise ProgramError(f"{split}: row {number} has no {', '.join(COLUMNS)}")
            yield row
    except (csv.Error, ValueError) as error:
        raise ProgramError(f"{split} cannot be read: {error}") from error


def _of_csv(split: Path) -> Iterator[Any]:
    csv.field_size_limit(LONGEST)
    with split.open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


def _of_lines(split: Path) -> Iterator[Any]:
    with split.open(encoding="utf-8") as file:
        yield from (json.loads(line) for line in file if line.strip())
