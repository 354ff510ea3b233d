"""Checks before the long part: those of the machine are the doctor's, those of the plan ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from common.problems import Hint, Problem
from nvidia_mlperf.flow import systems, vocabulary
from nvidia_mlperf.flow.space import scratch_of
from nvidia_mlperf.make import builders, data, engines, neuron
from nvidia_mlperf.make.flow import Flow
from nvidia_mlperf.make.work import PlannedRun, WorkPlan, read_registry

OK, INFO, WARNING, STOP = "ok", "info", "look", "stop"
GPU_BATCH = "gpu_batch_size"


@dataclass(frozen=True, slots=True)
class FlowCheck:
    """A finding: ``state`` is ok, info, look (may get in the way) or stop (nothing runs)."""

    id: str
    state: str
    text: str
    remedy: str = ""

    def __post_init__(self) -> None:
        """Take the commands in the remedy as such."""
        object.__setattr__(self, "remedy", Hint(self.remedy))

    def __str__(self) -> str:
        line = f"{self.state:5}{self.id}: {self.text}"
        return f"{line}\n     do: {self.remedy}" if self.remedy else line


# ---- the machine, by the doctor's registry


def subject(
    flow: Flow, work: WorkPlan | None = None, builds: Sequence[PlannedRun] | None = None
) -> dict[str, Any]:
    """Return the runs for the doctor; without a plan, all of the round.

    ``builds`` are the items whose engines are going to be built for a GPU; without it those that
    have one count.
    """
    items = work.items if work else ()
    named = [item.config.benchmark for item in items] or [word for word, _ in data.benchmarks(flow)]
    computed = on_gpu(flow, items) if builds is None else builds
    full, vendor_round = flow.settings.form == "full", flow.settings.vendor_round
    return {
        "vendor_round": vendor_round,
        "folder": str(flow.folder),
        "scratch": flow.variables.get("MLPERF_SCRATCH_PATH", ""),
        "scenarios": sorted({item.config.scenario for item in items}),
        "needs": [needs(vendor_round, word, computed) for word in dict.fromkeys(named)]
        if full
        else [],
        "allow_root": flow.settings.allow_root,
        "skip_driver": flow.is_on("SKIP_DRIVER_CHECK"),
    }


def on_gpu(flow: Flow, items: Sequence[PlannedRun]) -> list[PlannedRun]:
    """Return the items that a GPU computes: those with an engine of TensorRT."""
    return [item for item in items if engines.plan_of(flow, item)]


def needs(vendor_round: str, word: str, items: Sequence[PlannedRun]) -> dict[str, Any]:
    """What a benchmark takes, in bytes, and which of its data must be whole.

    Its weights take a GPU's memory in the number format of each of ``items``.
    """
    place, size = scratch_of(vendor_round, word), vocabulary.rounds(vendor_round)[word].size
    return {
        "name": word,
        "disk": place.gigabytes * 10**9,
        "memory": place.memory * 10**9,
        "gpu_memory": max(
            (
                builders.memory(item, size.parameters * 10**6)
                for item in items
                if item.config.benchmark == word
            ),
            default=0,
        ),
        "data": place.whole,
    }


def of_machine(flow: Flow, work: WorkPlan | None = None) -> list[FlowCheck]:
    """What the doctor finds for this vendor's flow."""
    findings = flow.runner.findings(flow.vendor, subject(flow, work))
    checks = [FlowCheck(one["id"], one["state"], one["text"], one["remedy"]) for one in findings]
    return [*checks, *of_neuron(flow)]


# ---- the plan


def of_system(work: WorkPlan) -> Iterator[FlowCheck]:
    """Yield the values are those of the machine that it is."""
    system = read_registry().systems.get(work.system)
    if work.machine is None or system is None:
        return
    misfit = systems.difference(work.machine, system)
    if misfit:
        text = f"the values are those of {system.id}: {misfit}, this machine is {work.machine}"
        remedy = "make one for this machine: `cm run script --tags=add,custom,system,nvidia`"
        yield FlowCheck("config.system", WARNING, text, remedy)
    else:
        yield FlowCheck("config.system", OK, f"{work.system} is this machine")


def of_parts(work: WorkPlan) -> Iterator[FlowCheck]:
    """Rates of a whole GPU for a part of one."""
    for item in work.items:
        for note in item.config.notes if work.machine else ():
            if "whole GPU" in note:
                remedy = "give the rate of a part: --offline_expected_qps=…"
                yield FlowCheck("config.mig", WARNING, f"{item.name}: {note}", remedy)


def of_batches(work: WorkPlan) -> Iterator[FlowCheck]:
    """Yield a batch that was published for a GPU with more memory than there is."""
    system = read_registry().systems.get(work.system)
    have = work.machine.memory if work.machine else 0
    if system is None or not have or system.memory <= have * (1 + systems.SAME_MEMORY):
        return
    large = [batch_line(item, have / system.memory) for item in work.items]
    text = f"batches are for {system.memory:g} GiB, this GPU has {have:.0f}: "
    if any(large):
        remedy = "the smaller ones, or half of it after an out-of-memory"
        yield FlowCheck("config.batch", WARNING, text + "; ".join(filter(None, large)), remedy)


def batch_line(item: PlannedRun, share: float) -> str:
    """Return the batch that fits a GPU with that share of the memory; empty without one."""
    batch = item.value(GPU_BATCH)
    if not isinstance(batch, int) or batch < 2 or GPU_BATCH in item.overrides:
        return ""
    return f"{item.name} --{GPU_BATCH}={max(1, int(batch * share))}"


def of_neuron(flow: Flow) -> Iterator[FlowCheck]:
    """What computes under USE_INFERENTIA."""
    if flow.vendor == neuron.ACCELERATOR:
        yield FlowCheck("neuron.there", OK, str(neuron.device(flow)))


OF_PLAN = (of_system, of_parts, of_batches)


# ---- reporting


def report(flow: Flow) -> None:
    """Show all checks of the machine; raises Problem where one says stop."""
    checks = of_machine(flow)
    flow.report(str(check) for check in checks)
    refuse(checks)


def before_runs(flow: Flow, work: WorkPlan) -> None:
    """The checks that count for runs: what gets in the way is shown, and stop stops."""
    checks = [*of_machine(flow, work), *(check for look in OF_PLAN for check in look(work))]
    flow.report(str(check) for check in checks if check.state in (WARNING, STOP))
    refuse(checks)


def before_builds(flow: Flow, work: WorkPlan, items: Sequence[PlannedRun]) -> None:
    """The checks of driver and GPU that count before engines of ``items`` are built for a GPU.

    Raises Problem for one that says stop: too little memory, before hours of building.
    """
    findings = flow.runner.findings(flow.vendor, subject(flow, work, items))
    checks = [FlowCheck(one["id"], one["state"], one["text"], one["remedy"]) for one in findings]
    refuse([check for check in checks if check.id.partition(".")[0] in ("driver", "gpu")])


CODES: Mapping[str, str] = {
    "driver": "no-driver",
    "gpu": "no-device",
    "folder": "not-writable",
    "scratch": "not-writable",
}
"""By the area of a check, the kind of the error that it ends in; else ``bad-value``."""


def refuse(checks: list[FlowCheck]) -> None:
    """Raise Problem with every finding that says stop."""
    stops = [check for check in checks if check.state == STOP]
    if stops:
        text = "; ".join(f"{check.id}: {check.text}" for check in stops)
        kind = CODES.get(stops[0].id.partition(".")[0], "bad-value")
        remedies = Hint.joined(*(check.remedy for check in stops), between="; ")
        raise Problem(kind, text, remedies)
