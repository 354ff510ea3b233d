"""One exception of this package, with a kind that failures are counted by."""

from __future__ import annotations

from typing import Literal

from common.problems import Problem

Kind = Literal[
    "refused", "reset", "timeout", "tls", "status", "protocol", "memory", "input", "package"
]


class KserveError(Problem):
    """What went wrong between this process and a server.

    ``kind`` is ``refused`` (nobody listens, or the name leads nowhere), ``reset`` (the connection
    ended in the middle), ``timeout``, ``tls`` (no connection over TLS, or no trust in it),
    ``status`` (the server answered with an error, its number in ``status``), ``protocol`` (an
    answer that breaks the protocol or contradicts itself), ``memory`` (no room in /dev/shm),
    ``input`` (the caller gave what cannot be sent) or ``package`` (a Python package is missing).
    ``hint`` is what to do next, where that is known.
    """

    def __init__(self, kind: Kind, message: str, *, status: int = 0, hint: str = "") -> None:
        super().__init__("server-failed", message, hint)
        self.kind: Kind = kind
        self.status = status
