"""Compose a command: any script's inputs as a form, with its plan, and the command always right."""

from __future__ import annotations

from typing import Any

from starlette.routing import BaseRoute, Route

__all__ = ["views"]


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


def close(state: Any) -> None:
    """End what the pages of this part have started for an application of that ``state``."""
    planner = getattr(state, "planner", None)
    if planner is not None:
        planner.close()
