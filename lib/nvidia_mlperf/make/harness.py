"""``run_harness`` and ``run``: from engines to LoadGen runs, their logs, and results on stdout."""

from __future__ import annotations

import json
import platform
import re
import shlex
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from common.problems import Problem, reworded
from nvidia_mlperf.flow.systems import CPU
from nvidia_mlperf.make import (
    advice,
    checks,
    clocks,
    compiled_models,
    data,
    engines,
    generate,
    neuron,
    options,
    steps,
)
from nvidia_mlperf.make.files import sidecar
from nvidia_mlperf.make.flow import STAND_IN, Flow
from nvidia_mlperf.make.logs import Book
from nvidia_mlperf.make.run_arguments import ACCURACY, PERFORMANCE
from nvidia_mlperf.make.work import PlannedRun, WorkPlan, plan

MODES = {
    PERFORMANCE: "_performance-only",
    ACCURACY: "_accuracy-only",
    "SubmissionRun": "_performance-and-accuracy",
    "FindPeakPerformance": "_find-performance",
}


def run_harness(flow: Flow) -> None:
    """Measure every item with its engine; raises Problem before LoadGen without one."""
    work = plan(flow)
    flow.report(work.lines())
    measure(flow, work)


def run(flow: Flow) -> None:
    """All engines first, then all runs."""
    work = plan(flow)
    flow.report(work.lines())
    generate.make(flow, work)
    measure(flow, work)


def measure(flow: Flow, work: WorkPlan) -> None:
    """Make the runs one after the other; report INVALID ones at the end.

    Raises Problem when a run leaves no result, when the user stops them, and at the end when one
    is not as it must be.
    """
    require(flow, work)
    checks.before_runs(flow, work)
    book = Book(log_folder(flow, work), system_name(flow, work))
    flow.report(advice.run_times(flow, work))
    flow.report([f"logs: {book.folder}"])
    wrong: list[str] = []
    done = 0
    try:
        for item in work.items:
            wrong += one(flow, work, item, book)
            done += 1
    except (Problem, KeyboardInterrupt) as problem:
        with suppress(OSError):
            # Nothing was measured where it is empty.
            book.folder.rmdir()
        raise stopped(problem, flow, work, done, book) from None
    flow.report(wrong)
    if wrong:
        raise Problem("result-not-accepted", f"{len(wrong)} runs are not as they must be", wrong[0])


def one(flow: Flow, work: WorkPlan, item: PlannedRun, book: Book) -> list[str]:
    """Measure one item and show its results; return its problems.

    Raises Problem when the run leaves no result.
    """
    started = time.time()
    with clocks.locked(flow):
        status = flow.runner.cm(line(flow, work, item))
    session = newest(flow, work, item, started)
    if session is None:
        problem = data.with_folder(flow, item.ours, flow.failed(status))
        raise reworded(problem, f"{item.name} has no result: ")
    result = read_result(session, item)
    check_model(flow, item, session)
    for entry in book.add(item, folder_of(session, item), result):
        flow.runner.show(entry)
    problems = list(advice.problems(flow, item, result, folder_of(session, item)))
    return (
        problems or [f"{item.name}: {flow.failed(status)}"] if status else excused(flow, problems)
    )


def stopped(problem: BaseException, flow: Flow, work: WorkPlan, done: int, book: Book) -> Problem:
    """Return the error of an interrupted call: finished runs, and how to continue."""
    kept = f"{done} of {len(work.items)} runs are measured"
    kept += f" and kept in {book.folder}" if done else ""
    hint = f"go on with: `{rest_line(flow, work.items[done:])}`"
    if isinstance(problem, Problem):
        return reworded(problem, after=f"; {kept}", hint=hint)
    return Problem("interrupted", f"stopped by the user; {kept}", hint)


def rest_line(flow: Flow, items: Sequence[PlannedRun]) -> str:
    """Return the make line for the benchmarks of these items, with the other arguments."""
    typed = shlex.split(flow.variables.get("RUN_ARGS", ""))
    kept = [
        word
        for before, word in zip(["", *typed], typed, strict=False)
        if not word.startswith("--benchmarks") and before != "--benchmarks"
    ]
    names = ",".join(dict.fromkeys(item.config.benchmark for item in items))
    run_args = " ".join([f"--benchmarks={names}", *map(shlex.quote, kept)])
    return f"make run_harness RUN_ARGS={shlex.quote(run_args)}"


def excused(flow: Flow, problems: Iterable[str]) -> list[str]:
    """Report problems that cm takes for no error, in a test run on a busy host; none is left."""
    flow.report(f"warning: the host was busy; {problem}" for problem in problems)
    return []


def require(flow: Flow, work: WorkPlan) -> None:
    """Raise Problem unless there is something that computes every item."""
    if flow.vendor == neuron.ACCELERATOR:
        compiled_models.require(flow, work.items)
    else:
        engines.require(flow, work.items, work.arguments.system_flags)
        if engines.computes(flow, work.items) == STAND_IN:
            flow.report(
                f"note: {note}" for note in options.idle(work.fields, work.arguments.fields)
            )


def line(flow: Flow, work: WorkPlan, item: PlannedRun) -> list[str]:
    """Return the ``cm`` line of one run."""
    engine = engines.plan_of(flow, item)
    own = data.of_run(flow, item.config.benchmark, item.ours)
    words = [*steps.base(flow, item.ours, engine), *own]
    words[0] += f",{MODES[work.arguments.mode]}"
    if flow.vendor == neuron.ACCELERATOR:
        words += compiled_models.words(flow, item)
    elif "triton" in item.config.ver:
        words[2] = "--backend=triton"
    settings = flow.settings
    words += [
        f"--scenario={item.config.scenario}",
        f"--execution_mode={settings.execution_mode}",
        f"--division={settings.division}",
        f"--results_dir={flow.results}",
        f"--sut_dir={flow.build / 'sut'}",
        f"--hw_name={system_name(flow, work)}",
        "--rerun",
        "--quiet",
    ]
    chosen = fields_of(work, item, engine is not None)
    if flow.vendor != neuron.ACCELERATOR:
        backend = words[2].partition("=")[2]
        chosen_options = options.of_backend(work.fields, chosen, backend, item.overrides)
        words += [f"--backend_options={chosen_options}"] if chosen_options else []
    run_options = dict(options.of_run(work.fields, chosen))
    return ["run", "script", *words, *(f"--{key}={value}" for key, value in run_options.items())]


def fields_of(work: WorkPlan, item: PlannedRun, on_gpu: bool) -> dict[str, Any]:
    """The fields that count: those of the registry are for a GPU, those of the line for all."""
    registered = {name: value.value for name, value in item.config.values.items()}
    return {
        **(registered if on_gpu else {}),
        **(options.FAST if work.arguments.fast else {}),
        **item.overrides,
    }


def system_name(flow: Flow, work: WorkPlan) -> str:
    """Return the system's name in logs and results: this machine and its backend."""
    if flow.vendor == neuron.ACCELERATOR:
        on = neuron.target(flow)
        word = f"{CPU}-{STAND_IN}" if on == CPU else on
    else:
        word = engines.computes(flow, work.items)
    return f"{work.system}_{word}_{platform.node() or 'host'}"


def log_folder(flow: Flow, work: WorkPlan) -> Path:
    """Return a folder of its own for this call, by its time.

    Raises Problem when a hundred calls have begun in this second.
    """
    log_dir = work.arguments.log_dir or flow.variables.get("LOG_DIR", "")
    above = flow.folder / log_dir if log_dir else flow.build / "logs"
    name = time.strftime("%Y.%m.%d-%H.%M.%S")
    for count in range(100):
        folder = above / (f"{name}-{count}" if count else name)
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        return folder
    raise Problem("file-error", f"{above} has a hundred folders of this second")


def newest(
    flow: Flow, work: WorkPlan, item: PlannedRun, since: float, below: Path | None = None
) -> Path | None:
    """Return the results.json that a run has written since a time in s; None where it has not."""
    # The harness replaces all but letters, digits, dots and _ in the system's name by _.
    system = re.sub(r"[^A-Za-z0-9._]+", "_", system_name(flow, work))
    pattern = f"{flow.settings.execution_mode}_results/{system}-*/{item.ours}/results.json"
    places = (below or flow.results).glob(pattern)
    written = [path for path in places if path.stat().st_mtime >= since - 1]
    return max(written, key=lambda path: path.stat().st_mtime, default=None)


def read_result(session: Path, item: PlannedRun) -> Mapping[str, Any]:
    """What results.json says of the item's scenario, of the runs that its last call has made."""
    record, scenario = json.loads(session.read_text(encoding="utf-8")), item.config.scenario
    result: dict[str, Any] = next(
        (each for each in record["results"] if each["scenario"] == scenario), {}
    )
    made = {mode for name, mode in record["call"]["made"] if name == scenario}
    earlier = [mode for mode in ("performance", "accuracy") if mode not in made]
    return {**result, **{f"{mode}_run": None for mode in earlier}}


def folder_of(session: Path, item: PlannedRun) -> Path:
    """Return where our logs of the item's scenario lie."""
    return session.parent / item.config.scenario.folder


def check_model(flow: Flow, item: PlannedRun, session: Path) -> None:
    """Raise Problem unless the run computed the model that its engine is."""
    engine = engines.find_engine(flow, item)
    if engine is None:
        return
    facts = sidecar(engine)
    wanted = (
        facts.get("sha256") if engines.is_plan(engine) else facts.get("model", {}).get("sha256")
    )
    used = json.loads(session.read_text(encoding="utf-8"))["model"]["sha256"]
    if "triton" not in item.config.ver and used != wanted:
        raise Problem(
            "engine-missing",
            f"{item.name}: the run used another model than its engine is",
            f"remove {engine}, then {engines.make_line([item])}",
        )
