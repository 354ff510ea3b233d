"""What engines are called: the names of NVIDIA's submissions, by which its harness finds them."""

from __future__ import annotations

from dataclasses import dataclass

from ..settings import MAIN

SHORT = {"float32": "fp32", "float16": "fp16", "int8": "int8", "fp8": "fp8"}
# Submissions from 2.0 on write the versions of a configuration like this.
BERT_LENGTH = 384


@dataclass(frozen=True, slots=True)
class EngineName:
    """The parts of an engine's name; ``benchmark`` is the vendor's, without accuracy target."""

    benchmark: str
    scenario: str
    precision: str
    batch: int
    device: str = "gpu"
    config_ver: str = "default"
    streams: int = 1
    interleaved: bool = False


def stem(named: EngineName, graph: str = MAIN) -> str:
    """Return the name without its ending; the further graphs of a model have their own in it."""
    who = named.benchmark if graph == MAIN else f"{named.benchmark}-{graph}"
    head = f"{who}-{named.scenario}-{named.device}"
    precision = SHORT[named.precision]
    if named.benchmark != "bert":
        return f"{head}-b{named.batch}-{precision}.{named.config_ver}"
    shape = f"S_{BERT_LENGTH}_B_{named.batch}_P_{named.streams}_vs"
    return f"{head}-{precision}_{shape}{'_il' * named.interleaved}.{named.config_ver}"
