"""Pages of the crowd next to those of the explorer: contributors, one upload, open work."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime, timezone
from statistics import median
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from cmbench.errors import Error
from cmbench_crowd_server import api, judge, standing, work
from cmbench_crowd_server.ledger import (
    COUNTED,
    HELD,
    IDLE,
    PROVEN,
    PUBLISHED,
    Ledger,
    Row,
    manifest_of,
    public,
)
from cmbench_gui.explorer.table import trust
from cmbench_gui.pages import LEADS_ON, page, took
from cmbench_results.schema import crowd_run
from cmbench_results.values import from_json


async def first(request: Request) -> Response:
    """The first page is that of the results."""
    return RedirectResponse("/results", 303)


async def contributors(request: Request) -> Response:
    """Everybody who has published something, the newest first: this is no ranking."""
    ledger = api.server_of(request).ledger
    rows = await api.work_of(lambda: ledger.rows(crowd_run.c.state == PUBLISHED))
    own: dict[str, list[Row]] = {}
    for row in reversed(rows):
        own.setdefault(row["sender"], []).append(row)
    people = {
        sender: {"id": sender, "day": _day(runs[0]), "runs": len(runs), "credit": _credit(runs)}
        for sender, runs in own.items()
    }
    return page(request, "crowd/contributors.html", people=list(people.values()))


def _credit(rows: list[Row]) -> str:
    """Return the checked time of devices, in words."""
    return took(sum(row["seconds"] for row in rows if row["tier"] in PROVEN))


def _day(row: Row) -> str:
    return datetime.fromtimestamp(row["at"], timezone.utc).date().isoformat()


async def contributor(request: Request) -> Response:
    """Show a contributor: credit, results, and machines compared with others of their class."""
    ledger, sender = api.server_of(request).ledger, request.path_params["sender"]
    rows = await api.work_of(lambda: _of(ledger, sender))
    if not rows:
        raise Error(
            "upload-not-found",
            f"no contributor {sender:.40} has published anything",
            hint="see /contributors",
        )
    beside = await api.work_of(lambda: _beside(ledger, sender, rows))
    shown = [_shown(row) for row in rows]
    values = {"sender": sender, "credit": _credit(rows), "runs": shown, "beside": beside}
    return page(request, "crowd/contributor.html", **values)


def _of(ledger: Ledger, sender: str) -> list[Row]:
    return ledger.rows(crowd_run.c.sender == sender, crowd_run.c.state == PUBLISHED)


def _shown(row: Row) -> Mapping[str, Any]:
    manifest = manifest_of(row)
    result = from_json(row["result"])
    words = (manifest.workload.benchmark, manifest.workload.scenario, manifest.config.backend)
    return {
        "id": row["id"],
        "day": _day(row),
        "what": " ".join(filter(None, words)),
        "machine": result.system.name,
        "figure": "" if row["value"] is None else f"{row['value']:.4g} {result.unit}",
        "trust": trust(row["tier"]),
    }


def _beside(ledger: Ledger, sender: str, rows: list[Row]) -> list[Mapping[str, Any]]:
    """Return the own median and that of others for every class that a contributor has measured."""
    comparisons: list[Mapping[str, Any]] = []
    classes = {(r["hardware"], r["work"]): r for r in rows if r["value"]}
    for (hardware, of), row in classes.items():
        same = (crowd_run.c.hardware == hardware, crowd_run.c.work == of)
        fit = ledger.rows(*same, crowd_run.c.state.in_(COUNTED), crowd_run.c.tier.in_(PROVEN))
        hosts = judge.hosts(fit)
        own = next((host.middle for host in hosts if host.sender == sender), None)
        others = [host.middle for host in hosts if host.sender != sender]
        if own is not None and others:
            ratio = math.exp(own - median(others))
            comparisons.append({**_shown(row), "others": len(others), "ratio": f"{ratio:.3g}"})
    return comparisons


async def upload(request: Request) -> Response:
    """One upload: its state, its tier, its checks in words."""
    ledger, run = api.server_of(request).ledger, request.path_params["id"]
    row = await api.work_of(lambda: ledger.row(run))
    result = from_json(row["result"]) if row["result"] else None
    details = public(row)
    idle = [item["words"] for item in details["checks"] if item["check"] == IDLE]
    details["checks"] = [item for item in details["checks"] if item["check"] != IDLE]
    # What was refused comes first, then what could not be judged.
    details["checks"].sort(
        key=lambda item: (item["passed"] is True, item["check"] != HELD, item["passed"] is None)
    )
    claim = dict(await api.work_of(lambda: standing.claim_of(ledger, row)))
    values: dict[str, Any] = {"run": details, "result": result, "idle": idle, "claim": claim}
    values["trust"] = trust(row["tier"])
    return page(request, "crowd/upload.html", **values)


async def wanted(request: Request) -> Response:
    """What still needs hosts."""
    ledger = api.server_of(request).ledger
    open_work = await api.work_of(lambda: work.open_work(ledger))
    listed = [work.public_work(item) for item in open_work[: work.MOST_LISTED]]
    return page(request, "crowd/wanted.html", work=listed, server=str(request.base_url).rstrip("/"))


async def interface(request: Request) -> Response:
    """The interface for programs, for people to read."""
    return page(request, "crowd/api.html", operations=api.OPERATIONS)


def routes() -> list[Route]:
    """Return all of them."""
    return [
        Route("/", first, name=LEADS_ON),
        Route("/contributors", contributors),
        Route("/contributors/{sender}", contributor),
        Route("/uploads/{id}", upload),
        Route("/wanted", wanted),
        Route("/api", interface),
    ]
