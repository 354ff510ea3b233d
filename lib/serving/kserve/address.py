"""Where a server is: HOST:PORT, or a URL with its scheme."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from serving.http_client import authority

from .errors import KserveError

PORTS = {"http": 8000, "grpc": 8001}
_TLS = {"http": False, "https": True, "grpc": False, "grpcs": True}
"""Schemes, and whether they ask for TLS; http and https do so for gRPC too, as others write it."""


@dataclass(frozen=True, slots=True)
class Address:
    """A host, a port, whether to use TLS, and the path prefix before /v2."""

    host: str
    port: int
    tls: bool = False
    path: str = ""

    def __str__(self) -> str:
        return authority(self.host, self.port)

    @property
    def local(self) -> bool:
        """Return whether the name says that the server is on this machine."""
        return self.host == "localhost" or self.host.startswith("127.") or self.host == "::1"


def read_address(url: str, protocol: str) -> Address:
    """Read ``url`` for ``protocol`` (http or grpc); raises KserveError (``input``).

    ``localhost``, ``host:8000``, ``[::1]:8000``, ``https://host/prefix``.
    """
    scheme, mark, rest = url.strip().partition("://")
    if not mark:
        scheme, rest = protocol, url.strip()
    scheme = scheme.lower()
    if scheme not in _TLS or (protocol == "http" and scheme.startswith("grpc")):
        hint = "say --protocol=grpc" if scheme in _TLS else f"schemes are {', '.join(_TLS)}"
        raise KserveError("input", f'"{url}" is not an address for {protocol}', hint=hint)
    try:
        parts = urlsplit(f"//{rest}")
        host, port = parts.hostname, parts.port
    except ValueError as error:
        hint = "an address of IPv6 stands in brackets: [::1]:8000" if rest.count(":") > 1 else ""
        raise KserveError("input", f'"{url}": {error}', hint=hint) from error
    if not host or parts.query or parts.fragment or re.search(r"[^!-~]", rest):
        raise KserveError("input", f'"{url}" is not HOST:PORT')
    if parts.username is not None:
        raise KserveError(
            "input", "a name and a password in an address are not sent", hint="give a header"
        )
    default = 443 if _TLS[scheme] else PORTS[protocol]
    return Address(host, port or default, _TLS[scheme], parts.path.rstrip("/"))
