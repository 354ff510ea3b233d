"""``tokenizer.json``: what it is where it is no tokenizer, and a digest to compare two by."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from modelzoo.program import ProgramError

FILE = "tokenizer.json"
LFS_POINTER = b"version https://git-lfs"


def read_document(path: Path) -> dict[str, Any]:
    """Return the contents of a ``tokenizer.json``; raise ProgramError for another file."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ProgramError(f"{path} holds no tokenizer: {error.strerror}") from error
    if data.startswith(LFS_POINTER):
        raise ProgramError(
            f"{path} holds no tokenizer but a pointer of Git LFS: run `git lfs pull` in its folder"
        )
    if data.lstrip()[:1] == b"<":
        raise ProgramError(f"{path} holds no tokenizer but a web page: fetch it again")
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ProgramError(
            f"{path} holds no tokenizer; it is cut off or damaged: {error}"
        ) from error
    if not isinstance(document, dict) or not isinstance(document.get("model"), dict):
        raise ProgramError(f"{path} holds no tokenizer: it has no model")
    return document


def digest(document: Mapping[str, Any]) -> str:
    """Return the SHA-256 of the tokens, merges and special tokens of a ``tokenizer.json``.

    The same tokenizer has the same digest however its file is formatted; versions of the library
    write merges as words or as pairs. Raises ProgramError for a document of another form.
    """
    try:
        model, added = document["model"], document.get("added_tokens") or []
        known = model["vocab"]
        numbers = (
            known if isinstance(known, dict) else {entry[0]: n for n, entry in enumerate(known)}
        )
        names = {(int(number), str(name)) for name, number in numbers.items()}
        names |= {(int(entry["id"]), str(entry["content"])) for entry in added}
        merges = [
            pair if isinstance(pair, str) else " ".join(pair) for pair in model.get("merges") or []
        ]
        special = sorted(int(entry["id"]) for entry in added if entry.get("special"))
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise ProgramError(f"{FILE} has no vocabulary: {error!r}") from error
    text = json.dumps([sorted(names), merges, special])
    return hashlib.sha256(text.encode()).hexdigest()


def digest_of(path: Path) -> str:
    """Return the digest of a ``tokenizer.json`` or of that in a folder, empty where that has none.

    Raises ProgramError for a file that is no tokenizer.
    """
    file = path / FILE if path.is_dir() else path
    return "" if path.is_dir() and not file.is_file() else digest(read_document(file))
