"""TensorRT on several GPUs, with made-up modules in the places of TensorRT and PyTorch.

They record which GPU was the current one of the calling thread. Nothing is computed.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from lanes_lab import Recorder
from mlperf.catalog.lookup import backend as backend_named
from mlperf.harness.errors import HarnessError
from mlperf.harness.settings import GraphSpec, Setup, TensorSpec

SCORES = TensorSpec("scores", "float32", (5,))
IMAGES = TensorSpec("images", "float32", (3,))


class Cards:
    """The GPUs that the made-up PyTorch shows, and what was done where."""

    def __init__(self, *capabilities: tuple[int, int]) -> None:
        self.capabilities = capabilities
        self.calls: list[tuple[str, int]] = []
        self._now = threading.local()

    def note(self, what: str) -> None:
        self.calls.append((what, getattr(self._now, "number", 0)))

    @contextlib.contextmanager
    def current(self, number: int) -> Iterator[None]:
        former, self._now.number = getattr(self._now, "number", 0), number
        try:
            yield
        finally:
            self._now.number = former

    def torch(self) -> Any:
        cuda = SimpleNamespace(
            is_available=lambda: True,
            device_count=lambda: len(self.capabilities),
            get_device_capability=lambda number=0: self.capabilities[number],
            get_device_properties=lambda number: SimpleNamespace(name=f"card {number}"),
            device=self.current,
        )
        return SimpleNamespace(cuda=cuda, __version__="2.0")


class Engine:
    """An engine with an input and an output, which is its own context."""

    num_io_tensors = 2

    def __init__(self, cards: Cards) -> None:
        self._cards = cards
        cards.note("engine")

    def get_tensor_name(self, number: int) -> str:
        return (IMAGES, SCORES)[number].name

    def get_tensor_mode(self, name: str) -> str:
        return "out" if name == SCORES.name else "in"

    def get_tensor_dtype(self, name: str) -> str:
        return "float32"

    def get_tensor_shape(self, name: str) -> tuple[int, ...]:
        return (-1, *(SCORES if name == SCORES.name else IMAGES).shape)

    def create_execution_context(self) -> Engine:
        self._cards.note("context")
        return self

    def set_tensor_address(self, name: str, address: int) -> None:
        pass

    def execute_async_v3(self, stream: int) -> bool:
        self._cards.note("enqueue")
        return True


def tensorrt(cards: Cards) -> Any:
    def runtime(logger: object) -> Any:
        return SimpleNamespace(deserialize_cuda_engine=lambda blob: Engine(cards))

    class Logger:
        ERROR = 1

        def __init__(self, level: int) -> None:
            pass

    mode = SimpleNamespace(OUTPUT="out")
    return SimpleNamespace(
        Runtime=runtime, Logger=Logger, TensorIOMode=mode, nptype=np.dtype, __version__="10.0"
    )


MODULES = ("torch_device", "tensor_rt")


@pytest.fixture
def fresh() -> Iterator[None]:
    """Let both modules be imported anew, and forget those afterwards."""
    package = importlib.import_module("mlperf.harness.backends")
    former = {name: sys.modules.pop(f"{package.__name__}.{name}", None) for name in MODULES}
    attributes = {name: vars(package).pop(name, None) for name in MODULES}
    yield
    for name in MODULES:
        sys.modules.pop(f"{package.__name__}.{name}", None)
        vars(package).pop(name, None)
        if former[name] is not None:
            sys.modules[f"{package.__name__}.{name}"] = former[name]
        if attributes[name] is not None:
            setattr(package, name, attributes[name])


@pytest.fixture
def started(fresh: None, monkeypatch: pytest.MonkeyPatch) -> Callable[[Cards, str], Any]:
    def start(cards: Cards, devices: str) -> Any:
        monkeypatch.setitem(sys.modules, "torch", cards.torch())
        module = importlib.import_module("mlperf.harness.backends.tensor_rt")
        monkeypatch.setattr(module.torch_device, "torch", cards.torch())
        monkeypatch.setattr(module, "TorchDevice", Recorder)
        monkeypatch.setattr(module.builder, "load", lambda product: tensorrt(cards))
        monkeypatch.setattr(module.sidecar, "check", lambda path, expected: None)
        options = {"product": "tensorrt", "batch": 8, "streams": 2, "graphs": True}
        return module.TensorRt(Setup("cuda", "float16", {**options, "devices": devices}))

    return start


def test_workers_are_shared_out_over_gpus(
    started: Callable[[Cards, str], Any], tmp_path: Path
) -> None:
    cards = Cards((9, 0), (9, 0), (9, 0))
    backend = started(cards, "2,0")
    plan = tmp_path / "model.plan"
    plan.write_bytes(b"engine")
    graph = GraphSpec("main", str(plan), "", (IMAGES,), (SCORES,))
    team = backend.open(graph, [SCORES.name], 3, 1)
    # An engine for every GPU, a context for every worker, all of them where they compute.
    engines = [("engine", 2), ("engine", 0)]
    assert cards.calls == [*engines, ("context", 2), ("context", 0), ("context", 2)]
    assert [lane._device for lane in team] == [backend._devices[n] for n in (2, 0, 2)]
    assert [backend.place_of(worker) for worker in range(3)] == ["cuda:2", "cuda:0", "cuda:2"]
    assert backend.layouts(64) == [(2, 1), (4, 1)]
    assert backend.device_facts() == {"gpu": "card 2", "compute capability": "9.0"}
    del cards.calls[:]
    # Threads that begin with the first GPU.
    for lane in team:
        enqueue = threading.Thread(
            target=lane._work.enqueue, args=({}, {}, SimpleNamespace(cuda_stream=1))
        )
        enqueue.start()
        enqueue.join()
    assert cards.calls == [("enqueue", 2), ("enqueue", 0), ("enqueue", 2)]


def test_one_worker_opens_the_engine_once(
    started: Callable[[Cards, str], Any], tmp_path: Path
) -> None:
    cards = Cards((9, 0), (9, 0))
    plan = tmp_path / "model.plan"
    plan.write_bytes(b"engine")
    graph = GraphSpec("main", str(plan), "", (IMAGES,), (SCORES,))
    started(cards, "all").open(graph, [SCORES.name], 1, 1)
    assert cards.calls == [("engine", 0), ("context", 0)]


def test_gpus_of_two_kinds_share_no_engine(started: Callable[[Cards, str], Any]) -> None:
    cards = Cards((9, 0), (8, 6), (9, 0))
    assert started(cards, "0,2").layouts(4, 3) == [(3, 1)]
    assert started(cards, "").place_of(0) == ""
    with pytest.raises(HarnessError, match=r"one compute capability; these have 0: 9.0, 1: 8.6"):
        started(cards, "all")
    with pytest.raises(HarnessError, match="4 is no GPU here; there are 0 to 2"):
        started(cards, "0,4")


def test_the_plan_takes_several_gpus() -> None:
    option = backend_named("tensorrt").options["devices"]
    assert option == backend_named("pytorch").options["devices"]
    assert "devices" not in backend_named("openvino").options
