"""The targets of the guide "Triton on AWS Inferentia": compiled models for engines."""

from __future__ import annotations

from aws_neuron import artifact
from common.problems import Problem
from nvidia_mlperf.make import compiled_models, harness, neuron, scratch
from nvidia_mlperf.make.flow import Flow
from nvidia_mlperf.make.work import plan

IN_PLACE = (
    "the conda environment of Triton's Python backend: get,triton-server, with the SDK's packages",
    (
        "NVIDIA's harness with Triton in its process: the harness of app-mlperf-inference, and a "
        "Triton server beside it, which it starts and ends; both share memory"
    ),
)
WORD = "make run_inferentia_harness"
EXAMPLE = f'{WORD} RUN_ARGS="--benchmarks=resnet50 --scenarios=offline --config_ver=triton"'


def build_inferentia(flow: Flow) -> None:
    """Links, LoadGen, Triton, and every compiled model that the system's configurations name."""
    if neuron.scratch(flow):
        scratch.link_dirs(flow)
    else:
        usual = artifact.usual_scratch()
        text = f"no scratch space ({usual} is not there, MLPERF_SCRATCH_PATH is not set)"
        flow.report([f"{text}: models and data lie in the cache of cm"])
    python = flow.python()
    tags = f"--tags=get,mlperf,inference,loadgen,_r{flow.settings.round}"
    flow.cm("run", "script", tags, *python, "--quiet")
    compiled: set[tuple[str, int]] = set()
    work = plan(flow, "--config_ver=all")
    for item in work.items:
        made = (item.config.benchmark, compiled_models.batch_of(item))
        if made not in compiled:
            compiled.add(made)
            flow.cm(*compiled_models.compile_line(flow, item, python))
    flow.cm("run", "script", "--tags=get,triton-server,_neuron", *python, "--quiet")
    flow.report(f"in place of {line}" for line in IN_PLACE)


def run_inferentia_harness(flow: Flow) -> None:
    """Measure every item with its compiled model; results on stdout."""
    work = plan(flow)
    flow.report(work.lines())
    harness.measure(flow, work)


def no_engines(flow: Flow) -> None:
    """Raise Problem: engines are for TensorRT, and models are compiled beforehand."""
    del flow
    raise Problem(
        "not-available",
        "Inferentia has no step that generates engines: build_inferentia compiles its models",
        f"`make build_inferentia`, then `{EXAMPLE}`",
    )


def other_word(flow: Flow) -> None:
    """Raise Problem: the word that runs is another one here."""
    run_args = flow.variables.get("RUN_ARGS", "")
    line = f'{WORD} RUN_ARGS="{run_args}"' if run_args else EXAMPLE
    raise Problem("not-available", "run_harness is for NVIDIA's GPUs", line)
