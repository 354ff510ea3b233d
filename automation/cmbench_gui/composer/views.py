"""The pages of the composer."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from cmbench import api
from cmbench.errors import Error
from cmbench_gui.pages import page
from cmbench_gui.site import site_of


def scripts(request: Request) -> Response:
    """All scripts, or those that ``?words=`` fits."""
    words = request.query_params.get("words", "").strip()
    try:
        found = api.find(site_of(request).workspace(), tags=words.replace(" ", ","), words=words)
    except Error:
        found = []
    return page(request, "composer/scripts.html", words=words, found=found)
