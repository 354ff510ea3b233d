"""Power measurements: which files a measured run must have."""

from __future__ import annotations

from collections.abc import Iterator

from ..build import LOGS
from .base import CHECKER, Finding, Rule, Site, extra, missing

FILES = Rule("power.files", "the files of a power measurement and no others", CHECKER)

FOLDERS = {
    "performance/power": ("client.json", "client.log", "ptd_logs.txt", "server.json", "server.log"),
    "performance/ranging": (*LOGS, "spl.txt"),
}


def measurements(site: Site) -> Iterator[Finding]:
    """Scenarios with a folder of power logs; an empty folder counts as a measurement too."""
    for cell in site.cells:
        if not (cell.results / "performance/power").exists():
            continue
        for name, wanted in FOLDERS.items():
            folder = cell.results / name
            for lost in missing(folder, wanted):
                yield FILES.broken(site.where(folder / lost), "missing or empty", "measure again")
            for more in extra(folder, wanted):
                where = site.where(folder / more)
                yield FILES.broken(where, "a file that does not belong here", f"rm {where}")
