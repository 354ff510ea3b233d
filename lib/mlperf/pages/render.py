"""Templates into documents: HTML that needs no network, as all is part of the file, and text."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from common.problems import Problem

if TYPE_CHECKING:
    import jinja2

COMPONENTS = Path(__file__).with_name("templates")


def missing_package(made: str = "a report", package: str = "Jinja2") -> Problem:
    """Return the failure for want of what draws."""
    text = f"{made} is made with the Python package {package}, which is not installed"
    return Problem("tool-missing", text, f"`{sys.executable} -m pip install {package.lower()}`")


def render(template: Path, **values: Any) -> str:
    """What ``template`` makes of ``values``; their texts are escaped where its name ends in .html.

    Raises Problem without Jinja2, and jinja2.TemplateError where the template has a
    fault or names a value that is not given.
    """
    return _environment(template.parent).get_template(template.name).render(values)


@cache
def _environment(folder: Path) -> jinja2.Environment:
    try:
        import jinja2  # 50 ms of CPU time, which only they pay who write a page
    except ModuleNotFoundError as error:
        raise missing_package() from error
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader([folder, COMPONENTS]),
        autoescape=jinja2.select_autoescape(["html"]),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
