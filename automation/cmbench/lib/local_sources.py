"""Folders of this machine that a run takes packages and files from, instead of the network.

What ``cm prepare`` has made is listed in the folder with checksums, as ``sha256sum`` writes them.
"""

from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path

from cmbench.errors import Error
from cmbench.lib.files import file_checksum, verify_listed
from cmbench.lib.named_paths import EITHER, FOLDER, require_place

WHEELS, FILES, LISTING = "wheels", "files", "SHA256SUMS"


def require_sources(prepared: str, package_files: str) -> None:
    """Check what ``--prepared`` and ``--find_links`` name, before anything is begun.

    Raises ``file-not-found`` and ``file-error`` for what is not there or cannot be read,
    ``bad-value`` for what is no such folder.
    """
    if prepared:
        _require_prepared(prepared)
        if package_files != os.path.join(prepared, WHEELS):
            raise Error(
                "bad-value",
                "--prepared and --find_links both name wheels",
                hint=f"copy those of {package_files} to {prepared}/{WHEELS}, without --find_links",
            )
    elif package_files and "://" not in package_files:
        require_place(package_files, "find_links", EITHER)


def _require_prepared(folder: str) -> None:
    require_place(folder, "prepared", FOLDER)
    if any(os.path.exists(os.path.join(folder, name)) for name in (WHEELS, FILES, LISTING)):
        return
    hint = "name the folder that `cm prepare script … --output=DIR` has made"
    if any(name.endswith(".whl") for name in os.listdir(folder)):
        hint += f"; a folder of wheels alone is --find_links={shlex.quote(folder)}"
    raise Error("bad-value", f"--prepared={folder} has neither {WHEELS} nor {FILES}", hint=hint)


def write_listing(folder: str) -> None:
    """List all wheels and files of a prepared ``folder`` with their checksums."""
    root = Path(folder)
    paths = [path for name in (WHEELS, FILES) for path in sorted((root / name).glob("*"))]
    lines = [
        f"{file_checksum(path, 'sha256')}  {path.relative_to(root)}\n"
        for path in paths
        if path.is_file()
    ]
    root.mkdir(parents=True, exist_ok=True)
    (root / LISTING).write_text("".join(lines), encoding="utf-8")


def adopt(folder: str, ahead: str) -> None:
    """Put the files of a prepared ``folder`` where the steps of a run look for theirs.

    Raises ``checksum-mismatch`` where a file or a wheel is not as it was made.
    """
    _verify(Path(folder))
    files = os.path.join(folder, FILES)
    for name in os.listdir(files) if os.path.isdir(files) else ():
        source, destination = os.path.join(files, name), os.path.join(ahead, name)
        if not os.path.exists(destination) and os.path.isfile(source):
            os.makedirs(ahead, exist_ok=True)
            # A step moves its file away from there: the folder keeps its own copy.
            part = f"{destination}.{os.getpid()}.part"
            shutil.copyfile(source, part)
            os.replace(part, destination)


def _verify(folder: Path) -> None:
    """Compare a prepared folder with its list, where it has one that is not empty."""
    listing = folder / LISTING
    if not listing.is_file() or not listing.stat().st_size:
        return
    try:
        verify_listed(folder, listing)
    except Error as error:
        if error.code != "checksum-mismatch":
            raise
        hint = (
            f"copy the folder again, or make it again: `cm prepare script … --output={folder}`\n"
            f"where you have changed it yourself: `rm {shlex.quote(str(listing))}`"
        )
        text = f"--prepared={folder} is not as it was made"
        raise Error(error.code, text, hint=hint, context=error.context) from None
