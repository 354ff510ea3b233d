"""The pages of the composer: all scripts, the form of one, and what a pasted command says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from cmbench import api
from cmbench.errors import Error
from cmbench.format.model import Script
from cmbench.session.workspace import Workspace
from cmbench_gui import command as commands
from cmbench_gui.command import ComposedCommand
from cmbench_gui.composer.fields import FormField, form_of, unmatched
from cmbench_gui.composer.machine import DEVICE, default_inputs, this_machine
from cmbench_gui.composer.planner import PlannerProcess
from cmbench_gui.composer.script_badges import known_of
from cmbench_gui.pages import page
from cmbench_gui.site import Site, site_of

MOST_QUERY = 8000
"""A form makes no longer links."""


def scripts(request: Request) -> Response:
    """All scripts, or those that ``?words=`` fits; a command among the words is explained."""
    words = request.query_params.get("words", "").strip()
    if commands.is_command(words):
        return RedirectResponse("/explain?" + urlencode({"command": words}), 303)
    workspace = site_of(request).workspace()
    try:
        matches = api.find(workspace, tags=words.replace(" ", ","), words=words)
    except Error:
        matches = []
    names = commands.ScriptNames(workspace.index)
    named = [(script, name, address(name)) for script in matches for name in (names.of(script),)]
    ready = [row for row in named if not words and row[0].alias == READY]
    # Other repositories have a script of that alias without the tiny form.
    ready = [row for row in ready if "tiny" in row[0].variations][:1]
    groups = [("", named)] if words else _by_task(workspace, named)
    values: dict[str, Any] = {"words": words, "total": len(named), "groups": groups, "ready": ready}
    return page(request, "composer/scripts.html", **values)


TASKS = {
    "MLPerf inference": "Run a benchmark",
    "Language models": "Language models behind a URL",
    "Triton Inference Server": "Triton Inference Server",
    "MLPerf benchmark support": "Prepare and check a submission",
    "AI/ML models": "Models",
    "AI/ML datasets": "Data sets",
    "CUDA automation": "NVIDIA GPUs",
    "AWS Neuron": "AWS Inferentia and Trainium",
    "Platform information": "This machine and its tools",
    "Detection or installation of tools and artifacts": "This machine and its tools",
    "Python automation": "This machine and its tools",
    "DevOps automation": "Files and archives",
}
"""What the scripts of a category are for; these tasks are shown in this order."""
_OTHERS = "Others"

NamedScript = tuple[api.ScriptSummary, str, str]


def _by_task(
    workspace: Workspace, named: Sequence[NamedScript]
) -> list[tuple[str, list[NamedScript]]]:
    """Return scripts by what they are for, benchmarks first."""
    groups: dict[str, list[NamedScript]] = {title: [] for title in (*TASKS.values(), _OTHERS)}
    for entry in sorted(named, key=lambda entry: entry[0].alias != READY):
        category = _category(workspace, entry[0].path)
        groups[TASKS.get(category, _OTHERS)].append(entry)
    return [(title, group) for title, group in groups.items() if group]


def _category(workspace: Workspace, path: str) -> str:
    try:
        return str(workspace.index.script(path).meta.get("category") or "")
    except Error:
        return ""


READY = "run-mlperf-inference-app"
"""The script to begin with."""


def address(name: str, query: str = "") -> str:
    """The address of the form of the script that has this name."""
    return f"/script/{quote(name, safe='@:')}" + (f"?{query}" if query else "")


def form(request: Request) -> Response:
    """The form of one script, with the choices of the link, or those that fit this machine."""
    workspace, script, choice = _chosen(request)
    machine = this_machine() if DEVICE in script.inputs else None
    if machine and (chosen := default_inputs(script, choice, machine)):
        return RedirectResponse(address(choice.script, urlencode(chosen)), 303)
    shown = _shown(script, choice, workspace)
    parts = form_of(script, choice)
    return page(
        request,
        "composer/form.html",
        script=script,
        parts=parts,
        choice=choice,
        link=address(choice.script),
        machine=machine,
        query=urlencode(choice.query()),
        **shown,
    )


def command(request: Request) -> Response:
    """Return the command of a choice in all its forms, and its problems, as JSON."""
    workspace, script, choice = _chosen(request)
    query = urlencode(choice.query())
    problems = {
        field.name: field.problem for part in form_of(script, choice) for field in part.fields
    }
    shown = _shown(script, choice, workspace)
    return JSONResponse(
        {
            **shown,
            "link": address(choice.script, query),
            "query": query,
            "problems": problems,
        }
    )


def _shown(script: Script, choice: ComposedCommand, workspace: Workspace) -> dict[str, Any]:
    words = commands.words_of(choice, script, workspace)
    forms = {name: made(words) for name, made in commands.FORMS.items()}
    return {"forms": forms, "unknown": unmatched(script, choice)}


def plan(request: Request) -> Response:
    """The plan of a choice as a part of a page."""
    workspace, script, choice = _chosen(request)
    site, planner = site_of(request), _planner(request)
    known = known_of(site, script, choice, commands.words_of(choice, script, workspace))
    try:
        made = planner.plan(_plan_flags(choice, script, workspace))
    except Error as error:
        return page(request, "composer/plan.html", error=error, plan=None, known=known)
    return page(request, "composer/plan.html", error=None, plan=made, known=known)


def check(request: Request) -> Response:
    """Which values of the field ``field`` cannot be combined with the rest, and why, as JSON.

    A value is blamed for what the planner says of it and not of the choice as it is. Raises
    ``bad-value`` for a field that the form does not have.
    """
    workspace, script, choice = _chosen(request)
    label = request.query_params.get("field", "")
    fields = [f for part in form_of(script, choice) for f in part.fields]
    checked = next((f for f in fields if f.label == label and f.asked), None)
    if checked is None:
        raise Error("bad-value", f"the form has no field {label}")
    planner = _planner(request)
    before = _refusal(planner, _plan_flags(choice, script, workspace))
    refused = {}
    for value in checked.options:
        if value != checked.value:
            other = _with(choice, checked, value)
            reason = _refusal(planner, _plan_flags(other, script, workspace))
            if reason and reason != before:
                refused[value] = reason
    return JSONResponse({"refused": refused, "now": before})


def _refusal(planner: PlannerProcess, flags: Mapping[str, Any]) -> str:
    """Why there is no plan for a call; empty where there is one."""
    try:
        planner.plan(flags)
    except Error as error:
        return error.message
    return ""


def _with(choice: ComposedCommand, field: FormField, value: str) -> ComposedCommand:
    """The choice with another value of one field."""
    if field.name != "tags":
        return ComposedCommand(
            choice.script, choice.variations, {**choice.flags, field.name: value}
        )
    others = {option.removeprefix("_") for option in field.options}
    variations = tuple(variation for variation in choice.variations if variation not in others)
    return ComposedCommand(choice.script, (*variations, value.removeprefix("_")), choice.flags)


def _plan_flags(choice: ComposedCommand, script: Script, workspace: Workspace) -> dict[str, Any]:
    return commands.nested_flags(commands.words_of(choice, script, workspace))


def _chosen(request: Request) -> tuple[Workspace, Script, ComposedCommand]:
    """The script and the choice that an address names; raises ``script-not-found``."""
    if len(request.url.query) > MOST_QUERY:
        raise Error("bad-value", "the link is too long for a form")
    workspace = site_of(request).workspace()
    script = api.show(workspace, name=request.path_params["name"])
    pairs = [(k, v) for k, v in request.query_params.multi_items() if k != "field"]
    name = commands.ScriptNames(workspace.index).of(script)
    return workspace, script, commands.choice_of(script, pairs, name)


def _planner(request: Request) -> PlannerProcess:
    """Return the planner of this server, started on first use."""
    state = request.app.state
    if not hasattr(state, "planner"):
        site: Site = state.site
        state.planner = PlannerProcess(site.home, site.repositories, site.folder)
    planner: PlannerProcess = state.planner
    return planner


def explain(request: Request) -> Response:
    """What a pasted command says, word by word, and the way into its form."""
    text = request.query_params.get("command", "")
    if not text.strip():
        return page(request, "composer/explain.html", text="", parsed=None, error=None, link="")
    try:
        parsed = commands.parse(text, site_of(request).workspace())
    except Error as error:
        return page(
            request, "composer/explain.html", 400, text=text, parsed=None, error=error, link=""
        )
    choice = parsed.choice
    link = address(choice.script, urlencode(choice.query()))
    return page(request, "composer/explain.html", text=text, parsed=parsed, error=None, link=link)
