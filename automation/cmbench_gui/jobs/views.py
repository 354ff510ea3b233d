"""The pages of runs."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from cmbench import api
from cmbench_gui.pages import page
from cmbench_gui.site import site_of


def runs(request: Request) -> Response:
    """The newest runs of this home."""
    return page(request, "jobs/runs.html", runs=api.runs(site_of(request).workspace()))
