"""Templates into answers, and failures into pages that say what to do next."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from cmbench.errors import Error
from cmbench.lib.text_files import size_text
from cmbench_gui.site import site_of

HERE = Path(__file__).parent
TEMPLATES = HERE / "templates"
STATIC = HERE / "static"

SECTIONS = {
    "/": "Compose",
    "/jobs": "Jobs",
    "/results": "Results",
    "/contributors": "Contributors",
    "/wanted": "Wanted",
    "/api": "API",
}
"""Where the parts of the site begin, and what they are called."""
LEADS_ON = "leads-on"
"""The name of a route that only leads to another page."""


def page(request: Request, template: str, status: int = 200, **values: Any) -> Response:
    """What a template of the site makes of ``values``.

    Templates extend ``base.html`` and may import the macros of reports, ``components.html``.
    Raises jinja2.TemplateError.
    """
    site = site_of(request)
    # A first page that only leads to another one is no part.
    parts = (route for route in request.app.routes if getattr(route, "name", "") != LEADS_ON)
    paths = {getattr(route, "path", "") for route in parts}
    common = {
        "site": site,
        "sections": {at: name for at, name in SECTIONS.items() if at in paths},
        "here": request.url.path,
    }
    text = environment(*site.templates).get_template(template).render(**{**common, **values})
    return HTMLResponse(visible(text), status)


def rendered(template: str, **values: Any) -> str:
    """Return the text of a template, in which values read as they were written.

    Raises jinja2.TemplateError.
    """
    return visible(environment().get_template(template).render(values))


def failure(request: Request, error: Error, status: int = 0) -> Response:
    """Return an error of the engine as a page, or as JSON for a request of a page's script."""
    status = status or (404 if error.code.endswith("-not-found") else 400)
    if "application/json" in request.headers.get("accept", ""):
        return JSONResponse(error_data(error), status)
    return page(request, "error.html", status, error=error)


def error_data(error: Error) -> Mapping[str, Any]:
    """An error as JSON: its code, its message, what to do next, where it happened."""
    return {
        "code": error.code,
        "error": error.message,
        "hint": error.hint,
        "commands": list(error.hint.commands),
        "context": list(error.context),
    }


@cache
def environment(*folders: Path) -> jinja2.Environment:
    """Templates of this package, of ``folders``, and components of reports; texts are escaped."""
    from mlperf.pages.render import COMPONENTS

    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader([TEMPLATES, *folders, COMPONENTS]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # Data for a script of the page: an element of type application/json runs nothing.
    made.filters["data"] = _data
    made.filters["iso"] = _iso
    made.filters["took"] = took
    made.filters["size"] = size_text
    return made


_UNSEEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""What no text of a page holds: control characters, marks that turn text round, half characters."""


def visible(text: str) -> str:
    """A text that can be sent, without what makes it read otherwise than it is written."""
    return _UNSEEN.sub("\N{REPLACEMENT CHARACTER}", text)


def _iso(seconds: float) -> str:
    """Seconds since the epoch as ISO 8601 in UTC; a script of the page makes it local."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def took(seconds: float) -> str:
    """A duration as people say it: 0.4 s, 12 s, 3 min 05 s, 2 h 10 min."""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    return f"{minutes // 60} h {minutes % 60:02} min"


def _data(value: Any) -> Any:
    text = json.dumps(value, default=str)
    for mark in "<>&\u2028\u2029":
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    return Markup(text)
