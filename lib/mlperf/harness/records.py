"""Records as JSON files.

Every process boundary of the harness is a JSON file. A wrong or unknown key is an error with its
position, so that a misspelt setting can never silently fall back to a default.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypeVar

from common.files import replace_text as write_text
from common.records import WHEN_GIVEN, RecordReader, encode

from .errors import HarnessError

__all__ = ["WHEN_GIVEN", "decode", "encode", "read", "read_json", "write", "write_text"]

T = TypeVar("T")

decode = RecordReader(HarnessError).decode


def read(cls: type[T], path: Path) -> T:
    """Read ``cls`` from a JSON file; raises HarnessError when it is missing or wrong."""
    return decode(cls, read_json(path))


def read_json(path: Path) -> Any:
    """Parse a JSON file; raises HarnessError when that cannot be done."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise HarnessError(f"cannot read {path}: {error}") from error


def write(path: Path, record: Any) -> None:
    """Write a record as JSON, in one step, so that a reader never sees half of it."""
    write_text(path, json.dumps(encode(record), indent=2) + "\n")
