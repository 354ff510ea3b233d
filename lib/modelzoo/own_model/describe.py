"""Describe an ONNX file for the harness, and lay out samples for it: given ones, or random."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper

from modelzoo import files, program
from modelzoo.program import ProgramError

SEED = 7
# Random samples of a model with large inputs are fewer.
MOST_BYTES = 512 << 20
LABELS = "labels"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write model.json, the arrays and, last of all, dataset.json."""
    parser = program.parser(__doc__)
    parser.add_argument("--model", type=Path, required=True, help="the ONNX file")
    parser.add_argument("--data", default="", help=".npz file with samples; none for random ones")
    parser.add_argument("--shapes", default="", help="what the model leaves open: name=3x224x224")
    parser.add_argument("--count", type=int, default=256, help="how many random samples")
    options = parser.parse_args(arguments)

    def work() -> str:
        facts = described(options.model, parse_shapes(options.shapes))
        data = options.data
        arrays = read_samples(Path(data), facts) if data else drawn(facts, options.count)
        return lay_out(options.out, options.model, facts, arrays)

    return program.run("describe", work)


def parse_shapes(text: str) -> dict[str, tuple[int, ...]]:
    """Return shapes of single samples by input, from ``ids=128,image=3x224x224``.

    Raises ProgramError for a word that is no shape.
    """
    shapes = {}
    for word in filter(None, text.split(",")):
        name, _, shape = word.rpartition("=")
        sizes = shape.split("x")
        if not name or not all(size.isdigit() and int(size) for size in sizes):
            raise ProgramError(f"{word} is not a shape", "write --input_shapes=NAME=3x224x224")
        shapes[name] = tuple(int(size) for size in sizes)
    return shapes


def described(path: Path, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Any]:
    """Return the facts of a model but for its file; raise ProgramError for missing ones."""
    try:
        model = onnx.load(str(path), load_external_data=False)
    except Exception as error:
        raise ProgramError(f"{path} cannot be read as ONNX: {error}") from error
    graph = model.graph
    inputs = inputs_of(graph, path)
    names = [tensor_.name for tensor_ in inputs]
    for name in shapes.keys() - set(names):
        raise ProgramError(f"{path} has no input {name}", f"it has: {', '.join(names)}")
    fixed = has_fixed_batch(inputs, path)
    for tensor_ in inputs:
        check_requested_shape(tensor_, shapes, path)
    inputs_ = [tensor(tensor_, shapes) for tensor_ in inputs]
    if shapes:
        check_joined(model, inputs_, path)
    return {
        "name": path.stem,
        "precision": "fp32",
        "inputs": inputs_,
        "outputs": [tensor(tensor_, shapes, known=False) for tensor_ in tensors(graph.output)],
        "beside": beside(model),
        "options": {"fixed_batch": fixed},
        "accuracy": {"metric": "top-1", "unit": "%", "reference": 0.0, "target": 0.0},
    }


def inputs_of(graph: Any, path: Path) -> list[Any]:
    """Return the inputs to feed; raise ProgramError for one that is no tensor, or without any."""
    weights = {weight.name for weight in graph.initializer}
    inputs = [input_ for input_ in graph.input if input_.name not in weights]
    other = next((input_.name for input_ in inputs if not input_.type.HasField("tensor_type")), "")
    if other:
        raise ProgramError(f"the input {other} of {path} is not a tensor")
    if not inputs or not graph.output:
        lacks = "input" if graph.output else "output"
        raise ProgramError(f"{path} has no {lacks}", "export the model anew, and look at its size")
    return inputs


def has_fixed_batch(inputs: Sequence[Any], path: Path) -> bool:
    """Whether the model takes one sample at a time; raises ProgramError for several, or none."""
    first = {sizes(input_)[0] if sizes(input_) else 0 for input_ in inputs}
    several = sorted(size for size in first if isinstance(size, int) and size != 1)
    if several:
        wants = f"{several[-1]} samples at once" if several[-1] else "inputs without samples"
        advice = "export it with an open first dimension, or one of 1"
        raise ProgramError(f"{path} wants {wants}", advice)
    return 1 in first


def tensors(values: Iterable[Any]) -> list[Any]:
    """Return the values that are tensors; a classifier's list of maps is left out."""
    return [value for value in values if value.type.HasField("tensor_type")]


def beside(model: Any) -> dict[str, int]:
    """Return the files with weights that the model names, and their least bytes."""
    least: dict[str, int] = {}
    for tensor in external_tensors(model):
        where = {entry.key: entry.value for entry in tensor.external_data}
        end = int(where.get("offset", 0)) + int(where.get("length", 0))
        name = where.get("location", "")
        least[name] = max(end, least.get(name, 0))
    return dict(sorted(least.items()))


def external_tensors(message: Any) -> Iterator[Any]:
    """Yield the tensors in other files, those of inner graphs, constants and functions too."""
    if isinstance(message, onnx.TensorProto):
        if message.data_location == onnx.TensorProto.EXTERNAL:
            yield message
        return
    for description, value in message.ListFields():
        if description.type == description.TYPE_MESSAGE:
            for each in value if isinstance(value, Sequence) else [value]:
                yield from external_tensors(each)


def sizes(value: Any) -> list[int | str]:
    """The dimensions of an input or output; a name or "" for an open one."""
    dims = value.type.tensor_type.shape.dim
    # Some exporters write 0 or -1 for an open one.
    return [dim.dim_value if dim.dim_value > 0 else dim.dim_param for dim in dims]


def tensor(value: Any, shapes: Mapping[str, tuple[int, ...]], known: bool = True) -> dict[str, Any]:
    """Name, type and shape of one sample; open dimensions must be ``known`` of inputs.

    Raises ProgramError when one is open that must not be.
    """
    shape: Sequence[int | str] = shapes.get(value.name) or sizes(value)[1:]
    if known and not all(isinstance(size, int) and size > 0 for size in shape):
        raise ProgramError(
            f"the model leaves the shape of {value.name} open: {list(shape)}",
            f"say it with --input_shapes={value.name}="
            f"{'x'.join('N' if isinstance(size, str) else str(size) for size in shape)}",
        )
    dtype = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
    open_ones = [size if isinstance(size, int) else 0 for size in shape]
    return {"name": value.name, "dtype": str(dtype), "shape": open_ones}


def check_requested_shape(value: Any, shapes: Mapping[str, tuple[int, ...]], path: Path) -> None:
    """Raise ProgramError where another shape is requested than the model has."""
    own, requested = sizes(value)[1:], shapes.get(value.name)
    if requested is None:
        return
    is_same = [isinstance(a, str) or a == b for a, b in zip(own, requested, strict=False)]
    if len(own) != len(requested) or not all(is_same):
        raise ProgramError(
            f"{path} takes {value.name} as {own}, not {list(requested)}",
            "give --input_shapes for what the model leaves open, without the number of samples",
        )


def check_joined(model: Any, inputs: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Raise ProgramError where the graph cannot take its inputs in the requested shapes.

    A model of which nothing can be inferred is left to the backend.
    """
    if conflict(model):
        return
    shapes = {facts["name"]: facts["shape"] for facts in inputs}
    for value in model.graph.input:
        dims = value.type.tensor_type.shape.dim
        for dim, size in zip(dims[1:], shapes.get(value.name, ()), strict=False):
            dim.dim_value = size
    problem = conflict(model)
    if problem:
        shapes_text = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise ProgramError(
            f"{path} cannot take {shapes_text}: {problem}", "give other shapes with --input_shapes"
        )


def conflict(model: Any) -> str:
    """Why the shapes in a graph do not go together, in a line; empty where nothing is wrong."""
    try:
        onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    except Exception as error:
        return " ".join(str(error).split())[:300] or "its shapes cannot be inferred"
    return ""


def read_samples(path: Path, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the user's samples by input, with labels where there are; raise ProgramError."""
    try:
        archive = np.load(path, allow_pickle=False)
        names = set(archive.files)
    except (OSError, ValueError, AttributeError) as error:
        raise ProgramError(f"{path} is no .npz file: {error}", "write one with np.savez") from error
    inputs = {tensor_facts["name"]: tensor_facts for tensor_facts in facts["inputs"]}
    missing = sorted(set(inputs) - names)
    if missing:
        raise ProgramError(
            f"{path} has no array {missing[0]}; it has {', '.join(sorted(names))}",
            f"name its arrays as the model's inputs: {', '.join(inputs)}",
        )
    arrays = {name: fitting(archive[name], tensor_facts) for name, tensor_facts in inputs.items()}
    if LABELS in names:
        arrays[LABELS] = whole_numbers(archive[LABELS], path)
    counts = {len(array) for array in arrays.values()}
    if len(counts) != 1 or 0 in counts:
        raise ProgramError(f"the arrays of {path} are not equally long: {sorted(counts)} samples")
    return arrays


def fitting(array: Any, each: Mapping[str, Any]) -> Any:
    """An array as the model takes it; raises ProgramError where it is of another shape or kind."""
    has_shape = array.ndim > 0 and list(array.shape[1:]) == each["shape"]
    if not has_shape or not np.can_cast(array.dtype, each["dtype"], "same_kind"):
        shape = ", ".join(map(str, ["samples", *each["shape"]]))
        raise ProgramError(
            f"the samples of {each['name']} are {array.dtype} {list(array.shape[1:])}, the model "
            f"takes {each['dtype']} {each['shape']}",
            f"convert them: array.astype('{each['dtype']}')"
            if has_shape
            else f"save them as [{shape}]",
        )
    return array.astype(each["dtype"])


def whole_numbers(labels: Any, path: Path) -> Any:
    """Return the classes [samples] of all samples; raise ProgramError where some lack one."""
    column = labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels
    is_number = column.dtype.kind in "iubf" and np.all(np.mod(column, 1) == 0)
    if column.ndim != 1 or not is_number:
        raise ProgramError(
            f"the {LABELS} of {path} are {labels.dtype} {list(labels.shape)}, not one whole number "
            "for each sample",
            "for rows with a number for each class, save labels.argmax(axis=1)",
        )
    return column.astype(np.int64)


def drawn(facts: Mapping[str, Any], count: int) -> dict[str, Any]:
    """Random samples: normal numbers, and zeros and ones where the model takes whole numbers."""
    generator = np.random.default_rng(SEED)
    one = sum(np.prod(e["shape"]) * np.dtype(e["dtype"]).itemsize for e in facts["inputs"])
    count = max(1, min(count, int(MOST_BYTES / max(1, one))))
    return {
        tensor_facts["name"]: generator.standard_normal((count, *tensor_facts["shape"])).astype(
            tensor_facts["dtype"]
        )
        if np.dtype(tensor_facts["dtype"]).kind == "f"
        else generator.integers(0, 2, (count, *tensor_facts["shape"])).astype(tensor_facts["dtype"])
        for tensor_facts in facts["inputs"]
    }


def weights_source(model: Path, name: str, least: int) -> Path:
    """Return the file with weights that a model names; next to its link, or to the model itself.

    Raises ProgramError where it is not there, lies outside, or has fewer bytes than ``least``.
    """
    if not name or os.path.isabs(name) or ".." in Path(name).parts:
        raise ProgramError(
            f"{model} keeps weights in {name or 'a file without a name'}, outside of its folder, "
            "which runtimes refuse",
            "export it again, or onnx.save it anew with save_as_external_data=True",
        )
    source = model.parent / name
    if not source.is_file() and (model.resolve().parent / name).is_file():
        source = model.resolve().parent / name
    if not source.is_file():
        raise ProgramError(
            f"there is no {source}, which holds weights of the model",
            "put it beside the ONNX file, as the export has made it",
        )
    size = source.stat().st_size
    if size < least:
        raise ProgramError(
            f"{source} holds weights of the model, and is cut off: {size} of {least} bytes",
            "copy or export it again",
        )
    return source


def linked(source: Path, out: Path, name: str) -> dict[str, Any]:
    """Return the facts of a file of the user's, which appears in ``out`` as ``name``."""
    link = out / name
    link.parent.mkdir(parents=True, exist_ok=True)
    if not os.path.lexists(link):
        link.symlink_to(source.absolute())
    return {"file": name, **files.file_facts(source)}


def lay_out(out: Path, model: Path, facts: Mapping[str, Any], arrays: Mapping[str, Any]) -> str:
    """Write the model as a link with its facts, and an array per input, named by its number."""
    sources = {n: weights_source(model, n, size) for n, size in facts["beside"].items()}
    data = [linked(source, out, name) for name, source in sources.items()]
    named = {**facts, **linked(model, out, model.name), **({"data": data} if data else {})}
    del named["beside"]
    (out / "model.json").write_text(json.dumps(named, indent=2) + "\n", encoding="utf-8")
    names = []
    for number, tensor_facts in enumerate(facts["inputs"]):
        names.append(f"input-{number}.npy")
        np.save(out / names[-1], arrays[tensor_facts["name"]])
    if LABELS in arrays:
        names.append(f"{LABELS}.npy")
        np.save(out / names[-1], arrays[LABELS])
    count = len(next(iter(arrays.values())))
    dataset_facts = {"name": f"{model.stem}-samples", "count": count, "judged": LABELS in arrays}
    files.write_facts(out, {**dataset_facts, "files": files.facts_of_files(out, names)})
    return f"{count} samples for {len(facts['inputs'])} inputs"


if __name__ == "__main__":
    sys.exit(main())
