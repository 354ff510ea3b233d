"""Runs of this CM home: running and ended ones with their outcome, from any program."""

from __future__ import annotations

from starlette.routing import BaseRoute, Route


def routes() -> list[BaseRoute]:
    """The pages of this part."""
    from cmbench_gui.jobs import views

    return [
        Route("/jobs", views.runs),
        Route("/jobs", views.start, methods=["POST"]),
        Route("/jobs/{run}", views.job),
        Route("/jobs/{run}/events", views.stream),
        Route("/jobs/{run}/log", views.log),
        Route("/jobs/{run}/report", views.enter_report),
        Route("/jobs/{run}/report/{place:path}", views.report),
        Route("/jobs/{run}/stop", views.stop, methods=["POST"]),
        Route("/jobs/{run}/again", views.again, methods=["POST"]),
    ]
