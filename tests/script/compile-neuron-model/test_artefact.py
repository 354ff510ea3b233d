"""The file beside a compiled model: written, read back, compared, and refused where it lies."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import aws_neuron.artifact as artefacts
from aws_neuron.artifact import (
    ArtefactError,
    ArtefactTensor,
    NeuronArtefact,
    NeuronCompilation,
    SourceModel,
)
from support import ROOT

SCRIPT = ROOT / "script" / "compile-neuron-model"

CONTENT = b"compiled"
DIGEST = hashlib.sha256(CONTENT).hexdigest()
SAMPLE = NeuronArtefact(
    name="resnet50_tiny for cpu",
    file="resnet50_neuron_bs5_dynamic.pt",
    sha256=DIGEST,
    bytes=len(CONTENT),
    precision="fp32",
    inputs=(ArtefactTensor("INPUT__0", "float32", (3, 28, 28)),),
    outputs=(ArtefactTensor("OUTPUT__0", "float32", (11,)),),
    neuron=NeuronCompilation(
        benchmark="resnet50",
        target="cpu",
        batch_size=5,
        dynamic_batch=True,
        sdk="torch",
        versions={"torch": "2.13.0"},
        model=SourceModel("resnet50_tiny", "resnet50_tiny.pt", "a" * 64),
        compiler_flags=("--neuroncore-pipeline-cores", "4"),
    ),
    options={"label_offset": 1},
    accuracy={"metric": "top-1", "unit": "%", "reference": 99.0, "target": 98.0},
)


def written(folder: Path, **changes: Any) -> Path:
    path = folder / SAMPLE.file
    path.write_bytes(CONTENT)
    artefacts.write(path, replace(SAMPLE, **changes))
    return path


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    path = written(tmp_path)
    assert artefacts.read(path) == artefacts.read(artefacts.sidecar_of(path)) == SAMPLE
    assert sorted(p.name for p in tmp_path.iterdir()) == [SAMPLE.file, f"{SAMPLE.file}.json"]


def test_the_sidecar_has_what_every_model_json_has(tmp_path: Path) -> None:
    told = json.loads(artefacts.sidecar_of(written(tmp_path)).read_text())
    shipped = ROOT / "script" / "get-ml-model-resnet50" / "tiny" / "model.json"
    assert set(json.loads(shipped.read_text())) - set(told) == {"training"}


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("target", "inf3", "no target inf3, only inf1, inf2, trn1, cpu"),
        ("batch_size", 0, "the batch is 0"),
        ("batch_size", "5", "batch_size: expected int, found '5'"),
        ("batch_size", True, "batch_size: expected int, found True"),
        ("dynamic_batch", "no", "dynamic_batch: expected bool, found 'no'"),
        ("model", {"name": "m", "file": "m.pt", "sha256": "short"}, '"short" is not a SHA-256'),
        ("model", {"name": "m"}, "'file' is missing"),
        ("model", None, "does not describe a compiled model"),
        ("format", 2, "is of format 2 and not 1"),
        ("compiler_flags", None, "does not describe a compiled model"),
    ],
)
def test_nonsense_about_the_compilation_is_told(
    name: str, value: Any, says: str, tmp_path: Path
) -> None:
    path = written(tmp_path)
    facts = SAMPLE.facts()
    facts["neuron"][name] = value
    artefacts.sidecar_of(path).write_text(json.dumps(facts))
    with pytest.raises(ArtefactError, match=says) as caught:
        artefacts.read(path)
    assert "compile,neuron-model" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "is not JSON"),
        ("[]", "does not describe"),
        ("{}", "'neuron' is missing"),
        ('{"neuron": 1}', "does not describe"),
    ],
)
def test_a_file_that_is_no_sidecar_is_told(text: str, says: str, tmp_path: Path) -> None:
    path = written(tmp_path)
    artefacts.sidecar_of(path).write_text(text)
    with pytest.raises(ArtefactError, match=says):
        artefacts.read(path)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"inputs": ()}, "no inputs"),
        ({"inputs": (ArtefactTensor("a", "float8", (1,)),)}, "unknown type float8"),
        ({"outputs": (ArtefactTensor("a", "float32", (-1, 2)),)}, r"shape \[-1, 2\]"),
        ({"file": "../other.pt"}, "not a valid file name"),
    ],
)
def test_tensors_and_names_are_looked_at(change: dict[str, Any], says: str, tmp_path: Path) -> None:
    with pytest.raises(ArtefactError, match=says):
        artefacts.read(written(tmp_path, **change))


def test_another_file_than_the_one_described_is_told(tmp_path: Path) -> None:
    path = written(tmp_path)
    path.write_bytes(CONTENT[::-1])
    assert artefacts.read(path, verify_digest=False) == SAMPLE
    with pytest.raises(ArtefactError, match="is not the file that was compiled"):
        artefacts.read(path)
    path.write_bytes(CONTENT + b"!")
    with pytest.raises(ArtefactError, match="is not the file that was compiled"):
        artefacts.read(path, verify_digest=False)
    path.unlink()
    with pytest.raises(ArtefactError, match="there is no"):
        artefacts.read(path)
    artefacts.sidecar_of(path).unlink()
    with pytest.raises(ArtefactError, match="is not compiled yet"):
        artefacts.read(path)


def test_a_machine_runs_only_what_was_compiled_for_it() -> None:
    SAMPLE.require("cpu")
    with pytest.raises(ArtefactError, match="was compiled for cpu, and inf1 is to run it") as told:
        SAMPLE.require("inf1")
    assert told.value.hint.endswith("--target=inf1 --batch_size=5")


def test_artefacts_have_the_names_of_the_guide() -> None:
    usual = "/home/ubuntu/inferentia-compiled-models"
    assert str(artefacts.file_of("resnet50", 5)) == (
        f"{usual}/resnet50/resnet50-pytorch-bs5/resnet50_neuron_bs5_dynamic.pt"
    )
    for benchmark in ("bert", "bert-99", "bert-99.9"):
        found = artefacts.file_of(benchmark, 1, Path("/m"))
        assert str(found) == "/m/bert/bert-pytorch-bs1/bert-large-int32-bs1-concat.pt"
    with pytest.raises(ArtefactError, match="no model of rnnt") as told:
        artefacts.file_of("rnnt", 1)
    assert told.value.hint == "bert, resnet50"
