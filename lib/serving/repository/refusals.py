"""Checks for models that would not work in the server."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from aws_neuron import artifact
from aws_neuron.artifact import ArtefactError
from common.problems import Problem

from . import onnx_signature, onnx_weights
from .plan import KINDS, NAMES, NEURON_DEVICES, RUNTIMES, ModelTensor, RepositoryPlan

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def check(plan: RepositoryPlan) -> list[str]:
    """Notes about a plan that works; raises Problem with all that does not."""
    problems = [*_words(plan), *_tensors(plan), *_batches(plan), *_cores(plan), *_artefact(plan)]
    if not problems:
        problems += _signature(plan)
    if problems:
        raise Problem("bad-value", f"{plan.name}: {'; '.join(problems)}")
    return list(_notes(plan))


def _words(plan: RepositoryPlan) -> Iterator[str]:
    if not NAME.fullmatch(plan.name):
        yield "a model's name has letters, digits, dots, dashes and underscores"
    if plan.runtime not in RUNTIMES:
        yield f"no runtime {plan.runtime}, only {', '.join(RUNTIMES)}"
    known = NEURON_DEVICES if plan.runtime in ("neuron", "tensorflow") else tuple(KINDS)
    if plan.device not in known:
        yield f"{plan.runtime} has no device {plan.device}, only {', '.join(known)}"
    if plan.version < 1:
        yield f"version {plan.version}: versions are counted from 1"
    if plan.instances < 1:
        yield f"{plan.instances} instances: at least one is needed"


def _tensors(plan: RepositoryPlan) -> Iterator[str]:
    for kind, tensors in (("input", plan.inputs), ("output", plan.outputs)):
        if not tensors:
            yield f"no {kind} is named"
        names = [tensor.name for tensor in tensors]
        if len(set(names)) != len(names):
            yield f"an {kind} is named twice"
        for tensor in tensors:
            if tensor.dtype not in NAMES:
                yield f"{kind} {tensor.name} has the unknown type {tensor.dtype}"
            if any(size < 1 and size != -1 for size in tensor.shape):
                yield f"{kind} {tensor}: sizes are above zero, or -1"


def _batches(plan: RepositoryPlan) -> Iterator[str]:
    if plan.max_batch < 0:
        yield f"the largest batch is {plan.max_batch}"
    if plan.batching is None:
        return
    if not plan.max_batch:
        yield "requests are to be gathered, and the largest batch is 0: give --max_batch_size"
    if above := [size for size in plan.batching.preferred if not 0 < size <= plan.max_batch]:
        yield f"preferred batches {above} are not between 1 and {plan.max_batch}"
    for tensor in plan.inputs:
        if -1 in tensor.shape:
            yield (
                f"requests are to be gathered, and those of input {tensor} may differ in shape: "
                "fix its sizes, or do not gather"
            )


def _cores(plan: RepositoryPlan) -> Iterator[str]:
    cores = plan.cores
    if cores is None:
        if plan.runtime == "neuron":
            yield "no cores are named: give --neuron_core_range=FIRST:LAST"
        return
    if cores.first < 0 or cores.count < 1 or cores.threads < 1:
        yield f"cores {cores.first} to {cores.last} with {cores.threads} threads each"
        return
    if plan.instances < 1 or cores.count % plan.instances:
        yield f"{cores.count} cores cannot be shared out to {plan.instances} instances"
        return
    each = plan.cores_of_instance
    if 0 < plan.max_batch < each:
        yield (
            f"requests of at most {plan.max_batch} samples are shared out to the {each} cores of "
            f"an instance: give --max_batch_size={each} or more"
        )


def _artefact(plan: RepositoryPlan) -> Iterator[str]:
    if plan.artefact is None:
        if plan.runtime != "echo":
            yield "no model file is named: --compiled_model=FILE does"
        return
    for path in (plan.artefact.path, *plan.helpers):
        if not Path(path).exists():
            yield f"{path} does not exist"
    model = Path(plan.artefact.path)
    for name, source in onnx_weights.files(model).items():
        if not source.is_file():
            yield f"there is no {source}: {model.name} keeps weights in {name}"
        if Path(name).is_absolute() or ".." in Path(name).parts:
            yield f"{model.name} keeps weights in {name}, outside of its folder: export it again"


def _signature(plan: RepositoryPlan) -> Iterator[str]:
    """Yield how the tensors differ from those in the model's file, if known."""
    path = Path(plan.artefact.path) if plan.artefact else None
    if path is None:
        return
    if path.suffix == ".onnx":
        inputs, outputs = onnx_signature.read(path)
    else:
        signature = _sidecar(path)
        if signature is None:
            return
        inputs, outputs = signature
    wanted = [_samples(plan, tensors) for tensors in (plan.inputs, plan.outputs)]
    yield from _differences("input", wanted[0], inputs, reject_others=True)
    yield from _differences("output", wanted[1], outputs, reject_others=False)


def _samples(plan: RepositoryPlan, tensors: Sequence[ModelTensor]) -> Sequence[ModelTensor]:
    """Tensors without their rows: where there is no batch, these may be a dimension like others."""
    own_rows = not plan.max_batch and all(each.shape[:1] == (-1,) for each in tensors)
    return [replace(each, shape=each.shape[1:]) for each in tensors] if own_rows else tensors


def _sidecar(path: Path) -> tuple[tuple[ModelTensor, ...], tuple[ModelTensor, ...]] | None:
    """Return the tensors in a compiled model's sidecar; None without one."""
    try:
        artefact = artifact.read(path, verify_digest=False)
    except ArtefactError:
        return None
    inputs, outputs = (
        tuple(ModelTensor(t.name, t.dtype, t.shape) for t in tensors)
        for tensors in (artefact.inputs, artefact.outputs)
    )
    return inputs, outputs


def _differences(
    kind: str, wanted: Sequence[ModelTensor], actual: Sequence[ModelTensor], reject_others: bool
) -> Iterator[str]:
    real = {tensor.name: tensor for tensor in actual}
    for tensor in wanted:
        there = real.pop(tensor.name, None)
        if there is None:
            names = ", ".join(each.name for each in actual) or "none"
            yield f"the model has no {kind} {tensor.name}; its {kind}s are {names}"
        elif there.dtype != tensor.dtype or not _fits(tensor.shape, there.shape):
            yield f"{kind} {tensor} is {there} in the model"
    if reject_others and real:
        yield f"the model needs {kind} {', '.join(map(str, real.values()))} too"


def _fits(wanted: tuple[int, ...], actual: tuple[int, ...]) -> bool:
    return len(wanted) == len(actual) and all(
        a == b or -1 in (a, b) for a, b in zip(wanted, actual, strict=True)
    )


def _notes(plan: RepositoryPlan) -> Iterator[str]:
    if plan.device == "gpu":
        yield "KIND_GPU is written, and not verified on hardware"
    if plan.runtime == "tensorflow" or (plan.runtime == "neuron" and plan.device != "cpu"):
        yield "the calls into the Neuron SDK are not verified on hardware"
