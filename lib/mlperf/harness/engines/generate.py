"""The program ``engine``: builds the engines of a model with their sidecars, or none."""

from __future__ import annotations

import json
import os
import resource
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from common.files import sha256

from .. import records
from ..errors import HarnessError
from ..settings import MAIN
from . import builder, half, profiles, sidecar
from .names import EngineName, stem
from .sidecar import ONNX, PLAN, STAND_IN, TITLES, Sidecar

# A float32 graph is written in another type here; other types come with the graph.
MADE_HERE = {"fp32": ("float32", "float16", "fp8"), "int8": ("int8",), "fp16": ("float16",)}
MADE_HERE |= {"fp8": ("fp8",)}
MODEL_FACTS_VARIABLE = "CM_ML_MODEL_FACTS_FILE_WITH_PATH"
# Options of models that take one sample, or one window of it, at a time.
ALONE = ("fixed_batch", "images_per_call", "windows_per_call")
MIB = 1 << 20
LOWEST = 1 << 10


@dataclass(frozen=True, slots=True)
class EngineRequest:
    """What to build: ``product`` builds the model that ``facts`` describes into ``folder``.

    ``facts`` is that of the environment, where model scripts put it, unless it is given.
    ``lengths`` are ranges as ``profiles.lengths`` reads them; ``workspace`` is in MiB, 0 for all
    that there is.
    """

    product: str
    folder: str
    benchmark: str
    precision: str
    facts: str = ""
    scenario: str = "Offline"
    batch: str = "1:8:16"
    lengths: str = ""
    compute_capabilities: tuple[str, ...] = ()
    config_ver: str = "default"
    streams: int = 1
    workspace: int = 0
    timing_cache: str = ""
    further: dict[str, Any] = field(default_factory=dict)


def main(config: Path) -> int:
    """Build as ``config`` says and write ``model.json`` last; raises HarnessError."""
    request = records.read(EngineRequest, config)
    request = replace(request, facts=request.facts or os.environ[MODEL_FACTS_VARIABLE])
    facts = records.read_json(Path(request.facts))
    if any(facts.get("options", {}).get(key) for key in ALONE):
        request = replace(request, batch="1")
    builder.check_capabilities(request.precision, request.compute_capabilities)
    able = MADE_HERE.get(facts["precision"], ())
    if request.precision not in able:
        advice = (
            "quantize it first: quantize,ml-model,_signed" if request.precision == "int8" else ""
        )
        text = f"the model is in {facts['precision']}, and {request.precision} is asked for"
        raise HarnessError(text, advice)
    folder = Path(request.folder)
    if request.product == STAND_IN:
        link_weights(facts, Path(request.facts).parent, folder)
    made = {
        graph: engine_of(request, described, graph, folder) for graph, described in graphs(facts)
    }
    write_facts(folder, facts, request, made)
    for graph, (path, engine_facts) in made.items():
        print(describe_engine(graph, path, engine_facts), flush=True)
    return 0


def link_weights(facts: Mapping[str, Any], source: Path, folder: Path) -> None:
    """Link the weights of a graph into the folder of its stand-in."""
    for name in weights_beside(facts):
        link = folder / name
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.exists():
            # A link whose model was removed from the cache leads nowhere.
            link.unlink(missing_ok=True)
            link.symlink_to((source / name).resolve())


def weights_beside(facts: Mapping[str, Any]) -> list[str]:
    """Return the files with weights that do not fit into a model's graphs."""
    data = facts.get("data", [])
    return [str(entry["file"]) for entry in ([data] if isinstance(data, Mapping) else data)]


def graphs(facts: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the graphs of a model by name."""
    yield MAIN, facts
    for part in facts.get("parts", ()):
        yield str(part["name"]), part


def engine_of(
    request: EngineRequest, described: Mapping[str, Any], graph: str, folder: Path
) -> tuple[Path, Sidecar]:
    """Build the engine of one graph into ``folder``; raises HarnessError."""
    source = Path(request.facts).parent / str(described["file"])
    named = EngineName(
        benchmark=request.benchmark,
        scenario=request.scenario,
        precision=request.precision,
        batch=profiles.span(request.batch).greatest,
        config_ver=request.config_ver,
        streams=request.streams,
    )
    suffix = ONNX if request.product == STAND_IN else PLAN
    return write_engine(request, source, described, folder / f"{stem(named, graph)}{suffix}")


def write_engine(
    request: EngineRequest, source: Path, described: Mapping[str, Any], target: Path
) -> tuple[Path, Sidecar]:
    """Write ``target`` and its sidecar: both complete, or neither."""
    began = time.monotonic()
    if request.precision == "fp8":
        half.check_fp8(source)
    with in_precision(source, str(described.get("precision", "")), request, target) as graph:
        version, shapes = _made(request, graph, source.name, target)
    fields = deciding(request)
    engine_facts = Sidecar(
        builder=request.product,
        version=version,
        compute_capabilities=request.compute_capabilities,
        precision=request.precision,
        fields=fields,
        fields_sha256=sidecar.digest(fields),
        model=source.name,
        model_sha256=str(described["sha256"]),
        sha256=sha256(target),
        bytes=target.stat().st_size,
        profiles=dict(shapes),
        seconds=round(time.monotonic() - began, 3),
        peak_bytes=LOWEST * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
    )
    records.write(sidecar.path_of(target), engine_facts)
    return target, engine_facts


def _made(
    request: EngineRequest, graph: Path, name: str, target: Path
) -> tuple[str, Mapping[str, profiles.Shapes]]:
    """Write the engine or its stand-in; return the builder's version and the shapes."""
    if request.product == STAND_IN:
        _place(target, graph.read_bytes())
        return _runtime_version(), {}
    built = builder.build(graph, engine_settings(request), name)
    _place(target, memoryview(built.data))
    return built.version, built.shapes


@contextmanager
def in_precision(source: Path, has: str, request: EngineRequest, target: Path) -> Iterator[Path]:
    """Yield the graph in the requested number format; a converted file is removed afterwards."""
    if request.precision != "float16" or has == "fp16":
        yield source
        return
    made = target.with_name(f".{target.name}.float16.onnx")
    try:
        half.write(source, made)
        yield made
    finally:
        made.unlink(missing_ok=True)


def engine_settings(request: EngineRequest) -> builder.EngineSettings:
    """Return the same for the builder; raises HarnessError for ranges that are none."""
    return builder.EngineSettings(
        product=request.product,
        precision=request.precision,
        batch=profiles.span(request.batch),
        lengths=profiles.lengths(request.lengths),
        capabilities=request.compute_capabilities,
        workspace=request.workspace * MIB,
        timing_cache=Path(request.timing_cache) if request.timing_cache else None,
    )


def deciding(request: EngineRequest) -> dict[str, Any]:
    """Return the settings that decide the content of an engine: all but its location."""
    left_out = ("facts", "folder", "timing_cache", "further", "compute_capabilities")
    plain = {k: v for k, v in records.encode(request).items() if k not in left_out}
    return {**plain, **request.further}


def _place(target: Path, data: Any) -> None:
    """Write a file in one step: under its name it is whole. Raises HarnessError when it cannot."""
    unfinished = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with unfinished.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, target)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        free = shutil.disk_usage(target.parent).free
        text = f"{target} cannot be written: {error.strerror}"
        raise HarnessError(text, f"{free // MIB} MiB are free there") from error


def _runtime_version() -> str:
    import onnxruntime

    return str(onnxruntime.__version__)


def write_facts(
    folder: Path,
    facts: Mapping[str, Any],
    request: EngineRequest,
    made: Mapping[str, tuple[Path, Sidecar]],
) -> None:
    """The description of the model, whose files are now the engines."""
    whole = {**facts, **_file(*made[MAIN])}
    parts = [{**part, **_file(*made[str(part["name"])])} for part in facts.get("parts", ())]
    whole |= {"parts": parts} if parts else {}
    if request.product != STAND_IN:
        whole.pop("data", None)
    main_engine = made[MAIN][1]
    whole["precision"] = {"float32": "fp32", "float16": "fp16"}.get(
        request.precision, request.precision
    )
    how = f"{request.precision}, {TITLES[main_engine.builder]} {main_engine.version}"
    earlier = facts.get("weight_transformations", "")
    whole["weight_transformations"] = "; ".join(filter(None, [earlier, how]))
    whole["engine"] = {"builder": main_engine.builder, "fields_sha256": main_engine.fields_sha256}
    records.write_text(folder / "model.json", json.dumps(whole, indent=2) + "\n")


def _file(path: Path, engine_facts: Sidecar) -> dict[str, Any]:
    return {"file": path.name, "sha256": engine_facts.sha256, "bytes": engine_facts.bytes}


def describe_engine(graph: str, path: Path, engine_facts: Sidecar) -> str:
    """One line about an engine for people."""
    size = f"{engine_facts.bytes / 1e6:.2f} MB"
    if engine_facts.is_stand_in:
        return f"{graph}: {path.name}, {size}: stand-in, an ONNX graph; no engine was built"
    took = f"{engine_facts.seconds:.1f} s, at most {engine_facts.peak_bytes / MIB:.0f} MiB"
    where = ", ".join(engine_facts.compute_capabilities) or "the GPU of this machine"
    by = f"{TITLES[engine_facts.builder]} {engine_facts.version} for compute capability {where}"
    return f"{graph}: {path.name}, {size}, {took}; by {by}; not verified on hardware"
