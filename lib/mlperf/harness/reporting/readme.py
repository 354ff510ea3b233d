"""README.md of a scenario: everything that another person needs to repeat its runs."""

from __future__ import annotations

from pathlib import Path

from mlperf.pages.render import render

from ..settings import SessionSettings
from ..wording import cores_in_words, figures
from .results import Results, ScenarioResult

TEMPLATE = Path(__file__).with_name("readme.md.j2")
NO_COMMAND = "(not started by a command line)"


def text(results: Results, result: ScenarioResult, settings: SessionSettings) -> str:
    """Return the file of one scenario, in Markdown."""
    commands: dict[str, list[str]] = {}
    for name, around in result.runs():
        made = commands.setdefault(around.command or NO_COMMAND, [])
        made.append(f"{name} {around.measured_at}")
    return render(
        TEMPLATE,
        results=results,
        result=result,
        form=f" ({results.form} form)" if results.form else "",
        commands=commands,
        given=settings.provenance,
        model=settings.model,
        cores=cores_in_words(results.host.cores_usable),
        figures=figures,
    )
