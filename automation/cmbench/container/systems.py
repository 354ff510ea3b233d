"""Operating systems of images: their default base image, package manager and packages."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from cmbench.errors import Error, did_you_mean

DEFAULT_OS = "debian"


@dataclass(frozen=True, slots=True)
class BaseSystem:
    """One operating system; ``old`` versions have no Python that runs cmbench (3.10)."""

    image: str
    version: str
    manager: str
    old: tuple[str, ...] = ()


SYSTEMS: Mapping[str, BaseSystem] = {
    "debian": BaseSystem("docker.io/library/debian:{}-slim", "12", "apt", ("9", "10", "11")),
    "ubuntu": BaseSystem("docker.io/library/ubuntu:{}", "24.04", "apt", ("18.04", "20.04")),
    "fedora": BaseSystem("docker.io/library/fedora:{}", "41", "dnf"),
    "rockylinux": BaseSystem("docker.io/rockylinux/rockylinux:{}", "10", "dnf", ("8", "9")),
    "almalinux": BaseSystem("docker.io/library/almalinux:{}", "10", "dnf", ("8", "9")),
    "rhel": BaseSystem("registry.access.redhat.com/ubi{}/ubi", "10", "dnf", ("8", "9")),
    "alpine": BaseSystem("docker.io/library/alpine:{}", "3.21", "apk"),
    "arch": BaseSystem("docker.io/library/archlinux:{}", "base", "pacman"),
    "opensuse": BaseSystem("registry.opensuse.org/opensuse/leap:{}", "15.6", "zypper"),
}

_REFERENCE = re.compile(
    r"[A-Za-z0-9][\w.-]*(:\d+)?(/[\w.-]+)*(:[\w][\w.-]*)?(@[\w.+-]+:[0-9a-f]+)?"
)


def base_image(image: str, system: str, version: str) -> tuple[str, str]:
    """Return the base image and its package manager (empty where the image's name is no clue).

    ``image`` wins over ``system`` and ``version``, which wins over Debian.
    Raises ``bad-value`` for a system or version that is not known, or no name of an image.
    """
    name = system.lower()
    if name and name not in SYSTEMS:
        raise Error(
            "bad-value",
            f"--docker_os={system} is not known",
            hint=did_you_mean(name, SYSTEMS) or "name the image: --docker_base_image=IMAGE",
            context=("known: " + ", ".join(SYSTEMS),),
        )
    if image:
        return _checked(image), SYSTEMS[name].manager if name else _manager_of(image)
    known = SYSTEMS[name or DEFAULT_OS]
    if version in known.old:
        raise Error(
            "bad-value",
            f"{name or DEFAULT_OS} {version} has no Python 3.10 or newer",
            hint=f"use a newer one, such as --docker_os_version={known.version}, or an image "
            "that has one: --docker_base_image=IMAGE",
        )
    return _checked(known.image.format(version or known.version)), known.manager


def _checked(image: str) -> str:
    if not _REFERENCE.fullmatch(image):
        raise Error(
            "bad-value",
            f"--docker_base_image={image!r} is not a valid image name",
            hint="write it like docker.io/library/ubuntu:24.04 or NAME@sha256:DIGEST",
        )
    return image


def _manager_of(image: str) -> str:
    last = image.partition("@")[0].lower()
    managers = [known.manager for name, known in SYSTEMS.items() if name in last]
    return managers[0] if len(set(managers)) == 1 else ""


@cache
def _table() -> Mapping[str, Any]:
    import yaml

    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "packages.yaml")
    with open(path, encoding="utf-8") as stream:
        table: Mapping[str, Any] = yaml.safe_load(stream)
    return table


def tools_of(alias: str) -> tuple[str, ...]:
    """The programs that the script ``alias`` is known to need of the operating system."""
    return tuple(_table()["scripts"].get(alias, ()))


def packages(manager: str, tools: Iterable[str]) -> tuple[str, ...]:
    """Names of the packages with ``tools`` and of those that every image needs, sorted.

    A tool that the table does not know is taken for the name of a package.
    Raises ``bad-value`` for an invalid package name.
    """
    table = _table()
    names = set(table["base"][manager])
    for tool in tools:
        names.update(table["tools"].get(tool, {}).get(manager, [tool]))
    for name in names:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9+._:/=~-]*", name):
            raise Error("bad-value", f"{name!r} is not a valid package name")
    return tuple(sorted(names))


MANAGERS: Mapping[str, tuple[str, ...]] = {
    "apt": (
        "export DEBIAN_FRONTEND=noninteractive",
        "apt-get update",
        "apt-get install -y --no-install-recommends {}",
        "rm -rf /var/lib/apt/lists/*",
    ),
    "dnf": ("dnf install -y {}", "dnf clean all"),
    "apk": ("apk add --no-cache {}",),
    "pacman": ("pacman -Sy --noconfirm --needed {}",),
    "zypper": ("zypper --non-interactive install {}", "zypper clean --all"),
}
"""The commands of a build that install packages, by package manager."""

PROGRAMS = {"apt": "apt-get", **{name: name for name in ("dnf", "apk", "pacman", "zypper")}}
