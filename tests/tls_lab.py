"""TLS in front of a server on loopback, by a certificate authority of the test's own."""

from __future__ import annotations

import asyncio
import ipaddress
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import serialization as s
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from support import HANG_S


@dataclass(frozen=True)
class Authority:
    """``ca`` is what to trust; ``chain`` and ``key`` are those of a server called localhost."""

    ca: Path
    chain: Path
    key: Path


def authority(folder: Path) -> Authority:
    """A new authority, and a certificate of it for localhost and 127.0.0.1."""
    ca_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    ca = _signed("Authority of a test", ca_key.public_key(), "Authority of a test", ca_key)
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    own = _signed("localhost", key.public_key(), "Authority of a test", ca_key, names)
    found = Authority(folder / "ca.pem", folder / "server.pem", folder / "server.key")
    found.ca.write_bytes(ca.public_bytes(s.Encoding.PEM))
    found.chain.write_bytes(own.public_bytes(s.Encoding.PEM))
    text = key.private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8, s.NoEncryption())
    found.key.write_bytes(text)
    return found


def _signed(name: str, key: Any, issuer: str, by: Any, names: Any = ()) -> x509.Certificate:
    now = datetime.now(timezone.utc)
    made = x509.CertificateBuilder(
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]),
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]),
        key,
        x509.random_serial_number(),
        now - timedelta(days=1),
        now + timedelta(days=1),
    ).add_extension(x509.BasicConstraints(ca=not names, path_length=None), critical=True)
    if names:
        made = made.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return made.sign(by, hashes.SHA256())


@contextmanager
def relay(port: int, known: Authority) -> Iterator[int]:
    """The port of a server that hands on to ``port`` what comes over TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(known.chain, known.key)
    context.set_alpn_protocols(["h2", "http/1.1"])

    async def handed_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(_pump(reader, inner[1]), _pump(inner[0], writer))

    loop = asyncio.new_event_loop()
    # A client that does not trust us hangs up.
    loop.set_exception_handler(lambda *_: None)
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    begun = asyncio.start_server(handed_on, "127.0.0.1", 0, ssl=context)
    server = asyncio.run_coroutine_threadsafe(begun, loop).result(HANG_S)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        loop.call_soon_threadsafe(server.close)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(HANG_S)


async def _pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await source.read(1 << 16):
            target.write(data)
            await target.drain()
    target.close()
