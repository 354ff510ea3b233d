"""What one step of a plan takes: downloads, disk, privileges, licences, time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Download:
    """One thing from the network; ``size`` in bytes, 0 and empty texts if unknown.

    ``about`` marks a size that is not exact.
    """

    what: str
    host: str = ""
    size: int = 0
    checksum: str = ""
    about: bool = False


@dataclass(frozen=True, slots=True)
class StepNeeds:
    """What one step takes. ``disk`` is in bytes (-1 unknown), ``seconds`` is as of last time.

    ``present`` names the part of this machine that it uses instead of a download.
    """

    downloads: tuple[Download, ...] = ()
    disk: int = -1
    disk_known_from: str = ""
    seconds: float = -1.0
    privileges: tuple[str, ...] = ()
    licences: tuple[str, ...] = ()
    present: str = ""


NOTHING = StepNeeds(disk=0, seconds=0.0)
"""The needs of a step that is not going to work: cached, or made by an earlier step."""
UNKNOWN = StepNeeds()
"""The needs of a step of which only a run can tell which one it is."""
