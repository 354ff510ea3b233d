"""Runs of this CM home: what goes on, what has ended and how, whoever has started it."""

from __future__ import annotations

from starlette.routing import BaseRoute, Route


def routes() -> list[BaseRoute]:
    """The pages of this part."""
    from cmbench_gui.jobs import views

    return [Route("/jobs", views.runs)]
