"""The sidecar of an engine: its builder, model and GPU, and whether it still fits."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from common.files import sha256

from .. import records
from ..errors import HarnessError

# Who builds. The last one builds nothing: its file is an ONNX graph that a CPU runs.
TENSORRT, RTX, STAND_IN = "tensorrt", "tensorrt-rtx", "stand-in"
TITLES = {TENSORRT: "TensorRT", RTX: "TensorRT-RTX", STAND_IN: "a stand-in (ONNX Runtime)"}
PLAN, ONNX = ".plan", ".onnx"


@dataclass(frozen=True, slots=True)
class Sidecar:
    """The facts of an engine file, in ``FILE.json`` next to it.

    ``version`` is that of the builder, ``compute_capabilities`` what it was built for, as 8.6.
    ``fields`` are the settings that decide what is built and ``fields_sha256`` is their digest;
    ``model_sha256`` is that of the graph. ``profiles`` has per input its least, usual and
    greatest shape. ``seconds`` and ``peak_bytes`` are what building took.
    """

    builder: str
    version: str
    compute_capabilities: tuple[str, ...]
    precision: str
    fields: dict[str, Any]
    fields_sha256: str
    model: str
    model_sha256: str
    sha256: str
    bytes: int
    profiles: dict[str, tuple[tuple[int, ...], ...]] = field(default_factory=dict)
    seconds: float = 0.0
    peak_bytes: int = 0

    @property
    def is_stand_in(self) -> bool:
        """Whether the file is an ONNX graph that takes the place of an engine."""
        return self.builder == STAND_IN


def path_of(engine: Path) -> Path:
    """Return the path of the sidecar of an engine: ``FILE.json`` in its folder."""
    return engine.with_name(f"{engine.name}.json")


def digest(fields: Mapping[str, Any]) -> str:
    """Return the digest of settings: the SHA-256 of their sorted JSON."""
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()


def read(engine: Path) -> Sidecar:
    """Return the facts of an engine from its sidecar.

    Raises HarnessError where either file is missing, where the engine is not the file that the
    sidecar describes, and for a ``.plan`` of a stand-in.
    """
    made = f"make it anew: `{COMMAND}`"
    if not engine.is_file():
        raise HarnessError(f"there is no engine {engine}", f"make it: `{COMMAND}`")
    if not path_of(engine).is_file():
        raise HarnessError(f"{engine} has no {path_of(engine).name}: its builder is unknown", made)
    facts = records.read(Sidecar, path_of(engine))
    if facts.is_stand_in == (engine.suffix == PLAN):
        raise HarnessError(f"{engine} is of {facts.builder}, which writes no such file", made)
    if engine.stat().st_size != facts.bytes or sha256(engine) != facts.sha256:
        raise HarnessError(f"{engine} is not the file that {path_of(engine).name} describes", made)
    return facts


COMMAND = "cm run script --tags=generate,nvidia,engine ..."


def check(engine: Path, expected: Mapping[str, str]) -> Sidecar:
    """Return the facts of an engine that has to fit this machine.

    ``expected`` may have ``builder``, ``version``, ``compute_capability`` and
    ``precision``. Raises HarnessError with all that differs at once.
    """
    facts = read(engine)
    has = {
        "builder": facts.builder,
        "version": facts.version,
        "precision": facts.precision,
        "model_sha256": facts.model_sha256,
    }
    wrong = [
        f"{name.replace('_', ' ')} {has[name]}, not {value}"
        for name, value in expected.items()
        if name in has and value and has[name] != value
    ]
    capability = expected.get("compute_capability", "")
    if capability and facts.compute_capabilities and capability not in facts.compute_capabilities:
        built_for = ", ".join(facts.compute_capabilities)
        wrong.append(f"compute capability {built_for}, and this GPU has {capability}")
    if wrong:
        text = f"{engine.name} does not fit: {'; '.join(wrong)}"
        raise HarnessError(text, f"make one that fits: `{COMMAND}`")
    return facts
