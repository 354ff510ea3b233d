"""Explore results: one table, its facets, its charts, and a page for every result."""

from __future__ import annotations

from starlette.routing import BaseRoute, Route

__all__ = ["table"]


def routes() -> list[BaseRoute]:
    """The pages of this part."""
    from cmbench_gui.explorer import pages

    return [
        Route("/results", pages.results),
        Route("/results/plot", pages.drawing),
        Route("/results/plot.svg", pages.svg),
        Route("/results/export.{kind}", pages.exported),
        Route("/results/compare", pages.compared),
        Route("/results/systems/{system}", pages.machine),
        Route("/results/{uid}.json", pages.result_json),
        Route("/results/{uid}/files/{number:int}", pages.file),
        Route("/results/{uid}", pages.result),
    ]
