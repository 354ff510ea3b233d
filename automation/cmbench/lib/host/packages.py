"""Package managers of operating systems, and the one command with which they install."""

from __future__ import annotations

from collections.abc import Iterable

from cmbench.values import immutable


@immutable(frozen=True, slots=True, eq=True, repr=True)
class PackageManager:
    """Commands of one package manager; ``needs_root`` is false for those of a user."""

    install: str
    update: str
    needs_root: bool = True


MANAGERS = {
    "apt": PackageManager("DEBIAN_FRONTEND=noninteractive apt-get install -y", "apt-get update"),
    "dnf": PackageManager("dnf install -y", "dnf makecache -y"),
    "yum": PackageManager("yum install -y", "yum makecache -y"),
    "pacman": PackageManager("pacman -S --noconfirm --needed", "pacman -Sy"),
    "zypper": PackageManager("zypper --non-interactive install", "zypper refresh"),
    "apk": PackageManager("apk add", "apk update"),
    "brew": PackageManager("brew install", "brew update", needs_root=False),
}


def install_command(manager: str, packages: Iterable[str], *, as_root: bool = False) -> str:
    """One shell command that installs ``packages``; empty for an unknown package manager.

    It uses ``sudo`` where root is needed, unless the caller is root already (``as_root``).
    """
    import shlex

    known = MANAGERS.get(manager)
    wanted = shlex.join(dict.fromkeys(packages))
    if known is None or not wanted:
        return ""
    sudo = "" if as_root or not known.needs_root else "sudo "
    # Without a terminal apt asks nothing anyway, and a person who runs the command may be asked.
    install = known.install.removeprefix("DEBIAN_FRONTEND=noninteractive ")
    return f"{sudo}{known.update} && {sudo}{install} {wanted}"
