"""What a run of a benchmark is made of: the words of its ``cm`` line, the steps of its plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from common.problems import Problem
from nvidia_mlperf.make import builders, engines, neuron
from nvidia_mlperf.make.files import sidecar
from nvidia_mlperf.make.flow import STAND_IN, Flow


def model(flow: Flow, benchmark: str) -> Mapping[str, Any]:
    """Return the model of one of our benchmarks as its script gives it (``CM_ML_MODEL_*``).

    It is an ONNX file for NVIDIA's systems, one of PyTorch for Inferentia. Raises Problem for any
    other.
    """
    tags = step_of(flow, benchmark, "ml-model")
    line = ["run", "script", f"--tags={tags}", *flow.python(), "--quiet"]
    env: Mapping[str, Any] = flow.runner.cm_json(line)["env"]
    endings = (".pt", ".pth", ".pytorch") if flow.vendor == neuron.ACCELERATOR else (".onnx",)
    if not str(env.get("CM_ML_MODEL_FILE_WITH_PATH", "")).endswith(endings):
        raise Problem("not-available", f"{benchmark} has no model {' or '.join(endings)} here")
    return env


def step_of(flow: Flow, benchmark: str, kind: str) -> str:
    """The tags that get the model (``ml-model``) or the data (``preprocessed``) of a benchmark.

    They are those that a run of it asks for, read from its plan. Raises Problem when the plan has
    no such step.
    """
    for step in steps(flow, benchmark):
        words = set(str(step["tags"]).split(","))
        if {"get", kind} <= words or (kind == "preprocessed" and {"get", "cnndm"} <= words):
            return str(step["tags"])
    raise Problem("not-available", f"the plan of {benchmark} has no {kind}")


def steps(flow: Flow, benchmark: str) -> Iterator[Mapping[str, Any]]:
    """Yield the steps of the plan of a run, each before those below it."""
    root = flow.runner.cm_json(["plan", "script", *base(flow, benchmark), "--json"])["root"]
    waiting = [root]
    while waiting:
        step = waiting.pop(0)
        yield step
        waiting = [*step["children"], *waiting]


def base(flow: Flow, benchmark: str, engine: Path | None = None) -> list[str]:
    """Return the flags that all runs of a benchmark share."""
    form = "" if flow.settings.form == "full" else f",_{flow.settings.form}"
    own = flow.settings.python
    return [
        f"--tags=run-mlperf,inference,_r{flow.settings.round}{form}",
        f"--model={benchmark}",
        *_computes(flow, engine),
        *([f"--python={own}"] if own else []),
    ]


def _computes(flow: Flow, engine: Path | None) -> list[str]:
    if engine is not None and engines.is_plan(engine):
        return builders.run_words(engine, sidecar(engine))
    if flow.vendor == neuron.ACCELERATOR:
        return [*neuron.SERVED, f"--device={neuron.target(flow)}", "--precision=float32"]
    return [f"--backend={STAND_IN}", "--precision=float32"]
