"""Checks before the long part: each with an id, what was found, and what to do about it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from nvidia_flow.errors import FlowError

from nvidia_make.flow import Flow
from nvidia_make.work import Work

OK, LOOK, STOP = "ok", "look", "stop"
AUDIT = "audit.config"


@dataclass(frozen=True, slots=True)
class Check:
    """A finding: ``state`` is ok, look (may get in the way) or stop (nothing runs)."""

    id: str
    state: str
    found: str
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.state:5}{self.id}: {self.found}" + (
            f"\n     do: {self.remedy}" if self.remedy else ""
        )


def of_user(flow: Flow) -> Iterator[Check]:
    """Files of root are in the way of everybody else."""
    if os.geteuid() == 0 and not flow.settings.allow_root:
        yield Check(
            "user.root",
            LOOK,
            "these words run as root: what they write, others cannot change",
            "use another user, or make the folder with --allow_root",
        )
    else:
        yield Check("user.root", OK, f"user {os.geteuid()}")


def of_folder(flow: Flow) -> Iterator[Check]:
    """The folder of the flow can be written."""
    if os.access(flow.folder, os.W_OK):
        yield Check("folder.writable", OK, f"{flow.folder} can be written")
    else:
        remedy = f"sudo chown -R {os.geteuid()} {flow.folder}"
        yield Check("folder.writable", STOP, f"{flow.folder} cannot be written", remedy)


def of_audit(flow: Flow) -> Iterator[Check]:
    """A left-over audit.config makes a compliance run of every run."""
    left = [path for path in (flow.folder / AUDIT, Path(AUDIT)) if path.is_file()]
    for path in left[:1]:
        yield Check("audit.left-over", STOP, f"{path} spoils every run", f"rm {path}")
    if not left:
        yield Check("audit.left-over", OK, "no audit.config is left over")


CHECKS: tuple[Callable[[Flow], Iterator[Check]], ...] = (of_user, of_folder, of_audit)


def made(flow: Flow) -> list[Check]:
    """All checks of a folder."""
    return [found for check in CHECKS for found in check(flow)]


def report(flow: Flow) -> None:
    """Show all checks; raises FlowError where one says stop."""
    found = made(flow)
    flow.tell(str(check) for check in found)
    refuse(found)


def before_runs(flow: Flow, work: Work) -> None:
    """The checks that count for runs: what is not ok is shown, and stop stops."""
    del work
    found = made(flow)
    flow.tell(str(check) for check in found if check.state != OK)
    refuse(found)


def refuse(found: list[Check]) -> None:
    """Raise FlowError with every finding that says stop."""
    stops = [check for check in found if check.state == STOP]
    if stops:
        told = "; ".join(f"{check.id}: {check.found}" for check in stops)
        raise FlowError("bad-value", told, "; ".join(check.remedy for check in stops))
