"""Whether a large model fits, checked in numbers before anything is fetched or computed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from typing import Any

from cmbench.errors import Error
from cmbench.lib.host import machine
from cmbench.lib.text_files import size_text
from cmbench.lib.yes_no import is_no

SWITCH = "CM_CHECK_ROOM"


def check_memory(env: Mapping[str, Any], what: str, needed: int, hint: str) -> None:
    """Raise Error unless this machine, or the limit of this session, has ``needed`` bytes at all.

    What other programs use at the moment is not asked; the check can be switched off in ``env``.
    """
    facts = machine.memory_facts()
    have = min((size for size in (facts.total, facts.limit) if size), default=0)
    if not have or have >= needed or not _is_checked(env):
        return
    raise Error(
        "too-little-memory",
        f"{what} needs about {_about(needed)} of memory, this machine has {_about(have)}",
        hint=f"{hint}; to try anyway: --env.{SWITCH}=no",
    )


def check_disk(env: Mapping[str, Any], what: str, needed: int, folder: str) -> None:
    """Raise Error unless the disk of ``folder`` has ``needed`` bytes free."""
    free = shutil.disk_usage(folder).free
    if free >= needed or not _is_checked(env):
        return
    raise Error(
        "too-little-disk",
        f"{what} needs about {_about(needed)} on the disk of {folder}, which has "
        f"{_about(free)} free",
        hint="remove entries that are not used any more (`cm rm cache --tags=...`), or put the "
        f"cache on another disk with CM_REPOS; to try anyway: --env.{SWITCH}=no",
    )


def _is_checked(env: Mapping[str, Any]) -> bool:
    return not is_no(env.get(SWITCH))


def _about(count: int) -> str:
    """Bytes in words, whole gigabytes from ten on."""
    return f"{count / 1e9:.0f} GB" if count >= 10e9 else size_text(count)


def size_of_files(folder: str) -> int:
    """Bytes of the files directly in ``folder``."""
    with os.scandir(folder) as entries:
        return sum(entry.stat().st_size for entry in entries if entry.is_file())
