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
from cmbench_crowd_server.ledger import (
    COUNTED,
    DAY_S,
    HOUR_S,
    PROVEN,
    REFUSED,
    REJECTED,
    Ledger,
    Row,
)
from cmbench_results.schema import crowd_lease, crowd_run, crowd_work
from cmbench_results.sql import sa
from cmbench_results.values import REPRODUCED, digest

LEASED, DONE, RETURNED = "leased", "done", "returned"
MOST_LEASES = 3
"""Work that one key has leased at a time."""
TWICE = 2
"""Hosts that a configuration needs before no more are asked for."""
MOST_LISTED = 200
"""The most work that one answer or page lists."""
FULL, SHORT = "valid", "test"
"""Styles of runs that are as long as the rules ask for, and of shorter ones."""
NEW, KNOWN, GOOD = "new", "known", "good"
FEW, OFTEN = 3, 10
"""Proven runs from which on a contributor is known, and reproduced ones for a good standing."""
_FIELDS = ("benchmark", "scenario", "model", "round", "division", "precision", "mode")


def spec_of(manifest: m.Manifest) -> dict[str, Any]:
    """Return what a run has measured, for others to measure it too."""
    spec: dict[str, Any] = {name: getattr(manifest.workload, name) for name in _FIELDS}
    spec |= {"backend": manifest.config.backend, "style": manifest.config.style}
    system = manifest.system
    many = f"{system.accelerators} x " if system.accelerators else ""
    spec["hardware"] = f"{many}{system.accelerator}" * bool(system.accelerator)
    spec["hardware"] = spec["hardware"] or f"{system.cpu}, {system.cores} cores"
    return {name: value for name, value in spec.items() if value}


def want(
    ledger: Ledger, spec: Mapping[str, Any], hosts: int = TWICE, of: tuple[str, ...] = ()
) -> str:
    """Put work on the list; ``of`` is the class of hardware and work. Returns its id."""
    work = digest([*of] or [sorted(spec.items())])[:32]
    row = {"id": work, "at": time.time(), "spec": {**spec, "class": list(of)}, "wanted": hosts}
    with ledger.store.writing() as connection:
        existing = sa.select(crowd_work.c.id).where(crowd_work.c.id == work)
        if connection.execute(existing).first() is None:
            connection.execute(crowd_work.insert(), row)
    return work


def open_work(ledger: Ledger) -> list[dict[str, Any]]:
    """Return what still needs hosts, the least confirmed first."""
    items = _stands(ledger)
    unfinished = [item for item in items if len(item["senders"]) < item["wanted"]]
    unfinished.sort(key=lambda item: (len(item["senders"]), item["leased"], item["id"]))
    return unfinished


def public_work(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return what anybody may know of work that is wanted."""
    names = ("id", "spec", "wanted", "leased")
    return {**{name: item[name] for name in names}, "confirmed": len(item["senders"])}


def _stands(ledger: Ledger) -> list[dict[str, Any]]:
    """Return all work with who has confirmed it, how often it is leased, and how many it needs."""
    with ledger.store.reading() as connection:
        rows = list(connection.execute(sa.select(crowd_work)).mappings())
        confirmed = _confirmed(connection)
        leased = _leased(connection)
        standings = _standings(connection)
    items = []
    for row in rows:
        spec = dict(row["spec"])
        of = tuple(spec.pop("class", ()))
        senders = confirmed.get(of or row["id"], set())
        ranks = {standings.get(sender, NEW) for sender in senders}
        hosts = row["wanted"] + _more(ranks, ledger.is_audited(row["id"]))
        item = {"id": row["id"], "spec": spec, "leased": leased.get(row["id"], 0)}
        items.append({**item, "wanted": max(1, hosts), "senders": senders})
    return items


def _more(ranks: set[str], audited: bool) -> int:
    """Return how many extra hosts work needs, by the standing of those that confirmed it."""
    if (audited and ranks) or ranks == {NEW}:
        return 1
    return -1 if GOOD in ranks else 0


def standing(reproduced: int, proven: int, failed: int) -> str:
    """Return the standing of a contributor: runs that others agree with, less refused ones."""
    if reproduced >= OFTEN and failed * OFTEN <= reproduced:
        return GOOD
    return NEW if proven < FEW or failed >= proven else KNOWN


def _standings(connection: sa.Connection) -> dict[str, str]:
    column = crowd_run.c
    grouped = (column.sender, column.state, column.tier)
    chosen = sa.select(*grouped, sa.func.count()).group_by(*grouped)
    counts: dict[str, list[int]] = {}
    for sender, state, tier, count in connection.execute(chosen):
        totals = counts.setdefault(sender, [0, 0, 0])
        counted = state in COUNTED
        totals[0] += count * (counted and tier == REPRODUCED)
        totals[1] += count * (counted and tier in PROVEN)
        totals[2] += count * (state in (REFUSED, REJECTED))
    return {sender: standing(*totals) for sender, totals in counts.items()}


def _confirmed(connection: sa.Connection) -> dict[Any, set[str]]:
    """Contributors with a proven result, by class of hardware and work, and by work on the list."""
    column = crowd_run.c
    proven = (column.tier.in_(PROVEN), column.state.in_(COUNTED))
    named = (column.sender, column.hardware, column.work, crowd_lease.c.work_id)
    joined = crowd_run.outerjoin(crowd_lease, crowd_lease.c.id == column.lease)
    chosen = sa.select(*named).select_from(joined).where(*proven).distinct()
    senders: dict[Any, set[str]] = {}
    for sender, hardware, of, work in connection.execute(chosen):
        senders.setdefault((hardware, of), set()).add(sender)
        senders.setdefault(work, set()).add(sender)
    return senders


def _leased(connection: sa.Connection) -> dict[str, int]:
    columns = crowd_lease.c
    running = (columns.state == LEASED, columns.deadline > time.time())
    chosen = sa.select(columns.work_id, sa.func.count()).where(*running).group_by(columns.work_id)
    return {work: int(count) for work, count in connection.execute(chosen)}


def lease(ledger: Ledger, sender: str, work: str = "", network: str = "") -> dict[str, Any]:
    """Lease work to a contributor: the requested one, or that which needs hosts most.

    Raises ``no-work``, ``too-many``, ``bad-token`` for a key that was blocked.
    """
    items = open_work(ledger)
    with ledger.store.writing() as connection:
        ledger.admits(connection, sender)
        mine = _mine(connection, sender)
        for item in items:
            if work in ("", item["id"]) and item["id"] in mine:
                return _lease_answer(mine[item["id"]], item)
        free = (e for e in items if work in ("", e["id"]) and _is_free(e, sender))
        chosen = next(free, None)
        if chosen is None:
            raise Error("no-work", "there is no work for this key now", hint="try again tomorrow")
        _bounded(connection, ledger, sender, len(mine))
        ledger.lease_to(network)
        row = _new(chosen["id"], sender)
        connection.execute(crowd_lease.insert(), row)
    ledger.tell(sender, "leased", row["id"], chosen["id"])
    return _lease_answer(row, chosen)


def _bounded(connection: sa.Connection, ledger: Ledger, sender: str, mine: int) -> None:
    """Raise ``too-many`` for a key with too many leases, or too many requests."""
    if mine >= MOST_LEASES:
        words = f"a key leases at most {MOST_LEASES} at a time"
        raise Error("too-many", words, hint="finish one or give it back")
    columns, most = crowd_lease.c, ledger.limits.leases_of_key
    lately = (columns.sender == sender, columns.deadline > time.time() + DAY_S - HOUR_S)
    counted = sa.select(sa.func.count()).select_from(crowd_lease).where(*lately)
    if int(connection.execute(counted).scalar() or 0) >= most:
        # Of many seeds one could choose.
        words = f"at most {most} leases per hour are given to one key"
        raise Error("too-many", words, hint="try again an hour later")


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
    now, columns = time.time(), crowd_lease.c
    own = (columns.sender == sender, columns.state == LEASED, columns.deadline > now)
    rows = connection.execute(sa.select(crowd_lease).where(*own)).mappings()
    return {row["work_id"]: dict(row) for row in rows}


def _is_free(item: Mapping[str, Any], sender: str) -> bool:
    enough = len(item["senders"]) + item["leased"] >= item["wanted"]
    return not enough and sender not in item["senders"]


def _lease_answer(row: Row, work: Mapping[str, Any]) -> dict[str, Any]:
    names = ("id", "seed", "deadline")
    return {**{name: row[name] for name in names}, "work": work["id"], "spec": work["spec"]}


def give_back(ledger: Ledger, name: str, sender: str) -> None:
    """Return a lease, so that others get the work; raise ``lease-not-found``."""
    columns = crowd_lease.c
    with ledger.store.writing() as connection:
        mine = (columns.id == name, columns.sender == sender, columns.state == LEASED)
        changed = connection.execute(crowd_lease.update().where(*mine).values(state=RETURNED))
        if not changed.rowcount:
            raise _no_lease(name)
    ledger.tell(sender, "gave back", name)


def answered(ledger: Ledger, row: Row, manifest: m.Manifest) -> tuple[str, tuple[bool | None, str]]:
    """Return the seed of the lease that a run names, and whether the run fits it, or why not.

    Without a lease of this key there is no seed, and the logs have to have that of the round.
    """
    with ledger.store.reading() as connection:
        chosen = sa.select(crowd_lease, crowd_work.c.spec).join(crowd_work)
        same = (crowd_lease.c.id == row["lease"], crowd_lease.c.sender == row["sender"])
        lease_ = connection.execute(chosen.where(*same)).mappings().first()
    if lease_ is None:
        return "", (False, "its work unit was not leased to this key")
    return lease_["seed"], _fits(dict(lease_), row, manifest)


def _fits(lease_: Row, row: Row, manifest: m.Manifest) -> tuple[bool | None, str]:
    if lease_["state"] != LEASED:
        return False, f"its work unit was {lease_['state']} before"
    if row["at"] > lease_["deadline"]:
        return False, "its work unit had expired"
    spec = lease_["spec"]
    measured = {
        **{n: getattr(manifest.workload, n) for n in _FIELDS},
        "backend": manifest.config.backend,
    }
    measured["style"] = manifest.config.style or FULL
    wrong = [name for name, value in measured.items() if spec.get(name) and spec[name] != value]
    if wrong:
        return False, f"its work unit asks for another {wrong[0]}"
    if spec.get("class") and spec["class"][0] != row["hardware"]:
        return None, "it ran on other hardware than its work unit asks for, and does not confirm it"
    return True, "it is what its work unit asks for, within its time"


def finish(ledger: Ledger, name: str) -> None:
    """Let a lease end with the run that answers it; its seed serves for no other one."""
    with ledger.store.writing() as connection:
        ended = crowd_lease.update().where(crowd_lease.c.id == name)
        connection.execute(ended.values(state=DONE))


def _no_lease(name: str) -> Error:
    return Error("lease-not-found", f"this key has not leased {name:.40}", hint="lease work first")
