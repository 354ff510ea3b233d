"""The first request: whether the server and its model are there, and the answer is right."""

from __future__ import annotations

import difflib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from common.problems import Problem
from serving.kserve import Connection, KserveError, Model, ModelState, TensorInfo, WireTensor
from serving.kserve.stand_ins import stand_in

from . import checks, inputs, target
from . import server as counters
from .options import BenchSettings
from .target import ProbedModel

START_ONE = "start one: `cm run script --tags=run,triton-server --model_repository=DIR`"


def probe(settings: BenchSettings) -> ProbedModel:
    """Ask for one inference and check it; raises Problem where there is none to check."""
    with target.connect(settings) as connection:
        try:
            return _probe(settings, connection)
        except KserveError as error:
            raise explained(settings, connection, error) from error


def _probe(settings: BenchSettings, connection: Connection) -> ProbedModel:
    server = connection.server()
    model = connection.model(settings.model, settings.version)
    config = _config(connection, settings)
    model = replace(model, inputs=tuple(_needed(model, config, settings)))
    batch = _batch(settings, model, _largest_batch(model, config))
    samples = inputs.make(
        model, batch is not None, settings.batch, settings.source, settings.shapes, settings.seed
    )
    right = target.golden(settings, model)
    request = connection.prepare(settings.model, samples[0], target.names(model), settings.version)
    before = counters.statistics(connection, settings.model, settings.version)
    begin = time.perf_counter()
    outputs = connection.run(request)
    first = time.perf_counter() - begin
    problems = checks.describe_problems(outputs, model.outputs, batch)
    problems += checks.differences(outputs, right, settings.tolerance)
    kept = {name: _copy(tensor) for name, tensor in outputs.items()}
    software = f"{server.name} {server.version}"
    counted = before.success.count + 1 if before else 0
    return ProbedModel(settings, software, model, batch, tuple(samples), first * 1e3,
                       tuple(problems), kept, counted, stand_in(config or {}))  # fmt: skip


def _batch(settings: BenchSettings, model: Model, largest: int) -> int | None:
    """Return the samples in a request; None where the model has no batch; raise Problem."""
    if largest == 0 and settings.batch > 1:
        raise Problem(
            "server-failed",
            f"{model.name} takes no batches (max_batch_size 0)",
            hint="leave out --batch_size",
        )
    if 0 < largest < settings.batch:
        raise Problem(
            "server-failed",
            f"{model.name} takes at most {largest} samples in a request, not {settings.batch}",
            hint=f"--batch_size={largest}",
        )
    return settings.batch if largest else None


def _copy(tensor: WireTensor) -> WireTensor:
    return WireTensor(tensor.datatype, tensor.shape, memoryview(bytes(tensor.data)))


def _config(connection: Connection, settings: BenchSettings) -> Mapping[str, Any] | None:
    """Return the model's configuration; None where the server withholds it."""
    try:
        config = connection.config(settings.model, settings.version)
        int(config.get("max_batch_size", 0))
        return config
    except (TypeError, ValueError):
        return None
    except KserveError as error:
        if error.kind not in ("status", "protocol"):
            raise
        return None


def _largest_batch(model: Model, config: Mapping[str, Any] | None) -> int:
    """Return the model's max_batch_size; 0 without batches.

    Where the server does not say, an open first length of every input is that of the batch.
    """
    if config is not None:
        return int(config.get("max_batch_size", 0))
    open_first = all(info.shape[:1] == (-1,) for info in model.inputs)
    return 1 << 31 if model.inputs and open_first else 0


def _needed(
    model: Model, config: Mapping[str, Any] | None, settings: BenchSettings
) -> Iterator[TensorInfo]:
    """Return the inputs without optional ones of unknown length."""
    free = set(_optional(config or {})) if settings.source in ("random", "zero") else set()
    free -= set(settings.shapes)
    for info in model.inputs:
        if info.name not in free or -1 not in info.shape[1:]:
            yield info


def _optional(config: Mapping[str, Any]) -> Iterator[str]:
    inputs = config.get("input")
    for each in inputs if isinstance(inputs, list) else ():
        if isinstance(each, dict) and each.get("optional") is True:
            yield str(each.get("name"))


def explained(settings: BenchSettings, connection: Connection, error: KserveError) -> Problem:
    """Return the failure with what to do next."""
    hints = {
        "refused": START_ONE,
        "reset": "see the last lines of the server's log",
        "timeout": "is the server busy, or does the model take so long? --timeout=SECONDS",
        "protocol": f"does {settings.url} speak {settings.protocol}? --protocol, --url",
    }
    hint = error.hint or hints.get(error.kind, "")
    message = f"({error.kind}) {error}"
    if error.kind == "status" and "shared memory" in str(error):
        hint = "the server must see /dev/shm of this machine; a container does with --ipc=host"
    elif error.kind == "status":
        hint = hint or _models(settings, connection)
    return Problem("server-failed", message, hint=hint)


def _models(settings: BenchSettings, connection: Connection) -> str:
    """Return a hint on the server's models, where the requested one is not ready."""
    try:
        models = connection.index()
    except KserveError:
        return ""
    own = [each for each in models if each.name == settings.model]
    if not own:
        return _others(settings.model, {each.name: each.state for each in models})
    ready = {each.version for each in own if each.state == "READY"}
    if ready and settings.version not in {"", *ready}:
        return f"it has --model_version={', '.join(sorted(ready))}"
    return _kind(settings, connection) if len(ready) == len(own) else _idle(own)


def _idle(own: Sequence[ModelState]) -> str:
    """Return the state of the first version that is not ready."""
    idle = next(each for each in own if each.state != "READY")
    return f"{idle.name} is {idle.state or 'not loaded'}: {idle.reason or 'no reason given'}"


def _kind(settings: BenchSettings, connection: Connection) -> str:
    """Return why single requests do not suit the model; empty where they do."""
    try:
        config = _config(connection, settings) or {}
    except KserveError:
        return ""
    policy = config.get("model_transaction_policy")
    if isinstance(policy, dict) and policy.get("decoupled"):
        return f"{settings.model} answers in a stream (decoupled), which is not measured here"
    if "sequence_batching" in config:
        return f"{settings.model} wants sequences of requests, which are not sent here"
    return ""


def _others(model: str, states: Mapping[str, str]) -> str:
    near = difflib.get_close_matches(model, list(states), n=1)
    if near:
        return f"did you mean {near[0]}?"
    ready = sorted(name for name, state in states.items() if state == "READY")
    return f"the server has {', '.join(ready) or 'no model that is ready'}"
