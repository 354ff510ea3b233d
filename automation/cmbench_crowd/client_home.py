"""What the client keeps in the CM home: the key of this device, what its user agreed to, parcels.

``HOME/cmbench/crowd``: ``key.pem`` (mode 0600), ``consent.json``; in ``outbox`` the bundle of every
result, with a file per server that has received it; in ``leases`` the work that was leased.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cmbench.errors import Error
from cmbench.lib.files import file_error
from cmbench.lib.text_files import read_or_empty
from cmbench_crowd import manifest as m
from common.problems import Hint

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


class ClientHome:
    """The folder of the crowd in a CM home; ``root`` is the folder of cmbench in it."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(root) / "crowd"
        self.outbox = self.root / "outbox"

    def key(self) -> Ed25519PrivateKey:
        """Return the key of this device, made on its first use.

        Raises ``broken-key``, ``extra-missing``, ``not-writable``, ``no-space``.
        """
        needs_cryptography()
        from cryptography.hazmat.primitives import serialization as s
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        path = self.root / "key.pem"
        if not path.exists():
            made = Ed25519PrivateKey.generate()
            text = made.private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8, s.NoEncryption())
            publish(path, text, replace=False)
        try:
            if path.stat().st_mode & 0o077:
                # A home that was copied, or unpacked: others could sign with it.
                with suppress(OSError):
                    path.chmod(0o600)
            key = s.load_pem_private_key(path.read_bytes(), None)
        except OSError as problem:
            raise file_error(problem, path) from None
        except (ValueError, TypeError):
            key = None
        if not isinstance(key, Ed25519PrivateKey):
            raise Error(
                "broken-key",
                f"{path} is not an Ed25519 key",
                hint="move it away; a new key is made, and earlier results stay with the old one",
            )
        return key

    def consent(self) -> int:
        """Return the level that the user has agreed to; 0 without an answer."""
        level = self._json(self.root / "consent.json").get("level")
        return level if type(level) is int and m.METRICS <= level <= m.LOGS else 0

    def agree(self, level: int) -> None:
        """Keep the level that the user agrees to; 0 takes all of it back."""
        publish(self.root / "consent.json", json.dumps({"level": level}).encode())

    def lease(self, unit: str) -> dict[str, Any]:
        """Return what was leased under an id; empty where nothing was."""
        return self._json(self.root / "leases" / f"{unit}.json")

    def keep_lease(self, unit: str, fields: Mapping[str, Any]) -> None:
        """Keep what was leased."""
        publish(self.root / "leases" / f"{unit}.json", json.dumps(fields).encode())

    def sent(self, bundle: Path, server: str) -> dict[str, Any]:
        """Return a bundle's state at a server: ``id``, ``delete_token``, ``done``, or empty."""
        return self._json(self.state(bundle, server))

    def note(self, bundle: Path, server: str, state: Mapping[str, Any]) -> None:
        """Store the state of a bundle at a server."""
        text = json.dumps({"server": server, **state}, indent=1).encode()
        publish(self.state(bundle, server), text)

    def forget(self, path: Path) -> None:
        """Remove a state that ``states`` has named; with the last one of a bundle goes the bundle.

        Sent again it is a new one: a server takes no id twice that was withdrawn.
        """
        path.unlink(missing_ok=True)
        stem = path.name.partition(".")[0]
        if not any(self.outbox.glob(f"{stem}.*.json")):
            (self.outbox / f"{stem}.zip").unlink(missing_ok=True)

    def states(self) -> Iterator[tuple[Path, dict[str, Any]]]:
        """Yield the states of all results that a server has received, with their files."""
        for path in sorted(self.outbox.glob("*.json")):
            if state := self._json(path):
                yield path, state

    def state(self, bundle: Path, server: str) -> Path:
        """Return the file that says what a server has got of a bundle."""
        return self.outbox / f"{bundle.stem}.{m.digest(server.encode())[:12]}.json"

    @staticmethod
    def _json(path: Path) -> dict[str, Any]:
        try:
            fields = json.loads(read_or_empty(path) or "{}")
        except ValueError:
            return {}
        return fields if isinstance(fields, dict) else {}


def publish(path: Path, data: bytes, replace: bool = True) -> None:
    """Write a file that its owner alone can read, whole or not at all; survives a power cut.

    Without ``replace`` an existing file stays, whoever made it. Raises ``no-space`` and
    ``not-writable``.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        _place(draft, path, replace)
    except OSError as problem:
        raise file_error(problem, path) from None
    finally:
        # On a disk that only reads this fails too, and would hide why.
        with suppress(OSError):
            draft.unlink(missing_ok=True)


def _place(draft: Path, path: Path, replace: bool) -> None:
    if replace:
        os.replace(draft, path)
        return
    try:
        os.link(draft, path)
    except FileExistsError:
        return
    except OSError:
        # File systems without hard links: two at the same moment could make two.
        if not path.exists():
            os.replace(draft, path)


def needs_cryptography() -> None:
    """Raise ``extra-missing`` where the package that signs is not there."""
    try:
        import cryptography  # noqa: F401
    except ImportError:
        from cmbench.lib.installation import install_command

        raise Error(
            "extra-missing",
            "results are signed by the package cryptography, which is not installed",
            hint=Hint.of_command(install_command("crowd")),
        ) from None
