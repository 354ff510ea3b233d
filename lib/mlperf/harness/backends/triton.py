"""Triton Inference Server: every predictor is a connection with one request in flight."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import numpy as np
import numpy.typing as npt

from mlperf import catalog
from serving import kserve
from serving.kserve import KserveError, Region, RegionSlice
from serving.repository.plan import NAMES, TYPES

from ..errors import HarnessError
from ..settings import GraphSpec, Setup, TensorSpec
from .base import Array, Backend, Feeds, Layout, Predictor, check_signature, describe, empty_batch

# Requests in flight to try: the server computes with as many threads as it was given.
IN_FLIGHT = (1, 2, 4, 8)
TIMEOUT_S = 600.0
CONTENT = "CONTENT_SHA256"
INSPECT_SERVER = "look at the model's program in the repository, and at the server's log"


@dataclass(frozen=True, slots=True)
class TritonModel:
    """A model in the server: the most rows of a request.

    0 where its configuration knows no batch: inputs and outputs may have different numbers of rows.
    """

    name: str
    most: int


class TritonPredictor(Predictor):
    """One connection. With ``shared`` its tensors lie in memory that the server has mapped too."""

    def __init__(
        self,
        connection: Any,
        served: TritonModel,
        graph: GraphSpec,
        outputs: Sequence[str],
        shared: bool,
    ) -> None:
        self._connection = connection
        self._served = served
        self._model = served.name
        self._inputs = {tensor.name: tensor for tensor in graph.inputs}
        known = {tensor.name: tensor for tensor in graph.outputs}
        self._outputs = [known[name] for name in outputs]
        self._shared = shared
        self._regions: list[tuple[int, Region]] = []
        self._places: dict[str, Region] = {}
        # Earlier requests, by the location of their tensors: (request, the slices that it reads).
        self._requests: dict[tuple[Any, ...], tuple[Any, Any]] = {}

    def buffer(self, shape: Sequence[int], dtype: npt.DTypeLike) -> Array:
        """See ``base.Predictor``."""
        if not self._shared:
            return super().buffer(shape, dtype)
        size = max(1, int(np.prod(shape)) * np.dtype(dtype).itemsize)
        region = Region(self._connection, size)
        array = np.frombuffer(region.memory, dtype).reshape(tuple(shape))
        self._regions.append((array.ctypes.data, region))
        return array

    def predict(self, feeds: Feeds) -> Sequence[Array]:
        """See ``base.Predictor``; what is more than the server takes goes in several requests."""
        count = len(next(iter(feeds.values())))
        if not 0 < self._served.most < count:
            return self._infer(feeds, count)
        cuts = range(0, count, self._served.most)
        parts = [{name: a[at : at + self._served.most] for name, a in feeds.items()} for at in cuts]
        # What lies in shared memory is another's after the next request.
        answers = [
            [array.copy() for array in self._infer(part, len(next(iter(part.values()))))]
            for part in parts
        ]
        return [np.concatenate(outputs) for outputs in zip(*answers, strict=True)]

    def _infer(self, feeds: Feeds, count: int) -> Sequence[Array]:
        try:
            tensors = self._connection.run(self._request(feeds))
            return [self._array(tensor, tensors[tensor.name], count) for tensor in self._outputs]
        except KserveError as error:
            raise harness_error(error, f"the server did not answer for {self._model}") from error

    def _request(self, feeds: Feeds) -> Any:
        """Return a request with these inputs; one with tensors at the same location is reused."""
        # Triton takes no memory of no size: a cache that is still empty lies in the request.
        if self._shared and all(array.nbytes for array in feeds.values()):
            feeds = self._safe_feeds(feeds)
            places = {name: self._input_slice(name, array) for name, array in feeds.items()}
            key = tuple((p.region, p.offset, p.shape) for p in places.values())
            if key not in self._requests:
                count = len(next(iter(feeds.values())))
                request = self._connection.prepare(self._model, places, self._output_slices(count))
                self._requests[key] = (request, places)
            return self._requests[key][0]
        arrays = {name: self._shaped(name, array) for name, array in feeds.items()}
        names = [tensor.name for tensor in self._outputs]
        return self._connection.prepare(self._model, arrays, names)

    def _shaped(self, name: str, array: Array) -> Array:
        """An input as the server has it: in a batch, one number a sample is a tensor of one."""
        single = self._served.most and not self._inputs[name].shape
        return array.reshape(-1, 1) if single else array

    def _input_slice(self, name: str, array: Array) -> RegionSlice:
        """Return the slice of shared memory with an input, which is copied there if necessary."""
        array = self._shaped(name, array)
        kind = NAMES[self._inputs[name].dtype]
        if own_region := self._buffer_region(array):
            region, offset = own_region
            return region.slice(offset, kind, array.shape, array.nbytes)
        region = self._region(name, array.nbytes)
        np.copyto(np.frombuffer(region.memory, array.dtype, array.size).reshape(array.shape), array)
        return region.slice(0, kind, array.shape, array.nbytes)

    def _buffer_region(self, array: Array) -> tuple[Region, int] | None:
        """Return the region and offset of an array of ``buffer``; None for another array."""
        start = array.ctypes.data
        for first, region in self._regions:
            if first <= start and start + array.nbytes <= first + region.size:
                return region, start - first
        return None

    def _safe_feeds(self, feeds: Feeds) -> Feeds:
        """Return the inputs, copied where registering a new region would invalidate them.

        An answer that is an input again lies where the connection receives the next one.
        """
        rooms = {name: self._places.get(name) for name in feeds}
        new = any(room is None or room.size < feeds[name].nbytes for name, room in rooms.items())
        return (
            {n: a if self._buffer_region(a) else a.copy() for n, a in feeds.items()}
            if new
            else feeds
        )

    def _region(self, name: str, size: int) -> Region:
        """Return the region of a tensor, of this size at least."""
        region = self._places.get(name)
        if region is None or region.size < size:
            self._requests.clear()
            region = self._places[name] = Region(self._connection, size)
        return region

    def _output_slices(self, count: int) -> Mapping[str, RegionSlice | None]:
        """Return the slices for the outputs; None where the model decides the size."""
        slices: dict[str, RegionSlice | None] = {}
        for tensor in self._outputs:
            if not self._served.most or min(tensor.shape, default=0) < 0:
                slices[tensor.name] = None
                continue
            shape = (count, *(tensor.shape or (1,)))
            size = int(np.prod(shape)) * np.dtype(tensor.dtype).itemsize
            region = self._region(f"output {tensor.name}", size)
            slices[tensor.name] = region.slice(0, NAMES[tensor.dtype], shape, size)
        return slices

    def _array(self, output: TensorSpec, answer: Any, count: int) -> Array:
        batched = (count, *(output.shape or (1,)))
        shape = batched if self._served.most else (-1, *output.shape)
        fits = len(shape) == len(answer.shape) and all(
            size in (-1, real) for size, real in zip(shape, answer.shape, strict=True)
        )
        if TYPES.get(answer.datatype) != output.dtype or not fits:
            came = f"{answer.datatype} {list(answer.shape)}"
            text = f"{self._model} answers {output.name} as {came}; {describe(output)} is needed"
            raise HarnessError(text, INSPECT_SERVER)
        array = np.frombuffer(answer.data, output.dtype).reshape(answer.shape)
        return array if output.shape else array.reshape(-1)


class Triton(Backend):
    """The ``triton`` backend: the server computes, this process only sends requests."""

    library_bytes = 200_000_000

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._shared = setup.options["shared_memory"] == "system"
        self._first = self._connect()
        try:
            self._server = self._first.server()
            index = self._first.index()
        except KserveError as error:
            raise harness_error(error, "there is no server to ask") from error
        self._names: list[str] = [each.name for each in index if each.state == "READY"]
        configs = [self._config(name) for name in self._names]
        self._configs = dict(zip(self._names, configs, strict=True))
        most = [int(each.get("max_batch_size", 0)) for each in configs]
        self.largest_batch = min([*filter(None, most), self.largest_batch])

    def _connect(self) -> Any:
        options = kserve.ConnectionOptions(timeout=TIMEOUT_S)
        try:
            url, protocol = str(self.setup.options["url"]), str(self.setup.options["protocol"])
            connection = kserve.connect(url, protocol, options)
        except KserveError as error:
            raise harness_error(error, "the server cannot be asked") from error
        if self._shared and not connection.address.local:
            raise HarnessError(
                f"{connection.address} is another machine, which shares no memory with this one",
                "use --triton_shared_memory=none",
            )
        return connection

    def _config(self, name: str) -> Mapping[str, Any]:
        try:
            response: Mapping[str, Any] = self._first.config(name)
        except KserveError as error:
            raise harness_error(error, f"nothing is known of the model {name}") from error
        # Over gRPC the configuration is in a field of its own.
        inner: Mapping[str, Any] = response.get("config", response)
        return inner

    def open(
        self, graph: GraphSpec, outputs: Sequence[str], workers: int, threads: int
    ) -> Sequence[Predictor]:
        """See ``base.Backend``; the server's description is compared with the specification."""
        model = self._model(graph)
        try:
            description = self._first.model(model)
        except KserveError as error:
            raise harness_error(error, f"nothing is known of the model {model}") from error
        expected = [tensor for tensor in graph.outputs if tensor.name in outputs]
        check_signature("input", graph.inputs, _tensors(description.inputs, graph.inputs))
        check_signature("output", expected, _tensors(description.outputs, expected))
        most = int(self._configs[model].get("max_batch_size", 0))
        team = [
            TritonPredictor(self._connect(), TritonModel(model, most), graph, outputs, self._shared)
            for _ in range(workers)
        ]
        _probe(team[0], graph, model)
        return team

    def _model(self, graph: GraphSpec) -> str:
        """Return the model's name in the server: the requested one, ours, or the only one."""
        requested, ours = str(self.setup.options["model"]), f"m-{graph.sha256[:16]}"
        for name in (requested, ours) if not requested else (requested,):
            if name in self._names:
                return self._with_matching_runtime(name)
        if not requested and len(self._names) == 1:
            return self._with_matching_runtime(next(iter(self._names)))
        ready = ", ".join(self._names) or "none"
        text = f"the server has no model {requested or ours}; those that are ready: {ready}"
        raise HarnessError(text, "name one of them: --backend_options=model=NAME")

    def _with_matching_runtime(self, name: str) -> str:
        """Return the name of a model that computes with the requested runtime and device.

        Raises HarnessError where it computes with another.
        """
        config, requested = self._configs[name], str(self.setup.options["backend"])
        parameters = _parameters(config)
        runtime = parameters.get("RUNTIME", str(config.get("backend", ""))).partition(" ")[0]
        known = catalog.backend("triton").options["backend"].choices
        if runtime in known and runtime != requested:
            text = f"the server computes {name} with {runtime}, and {requested} was asked for"
            raise HarnessError(text, f"use --triton_backend={runtime}")
        device = parameters.get("DEVICE", self.setup.device)
        if runtime == "neuron" and device != self.setup.device:
            text = f"the server computes {name} on {device}, and {self.setup.device} was asked for"
            raise HarnessError(text, f"use --device={device}")
        return name

    def versions(self) -> dict[str, str]:
        """See ``base.Backend``; what the models compute with is among the facts of the device."""
        client = "kserve over http"
        if self.setup.options["protocol"] == "grpc":
            client = f"tritonclient {metadata.version('tritonclient')}"
        return {"triton": self._server.version, "triton client": client}

    def device_facts(self) -> dict[str, str]:
        """What the server serves, and how: it decides about figures as a device does."""
        by_model = {name: _facts(config) for name, config in self._configs.items()}
        if requested := str(self.setup.options["model"]):
            by_model = {name: facts for name, facts in by_model.items() if name == requested}
        keys = dict.fromkeys(key for facts in by_model.values() for key in facts)
        return {
            key: ", ".join(dict.fromkeys(facts[key] for facts in by_model.values() if key in facts))
            for key in keys
        }

    def layouts(
        self, cores: int, workers: int | None = None, threads: int | None = None
    ) -> list[Layout]:
        """Requests in flight, whatever the cores of this machine."""
        return [(count, 1) for count in ((workers,) if workers else IN_FLIGHT)]

    def stream_threads(self, cores: int) -> tuple[int, ...]:
        """One: the threads are the server's."""
        return (1,)

    def copies(self, workers: int, threads: int) -> int:
        """Return 0: the weights are in the server."""
        return 0


def _probe(predictor: TritonPredictor, graph: GraphSpec, model: str) -> None:
    """Send one batch of zeros, if they can be a sample; raise HarnessError for NaN or inf."""
    if any(-1 in tensor.shape for tensor in graph.inputs):
        return
    for answer in predictor.predict(empty_batch(graph.inputs, 1)):
        if answer.dtype.kind == "f" and not np.isfinite(answer).all():
            raise HarnessError(
                f"{model} answers values that are no numbers (NaN, inf)", INSPECT_SERVER
            )


def _tensors(infos: Sequence[Any], expected: Sequence[TensorSpec]) -> list[TensorSpec]:
    """As the specification would have them: without the batch, one number a sample without size."""
    plain = {tensor.name for tensor in expected if not tensor.shape}
    return [
        TensorSpec(
            info.name,
            TYPES.get(info.datatype, info.datatype),
            () if info.name in plain and tuple(info.shape[1:]) == (1,) else tuple(info.shape[1:]),
        )
        for info in infos
    ]


def _parameters(config: Mapping[str, Any]) -> dict[str, str]:
    """What the generator has written next to a model."""
    return {k: v.get("string_value", "") for k, v in config.get("parameters", {}).items()}


def _facts(config: Mapping[str, Any]) -> dict[str, str]:
    """Return the fields of a model's configuration that identify it."""
    parameters = _parameters(config)
    groups = config.get("instance_group") or [{}]
    batching = config.get("dynamic_batching") or {}
    text = json.dumps(config, sort_keys=True)
    version = parameters.get("RUNTIME_VERSION", "")
    facts = {
        "served by": f"{parameters.get('RUNTIME', config.get('backend', ''))} {version}".strip(),
        "instances": str(sum(int(group.get("count", 1)) for group in groups)),
        "threads of an instance": parameters.get("THREADS", ""),
        "preferred batch": ", ".join(map(str, batching.get("preferred_batch_size", ()))) or "none",
        # Of a repository that we have not written, the configuration is all that can be seen.
        "repository": parameters.get(CONTENT) or hashlib.sha256(text.encode()).hexdigest(),
    }
    return {key: value for key, value in facts.items() if value}


def harness_error(error: KserveError, what: str) -> HarnessError:
    """Return an error of the transport as one of a measurement."""
    return HarnessError(f"{what}: {error} ({error.kind})", error.hint)
