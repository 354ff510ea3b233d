"""Inputs of the collections' script for NVIDIA's harness: their fields and effects.

``inputs.yaml`` is the one table; what happens with a field stands in ``fields.yaml``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from common.problems import Problem
from nvidia_mlperf.flow import fields
from nvidia_mlperf.flow.fields import RECORD, REFUSED, USED, ConfigField

HERE = Path(__file__).resolve().parent
PREFIX = "CM_MLPERF_NVIDIA_HARNESS_"
IMPLEMENTATIONS = ("nvidia", "nvidia-original")
BACKENDS = ("tensorrt", "stand-in", "triton")
OPTIONS, PRECISION, BACKEND = (
    "CM_MLPERF_BACKEND_OPTIONS",
    "CM_MLPERF_MODEL_PRECISION",
    "CM_MLPERF_BACKEND",
)
_KEYS = {
    "batch_size": "CM_MLPERF_LOADGEN_MAX_BATCHSIZE",
    "deque_timeout_us": "CM_MLPERF_SERVER_DEQUE_TIMEOUT_US",
}
MIB = 1 << 20
FP8_FROM = "8.9"
_NO_INPUT = "nothing here reads it"


@dataclass(frozen=True, slots=True)
class Input:
    """An input: its key, its field, how it is used, and the key that it ``becomes``."""

    name: str
    env: str
    here: str
    why: str = ""
    becomes: str = ""
    field: ConfigField | None = None

    def value(self, text: str) -> Any:
        """Return the value that was typed, of the field's type where it can be."""
        return text if self.field is None else self.field.from_text(text)

    def misfit(self, value: Any) -> str:
        """Return why the input is not taken with this value; empty where it is."""
        problem = self.field.misfit(value) if self.field is not None else ""
        if problem and self.field is not None:
            return problem.replace(self.field.name, self.name, 1)
        return f"--{self.name} is refused: {self.why}" if self.here == REFUSED else ""


def read() -> dict[str, Input]:
    """Return the table, without inputs that run-mlperf-inference-app has anyway."""
    known = fields.read(yaml.safe_load((HERE / "fields.yaml").read_text(encoding="utf-8")))
    table = yaml.safe_load((HERE / "inputs.yaml").read_text(encoding="utf-8"))
    return {
        name: _input(name, entry, known) for name, entry in table.items() if "input" not in entry
    }


def _others(env: Mapping[str, Any], table: Mapping[str, Input]) -> Iterator[Input]:
    """Yield keys of the collections' script that its variations set, not inputs."""
    known = fields.read(yaml.safe_load((HERE / "fields.yaml").read_text(encoding="utf-8")))
    inputs = {row.env for row in table.values()}
    for key in env:
        name = key.removeprefix(PREFIX).lower()
        if key.startswith(PREFIX) and key not in inputs:
            entry = {"field": name} if name in known else {"here": RECORD, "why": _NO_INPUT}
            yield _input(f"env.{key}", {"env": key, **entry}, known)


def _input(name: str, entry: Mapping[str, str], known: Mapping[str, ConfigField]) -> Input:
    key, becomes = entry.get("env", f"{PREFIX}{name.upper()}"), entry.get("becomes", "")
    if "field" not in entry:
        return Input(name, key, entry["here"], entry["why"])
    field = known[entry["field"]]
    here = USED if becomes else RECORD if field.here == USED else field.here
    return Input(name, key, here, field.why, becomes, field)


def take(env: MutableMapping[str, Any], capabilities: tuple[str, ...] = ()) -> list[str]:
    """Let the inputs become settings of ours; what has no effect, in words.

    ``capabilities`` are those of the GPUs that are there. Raises Problem with all that cannot be
    taken: another implementation, values that do not fit, what is refused.
    """
    meant = env.get("CM_MLPERF_IMPLEMENTATION") in IMPLEMENTATIONS
    texts = _given(env) if meant or any(key.startswith(PREFIX) for key in env) else {}
    if not meant:
        _refuse(f"--{row.name} is for --implementation=nvidia" for row in _own(texts))
        return []
    values = {row: row.value(text) for row, text in texts.items()}
    _refuse(problem for row, value in values.items() if (problem := row.misfit(value)))
    for row, value in values.items():
        if row.here == USED:
            _become(env, row, value)
    _way(env, capabilities)
    return [f"--{row.name} has no effect: {why}" for row in values if (why := _idle(env, row))]


def _given(env: Mapping[str, Any]) -> dict[Input, str]:
    """Return the inputs that are set, with their texts."""
    table = read()
    rows = [*table.values(), *_others(env, table)]
    return {row: str(env[row.env]) for row in rows if str(env.get(row.env) or "")}


def _idle(env: Mapping[str, Any], row: Input) -> str:
    """Return why an input changes nothing; empty where it does."""
    if env[BACKEND] == "stand-in" and row.becomes.startswith("option"):
        return "the stand-in has no lanes"
    return (row.why or "it is kept for the record") if row.here == RECORD else ""


def _own(texts: Mapping[Input, str]) -> Iterator[Input]:
    """Yield the inputs whose keys mean nothing to other implementations."""
    return (row for row in texts if row.env.startswith(PREFIX))


def _refuse(wrong: Any) -> None:
    if problems := list(wrong):
        raise Problem("bad-value", "; ".join(problems), "leave them out, or correct them")


def _become(env: MutableMapping[str, Any], row: Input, value: Any) -> None:
    """Set what a used input becomes; what the user has said in our words stays."""
    kind, _, name = row.becomes.partition(" ")
    if kind == "option":
        _option(env, name, -(-int(value) // MIB) if name == "workspace" else value)
    elif kind in ("precision", "backend"):
        if value:
            _choose(env, row, kind, name)
    elif value is False:
        env.pop(_KEYS[kind], None)
    elif value is not True and value:
        env[_KEYS[kind]] = env.get(_KEYS[kind]) or str(value)


def _option(env: MutableMapping[str, Any], name: str, value: Any) -> None:
    """Add an option of the backend, unless it is given."""
    options = [part for part in str(env.get(OPTIONS) or "").split(",") if part]
    if not any(part.startswith(f"{name}=") for part in options):
        env[OPTIONS] = ",".join([*options, f"{name}={str(value).lower()}"])


def _choose(env: MutableMapping[str, Any], row: Input, kind: str, name: str) -> None:
    """Choose a precision or a backend; raises Problem where another one is chosen."""
    key = PRECISION if kind == "precision" else BACKEND
    if env.get(key) not in (None, "", name):
        _refuse([f"--{row.name} and --{kind}={env[key]} contradict each other"])
    env[key] = name


def _way(env: MutableMapping[str, Any], capabilities: tuple[str, ...]) -> None:
    """The backend that computes: TensorRT on a GPU, unless another of its kind is named."""
    backend = env[BACKEND] = env.get(BACKEND) or "tensorrt"
    if backend not in BACKENDS:
        _refuse([f"--implementation=nvidia has --backend={' or '.join(BACKENDS)}, not {backend}"])
    if backend == "tensorrt" and env.get("CM_MLPERF_DEVICE", "cpu") != "cuda":
        raise Problem(
            "bad-value",
            "--implementation=nvidia computes with TensorRT on a GPU",
            "add --device=cuda; without a GPU --backend=stand-in takes its place, and says so",
        )
    if backend == "stand-in":
        env.pop(OPTIONS, None)
    check_fp8(env, capabilities)


def check_fp8(env: Mapping[str, Any], capabilities: tuple[str, ...]) -> None:
    """Raise Problem for fp8 on a GPU that cannot compute in it."""
    old = [each for each in capabilities if _number(each) < _number(FP8_FROM)]
    if env.get(PRECISION) == "fp8" and old:
        raise Problem(
            "bad-value",
            f"fp8 needs compute capability {FP8_FROM}, and the GPU here has {', '.join(old)}",
            "use --precision=float16 or int8",
        )


def _number(capability: str) -> tuple[int, ...]:
    return tuple(int(part) for part in capability.split(".") if part.isdigit())
