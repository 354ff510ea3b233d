"""The command in the container: the user's own ``cm run script`` line, without its secrets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cmbench.errors import Error
from cmbench.format.model import Request
from cmbench.lib.secrecy import mask_word


def inner_words(
    tags: str, uid: str, flags: Mapping[str, Any], request: Request
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The words of the command, and those with secrets in them, which go another way.

    ``flags`` are those of the script. Paths are absolute as in ``request``: the container knows
    them by these names.
    """
    words = ["cm", "run", "script"]
    words += [uid] if uid else []
    words += [f"--tags={tags}"] if tags else []
    hidden: list[str] = []
    for word in _words(_absolute(flags, request)):
        (words if mask_word(word) == word else hidden).append(word)
    return tuple(words), tuple(hidden)


def extra_command(hidden: tuple[str, ...]) -> str:
    """``hidden`` as the variable holds them from which ``cm`` in the container reads them.

    Raises ``bad-value`` for a secret with a blank in it.
    """
    for word in hidden:
        if word.split() != [word]:
            name = word.partition("=")[0]
            raise Error(
                "bad-value",
                f"{name} holds a secret with a blank, which cannot be passed on",
                hint="write it to a file, and give the script its path",
            )
    return " ".join(hidden)


def _absolute(flags: Mapping[str, Any], request: Request) -> Iterator[tuple[str, Any]]:
    for name, value in flags.items():
        if name in ("tags", "out"):
            continue
        if name == "path" and request.path:
            yield name, request.path
        else:
            yield name, request.inputs.get(name, value)


def _words(flags: Iterator[tuple[str, Any]], lead: str = "--") -> Iterator[str]:
    for name, value in flags:
        if isinstance(value, Mapping):
            yield from _words(iter(value.items()), f"{lead}{name}.")
        elif isinstance(value, list | tuple):
            yield f"{lead}{name},={','.join(str(item) for item in value)}"
        elif value is True:
            yield lead + name
        elif value is False:
            yield f"{lead}{name}-"
        else:
            yield f"{lead}{name}={value}"
