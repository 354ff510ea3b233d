"""The text of config.pbtxt, and what Triton's own description of the format reads in it."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from common.problems import Problem

from .plan import NAMES, ModelTensor, RepositoryPlan

FIELDS = (
    "name", "backend", "max_batch_size", "input", "output", "instance_group", "dynamic_batching",
    "parameters",
)  # fmt: skip


def write(plan: RepositoryPlan) -> str:
    """Return the configuration of a model."""
    return "\n".join(_lines(plan)) + "\n"


def _lines(plan: RepositoryPlan) -> Iterator[str]:
    yield f"name: {_text(plan.name)}"
    yield 'backend: "python"'
    yield f"max_batch_size: {plan.max_batch}"
    if plan.batching is not None:
        yield "dynamic_batching {"
        if plan.batching.preferred:
            yield f"  preferred_batch_size: {_list(plan.batching.preferred)}"
        if plan.batching.delay_us:
            yield f"  max_queue_delay_microseconds: {plan.batching.delay_us}"
        yield "}"
    for kind, tensors in (("input", plan.inputs), ("output", plan.outputs)):
        for tensor in tensors:
            yield from _tensor(kind, tensor)
    yield from ("instance_group {", f"  kind: {plan.kind}", f"  count: {plan.instances}", "}")
    for key, value in sorted(plan.all_parameters().items()):
        entry = f"value {{ string_value: {_text(value)} }}"
        yield from ("parameters {", f"  key: {_text(key)}", f"  {entry}", "}")


def _tensor(kind: str, tensor: ModelTensor) -> Iterator[str]:
    yield f"{kind} {{"
    yield f"  name: {_text(tensor.name)}"
    yield f"  data_type: TYPE_{NAMES[tensor.dtype]}"
    # A tensor of one number a sample needs a dimension all the same.
    yield f"  dims: {_list(tensor.shape or (1,))}"
    if not tensor.shape:
        yield "  reshape { shape: [ ] }"
    yield "}"


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _list(numbers: Sequence[int]) -> str:
    return f"[ {', '.join(map(str, numbers))} ]"


@cache
def _description() -> Any:
    """Triton's description of the format, out of tritonclient without the rest of it."""
    module_spec = importlib.util.find_spec("tritonclient")
    places = module_spec.submodule_search_locations if module_spec else None
    path = Path(next(iter(places or ()), ""), "grpc", "model_config_pb2.py")
    try:
        spec = importlib.util.spec_from_file_location("triton_model_config_pb2", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    except (OSError, ImportError, AssertionError) as error:
        text = f"the configuration cannot be checked without tritonclient and protobuf: {error}"
        raise Problem("import-failed", text, "`pip install tritonclient protobuf`") from error


def read(text: str) -> dict[str, Any]:
    """Parse a configuration; raise Problem where Triton would reject it."""
    from google.protobuf import json_format, text_format

    message = _description().ModelConfig()
    try:
        text_format.Parse(text, message)
    except text_format.ParseError as error:
        raise Problem("bad-value", f"config.pbtxt cannot be read: {error}") from error
    config: dict[str, Any] = json_format.MessageToDict(message, preserving_proto_field_name=True)
    return config


def check(plan: RepositoryPlan, text: str) -> None:
    """Raise Problem where ``text`` does not say what the plan does."""
    config, wanted = read(text), _expected(plan)
    wrong = [name for name in FIELDS if config.get(name) != wanted.get(name)]
    if unknown := sorted(set(config) - set(FIELDS)) + wrong:
        changes = "; ".join(f"{n}: {config.get(n)} in place of {wanted.get(n)}" for n in unknown)
        raise Problem("bad-value", f"config.pbtxt is not what was asked for: {changes}")


def _expected(plan: RepositoryPlan) -> Mapping[str, Any]:
    batching = plan.batching
    gathered: dict[str, Any] = {}
    if batching is not None and batching.preferred:
        gathered["preferred_batch_size"] = list(batching.preferred)
    if batching is not None and batching.delay_us:
        # Numbers of 64 bits are texts in JSON.
        gathered["max_queue_delay_microseconds"] = str(batching.delay_us)
    config: dict[str, Any] = {
        "name": plan.name,
        "backend": "python",
        "input": [_expected_tensor(each) for each in plan.inputs],
        "output": [_expected_tensor(each) for each in plan.outputs],
        "instance_group": [{"kind": plan.kind, "count": plan.instances}],
        "parameters": {k: {"string_value": v} for k, v in plan.all_parameters().items()},
    }
    if plan.max_batch:
        config["max_batch_size"] = plan.max_batch
    if batching is not None:
        config["dynamic_batching"] = gathered
    if plan.kind == "KIND_AUTO":
        del config["instance_group"][0]["kind"]
    return config


def _expected_tensor(tensor: ModelTensor) -> dict[str, Any]:
    config: dict[str, Any] = {"name": tensor.name, "data_type": f"TYPE_{NAMES[tensor.dtype]}"}
    config["dims"] = [str(size) for size in tensor.shape or (1,)]
    return config if tensor.shape else {**config, "reshape": {}}
