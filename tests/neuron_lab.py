"""Artefacts of the tiny benchmarks that are compiled for cpu: TorchScript with its sidecar."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

import aws_neuron.artifact as neuron
import benchmark_forms as forms
import benchmark_lab as lab
from aws_neuron.artifact.files import sha256 as digest
from mlperf.harness import records
from mlperf.harness.settings import ModelSpec

FOLDERS = {"resnet50": "get-ml-model-resnet50", "bert": "get-ml-model-bert-large-squad"}
BATCH = {"resnet50": 5, "bert": 1}
LENGTH = 384


@cache
def _scratch() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="neuron-lab-")


def model(benchmark: str, batch: int = 0, **changes: Any) -> dict[str, Any]:
    """A tiny model compiled for cpu, as the harness's settings describe it."""
    path = artefact(benchmark, batch or BATCH[benchmark])
    facts = neuron.read(path).facts()
    keys = ("name", "sha256", "precision", "inputs", "outputs", "accuracy", "options")
    return {**{key: facts[key] for key in keys}, "path": str(path), **changes}


@cache
def artefact(benchmark: str, batch: int) -> Path:
    """The file of a tiny model, as the guide names it."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("onnx2torch")
    from modelzoo import torchscript

    spec = records.decode(ModelSpec, forms.model(lab.SCRIPT / FOLDERS[benchmark] / "tiny"))
    inner = torchscript.traced(spec.graphs()[0])

    class Around(torch.nn.Module):  # type: ignore[misc, unused-ignore]
        """The module that a compiler is given."""

        def __init__(self) -> None:
            super().__init__()
            self.inner = inner

    class Scores(Around):
        """The scores alone."""

        def forward(self, images: Any) -> Any:
            return self.inner(images)[1]

    class Joined(Around):
        """Both logits side by side."""

        def forward(self, ids: Any, mask: Any, segments: Any) -> Any:
            start, end = self.inner(ids.long(), mask.long(), segments.long())[:2]
            return torch.stack([start, end], -1)

    if benchmark == "resnet50":
        examples = (torch.zeros(batch, *spec.inputs[0].shape),)
        traced = torch.jit.trace(Scores(), examples)
        inputs = (neuron.ArtefactTensor("INPUT__0", "float32", spec.inputs[0].shape),)
        outputs = (neuron.ArtefactTensor("OUTPUT__0", "float32", spec.outputs[1].shape),)
    else:
        ones = torch.ones(batch, LENGTH, dtype=torch.int32)
        traced = torch.jit.trace(Joined(), (ones, ones, ones))
        inputs = tuple(neuron.ArtefactTensor(f"INPUT__{n}", "int32", (LENGTH,)) for n in range(3))
        outputs = (neuron.ArtefactTensor("OUTPUT__0", "float32", (LENGTH, 2)),)
    path = neuron.file_of(benchmark, batch, Path(_scratch().name))
    path.parent.mkdir(parents=True, exist_ok=True)
    traced.save(str(path))
    neuron.write(path, described(path, benchmark, batch, spec, inputs, outputs))
    return path


def described(
    path: Path, benchmark: str, batch: int, spec: ModelSpec, inputs: Any, outputs: Any
) -> neuron.NeuronArtefact:
    """The sidecar of an artefact for cpu."""
    return neuron.NeuronArtefact(
        name=f"{spec.name}_cpu",
        file=path.name,
        sha256=digest(path),
        bytes=path.stat().st_size,
        precision=spec.precision,
        inputs=inputs,
        outputs=outputs,
        neuron=neuron.NeuronCompilation(
            benchmark=benchmark,
            target="cpu",
            batch_size=batch,
            dynamic_batch=benchmark == "resnet50",
            sdk="torch",
            versions={"torch": "2"},
            model=neuron.SourceModel(spec.name, Path(spec.path).name, spec.sha256),
        ),
        options=spec.options,
        accuracy=records.encode(spec.accuracy),
    )


def samples(count: int) -> Any:
    """The first images of the tiny data set [count, 3, 28, 28]."""
    return np.load(lab.arrays() / "samples.npy")[:count]
