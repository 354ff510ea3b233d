"""The calls of CUDA by PyTorch; not verified on hardware."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch

from ..errors import HarnessError
from .base import Array
from .lanes import gpu_numbers


class TorchDevice:
    """The ``lanes.CudaDevice`` of a GPU by its number; raises HarnessError without one."""

    def __init__(self, number: int = 0) -> None:
        if not torch.cuda.is_available():
            raise HarnessError(
                f"this PyTorch ({torch.__version__}) sees no CUDA device: install a CUDA build of "
                "it and the NVIDIA driver"
            )
        self._number = number
        self._pools: dict[Any, Any] = {}

    def stream(self) -> Any:
        """See ``lanes.CudaDevice``."""
        return torch.cuda.Stream(self._number)

    def event(self) -> Any:
        """See ``lanes.CudaDevice``."""
        return torch.cuda.Event()

    def pinned(self, size: int) -> Array:
        """See ``lanes.CudaDevice``: bytes [size]; the array keeps the memory."""
        return np.asarray(torch.empty(size, dtype=torch.uint8, pin_memory=True).numpy())

    def memory(self, size: int) -> Any:
        """See ``lanes.CudaDevice``: bytes [size]."""
        memory = torch.zeros(size, dtype=torch.uint8, device=f"cuda:{self._number}")
        # The streams of a lane do not wait for the one that has just filled it.
        torch.cuda.current_stream(self._number).synchronize()
        return memory

    def copy_in(self, target: Any, source: Array, stream: Any) -> None:
        """See ``lanes.CudaDevice``."""
        with torch.cuda.stream(stream):
            target[: source.nbytes].copy_(torch.from_numpy(source), non_blocking=True)

    def copy_out(self, target: Array, source: Any, stream: Any) -> None:
        """See ``lanes.CudaDevice``."""
        with torch.cuda.stream(stream):
            torch.from_numpy(target).copy_(source[: target.nbytes], non_blocking=True)

    def record(self, event: Any, stream: Any) -> None:
        """See ``lanes.CudaDevice``."""
        event.record(stream)

    def wait(self, stream: Any, event: Any) -> None:
        """See ``lanes.CudaDevice``."""
        stream.wait_event(event)

    def synchronize(self, event: Any) -> None:
        """See ``lanes.CudaDevice``."""
        event.synchronize()

    def timer(self) -> Any:
        """See ``lanes.CudaDevice``."""
        return torch.cuda.Event(enable_timing=True)

    def elapsed(self, began: Any, ended: Any) -> float:
        """See ``lanes.CudaDevice``; CUDA counts in milliseconds."""
        return float(began.elapsed_time(ended)) / 1000

    def capture(self, stream: Any, work: Callable[[], None]) -> Any:
        """See ``lanes.CudaDevice``: graphs of a stream, which follow each other, share memory."""
        graph = torch.cuda.CUDAGraph()
        pool = self._pools.setdefault(stream, torch.cuda.graph_pool_handle())
        mode = "thread_local"
        with torch.cuda.graph(graph, pool=pool, stream=stream, capture_error_mode=mode):
            work()
        return graph

    def launch(self, graph: Any, stream: Any) -> None:
        """See ``lanes.CudaDevice``."""
        with torch.cuda.stream(stream):
            graph.replay()


def kind(device: str) -> str:
    """Return what PyTorch calls a device: ROCm's builds say ``cuda`` too.

    Raises HarnessError where this build does not see one. ROCm and XPU are not verified on
    hardware.
    """
    if device == "cpu":
        return device
    is_rocm = getattr(torch.version, "hip", None) is not None
    xpu = getattr(torch, "xpu", None)
    sees = {
        "cuda": not is_rocm and torch.cuda.is_available(),
        "rocm": is_rocm and torch.cuda.is_available(),
        "xpu": xpu is not None and xpu.is_available(),
    }
    if not sees[device]:
        title = {"cuda": "CUDA", "rocm": "ROCm", "xpu": "XPU"}[device]
        raise HarnessError(
            f"this PyTorch ({torch.__version__}) sees no {title} device: install a {title} build "
            "of it and the driver, or use --device=cpu"
        )
    return "xpu" if device == "xpu" else "cuda"


def numbers(device: str, named: str) -> tuple[int, ...]:
    """Return the GPUs that ``--devices`` names, see ``lanes.gpu_numbers``; 0 on the CPU."""
    if device == "cpu":
        return (0,)
    module = torch.xpu if device == "xpu" else torch.cuda
    return gpu_numbers(named, lambda: int(module.device_count()))


def multiply_float32(tf32: bool) -> None:
    """Let PyTorch multiply float32 in TF32, or exactly; by default its convolutions use TF32."""
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    torch.backends.cudnn.allow_tf32 = tf32


def has_room() -> bool:
    """Return whether twice the memory that was used at most since ``forget_peak`` can be had."""
    free, _ = torch.cuda.mem_get_info()
    within = free + torch.cuda.memory_reserved()
    return 2 * int(torch.cuda.max_memory_allocated()) < int(within)


def forget_peak() -> None:
    """Let ``has_room`` count from now on."""
    torch.cuda.reset_peak_memory_stats()


def capability(number: int = 0) -> str:
    """Return the compute capability of a GPU, as 8.6."""
    major, minor = torch.cuda.get_device_capability(number)
    return f"{major}.{minor}"


def current(number: int) -> AbstractContextManager[None]:
    """Make a GPU the one that CUDA's calls of this thread are for."""
    device: AbstractContextManager[None] = torch.cuda.device(number)
    return device


def facts(device: str = "cuda", number: int = 0) -> dict[str, str]:
    """Return facts that identify a GPU."""
    if device == "xpu":
        return {"gpu": str(torch.xpu.get_device_name(number))}
    properties = torch.cuda.get_device_properties(number)
    return {"gpu": str(properties.name), "compute capability": capability(number)}
