"""What every page knows: the CM home it is for, the secrets of the server, what it is called."""

from __future__ import annotations

import hashlib
import hmac
import os
from dataclasses import dataclass, field
from pathlib import Path

from starlette.requests import Request

from cmbench.session.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Site:
    """One server: the address and port that it listens on, its CM home and its secrets.

    ``home`` is the CM home, ``key`` its secret of 32 bytes, ``folder`` the directory in which
    commands run, ``db`` a shared database of results in place of the home's own. Without
    ``may_run`` it only composes and shows. ``templates`` are folders of pages besides its own.
    """

    home: str
    key: bytes
    repositories: tuple[str, ...] = ()
    title: str = "cmbench"
    address: str = "127.0.0.1"
    port: int = 8501
    folder: str = field(default_factory=os.getcwd)
    db: str = ""
    may_run: bool = True
    templates: tuple[Path, ...] = ()

    @property
    def cookie(self) -> str:
        """Return the name of its cookie; browsers keep those of all ports of a host together."""
        return f"cmbench-{self.port}"

    @property
    def cookie_value(self) -> str:
        """Return the value of the cookie of a signed-in browser."""
        return self._derived(b"session")

    @property
    def token(self) -> str:
        """Return the token that a writing request must carry."""
        return self._derived(b"write")

    def workspace(self) -> Workspace:
        """The CM home as it is now: scripts may have come since the last page."""
        return Workspace.open(self.home, self.repositories)

    def _derived(self, use: bytes) -> str:
        return hmac.new(self.key, use, hashlib.sha256).hexdigest()


def site_of(request: Request) -> Site:
    """The site that a request is for."""
    site: Site = request.app.state.site
    return site


def kept_key(home: str) -> bytes:
    """Return the secret of a CM home, made on first use and readable by its owner alone.

    It is stored, so that links stay valid after a restart; a damaged one is replaced.
    Raises OSError where it cannot be.
    """
    folder = os.path.join(home, "cmbench", "gui")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    path = os.path.join(folder, "key")
    draft = f"{path}.{os.getpid()}"
    if not os.path.isfile(path):
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
            stream.write(os.urandom(32))
        try:
            # Of two servers that start at once the first one's stays.
            os.link(draft, path)
        except FileExistsError:
            pass
        finally:
            os.unlink(draft)
    with open(path, "rb") as stream:
        key = stream.read()
    if len(key) != 32:
        os.unlink(path)
        return kept_key(home)
    return key
