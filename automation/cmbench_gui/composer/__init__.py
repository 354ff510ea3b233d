"""Compose a command: any script's inputs as a form, with its plan, and the command always right."""

from __future__ import annotations

from starlette.routing import BaseRoute, Route


def routes() -> list[BaseRoute]:
    """The pages of this part."""
    from cmbench_gui.composer import views

    return [
        Route("/", views.scripts),
        Route("/explain", views.explain),
        Route("/script/{name}", views.form),
        Route("/script/{name}/command", views.command),
        Route("/script/{name}/plan", views.plan),
        Route("/script/{name}/check", views.check),
    ]
