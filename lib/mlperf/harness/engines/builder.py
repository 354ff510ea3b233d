"""Builds engines with TensorRT or TensorRT-RTX, through the calls that both have.

TensorRT from 10 on has them; ``OLDER`` has the equivalents of 8.5 and 9.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import HarnessError
from . import profiles
from .profiles import OpenInput, Shapes, Span
from .sidecar import RTX, TENSORRT, TITLES

MODULES = {TENSORRT: "tensorrt", RTX: "tensorrt_rtx"}
# Before 10, types were selected by flags and graphs needed a flag for an open batch.
OLDER = {"create": ("EXPLICIT_BATCH",), "float16": ("FP16",), "int8": ("INT8", "FP16")}
TYPED_SINCE = 10
# The first compute capability that computes in 8-bit floating point.
FP8_SINCE = (8, 9)
WARNING = 2
LONGEST = 400


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """Builder settings: ``capabilities`` as 8.6, none for the local GPU; workspace in bytes.

    ``timing_cache`` is a file that is read and added to, None for none.
    """

    product: str
    precision: str
    batch: Span
    lengths: Mapping[str, Span]
    capabilities: tuple[str, ...] = ()
    workspace: int = 0
    timing_cache: Path | None = None


@dataclass(frozen=True, slots=True)
class BuiltEngine:
    """An engine: its bytes, the builder's version, the shapes, and how long it took."""

    data: Any
    version: str
    shapes: Mapping[str, Shapes]
    seconds: float


def load(product: str) -> Any:
    """Return the module of TensorRT or TensorRT-RTX; raises HarnessError with where to get it."""
    try:
        return importlib.import_module(MODULES[product])
    except (ImportError, OSError) as error:
        tags = "get,tensorrt,_rtx" if product == RTX else "get,tensorrt"
        text = f"{TITLES[product]} cannot be used: {error}"
        raise HarnessError(text, f"`cm run script --tags={tags}`") from error


def build(graph: Path, settings: EngineSettings, name: str = "") -> BuiltEngine:
    """Build an engine of an ONNX file, which errors call ``name``.

    Raises HarnessError with the parser's or the builder's words.
    """
    name = name or graph.name
    check_capabilities(settings.precision, settings.capabilities)
    trt = load(settings.product)
    log = _log(trt)
    began = time.monotonic()
    builder = trt.Builder(log)
    network = builder.create_network(_flags(trt, settings))
    _parse(trt, network, log, graph, name)
    config = builder.create_builder_config()
    _configure(trt, config, settings)
    shapes = _profile(builder, config, network, settings)
    cache = _timing_cache(config, settings.timing_cache)
    data = builder.build_serialized_network(network, config)
    if data is None:
        said = "; ".join(log.said) or "no output"
        raise HarnessError(f"{TITLES[settings.product]} cannot build {name}: {said}")
    _keep_timings(config, cache, settings.timing_cache)
    return BuiltEngine(data, str(trt.__version__), shapes, time.monotonic() - began)


def check_capabilities(precision: str, capabilities: Sequence[str]) -> None:
    """Raise HarnessError where a GPU cannot compute in ``precision``."""
    old = [c for c in capabilities if tuple(map(int, c.split("."))) < FP8_SINCE]
    if precision == "fp8" and old:
        raise HarnessError(
            f"compute capability {old[0]} has no fp8, which 8.9 and later have (L4, H100)",
            "use --precision=float16 or int8",
        )


def _log(trt: Any) -> Any:
    class Log(trt.ILogger):  # type: ignore[misc]
        """Keeps the errors, which the builder only logs."""

        def __init__(self) -> None:
            trt.ILogger.__init__(self)
            self.said: list[str] = []

        def log(self, severity: Any, text: str) -> None:
            if int(severity) < WARNING:
                self.said.append(text.strip()[:LONGEST])

    return Log()


def _is_typed(trt: Any, settings: EngineSettings) -> bool:
    """Whether types are those of the graph: TensorRT-RTX and TensorRT 11 know nothing else."""
    return settings.product == RTX or int(trt.__version__.split(".")[0]) >= TYPED_SINCE


def _flags(trt: Any, settings: EngineSettings) -> int:
    flags = trt.NetworkDefinitionCreationFlag
    names = ("STRONGLY_TYPED",) if _is_typed(trt, settings) else OLDER["create"]
    return sum(1 << int(getattr(flags, name)) for name in names if hasattr(flags, name))


def _parse(trt: Any, network: Any, log: Any, graph: Path, name: str) -> None:
    parser = trt.OnnxParser(network, log)
    if parser.parse_from_file(str(graph)):
        return
    errors = [parser.get_error(n) for n in range(parser.num_errors)]
    messages = [_in_words(error) for error in errors] or log.said or ["no output"]
    advice = ""
    if any("Int32" in text or "UINT8" in text.upper() for text in messages):
        advice = "TensorRT takes signed symmetric 8-bit models: quantize,ml-model,_signed"
    raise HarnessError(f"TensorRT's parser refuses {name}: {messages[0]}", advice)


def _in_words(error: Any) -> str:
    """Return a parser's error with the node that it is about."""
    node = f"{error.node_operator()} {error.node_name()}: " if error.node_name() else ""
    return f"{node}{str(error.desc()).strip()[:LONGEST]}"


def _configure(trt: Any, config: Any, settings: EngineSettings) -> None:
    if settings.workspace:
        config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, settings.workspace)
    if not _is_typed(trt, settings):
        for name in OLDER.get(settings.precision, ()):
            config.set_flag(getattr(trt.BuilderFlag, name))
    if settings.product == RTX:
        _aim(trt.ComputeCapability, config, settings.capabilities)


def _aim(known: Any, config: Any, capabilities: Sequence[str]) -> None:
    """Name the GPUs that TensorRT-RTX builds for; raises HarnessError for one that it does not."""
    config.num_compute_capabilities = max(1, len(capabilities))
    for number, each in enumerate(capabilities):
        target = getattr(known, f"SM{each.replace('.', '')}", None)
        if target is None:
            names = sorted(int(name[2:]) for name in dir(known) if name.startswith("SM"))
            has = ", ".join(f"{name // 10}.{name % 10}" for name in names)
            raise HarnessError(
                f"TensorRT-RTX has no target for compute capability {each}; it has {has}",
                "build for one of these, or use TensorRT itself: the variation _tensorrt",
            )
        config.set_compute_capability(target, number)


def _profile(
    builder: Any, config: Any, network: Any, settings: EngineSettings
) -> dict[str, Shapes]:
    tensors = [network.get_input(n) for n in range(network.num_inputs)]
    inputs = [OpenInput(t.name, tuple(t.shape), _dimensions(t)) for t in tensors]
    shapes = profiles.of_graph(inputs, settings.batch, settings.lengths)
    if shapes:
        profile = builder.create_optimization_profile()
        for name, three in shapes.items():
            profile.set_shape(name, *three)
        config.add_optimization_profile(profile)
    return shapes


def _dimensions(tensor: Any) -> tuple[str, ...]:
    """Names of the dimensions; an open one has that of the graph, where it gave one."""
    return tuple(str(tensor.get_dimension_name(n) or "") for n in range(len(tensor.shape)))


def _timing_cache(config: Any, path: Path | None) -> Any:
    """Take what an earlier build has measured; a file that does not fit is as good as none."""
    if path is None:
        return None
    known = path.read_bytes() if path.is_file() else b""
    cache = config.create_timing_cache(known) or config.create_timing_cache(b"")
    if cache is not None:
        config.set_timing_cache(cache, False)
    return cache


def _keep_timings(config: Any, cache: Any, path: Path | None) -> None:
    if cache is not None and path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(config.get_timing_cache().serialize()))
