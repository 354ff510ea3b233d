"""What is known of a compiled model, and which machine may run it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from common.problems import ProgramError
from common.records import RecordReader, encode

TARGETS = ("inf1", "inf2", "trn1", "cpu")
DTYPES = ("float32", "float16", "bfloat16", "int32", "int64")
FORMAT = 1
SHA256 = re.compile(r"[0-9a-f]{64}")
COMPILE = "cm run script --tags=compile,neuron-model"
AGAIN = f"compile it again: `{COMPILE}`"


class ArtefactError(ProgramError):
    """An artefact is missing or damaged, or was compiled for something else."""

    def __init__(self, message: str, hint: str = AGAIN) -> None:
        super().__init__(message, hint)


@dataclass(frozen=True, slots=True)
class ArtefactTensor:
    """An input or output: ``shape`` is that of one sample, without the batch."""

    name: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SourceModel:
    """The model that was compiled: its name, the name of its file, and its SHA-256."""

    name: str
    file: str
    sha256: str


@dataclass(frozen=True, slots=True)
class NeuronCompilation:
    """What only a compiled model has, the key ``neuron`` of its sidecar.

    Attributes:
        benchmark: resnet50 or bert.
        target: Of ``TARGETS``; cpu is plain TorchScript, which computes on no Neuron device.
        batch_size: The batch [samples] that it was compiled for.
        dynamic_batch: Whether other batches work too (they are cut and filled up).
        sdk: The package that compiled it: torch-neuron, torch-neuronx, or torch for cpu.
        versions: Of the packages that took part.
        model: What was compiled.
        compiler_flags: As the compiler was given them.

    """

    benchmark: str
    target: str
    batch_size: int
    dynamic_batch: bool
    sdk: str
    versions: Mapping[str, str]
    model: SourceModel
    compiler_flags: tuple[str, ...] = ()
    format: int = FORMAT


@dataclass(frozen=True, slots=True)
class NeuronArtefact:
    """A compiled model.

    Attributes:
        name: What results call it.
        file: Name of the file, without its folder.
        sha256, bytes: Of that file.
        precision: That of the model it was compiled from; a compiler may compute in less.
        inputs, outputs: Its arguments and results in their order.
        neuron: How it was compiled.
        options, accuracy: As in the model's own facts.

    """

    name: str
    file: str
    sha256: str
    bytes: int
    precision: str
    inputs: tuple[ArtefactTensor, ...]
    outputs: tuple[ArtefactTensor, ...]
    neuron: NeuronCompilation
    options: Mapping[str, Any] = field(default_factory=dict)
    accuracy: Mapping[str, Any] = field(default_factory=dict)

    def require(self, device: str) -> None:
        """Raise ArtefactError where ``device``, of ``TARGETS``, is not what this was made for."""
        target, batch_size = self.neuron.target, self.neuron.batch_size
        if target != device:
            raise ArtefactError(
                f"{self.file} was compiled for {target}, and {device} is to run it",
                f"compile it again: `{COMPILE} --target={device} --batch_size={batch_size}`",
            )

    def facts(self) -> dict[str, Any]:
        """Return the content of its sidecar."""
        return encode(self)  # type: ignore[no-any-return]


def from_facts(record: Any, where: str) -> NeuronArtefact:
    """Return the artefact that a sidecar describes; ``where`` is that file's path.

    Raises ArtefactError with all its faults.
    """
    text = f"{where} does not describe a compiled model"
    if not isinstance(record, dict) or not isinstance(record.get("neuron"), dict):
        raise ArtefactError(f"{text}: 'neuron' is missing")
    form = record["neuron"].get("format")
    if form != FORMAT:
        raise ArtefactError(f"{where} is of format {form} and not {FORMAT}")
    reader = RecordReader(lambda fault: ArtefactError(f"{text}: {fault}"), is_lenient=True)
    artefact = reader.decode(NeuronArtefact, record)
    if problems := list(_problems(artefact)):
        raise ArtefactError(f"{where}: {'; '.join(problems)}")
    return artefact


def _problems(artefact: NeuronArtefact) -> Iterator[str]:
    neuron = artefact.neuron
    if neuron.target not in TARGETS:
        yield f"no target {neuron.target}, only {', '.join(TARGETS)}"
    if neuron.batch_size < 1:
        yield f"the batch is {neuron.batch_size}"
    for digest in (artefact.sha256, neuron.model.sha256):
        if not SHA256.fullmatch(digest):
            yield f'"{digest}" is not a SHA-256'
    if "/" in artefact.file or not artefact.file:
        yield f'"{artefact.file}" is not a valid file name'
    yield from _tensor_problems(artefact)


def _tensor_problems(artefact: NeuronArtefact) -> Iterator[str]:
    if not artefact.inputs or not artefact.outputs:
        yield "it has no inputs or no outputs"
    for tensor in (*artefact.inputs, *artefact.outputs):
        if tensor.dtype not in DTYPES:
            yield f"{tensor.name} has the unknown type {tensor.dtype}"
        if any(size < 1 for size in tensor.shape):
            yield f"{tensor.name} has the shape {list(tensor.shape)}"
