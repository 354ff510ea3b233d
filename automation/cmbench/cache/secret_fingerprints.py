"""Fingerprints of secrets, as metadata that others may read can hold them.

A plain hash of a secret tells who guesses it that the guess was right. These are made with a key
that only the owner of the cache can read: another user, or another machine, finds no hit.
"""

from __future__ import annotations

import os
from contextlib import suppress

from cmbench.cache.disk import read_plain_file

_MARK = "hmac:"


def is_keyed(text: str) -> bool:
    """Whether a fingerprint stands for a secret."""
    return text.startswith(_MARK)


def keyed(text: str, path: str, make: bool = False) -> str:
    """The fingerprint of ``text`` by the key in the file ``path``; empty where there is none.

    ``make`` the file if it is not there.
    """
    key = _key(path) or (_made(path) if make else b"")
    if not key:
        return ""
    import hmac

    return _MARK + hmac.new(key, text.encode("utf-8", "replace"), "sha256").hexdigest()[:32]


def _key(path: str) -> bytes:
    with suppress(OSError):
        return read_plain_file(path)
    return b""


def _made(path: str) -> bytes:
    """Return the key of the first writer: two may begin at once."""
    draft = f"{path}.{os.getpid()}.{os.urandom(4).hex()}"
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
        stream.write(os.urandom(32))
    try:
        with suppress(FileExistsError):
            os.link(draft, path)
    finally:
        os.unlink(draft)
    return _key(path)
