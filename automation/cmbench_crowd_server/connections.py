"""Connections that take too long, or are too many of one address, are closed."""

from __future__ import annotations

from asyncio import Transport
from collections import Counter
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER_S = 10.0
"""So long the first line and headers of a request may take."""
STUCK_S = 60.0
"""The time in seconds that an unread answer may block."""
MOST_AT_ONCE, MOST_OF_ONE = 200, 40
"""Connections of all, and of one address; behind a proxy all have its address."""


def impatient(most_of_one: int) -> type[H11Protocol]:
    """Return the protocol of connections, ``most_of_one`` of one address at a time."""

    class CountedConnection(TimedConnection):
        of_one = Counter()
        most = most_of_one

    return CountedConnection


class TimedConnection(H11Protocol):
    """Hangs up when a request's headers take too long, or the answer is not read."""

    of_one: Counter[str]
    most: int

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Take a connection, unless its address has too many."""
        super().connection_made(transport)
        self._peer = str((transport.get_extra_info("peername") or ("",))[0])
        self.of_one[self._peer] += 1
        if self.of_one[self._peer] > self.most:
            transport.abort()
            return
        self._wait()
        self._look(0)

    def connection_lost(self, exc: Exception | None) -> None:
        """Count it no more."""
        super().connection_lost(exc)
        self.of_one[self._peer] -= 1
        if not self.of_one[self._peer]:
            del self.of_one[self._peer]

    def data_received(self, data: bytes) -> None:
        """Take what has come."""
        if self.cycle is None or self.cycle.response_complete:
            self._wait()
        super().data_received(data)

    def _wait(self) -> None:
        before = self.cycle
        self.loop.call_later(HEADER_S, lambda: self._hang_up(before))

    def _hang_up(self, before: Any) -> None:
        if self.cycle is before and not self.transport.is_closing():
            self.transport.close()

    def _look(self, unread: int) -> None:
        left = self.transport.get_write_buffer_size()
        if left and left == unread:
            self.transport.abort()
        elif not self.transport.is_closing():
            self.loop.call_later(STUCK_S, self._look, left)
