"""A request to compile, from the facts of a model and the flags."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aws_neuron.artifact import TARGETS, ArtefactTensor, SourceModel, file_of
from common.problems import Problem

LENGTH = 384
"""The tokens of a sample, where the model leaves that open."""


@dataclass(frozen=True, slots=True)
class CompileRequest:
    """One artefact: ``facts`` are those of the model, ``python`` is the SDK's."""

    facts: Mapping[str, Any]
    folder: Path
    benchmark: str
    target: str
    batch_size: int
    python: str
    compiler_flags: tuple[str, ...]
    models: Path

    @property
    def path(self) -> Path:
        """Return where it belongs."""
        return file_of(self.benchmark, self.batch_size, self.models)

    @property
    def dynamic_batch(self) -> bool:
        """Return whether other batches are to work: images do not depend on each other's length."""
        return self.benchmark == "resnet50"

    @property
    def source(self) -> SourceModel:
        """Return the model that it is made of."""
        return SourceModel(self.facts["name"], self.facts["file"], self.facts["sha256"])

    @property
    def inputs(self) -> tuple[ArtefactTensor, ...]:
        """Its arguments: images as they are, tokens as int32 of one length."""
        dtype = "int32" if self.benchmark == "bert" else "float32"
        return tuple(
            ArtefactTensor(f"INPUT__{number}", dtype, _sized(tensor["shape"]))
            for number, tensor in enumerate(self.facts["inputs"])
        )

    @property
    def output(self) -> ArtefactTensor:
        """Its only result: scores of classes, or both logits side by side."""
        shape = _sized(self.facts["outputs"][self.scores]["shape"])
        return ArtefactTensor(
            "OUTPUT__0", "float32", (*shape, 2) if self.benchmark == "bert" else shape
        )

    @property
    def scores(self) -> int:
        """Which of the model's results has them. Raises Problem when none is float32."""
        dtypes = [tensor["dtype"] for tensor in self.facts["outputs"]]
        if "float32" not in dtypes:
            raise Problem("model-facts", f"{self.facts['name']} gives no float32")
        return dtypes.index("float32")


def _sized(shape: list[int]) -> tuple[int, ...]:
    return tuple(LENGTH if size == -1 else size for size in shape)


def read(fields: Mapping[str, Any]) -> CompileRequest:
    """Read a request; raise Problem for values that do not fit."""
    facts_file = Path(fields["facts"])
    try:
        facts = json.loads(facts_file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        text = f"{facts_file}: {error}"
        raise Problem("model-facts", text, "get the model again") from error
    if fields["target"] not in TARGETS:
        text = f"--target={fields['target']}: no such target, only {', '.join(TARGETS)}"
        raise Problem("bad-value", text)
    if not str(facts["file"]).endswith((".pt", ".pth", ".pytorch")):
        text = f"{facts['file']} is not a model of PyTorch"
        hint = "leave _pytorch in the tags of the model (--adr.ml-model.tags)"
        raise Problem("bad-value", text, hint)
    return CompileRequest(
        facts,
        facts_file.parent,
        fields["benchmark"],
        fields["target"],
        int(fields["batch_size"]),
        fields["python"],
        tuple(fields["compiler_flags"]),
        Path(fields["models"]),
    )
