"""``generate_engines``: the engines that are not there yet, by a builder or as stand-ins."""

from __future__ import annotations

from pathlib import Path

from common.files import sha256
from common.problems import Problem
from nvidia_mlperf.make import builders, checks, engines
from nvidia_mlperf.make.builders import BUILDERS
from nvidia_mlperf.make.files import sidecar
from nvidia_mlperf.make.flow import STAND_IN, Flow
from nvidia_mlperf.make.work import PlannedRun, WorkPlan, plan


def generate_engines(flow: Flow) -> None:
    """One engine for every item of the line; raises Problem."""
    work = plan(flow)
    flow.report(work.lines())
    make(flow, work)


def make(flow: Flow, work: WorkPlan) -> None:
    """Make the engines that are not there yet, and say what each is."""
    built: dict[str, Path] = {}
    builder = builders.chosen(flow, work.machine)
    if builder in BUILDERS and work.machine is not None:
        checks.before_builds(flow, work, work.items)
    for item in work.items:
        engine = engines.find_engine(flow, item)
        why = engines.misfit(flow, item, engine) if engine else ""
        if engine is not None and _stays(item, engine, builder, why):
            flow.report(
                [f"engine: {engines.relative_path(flow, engine)} is there{why and f'; {why}'}"]
            )
            continue
        if builder in BUILDERS:
            made = build(flow, work, item, builder)
        else:
            if item.ours not in built:
                built[item.ours] = stand_in(flow, item.ours)
            made = engines.put(flow, item, built[item.ours])
        flow.report(
            [f"engine: {engines.relative_path(flow, made)} ({BUILDERS.get(builder, STAND_IN)})"]
        )


def _stays(item: PlannedRun, engine: Path, builder: str, why: str) -> bool:
    """Return whether to keep an engine, even one that cannot run here."""
    if not engines.is_plan(engine):
        return builder not in BUILDERS and not why
    # A stand-in never replaces a plan; a run reports why that cannot be used.
    facts = sidecar(engine)
    whole = facts.get("builder") == builder and facts.get("sha256") == sha256(engine)
    return builder not in BUILDERS or (whole and not engines.field_mismatch(item, engine))


def build(flow: Flow, work: WorkPlan, item: PlannedRun, builder: str) -> Path:
    """Build the engine of an item with TensorRT, and put it where it belongs."""
    line = builders.line(flow, work, item, builder, engines.version(item))
    place = engines.path(flow, item, ".plan")
    builders.put(flow.runner.cm_json(line)["env"], place, engines.digest(engines.fields_of(item)))
    return place


def stand_in(flow: Flow, benchmark: str) -> Path:
    """Return the replacement for every engine of a benchmark, from the builder's script.

    Raises Problem for anything else.
    """
    form = "" if flow.settings.form == "full" else f",_{flow.settings.form}"
    line = ["run", "script", f"--tags=generate,engine,nvidia,_{STAND_IN}{form}"]
    line += [f"--model={benchmark}", "--precision=float32", *flow.python(), "--quiet"]
    engine = Path(flow.runner.cm_json(line)["env"]["CM_ENGINE_FILE_WITH_PATH"])
    if engine.suffix != ".onnx" or sidecar(engine).get("builder") != STAND_IN:
        raise Problem("engine-missing", f"{engine} does not say that it is a {STAND_IN}")
    return engine
