"""Explore results: one table, its facets, its charts, and a page for each result."""

from __future__ import annotations

from starlette.routing import BaseRoute


def routes() -> list[BaseRoute]:
    """The pages of this part."""
    return []
