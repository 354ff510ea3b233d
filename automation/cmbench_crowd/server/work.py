"""The list of work: configurations with few results, which a machine may lease one at a time.

A lease has a deadline and a seed of its own; its id is what the manifest names as ``work_unit``.
Asking again for leased work gives the same lease, so that a client goes on after a crash.
"""

from __future__ import annotations

import secrets
import time
import uuid
from collections.abc import Mapping
from typing import Any

from cmbench.errors import Error
from cmbench_crowd import manifest as m
from cmbench_crowd.server.ledger import COUNTED, PROVEN, Ledger, Row
from cmbench_results.schema import crowd_lease, crowd_run, crowd_work
from cmbench_results.sql import sa
from cmbench_results.values import digest

LEASED, DONE, RETURNED = "leased", "done", "returned"
DAY_S = 86_400.0
MOST_LEASES = 3
"""Work that one key has leased at a time."""
TWICE = 2
"""Hosts that a configuration needs before nobody is asked for more."""
_FIELDS = ("benchmark", "scenario", "model", "round", "division", "precision", "mode")


def spec_of(told: m.Manifest) -> dict[str, Any]:
    """What a run has measured, for others to measure it too."""
    spec: dict[str, Any] = {name: getattr(told.workload, name) for name in _FIELDS}
    spec |= {"backend": told.config.backend, "style": told.config.style}
    system = told.system
    spec["hardware"] = f"{system.accelerators} x {system.accelerator}" * bool(system.accelerator)
    spec["hardware"] = spec["hardware"] or f"{system.cpu}, {system.cores} cores"
    return {name: value for name, value in spec.items() if value}


def want(
    ledger: Ledger, spec: Mapping[str, Any], hosts: int = TWICE, of: tuple[str, ...] = ()
) -> str:
    """Put work on the list; ``of`` is the class of hardware and work. Returns its id."""
    work = digest([*of] or [sorted(spec.items())])[:32]
    row = {"id": work, "at": time.time(), "spec": {**spec, "class": list(of)}, "wanted": hosts}
    with ledger.store.writing() as connection:
        known = sa.select(crowd_work.c.id).where(crowd_work.c.id == work)
        if connection.execute(known).first() is None:
            connection.execute(crowd_work.insert(), row)
    return work


def open_work(ledger: Ledger) -> list[dict[str, Any]]:
    """What still needs hosts, the least confirmed first."""
    with ledger.store.reading() as connection:
        rows = list(connection.execute(sa.select(crowd_work)).mappings())
        found = [_stand(connection, row) for row in rows]
    wanted = [each for each in found if each["confirmed"] < each["wanted"]]
    return sorted(wanted, key=lambda each: (each["confirmed"], each["leased"], each["id"]))


def _stand(connection: sa.Connection, row: Row) -> dict[str, Any]:
    spec = dict(row["spec"])
    of = spec.pop("class", [])
    senders = _senders(connection, row["id"], of)
    leased = sa.select(sa.func.count()).select_from(crowd_lease).where(*_open(row["id"]))
    return {
        "id": row["id"],
        "spec": spec,
        "wanted": row["wanted"],
        "confirmed": len(senders),
        "leased": int(connection.execute(leased).scalar() or 0),
    }


def _senders(connection: sa.Connection, work: str, of: list[str]) -> set[str]:
    """Contributors with a proven result of this work."""
    proven = (crowd_run.c.tier.in_(PROVEN), crowd_run.c.state.in_(COUNTED))
    leases = sa.select(crowd_lease.c.id).where(crowd_lease.c.work_id == work)
    same = crowd_run.c.lease.in_(leases)
    if of:
        same = same | ((crowd_run.c.hardware == of[0]) & (crowd_run.c.work == of[1]))
    chosen = sa.select(crowd_run.c.sender).where(*proven, same).distinct()
    return set(connection.execute(chosen).scalars())


def _open(work: str) -> tuple[Any, ...]:
    now = time.time()
    lease = crowd_lease.c
    return (lease.work_id == work, lease.state == LEASED, lease.deadline > now)


def lease(ledger: Ledger, sender: str, work: str = "") -> dict[str, Any]:
    """Lease work to a contributor: the one that is asked for, or what needs hosts most.

    Raises ``no-work``, ``too-many``.
    """
    found = open_work(ledger)
    with ledger.store.writing() as connection:
        mine = _mine(connection, sender)
        for each in found:
            if work in ("", each["id"]) and each["id"] in mine:
                return _told(mine[each["id"]], each)
        free = (e for e in found if work in ("", e["id"]) and _is_free(connection, e, sender))
        chosen = next(free, None)
        if chosen is None:
            raise Error("no-work", "nothing is wanted of this key now", hint="try again tomorrow")
        if len(mine) >= MOST_LEASES:
            raise Error(
                "too-many",
                f"a key leases at most {MOST_LEASES} at a time",
                hint="finish one or give it back",
            )
        row = _new(chosen["id"], sender)
        connection.execute(crowd_lease.insert(), row)
    ledger.tell(sender, "leased", row["id"], chosen["id"])
    return _told(row, chosen)


def _new(work: str, sender: str) -> dict[str, Any]:
    return {
        "id": uuid.uuid4().hex,
        "work_id": work,
        "sender": sender,
        "seed": str(secrets.randbits(63)),
        "deadline": time.time() + DAY_S,
        "state": LEASED,
    }


def _mine(connection: sa.Connection, sender: str) -> dict[str, Row]:
    now, told = time.time(), crowd_lease.c
    own = (told.sender == sender, told.state == LEASED, told.deadline > now)
    rows = connection.execute(sa.select(crowd_lease).where(*own)).mappings()
    return {row["work_id"]: row for row in rows}


def _is_free(connection: sa.Connection, each: Mapping[str, Any], sender: str) -> bool:
    row = connection.execute(sa.select(crowd_work).where(crowd_work.c.id == each["id"])).mappings()
    of = row.one()["spec"].get("class", [])
    enough = each["confirmed"] + each["leased"] >= each["wanted"]
    return not enough and sender not in _senders(connection, each["id"], of)


def _told(row: Row, work: Mapping[str, Any]) -> dict[str, Any]:
    names = ("id", "seed", "deadline")
    return {**{name: row[name] for name in names}, "work": work["id"], "spec": work["spec"]}


def give_back(ledger: Ledger, name: str, sender: str) -> None:
    """Give a lease back, so that somebody else gets the work; raises ``lease-not-found``."""
    told = crowd_lease.c
    with ledger.store.writing() as connection:
        mine = (told.id == name, told.sender == sender, told.state == LEASED)
        changed = connection.execute(crowd_lease.update().where(*mine).values(state=RETURNED))
        if not changed.rowcount:
            raise _no_lease(name)
    ledger.tell(sender, "gave back", name)


def finished(ledger: Ledger, row: Row, told: m.Manifest) -> tuple[bool, str]:
    """Whether a run is what its lease asked for, and why not; the lease ends with it."""
    with ledger.store.writing() as connection:
        chosen = sa.select(crowd_lease, crowd_work.c.spec).join(crowd_work)
        same = (crowd_lease.c.id == row["lease"], crowd_lease.c.sender == row["sender"])
        lease_ = connection.execute(chosen.where(*same)).mappings().first()
        if lease_ is None:
            return False, "its work unit was not leased to this key"
        if lease_["state"] == RETURNED or row["at"] > lease_["deadline"]:
            return False, "its work unit was given back, or its time is over"
        spec = lease_["spec"]
        wrong = [n for n in _FIELDS if spec.get(n) and spec[n] != getattr(told.workload, n)]
        if wrong:
            return False, f"its work unit asks for another {wrong[0]}"
        ended = crowd_lease.update().where(crowd_lease.c.id == lease_["id"])
        connection.execute(ended.values(state=DONE))
    return True, "it is what its work unit asks for, within its time"


def _no_lease(name: str) -> Error:
    return Error("lease-not-found", f"this key has not leased {name:.40}", hint="lease work first")
