"""What every model of a repository does for Triton: requests joined to a batch, and cut again."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Dict

# Threads of OpenMP (PyTorch's) that wait for each other keep their cores busy. The server, its
# clients and other instances want these too: with one of two cores in use, 250 ms became 3.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import numpy as np
import triton_python_backend_utils as pb_utils

Feeds = Dict[str, Any]  # Triton's older images have Python 3.8.
"""The arrays of the inputs of a request, by their names."""


def cores_of(first: int, last: int, instance: int, instances: int) -> tuple[int, int]:
    """Return the first and the last NeuronCore of one of several instances, both counted."""
    each = (last - first + 1) // instances
    start = first + instance * each
    return start, start + each - 1


class BatchingModel:
    """The base of the models: ``open`` and ``compute`` are a runtime's own."""

    def initialize(self, args: Mapping[str, str]) -> None:
        config = json.loads(args["model_config"])
        self.inputs = [_tensor(each) for each in config["input"]]
        self.outputs = [_tensor(each) for each in config["output"]]
        self.batched = config.get("max_batch_size", 0) > 0
        parameters = config.get("parameters", {})
        self.parameters = {key: value["string_value"] for key, value in parameters.items()}
        self.join = self.parameters.get("JOIN_REQUESTS") == "yes" and self.batched
        self.name = args["model_instance_name"]
        self.instance = int(self.name.rpartition("_")[2])
        self.instances = sum(group["count"] for group in config["instance_group"])
        folder = os.path.join(args["model_repository"], args["model_version"])
        self.file = os.path.join(folder, self.parameters.get("COMPILED_MODEL", ""))
        self.threads = int(self.parameters.get("THREADS", "0")) or None
        self.fixed = int(self.parameters.get("FIXED_BATCH", "0"))
        self.least = int(self.parameters.get("LEAST_BATCH", "0"))
        self.cores: range | None = None
        if "NEURON_CORE_START_INDEX" in self.parameters:
            self.claim()
        self.open()

    def claim(self) -> None:
        """Take the cores of this instance, before the libraries that use them are there."""
        first, last = (
            int(self.parameters[f"NEURON_CORE_{word}_INDEX"]) for word in ("START", "END")
        )
        start, end = cores_of(first, last, self.instance, self.instances)
        self.cores = range(start, end + 1)
        os.environ["NEURON_RT_VISIBLE_CORES"] = f"{start}-{end}"
        device = self.parameters.get("DEVICE")
        print(f"{self.name}: NEURON_RT_VISIBLE_CORES={start}-{end}, device {device}", flush=True)

    def open(self) -> None:
        """Open the model."""

    def compute(self, feeds: Feeds) -> list[Any]:
        """The arrays of all outputs, in their order, for the arrays of the inputs by name."""
        raise NotImplementedError

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        feeds = [self._feeds(request) for request in requests]
        groups = _alike(feeds) if self.join else [[number] for number in range(len(feeds))]
        answers: list[Any] = [None] * len(requests)
        for group in groups:
            for number, answer in zip(group, self._together([feeds[n] for n in group])):
                names = requests[number].requested_output_names()
                answers[number] = self._response(answer, set(names))
        return answers

    def _feeds(self, request: Any) -> Feeds:
        return {
            name: pb_utils.get_input_tensor_by_name(request, name).as_numpy()
            for name, _, _ in self.inputs
        }

    def _together(self, feeds: Sequence[Feeds]) -> Sequence[Any]:
        """For every request its outputs, or the exception that there was."""
        try:
            sizes = [len(next(iter(each.values()))) for each in feeds]
            if sum(sizes) < self.least:
                raise ValueError(
                    f"a batch of {sum(sizes)} cannot be shared out to the {self.least} cores of "
                    f"{self.name}: at least that many samples are needed"
                )
            if len(feeds) == 1:
                return [self._fitted(feeds[0])]
            joined = {name: np.concatenate([each[name] for each in feeds]) for name in feeds[0]}
            cuts = np.cumsum(sizes)[:-1]
            parts = [np.split(np.asarray(output), cuts) for output in self._fitted(joined)]
            return list(zip(*parts))
        except Exception as error:  # whatever the runtime raises belongs to these requests
            return [error] * len(feeds)

    def _fitted(self, feeds: Feeds) -> list[Any]:
        """The outputs, where the model takes one batch only: cut into those, the last filled up."""
        count = len(next(iter(feeds.values())))
        if not self.fixed or count == self.fixed:
            return self.compute(feeds)
        parts = [
            self.compute({name: self._filled(array, at) for name, array in feeds.items()})
            for at in range(0, count, self.fixed)
        ]
        return [np.concatenate(outputs)[:count] for outputs in zip(*parts)]

    def _filled(self, array: Any, start: int) -> Any:
        part = array[start : start + self.fixed]
        missing = self.fixed - len(part)
        return np.concatenate([part, np.repeat(part[-1:], missing, 0)]) if missing else part

    def _response(self, answer: Any, names: set[str]) -> Any:
        if isinstance(answer, Exception):
            error = pb_utils.TritonError(f"{type(answer).__name__}: {answer}")
            return pb_utils.InferenceResponse(error=error)
        tensors = [
            pb_utils.Tensor(name, np.ascontiguousarray(value, dtype=dtype))
            for (name, dtype, _), value in zip(self.outputs, answer)
            if name in names
        ]
        return pb_utils.InferenceResponse(tensors)


def _tensor(description: Mapping[str, Any]) -> tuple[str, Any, list[int]]:
    """Name, type of NumPy, and shape of a sample."""
    shape = description.get("reshape", {}).get("shape", description["dims"])
    dtype = pb_utils.triton_string_to_numpy(description["data_type"])
    return description["name"], dtype, [int(size) for size in shape]


def _alike(feeds: Sequence[Feeds]) -> Iterable[list[int]]:
    """Return the numbers of the requests that can be one batch, together."""
    groups: dict[Any, list[int]] = {}
    for number, each in enumerate(feeds):
        key = tuple(array.shape[1:] for array in each.values())
        groups.setdefault(key, []).append(number)
    return groups.values()
