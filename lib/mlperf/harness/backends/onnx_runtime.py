"""ONNX Runtime."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnxruntime

from ..engines import half
from ..errors import OTHER_MODEL, HarnessError
from ..settings import GraphSpec, Setup, TensorSpec
from . import cuda_driver, lanes
from .base import Array, Backend, Feeds, Layout, Predictor, check_signature
from .lanes import CaptureGate
from .onnx_binding import BoundPredictor
from .onnx_file import ROOT, graph_alone

# Where the weights lie that a model in memory names.
WEIGHTS_FOLDER = "session.model_external_initializers_file_folder_path"
PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}
# Sessions side by side that are worth trying on a GPU: one copies while another computes.
SESSIONS = 2
FLOAT16 = "float16"
# Earlier versions always use TF32 where the GPU has it.
KNOWS_TF32 = (1, 18)
DTYPES = {
    "tensor(float)": "float32",
    "tensor(int64)": "int64",
    "tensor(int32)": "int32",
    "tensor(uint8)": "uint8",
}


class OnnxPredictor(Predictor):
    """Calls a session; sessions of one thread may be shared between workers."""

    def __init__(self, session: Any, outputs: Sequence[str]) -> None:
        self._run = session.run
        self._outputs = list(outputs)

    def predict(self, feeds: Feeds) -> Sequence[Array]:
        """See ``base.Predictor``."""
        results: Sequence[Array] = self._run(self._outputs, feeds)
        return results


class OnnxRuntime(Backend):
    """The ``onnxruntime`` backend; the graph defines the computation.

    ``provider`` is one of ONNX Runtime's before that of the device.
    """

    provider = ""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._provider = self.provider or PROVIDERS[setup.device]
        self._on_gpu = setup.device != "cpu"
        named = str(setup.options.get("devices", "")) if self._on_gpu else ""
        self._numbers = lanes.gpu_numbers(named, lambda: len(cuda_driver.gpu_names()))
        if self._on_gpu:
            load_cuda()
        self._gate = CaptureGate()
        self._tf32 = self._on_gpu and bool(setup.options.get("tf32", False))
        self.prepares = self._on_gpu and bool(setup.options.get("graphs", False))
        available = onnxruntime.get_available_providers()
        if self._provider not in available:
            more = "; install onnxruntime-gpu in its place" if setup.device == "cuda" else ""
            raise HarnessError(
                f"this onnxruntime has no {self._provider}; it has {', '.join(available)}{more}"
            )

    def build(self, graph: GraphSpec, folder: Path) -> GraphSpec:
        """See ``base.Backend``: a model in float16, whose inputs and outputs stay as they are."""
        if self.setup.precision != FLOAT16:
            return graph
        target = folder / f"{Path(graph.path).stem}-{FLOAT16}.onnx"
        half.write(Path(graph.path), target)
        return replace(graph, path=str(target))

    def open(
        self, graph: GraphSpec, outputs: Sequence[str], workers: int, threads: int
    ) -> Sequence[Predictor]:
        """See ``base.Backend``. Workers with one thread share one session and its weights.

        On a GPU every worker has a session, which has a stream of its own.
        """
        count = workers if threads > 1 or self._on_gpu else 1
        sessions = [self._session(graph.path, threads, self._number(n)) for n in range(count)]
        wanted = [t for t in graph.outputs if t.name in outputs]
        check_signature("input", graph.inputs, _tensors(sessions[0].get_inputs()))
        check_signature("output", wanted, _tensors(sessions[0].get_outputs()))
        if self._on_gpu:
            return self.bound(sessions, outputs, self.setup.device)
        return [OnnxPredictor(sessions[n % len(sessions)], outputs) for n in range(workers)]

    def bound(
        self, sessions: Sequence[Any], outputs: Sequence[str], device: str
    ) -> list[BoundPredictor]:
        """Return a predictor for every session, whose tensors lie on ``device``."""
        gate = self._gate if self.prepares and not self._gate.failure else None
        return [
            BoundPredictor(session, outputs, device, gate, self._number(n))
            for n, session in enumerate(sessions)
        ]

    def _number(self, worker: int) -> int:
        """Return the GPU of a worker: those of ``--devices`` in turn."""
        return self._numbers[worker % len(self._numbers)]

    def place_of(self, worker: int) -> str:
        """See ``base.Backend``."""
        return f"{self.setup.device}:{self._number(worker)}" if len(self._numbers) > 1 else ""

    def preparing(self) -> AbstractContextManager[None]:
        """See ``base.Backend``."""
        return self._gate.opened()

    def computed_by(self) -> dict[str, str]:
        """See ``base.Backend``."""
        tf32 = {"float32 products": "TF32"} if self._tf32 else {}
        return {**tf32, **self._gate.facts()}

    def layouts(
        self, cores: int, workers: int | None = None, threads: int | None = None
    ) -> list[Layout]:
        """See ``base.Backend``: on a GPU sessions side by side, whatever the cores."""
        if self._on_gpu:
            return lanes.layouts(SESSIONS, workers, len(self._numbers))
        return super().layouts(cores, workers, threads)

    def stream_threads(self, cores: int) -> tuple[int, ...]:
        """See ``base.Backend``."""
        return (1,) if self._on_gpu else super().stream_threads(cores)

    def copies(self, workers: int, threads: int) -> int:
        """See ``base.Backend``: on a GPU the weights are on the device."""
        return 0 if self._on_gpu else super().copies(workers, threads)

    def _session(self, path: str, threads: int, number: int = 0) -> Any:
        """Return a session; one that cannot capture graphs goes without them, and says so."""
        try:
            return self._checked(path, threads, number)
        except HarnessError as error:
            if not self.prepares or self._gate.failure:
                raise
            self._gate.failure = str(error)
            return self._checked(path, threads, number)

    def _checked(self, path: str, threads: int, number: int) -> Any:
        try:
            session = self._lean(path, threads, number)
        except Exception as error:  # onnxruntime raises its own C++ exceptions without a base
            reason = str(error).strip().splitlines()[0]
            text = f"onnxruntime cannot open {path}: {reason}"
            raise HarnessError(text, OTHER_MODEL) from error
        used = session.get_providers()
        if used[:1] != [self._provider]:
            # Without a driver, or with libraries missing, it goes on with the CPU and says nothing.
            raise HarnessError(
                f"asked for {self._provider}, but the session uses {', '.join(used)}: "
                "are the driver and the CUDA and cuDNN libraries of this onnxruntime installed?"
            )
        return session

    def _lean(self, path: str, threads: int, number: int) -> Any:
        """A session whose weights are mapped; by the whole file where that cannot be done."""
        providers = self._providers(number)
        try:
            graph = graph_alone(Path(path))
            options = session_options(threads)
            options.add_session_config_entry(WEIGHTS_FOLDER, str(ROOT))
            return onnxruntime.InferenceSession(graph, options, providers=providers)
        except Exception:  # no such model, or an onnxruntime before 1.23
            # Without the folder: with it, 1.29 looks for the weights of a link nowhere else.
            return onnxruntime.InferenceSession(path, session_options(threads), providers=providers)

    def _providers(self, number: int) -> list[Any]:
        """Return the provider of a session, on a GPU with its options."""
        if not self._on_gpu:
            return [self._provider]
        with_graphs = self.prepares and not self._gate.failure
        switches = {"enable_cuda_graph": with_graphs}
        if tuple(map(int, str(onnxruntime.__version__).split(".")[:2])) >= KNOWS_TF32:
            switches["use_tf32"] = self._tf32
        texts = {name: str(int(on)) for name, on in switches.items()}
        own = {"device_id": str(number)} if number else {}
        return [(PROVIDERS[self.setup.device], {**own, **texts})]

    def versions(self) -> dict[str, str]:
        """See ``base.Backend``."""
        return {"onnxruntime": str(onnxruntime.__version__)}


def load_cuda() -> None:
    """Load CUDA's libraries and cuDNN out of Python packages, where they are not the system's.

    What is missing then is seen when a session is opened; this function of onnxruntime prints it.
    """
    preload = getattr(onnxruntime, "preload_dlls", None)
    if preload is not None:
        with contextlib.redirect_stdout(io.StringIO()):
            preload()


def session_options(threads: int) -> Any:
    """Return the options of a session whose work has so many threads."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    return options


def _tensors(infos: Sequence[Any]) -> list[TensorSpec]:
    return [
        TensorSpec(
            info.name,
            DTYPES.get(info.type, info.type),
            tuple(size if isinstance(size, int) else -1 for size in info.shape[1:]),
        )
        for info in infos
    ]
