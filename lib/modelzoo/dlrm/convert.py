"""Turn a checkpoint of DLRM into the ONNX graph of the benchmark.

    python -m modelzoo.dlrm.convert --checkpoint PATH --version v1|v2 --out DIR [--other-size]

The first version's checkpoint is a file of PyTorch, the second one's a folder of torchsnapshot.
Every weight that the network has must be there in its shape, and no other.
"""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

from modelzoo import models, program
from modelzoo.checkpoint import check_shapes
from modelzoo.dlrm import recommender
from modelzoo.dlrm.weights import METADATA, SavedWeights, WeightSnapshot
from modelzoo.program import ProgramError
from modelzoo.progress import Progress


def opened(path: Path, version: str) -> SavedWeights | WeightSnapshot:
    """The checkpoint; archives of the second version have folders around it.

    Raises ProgramError unless exactly one is there.
    """
    if version == "v1":
        return SavedWeights(path)
    paths = sorted(path.rglob(METADATA)) if path.is_dir() else []
    if len(paths) != 1:
        raise ProgramError(f"{path} has {len(paths)} files {METADATA}, expected one")
    return WeightSnapshot(paths[0].parent)


def size_of(source: SavedWeights | WeightSnapshot, version: str) -> recommender.Size:
    """Return the size by the shapes of the weights, with the rules' numbers of values.

    Raises ProgramError when tables are missing.
    """
    size = recommender.real(version)
    first = recommender.table(size, 0)
    pattern = re.compile(re.escape(first).replace("0", r"(\d+)", 1))
    tables = {int(match[1]) for name in source.names() if (match := pattern.fullmatch(name))}
    if tables != set(range(recommender.FEATURES)):
        raise ProgramError(f"{len(tables)} tables like {first}, expected {recommender.FEATURES}")
    shapes = [source.shape(recommender.table(size, number)) for number in sorted(tables)]
    rows = tuple(shape[0] for shape in shapes)
    bottom, top = (_widths(source, size, part) for part in ("bottom", "top"))
    kernel = "inter_arch.crossnet.V_kernels.0"
    rank = source.shape(kernel)[0] if kernel in source.names() else size.rank
    return replace(size, rows=rows, width=shapes[0][1], bottom=bottom, top=top, rank=rank)


def _widths(
    source: SavedWeights | WeightSnapshot, size: recommender.Size, part: str
) -> tuple[int, ...]:
    names = [f"{name}.weight" for name, _ in recommender.layers(size, part)]
    lacking = [name for name in names if name not in source.names()]
    if lacking:
        raise ProgramError(f"no {lacking[0]} in it")
    return tuple(source.shape(name)[0] for name in names)


def check(source: SavedWeights | WeightSnapshot, size: recommender.Size, other_size: bool) -> None:
    """Raise ProgramError unless the weights are those of a network of this size."""
    check_shapes({n: source.shape(n) for n in source.names()}, recommender.shapes(size))
    if size != recommender.real(size.version) and not other_size:
        raise ProgramError(f"its size is not that of MLPerf's model: {size}")


def convert(path: Path, version: str, out: Path, other_size: bool) -> str:
    """Read, check and write; returns a line about it."""
    source = opened(path, version)
    size = size_of(source, version)
    check(source, size, other_size)
    facts = {
        "name": f"dlrm_{version}",
        "source": {"name": path.name},
        "options": {} if size == recommender.real(version) else models.OTHER_SIZE,
    }
    total = recommender.weight_bytes(size)
    recommender.write(source, size, out, facts, Progress("writing weights", total, "B").more)
    return f"converted: {total} bytes of weights"


def main(arguments: list[str] | None = None) -> int:
    """Run the command line."""
    parser = program.parser(__doc__)
    parser.add_argument("--checkpoint", type=Path, required=True, help="file or folder")
    parser.add_argument("--version", choices=("v1", "v2"), required=True, help="of the DLRM")
    parser.add_argument("--other-size", action="store_true", help="accept other widths and rows")
    options = parser.parse_args(arguments)
    return program.run(
        f"convert: {options.checkpoint}",
        lambda: convert(options.checkpoint, options.version, options.out, options.other_size),
    )


if __name__ == "__main__":
    sys.exit(main())
