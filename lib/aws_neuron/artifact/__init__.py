"""A model compiled for Neuron: its path, and its JSON sidecar.

Beside ``m.pt`` lies ``m.pt.json``. It has the keys of every ``model.json`` (name, file, sha256,
bytes, precision, inputs, outputs, options, accuracy), so whatever opens a model of a script opens
this one too, and under ``neuron`` what only such a model has. Imports nothing of the engine or of
the harness.
"""

from .artefact import (
    TARGETS,
    ArtefactError,
    ArtefactTensor,
    NeuronArtefact,
    NeuronCompilation,
    SourceModel,
)
from .artifact_paths import benchmarks, file_of, usual_folder, usual_scratch
from .files import read, sidecar_of, write

__all__ = [
    "TARGETS",
    "ArtefactError",
    "ArtefactTensor",
    "NeuronArtefact",
    "NeuronCompilation",
    "SourceModel",
    "benchmarks",
    "file_of",
    "read",
    "sidecar_of",
    "usual_folder",
    "usual_scratch",
    "write",
]
