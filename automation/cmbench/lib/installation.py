"""How cmbench came to this Python, and so how more of it is installed."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname


def install_command(extra: str) -> str:
    """Return the command that installs an extra of cmbench into the Python in use.

    It names the source of this installation: a checkout, a repository or an archive that pip has
    recorded, or else the package index.
    """
    checkout = Path(__file__).resolve().parents[3]
    if (checkout / "automation" / "cmbench").is_dir():
        words = ["--editable", f"{checkout}[{extra}]"]
    else:
        words = [_requirement(extra, _origin())]
    return shlex.join([sys.executable, "-m", "pip", "install", *words])


def installed_version() -> str:
    """Return the version of cmbench with the revision, or the source, that it is of."""
    from cmbench import __version__

    checkout = Path(__file__).resolve().parents[3]
    if (checkout / "automation" / "cmbench").is_dir():
        return f"{__version__}, revision {_revision(checkout)}, in {checkout}"
    origin = _origin()
    url = str(origin.get("url", ""))
    if "vcs_info" in origin:
        return f"{__version__}, revision {origin['vcs_info']['commit_id'][:12]}, from {url}"
    return f"{__version__}, from {url}" if url else __version__


def _revision(checkout: Path) -> str:
    """Return what ``git describe`` says of a checkout, ``unknown`` where git says nothing."""
    command = ["git", "-C", str(checkout), "describe", "--tags", "--always", "--dirty"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return done.stdout.strip() or "unknown"


def _origin() -> Mapping[str, Any]:
    """Return pip's record of a source other than an index (PEP 610), or nothing."""
    try:
        text = metadata.distribution("cmbench").read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        return {}
    origin: Mapping[str, Any] = json.loads(text or "{}")
    return origin


def _requirement(extra: str, origin: Mapping[str, Any]) -> str:
    url = str(origin.get("url", ""))
    name = f"cmbench[{extra}]"
    if "vcs_info" in origin:
        version = origin["vcs_info"]
        return f"{name} @ {version['vcs']}+{url}@{version['commit_id']}"
    if "dir_info" in origin:
        return f"{url2pathname(urlsplit(url).path)}[{extra}]"
    return f"{name} @ {url}" if url else name
