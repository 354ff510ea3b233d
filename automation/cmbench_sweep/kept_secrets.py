"""What a sweep, an experiment and a run elsewhere keep in files must hold no secret."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from cmbench.errors import Error
from cmbench.lib.secrecy import bare, is_secret, mask, mask_word

_HINT = "export it as a variable before the command, or in `setup` of the site"


def refuse_secrets(values: Iterable[tuple[str, Any]], keys: Mapping[str, str]) -> None:
    """Raise ``bad-value`` for a flag with a secret; ``keys`` are the env keys of inputs."""
    for name, value in values:
        text = str(value)
        if isinstance(value, int | float) or text in ("", "yes", "no", "None"):
            continue
        if mask(text) != text or (is_secret(keys.get(name) or name) and not _is_file(text)):
            raise _refusal(f"--{name}")


def refuse_secret_words(words: Iterable[str]) -> None:
    """Raise ``bad-value`` for a word of a command line with a secret."""
    words = list(words)
    for flag, _ in bare(words):
        raise _refusal(flag)
    for word in words:
        name, _, value = word.partition("=")
        if mask_word(word) != word and not _is_file(value):
            raise _refusal(name if value else "a word of the command")


def _is_file(value: str) -> bool:
    """Return whether a value is a path, which says where a secret lies."""
    return value.startswith("/") and os.path.exists(value)


def _refusal(name: str) -> Error:
    return Error("bad-value", f"{name} is a secret, which a file would keep", hint=_HINT)
