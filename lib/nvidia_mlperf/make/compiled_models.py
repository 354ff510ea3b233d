"""Compiled models for Inferentia, in place of engines: their paths, and whether they fit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from aws_neuron import artifact
from aws_neuron.artifact import ArtefactError
from common.problems import Problem
from nvidia_mlperf.flow.systems import CPU
from nvidia_mlperf.make import neuron
from nvidia_mlperf.make.flow import Flow
from nvidia_mlperf.make.work import PlannedRun

CORES, INSTANCES = "inferentia_neuron_core_count", "instance_group_count"
BATCH = "inferentia_compiled_model_batch_size"
MODELS = "inferentia-compiled-models"
PYTHON = ("--adr.python.name=mlperf",)
"""The environment of runs for a line that the user types."""


def models(flow: Flow) -> Path:
    """Return the folder of all compiled models: the guide's; in build/ for what no device runs.

    Both have files of the same names, so they must not share a folder. Nor must the models that
    stand in for real ones lie in the guide's, whatever runs them.
    """
    folder = flow.settings.compiled_models
    if folder:
        return Path(folder)
    usual = artifact.usual_folder()
    if flow.settings.form == "full" and neuron.target(flow) != CPU and usual.parent.is_dir():
        return usual
    return flow.build / MODELS


def batch_of(item: PlannedRun) -> int:
    """Return the samples that the item's model is compiled for."""
    return int(item.value(BATCH, 1))


def words(flow: Flow, item: PlannedRun) -> Iterator[str]:
    """Further words of the ``cm`` line of a run: its compiled model, an instance per core.

    The rates and batches of the registry are those of the machine that it names, or of none.
    """
    yield f"--adr.neuron-model.batch_size={batch_of(item)}"
    yield f"--adr.neuron-model.dir={models(flow)}"
    if neuron.target(flow) != CPU:
        yield f"--backend_options=instances={item.value(INSTANCES, 1)}"


def compile_line(flow: Flow, item: PlannedRun, python: Iterable[str] = PYTHON) -> list[str]:
    """Return the ``cm`` line that compiles the model of an item, by the Python of runs."""
    form = "" if flow.settings.form == "full" else f",_{flow.settings.form}"
    return [
        "run",
        "script",
        f"--tags=compile,neuron-model,_{item.config.benchmark}{form}",
        f"--target={neuron.target(flow)}",
        f"--batch_size={batch_of(item)}",
        f"--dir={models(flow)}",
        *python,
        "--quiet",
    ]


def require(flow: Flow, items: Iterable[PlannedRun]) -> None:
    """Raise Problem unless every item has a model compiled for its target.

    All that is wrong comes at once, with the line that makes it right.
    """
    wrong: dict[str, str] = {}
    for item in items:
        cores, instances = item.value(CORES, 1), item.value(INSTANCES, 1)
        if cores != instances:
            wrong[f"{item.name}: {instances} instances of a core each, and {cores} NeuronCores"] = (
                f"--{INSTANCES}={cores}, as every configuration of the guide has it"
            )
        path = artifact.file_of(item.config.benchmark, batch_of(item), models(flow))
        try:
            artifact.read(path, verify_digest=False).require(neuron.target(flow))
        except ArtefactError as error:
            line = " ".join(["cm", *compile_line(flow, item)])
            wrong[str(error)] = f"`make build_inferentia`, or `{line}`"
    if wrong:
        hints = "\n".join(dict.fromkeys(wrong.values()))
        raise Problem("engine-missing", "; ".join(wrong), hints, tuple(wrong))
