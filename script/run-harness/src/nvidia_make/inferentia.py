"""The words of the guide "Triton on AWS Inferentia": compiled models in the place of engines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import neuron_artefact
from neuron_artefact import ArtefactError
from nvidia_flow.errors import FlowError

from nvidia_make import harness, neuron, scratch
from nvidia_make.flow import Flow
from nvidia_make.work import Item, plan

CORES, INSTANCES = "inferentia_neuron_core_count", "instance_group_count"
BATCH, REQUEST = "inferentia_compiled_model_batch_size", "inferentia_request_batch_size"
MODELS = "inferentia-compiled-models"
VENV = "mlperf"
"""The environment that runs have too: what compiles for the processor is installed only once."""
IN_PLACE = (
    "the conda environment of Triton's Python backend: get,triton-server, with the SDK's packages",
    (
        "NVIDIA's harness with Triton in its process: the harness of app-mlperf-inference, and a "
        "Triton server beside it, which it starts and ends; both share memory"
    ),
)
WORD = "make run_inferentia_harness"
EXAMPLE = f'{WORD} RUN_ARGS="--benchmarks=resnet50 --scenarios=offline --config_ver=triton"'


# ---- words


def build_inferentia(flow: Flow) -> None:
    """Links, LoadGen, Triton, and every compiled model that the system's configurations name."""
    if neuron.scratch(flow):
        scratch.link_dirs(flow)
    else:
        usual = neuron_artefact.usual_scratch()
        told = f"no scratch space ({usual} is not there, MLPERF_SCRATCH_PATH is not set)"
        flow.tell([f"{told}: models and data lie in the cache of cm"])
    tags = f"--tags=get,mlperf,inference,loadgen,_r{flow.settings.round}"
    flow.cm("run", "script", tags, "--quiet")
    flow.cm("run", "script", "--tags=install,python-venv", f"--name={VENV}", "--quiet")
    compiled: set[tuple[str, int]] = set()
    work = plan(flow, "--config_ver=all")
    for item in work.items:
        if (made := (item.config.benchmark, batch_of(item))) not in compiled:
            compiled.add(made)
            flow.cm(*compile_line(flow, item))
    python = f"--adr.python.name={VENV}"
    flow.cm("run", "script", "--tags=get,triton-server,_neuron", python, "--quiet")
    flow.tell(f"in place of {line}" for line in IN_PLACE)


def run_inferentia_harness(flow: Flow) -> None:
    """Measure every item with its compiled model; results on stdout."""
    work = plan(flow)
    flow.tell(work.lines())
    harness.measure(flow, work)


def no_engines(flow: Flow) -> None:
    """Raise FlowError: engines are for TensorRT, and models are compiled beforehand."""
    del flow
    raise FlowError(
        "not-available",
        "Inferentia has no step that generates engines: build_inferentia compiles its models",
        f"make build_inferentia, then {EXAMPLE}",
    )


def other_word(flow: Flow) -> None:
    """Raise FlowError: the word that runs is another one here."""
    given = flow.variables.get("RUN_ARGS", "")
    asked = f'{WORD} RUN_ARGS="{given}"' if given else EXAMPLE
    raise FlowError("not-available", "run_harness is for NVIDIA's GPUs", asked)


# ---- models


def models(flow: Flow) -> Path:
    """The folder of all compiled models: the guide's; in build/ for what no device runs.

    Both have files of the same names, so they must not share a folder.
    """
    given = flow.settings.compiled_models
    if given:
        return Path(given)
    usual = neuron_artefact.usual_folder()
    if neuron.target(flow) != neuron.CPU and usual.parent.is_dir():
        return usual
    return flow.build / MODELS


def batch_of(item: Item) -> int:
    """The samples that the item's model is compiled for."""
    return int(item.value(BATCH, 1))


def words(flow: Flow, item: Item) -> Iterator[str]:
    """Further words of the ``cm`` line of a run: its compiled model, an instance for each core.

    The rates and batches of the registry are those of the machine that it names, or of none.
    """
    yield f"--adr.neuron-model.batch_size={batch_of(item)}"
    yield f"--adr.neuron-model.dir={models(flow)}"
    if neuron.target(flow) != neuron.CPU:
        yield f"--backend_options=instances={item.value(INSTANCES, 1)}"


def compile_line(flow: Flow, item: Item) -> list[str]:
    """The ``cm`` line that compiles the model of an item."""
    form = "" if flow.settings.form == "full" else f",_{flow.settings.form}"
    return [
        "run",
        "script",
        f"--tags=compile,neuron-model,_{item.config.benchmark}{form}",
        f"--target={neuron.target(flow)}",
        f"--batch_size={batch_of(item)}",
        f"--dir={models(flow)}",
        f"--adr.python.name={VENV}",
        "--quiet",
    ]


def require(flow: Flow, items: Iterable[Item]) -> None:
    """Raise FlowError unless every item has a model compiled for what is to run it.

    All that is wrong comes at once, with the line that makes it right.
    """
    wrong: dict[str, str] = {}
    for item in items:
        cores, instances = item.value(CORES, 1), item.value(INSTANCES, 1)
        if cores != instances:
            wrong[f"{item.name}: {instances} instances of a core each, and {cores} NeuronCores"] = (
                f"--{INSTANCES}={cores}, as every configuration of the guide has it"
            )
        path = neuron_artefact.file_of(item.config.benchmark, batch_of(item), models(flow))
        try:
            neuron_artefact.read(path, whole=False).require(neuron.target(flow))
        except ArtefactError as error:
            line = " ".join(["cm", *compile_line(flow, item)])
            wrong[str(error)] = f"make build_inferentia, or {line}"
    if wrong:
        hints = "\n".join(dict.fromkeys(wrong.values()))
        raise FlowError("engine-missing", "; ".join(wrong), hints, tuple(wrong))
