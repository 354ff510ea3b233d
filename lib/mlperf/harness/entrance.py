"""The addresses and the token of a system's nodes; imports no installed package."""

from __future__ import annotations

from pathlib import Path

from .errors import HarnessError

PORT = 8089
LOCAL = ("127.0.0.1", "::1", "localhost")

Address = tuple[str, int]


def addresses(text: str) -> list[Address]:
    """``HOST[:PORT],…`` as pairs; a leading ``http://``, as other collections have it, is dropped.

    Raises HarnessError where there is none, one twice, or one that cannot be read.
    """
    words = [word.strip().removeprefix("http://").rstrip("/") for word in text.split(",")]
    pairs = []
    for word in filter(None, words):
        host, _, port = word.rpartition(":") if ":" in word else (word, ":", str(PORT))
        host = host.strip("[]")
        if not host or not port.isdigit() or not 0 < int(port) < 65536:
            raise HarnessError(f"{word} is not an address of a node", "give HOST:PORT")
        pairs.append((host, int(port)))
    if not pairs:
        raise HarnessError("no node is named", "add --sut_servers=HOST:PORT,HOST:PORT")
    if len(set(pairs)) < len(pairs):
        raise HarnessError("a node is named twice", "give each address of --sut_servers once")
    return pairs


def read_token(path: str) -> str:
    """Return the secret in a file, which nodes and their users share; empty without a file.

    Raises HarnessError where it cannot be read.
    """
    try:
        return Path(path).expanduser().read_text(encoding="utf-8").strip() if path else ""
    except (OSError, ValueError) as error:
        text = f"the token cannot be read: {error}"
        raise HarnessError(text, "check --sut_token_file") from error


def of_node(address: str, token_file: str) -> tuple[Address, str]:
    """Where a node listens, and the secret of those who may ask it.

    Raises HarnessError where that is no address, or everybody could ask.
    """
    pairs = addresses(address)
    if len(pairs) > 1:
        hint = "give --sut_address=HOST:PORT; start a node of its own for another one"
        raise HarnessError(f"{address} is more than one address", hint)
    token = read_token(token_file)
    if pairs[0][0] not in LOCAL and not token:
        raise HarnessError(
            f"everybody who reaches {address} could use this node",
            "add --sut_token_file=FILE with a secret in it, the same at the LoadGen node",
        )
    return pairs[0], token
