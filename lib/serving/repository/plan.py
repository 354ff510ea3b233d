"""What a model of a repository is: its tensors, its runtime, how often it is there, on what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

# Types of NumPy by those of a configuration, without their TYPE_.
TYPES = {
    "BOOL": "bool",
    "UINT8": "uint8",
    "UINT16": "uint16",
    "UINT32": "uint32",
    "UINT64": "uint64",
    "INT8": "int8",
    "INT16": "int16",
    "INT32": "int32",
    "INT64": "int64",
    "FP16": "float16",
    "FP32": "float32",
    "FP64": "float64",
    "STRING": "object",
}
# Their names in the configuration, and in the protocol.
NAMES = {dtype: name for name, dtype in TYPES.items()}

# The runtimes that there is a program for. Of some Triton has a backend in C++ too.
RUNTIMES = ("onnxruntime", "openvino", "pytorch", "neuron", "tensorflow", "echo")
IN_CPP = ("onnxruntime", "openvino", "pytorch", "tensorflow")
KINDS = {"cpu": "KIND_CPU", "gpu": "KIND_GPU"}
NEURON_DEVICES = ("inf1", "inf2", "trn1", "cpu")
# What the program does as the harness's backend of that name does it in process.
HELPERS = {
    "openvino": ("mlperf.harness.backends.fixed_batch", "mlperf.harness.backends.int8_signed")
}


def helpers_of(runtime: str) -> tuple[str, ...]:
    """Return the files of further modules that the runtime's program may import."""
    root = Path(__file__).parents[2]
    return tuple(str(root / f"{name.replace('.', '/')}.py") for name in HELPERS.get(runtime, ()))


@dataclass(frozen=True, slots=True)
class ModelTensor:
    """An input or output: ``shape`` is that of one sample, -1 where requests choose a length."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.name} {self.dtype} [{', '.join(map(str, ('N', *self.shape)))}]"


@dataclass(frozen=True, slots=True)
class Batching:
    """Triton's own gathering of requests: batches to prefer, and how long to wait for them."""

    preferred: tuple[int, ...] = ()
    delay_us: int = 0


@dataclass(frozen=True, slots=True)
class Cores:
    """NeuronCores from the first to the last, both counted, and threads for each."""

    first: int
    last: int
    threads: int = 1

    @property
    def count(self) -> int:
        """Return how many there are."""
        return self.last - self.first + 1


@dataclass(frozen=True, slots=True)
class ModelArtefact:
    """The file of a model, or its folder; an ONNX file names its files with weights itself."""

    path: str
    sha256: str = ""


@dataclass(frozen=True, slots=True)
class RepositoryPlan:
    """One model of a repository.

    Attributes:
        name: Its folder, and its name for clients.
        runtime: Of ``RUNTIMES``.
        inputs, outputs: Its tensors.
        artefact: What the runtime opens; none for echo.
        version: The folder of the version.
        max_batch: The largest batch of a request; 0 where the first dimension is no batch.
        instances: How often the model is there at once.
        device: cpu or gpu; of neuron, of ``NEURON_DEVICES``.
        batching: Where the server is to gather requests.
        cores: Of neuron and tensorflow: those that all instances share out.
        fixed_batch: The only batch that the model takes, others are cut and filled up; 0 for any.
        join_requests: Whether requests that come together are computed as one batch.
        parameters: Further ones, for the program.
        helpers: Files of Python that the program may import.
    """

    name: str
    runtime: str
    inputs: tuple[ModelTensor, ...]
    outputs: tuple[ModelTensor, ...]
    artefact: ModelArtefact | None = None
    version: int = 1
    max_batch: int = 0
    instances: int = 1
    device: str = "cpu"
    batching: Batching | None = None
    cores: Cores | None = None
    fixed_batch: int = 0
    join_requests: bool = True
    parameters: Mapping[str, str] = field(default_factory=dict)
    helpers: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """What results call the runtime: in Triton's own words it would be another one."""
        return f"{self.runtime} (python-based)" if self.runtime in IN_CPP else self.runtime

    @property
    def stand_in(self) -> str:
        """Return the stand-in for a device in words; empty without one."""
        on_cpu = self.runtime == "neuron" and self.device == "cpu"
        return "neuron on cpu: this processor stands in for a Neuron device" if on_cpu else ""

    @property
    def kind(self) -> str:
        """The kind of the instance group; where the model finds its cores itself, KIND_MODEL."""
        return "KIND_MODEL" if self.cores else KINDS.get(self.device, "KIND_CPU")

    @property
    def cores_of_instance(self) -> int:
        """Return the cores that the batch of a request is shared out to; 0 where it is not."""
        splits = self.runtime == "tensorflow" or self.device in ("inf1", "cpu")
        return self.cores.count // self.instances if self.cores and splits else 0

    def all_parameters(self) -> dict[str, str]:
        """Return all parameters of the program in the configuration."""
        parameters = {"RUNTIME": self.label, "DEVICE": self.device, **self.parameters}
        parameters["JOIN_REQUESTS"] = "yes" if self.join_requests else "no"
        if self.fixed_batch:
            parameters["FIXED_BATCH"] = str(self.fixed_batch)
        if self.artefact:
            parameters["COMPILED_MODEL"] = self.artefact.path.rstrip("/").rpartition("/")[2]
        if self.cores:
            parameters["NEURON_CORE_START_INDEX"] = str(self.cores.first)
            parameters["NEURON_CORE_END_INDEX"] = str(self.cores.last)
            parameters["NUM_THREADS_PER_CORE"] = str(self.cores.threads)
            parameters["LEAST_BATCH"] = str(self.cores_of_instance)
        return parameters
