"""The pages of runs: all of them, one while it goes on, and the buttons that start and stop."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable
from pathlib import Path

from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response, StreamingResponse

from cmbench.api import history
from cmbench.errors import Error
from cmbench_gui import command as commands
from cmbench_gui.access import form_field
from cmbench_gui.jobs import control
from cmbench_gui.jobs.watch import MOST_LINES, Branch, events, tree
from cmbench_gui.pages import page, rendered
from cmbench_gui.site import Site, site_of

_FROM = "--renew_from="


def runs(request: Request) -> Response:
    """The newest runs of this home."""
    listed = control.jobs(site_of(request))
    results = {job.id: history.figures(job.run) for job in listed}
    return page(request, "jobs/runs.html", jobs=listed, shown=shown, results=results)


def shown(words: tuple[str, ...]) -> str:
    """A command as one line."""
    return shlex.join(words)


async def start(request: Request) -> Response:
    """Start the command of the form, and show its run; raises what a wrong command raises."""
    from anyio.to_thread import run_sync

    text = form_field(request.headers, await request.body(), "command")
    run = await run_sync(_started, request, text)
    return RedirectResponse(f"/jobs/{run}", 303)


def _started(request: Request, text: str) -> str:
    site = site_of(request)
    # Known to be a command that runs a script, with no word that the script would refuse.
    parsed = commands.parse(text, site.workspace())
    wrong = [word.problem for word in parsed.words if word.problem]
    if wrong:
        raise Error("bad-value", wrong[0], hint="correct it in the form, and run it again")
    return control.start(site, commands.split(text))


def job(request: Request) -> Response:
    """One run: its steps, its log, what can be done with it."""
    shown_job = control.job(site_of(request), request.path_params["run"])
    command = shown(shown_job.command)
    return page(
        request,
        "jobs/job.html",
        job=shown_job,
        command=command,
        steps=tree(shown_job),
        output=_tail(shown_job),
        results=history.figures(shown_job.run),
        report=bool(history.report_of(shown_job.run)),
        most=MOST_LINES,
        from_here=_may_repeat(site_of(request), shown_job),
    )


def _may_repeat(site: Site, job: control.Job) -> bool:
    return site.may_run and not job.running and bool(job.command)


def _tail(job: control.Job, most: int = 4000) -> str:
    """The end of what the command has printed: its result, or why it failed."""
    try:
        with open(job.output, "rb") as stream:
            stream.seek(max(0, os.fstat(stream.fileno()).st_size - most))
            return stream.read().decode("utf-8", "replace")
    except OSError:
        return ""


def drawn(job: control.Job, from_here: bool = False) -> str:
    """Return the tree of its steps as HTML; ``from_here``: whether a run may start from a step."""
    return rendered("jobs/steps.html", steps=tree(job), job=job, from_here=from_here)


async def stream(request: Request) -> Response:
    """What happens in a run, as server-sent events."""
    site, run = site_of(request), request.path_params["run"]
    mark = request.headers.get("last-event-id", "")

    def look() -> control.Job:
        return control.job(site, run)

    def draw(seen: control.Job) -> str:
        return drawn(seen, _may_repeat(site, seen))

    look()
    return StreamingResponse(events(look, draw, mark), media_type="text/event-stream")


def log(request: Request) -> Response:
    """The whole log as a file; raises ``entry-not-found`` where there is none."""
    target = control.job(site_of(request), request.path_params["run"])
    path = os.path.join(target.run.folder, "log.txt")
    path = path if os.path.isfile(path) else target.output
    if not os.path.isfile(path):
        raise Error("entry-not-found", f"the run {target.id} has no log")
    return FileResponse(path, media_type="text/plain; charset=utf-8")


def enter_report(request: Request) -> Response:
    """Lead to the report as a folder: its links are relative to it.

    Raises ``entry-not-found`` where there is none.
    """
    _report_of(request)
    return RedirectResponse(f"/jobs/{request.path_params['run']}/report/", 303)


def report(request: Request) -> Response:
    """The report of a run that has measured, and the files of its folder: logs, and lists of them.

    Raises ``entry-not-found`` where there is none.
    """
    path, place = _report_of(request), request.path_params["place"]
    if place:
        return _file_of_report(request, Path(path).resolve().parent, place)
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return FileResponse(path, headers={"content-security-policy": policy})


def _report_of(request: Request) -> str:
    target = control.job(site_of(request), request.path_params["run"])
    path = history.report_of(target.run)
    if not path:
        raise Error("entry-not-found", f"the run {target.id} has no report")
    return path


def _file_of_report(request: Request, folder: Path, place: str) -> Response:
    """Return a file of a report's folder as text, or the list of those in a folder below it."""
    target = (folder / place).resolve()
    if not target.is_relative_to(folder) or not (target.is_file() or target.is_dir()):
        raise Error("entry-not-found", f"there is no {place:.200} in the report's folder")
    if target.is_file():
        return FileResponse(target, media_type="text/plain; charset=utf-8")
    # Without it, the names in the list would be taken for those of the folder above.
    if not place.endswith("/"):
        return RedirectResponse(f"{request.url.path}/", 303)
    names = [f"{item.name}{'/' * item.is_dir()}" for item in sorted(target.iterdir())]
    return page(request, "jobs/files.html", folder=target.name, names=names)


def stop(request: Request) -> Response:
    """End a run; one that has ended stays as it is."""
    run = request.path_params["run"]
    control.stop(site_of(request), run)
    return RedirectResponse(f"/jobs/{run}", 303)


async def again(request: Request) -> Response:
    """Run the same command once more; what was finished is not done again.

    With ``step``, the alias of a script, its steps are, and all that was made with them. Raises
    ``bad-value`` where it was no command, and what a wrong command raises.
    """
    from anyio.to_thread import run_sync

    step = form_field(request.headers, await request.body(), "step")
    return RedirectResponse(f"/jobs/{await run_sync(_again, request, step)}", 303)


def _again(request: Request, step: str) -> str:
    site = site_of(request)
    target = control.job(site, request.path_params["run"])
    words = list(target.command)
    if words[:1] != ["cm"] or words[2:3] != ["script"] or words[1] not in commands.VERBS:
        raise Error("bad-value", "this run was started by a program, and has no command to repeat")
    if step:
        if step not in _scripts(tree(target)):
            raise Error("bad-value", f"this run has no step {step}")
        words = [word for word in words if not word.startswith(_FROM)]
        words.insert(3, _FROM + step)
    return control.start(site, words)


def _scripts(branches: Iterable[Branch]) -> set[str]:
    names = set()
    for branch in branches:
        names |= {branch.script, *_scripts(branch.below)}
    return names
