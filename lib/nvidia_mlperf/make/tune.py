"""``autotune``: a bounded search over fields, every try a short run of LoadGen.

One field after the other takes each of its values while the others keep their best. Fields of
RUN_ARGS are fixed. So the tries of an item are the values together, not their combinations.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from mlperf.catalog.scenario import OFFLINE, SERVER
from nvidia_mlperf.make import generate, harness, options
from nvidia_mlperf.make.flow import Flow
from nvidia_mlperf.make.work import PlannedRun, WorkPlan, plan

SPACE: Mapping[str, tuple[int, ...]] = {
    "gpu_batch_size": (1, 4, 16, 64),
    "gpu_inference_streams": (1, 2, 4),
    "deque_timeout_usec": (500, 2000, 8000),
}
"""The fields and their values: samples, streams, microseconds. The stand-in finds others by itself
where a field is left out; these tell what one is worth."""
ONLY = {
    "gpu_batch_size": (OFFLINE, SERVER),
    "gpu_inference_streams": (OFFLINE, SERVER),
    "deque_timeout_usec": (SERVER,),
}
"""The scenarios in which a field changes anything: streams ask for one query after the other."""
MAX_TRIES = 12
"""Tries of one item at most."""
NOT = "not VALID"
SECONDS = 5
Fields = Mapping[str, int]


def autotune(flow: Flow) -> None:
    """Search for every item; the best fields are shown as what goes into RUN_ARGS."""
    work = plan(flow)
    flow.report(work.lines())
    count = sum(min(MAX_TRIES, sum(map(len, space(item).values())) + 1) for item in work.items)
    flow.report([f"at most {count} runs of {SECONDS} s at least, beside their preparation"])
    generate.make(flow, work)
    for item in work.items:

        def attempt(fields: Fields, item: PlannedRun = item) -> float | None:
            figure = tried(flow, work, item, fields)
            flow.report([f"{item.name}: {in_words(fields) or 'as it is'}: {figure or NOT}"])
            return figure

        best = search(item, attempt)
        if best is None:
            flow.runner.show(f"{item.name}: none is VALID")
        else:
            flow.runner.show(f"{item.name}: {in_words(best) or 'best as it is'}")


def space(item: PlannedRun) -> dict[str, tuple[int, ...]]:
    """The values to try of every field: not of one in RUN_ARGS, nor where it changes nothing."""
    scenario = item.config.scenario
    return {
        name: values
        for name, values in SPACE.items()
        if scenario in ONLY[name] and name not in item.overrides
    }


def search(item: PlannedRun, attempt: Callable[[Fields], float | None]) -> Fields | None:
    """Return the fields of the best VALID try of ``MAX_TRIES`` at most; None without one.

    The first try is without any, as a run is that nobody tunes: what is not better is left out.
    """
    best: Fields | None = None
    figure: float | None = None
    for number, (name, value) in enumerate(steps(item)):
        if number == MAX_TRIES:
            break
        fields = {**(best or {}), **({name: value} if name else {})}
        rate = attempt(fields)
        if rate is not None and (figure is None or better(item, rate, figure)):
            best, figure = fields, rate
    return best


def steps(item: PlannedRun) -> Iterator[tuple[str, int]]:
    """Yield the changes in their order; the first changes nothing."""
    yield "", 0
    for name, values in space(item).items():
        yield from ((name, value) for value in values)


def better(item: PlannedRun, figure: float, than: float) -> bool:
    """Return whether a figure (samples/s, or ms of streams) is better than another."""
    return figure < than if item.config.scenario.stream else figure > than


def in_words(fields: Fields) -> str:
    """Fields as they are typed."""
    return " ".join(f"--{name}={value}" for name, value in fields.items())


def tried(flow: Flow, work: WorkPlan, item: PlannedRun, fields: Fields) -> float | None:
    """The figure of a short run with these fields, in the scenario's unit; None unless VALID."""
    apart = replace(flow, settings=replace(flow.settings, execution_mode="test"))
    chosen = dict(options.of_run(work.fields, fields))
    own = {**chosen, "min_duration": SECONDS * 1000, "results_dir": flow.build / "autotune"}
    words = harness.line(apart, work, item)
    words = [word for word in words if word.partition("=")[0].removeprefix("--") not in own]
    words += [f"--{option}={value}" for option, value in own.items()]
    started = time.time()
    status = flow.runner.cm([*words, "--max_attempts=1"])
    if status:
        flow.report([f"not taken: {flow.failed(status)}"])
    session = harness.newest(apart, work, item, started, flow.build / "autotune")
    result = harness.read_result(session, item) if session else {}
    return float(result["value"]) if result.get("validity") == "VALID" else None
