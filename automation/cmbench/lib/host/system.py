"""Which operating system this is. Almost every command asks: nothing here takes time to load."""

from __future__ import annotations

import os
import struct
from contextlib import suppress

from cmbench.lib.text_files import read_or_empty
from cmbench.values import immutable

_PACKAGE_MANAGERS = {
    "debian": "apt",
    "ubuntu": "apt",
    "fedora": "dnf",
    "rhel": "dnf",
    "centos": "dnf",
    "amzn": "yum",
    "arch": "pacman",
    "suse": "zypper",
    "sles": "zypper",
    "opensuse": "zypper",
    "alpine": "apk",
    "macos": "brew",
}
_LIBRARY_FOLDERS = ("usr/local/lib", "lib", "usr/lib", "lib64", "usr/lib64")


@immutable(frozen=True, slots=True, eq=True, repr=True)
class OsFacts:
    """The operating system. ``kind`` is ``linux`` or ``darwin``, ``flavor`` the distribution."""

    kind: str
    flavor: str
    flavor_like: str
    version: str
    kernel: str
    machine: str
    bits: int
    python_bits: int
    glibc: str
    node: str
    uname: str
    package_manager: str
    library_folders: tuple[str, ...]
    in_container: bool


def os_facts(root: str | os.PathLike[str] = "/", uname: os.uname_result | None = None) -> OsFacts:
    """The operating system of the tree ``root``."""
    root = os.fspath(root)
    uname = uname or os.uname()
    release = _os_release(root) if uname.sysname == "Linux" else _macos_release()
    flavor = release.get("ID", "").lower()
    like = release.get("ID_LIKE", "").lower()
    machine = uname.machine
    return OsFacts(
        kind=uname.sysname.lower(),
        flavor=flavor,
        flavor_like=like,
        version=release.get("VERSION_ID", "").lower(),
        kernel=uname.release,
        machine=machine,
        bits=64 if machine.endswith("64") or machine in ("s390x", "ppc64le") else 32,
        python_bits=struct.calcsize("P") * 8,
        glibc=_glibc(),
        node=uname.nodename,
        uname=" ".join(uname),
        package_manager=_package_manager(flavor, like),
        library_folders=_library_folders(root, machine) if uname.sysname == "Linux" else (),
        in_container=any(
            os.path.exists(os.path.join(root, mark)) for mark in (".dockerenv", "run/.containerenv")
        ),
    )


def _os_release(root: str) -> dict[str, str]:
    text = _read(root, "etc/os-release") or read_or_empty(os.path.join(root, "usr/lib/os-release"))
    pairs = (line.split("=", 1) for line in text.splitlines() if "=" in line)
    return {key.strip(): value.strip().strip("\"'") for key, value in pairs}


def _macos_release() -> dict[str, str]:
    import platform

    version = platform.mac_ver()[0]
    return {"ID": "macos", "VERSION_ID": version} if version else {}


def _package_manager(flavor: str, like: str) -> str:
    for name in (flavor, *like.split()):
        if name in _PACKAGE_MANAGERS:
            return _PACKAGE_MANAGERS[name]
        if name.startswith("opensuse"):
            return "zypper"
    return ""


def _glibc() -> str:
    # musl knows no such name, macOS has no confstr value for it.
    with suppress(ValueError, OSError, AttributeError):
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").removeprefix("glibc").strip()
    return ""


def _library_folders(root: str, machine: str) -> tuple[str, ...]:
    triplet = f"{machine}-linux-gnu"
    wanted = [f"{folder}/{triplet}" for folder in _LIBRARY_FOLDERS[:3]]
    wanted += [folder.lstrip("/") for folder in _configured_folders(root)]
    wanted += _LIBRARY_FOLDERS
    return tuple("/" + folder for folder in dict.fromkeys(wanted) if _is_folder(root, folder))


def _is_folder(root: str, folder: str) -> bool:
    return os.path.isdir(os.path.join(root, folder))


def _configured_folders(root: str) -> list[str]:
    folder = "etc/ld.so.conf.d"
    try:
        names = sorted(n for n in os.listdir(os.path.join(root, folder)) if n.endswith(".conf"))
    except OSError:
        names = []
    texts = [
        _read(root, "etc/ld.so.conf"),
        *(_read(root, f"{folder}/{name}") for name in names),
    ]
    lines = (line.strip() for text in texts for line in text.splitlines())
    return [line for line in lines if line.startswith("/")]


def _read(root: str, name: str) -> str:
    return read_or_empty(os.path.join(root, name))
