"""Turn a checkpoint of DLRM into the ONNX graph of the benchmark.

    convert.py --checkpoint PATH --version v1|v2 --out DIR [--other-size]

The first version's checkpoint is a file of PyTorch, the second one's a folder of torchsnapshot.
Every weight that the network has must be there in its shape, and no other.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import recommender
from weights import METADATA, Saved, Snapshot, WeightsError

OTHER = {"reduced": "another size than that of MLPerf's model"}
# Progress is told this often at most.
EVERY_S = 0.2


def opened(path: Path, version: str) -> Saved | Snapshot:
    """The checkpoint; archives of the second version have folders around it."""
    if version == "v1":
        return Saved(path)
    found = sorted(path.rglob(METADATA)) if path.is_dir() else []
    if len(found) != 1:
        raise WeightsError(f"{path} has {len(found)} files {METADATA}, expected one")
    return Snapshot(found[0].parent)


def size_of(source: Saved | Snapshot, version: str) -> recommender.Size:
    """The size that the shapes of these weights speak of, with the rules' values of categories."""
    size = recommender.real(version)
    first = recommender.table(size, 0)
    pattern = re.compile(re.escape(first).replace("0", r"(\d+)", 1))
    tables = {int(found[1]) for name in source.names() if (found := pattern.fullmatch(name))}
    if tables != set(range(recommender.FEATURES)):
        raise WeightsError(f"{len(tables)} tables like {first}, expected {recommender.FEATURES}")
    shapes = [source.shape(recommender.table(size, number)) for number in sorted(tables)]
    rows = tuple(shape[0] for shape in shapes)
    bottom, top = (_widths(source, size, part) for part in ("bottom", "top"))
    kernel = "inter_arch.crossnet.V_kernels.0"
    rank = source.shape(kernel)[0] if kernel in source.names() else size.rank
    return replace(size, rows=rows, width=shapes[0][1], bottom=bottom, top=top, rank=rank)


def _widths(source: Saved | Snapshot, size: recommender.Size, part: str) -> tuple[int, ...]:
    names = [f"{name}.weight" for name, _ in recommender.layers(size, part)]
    lacking = [name for name in names if name not in source.names()]
    if lacking:
        raise WeightsError(f"no {lacking[0]} in it")
    return tuple(source.shape(name)[0] for name in names)


def check(source: Saved | Snapshot, size: recommender.Size, other_size: bool) -> None:
    """Raise WeightsError unless the weights are those of a network of this size."""
    expected = recommender.shapes(size)
    lacking = sorted(set(expected) - source.names())
    unknown = sorted(source.names() - set(expected))
    if lacking:
        raise WeightsError(f"no {lacking[0]} in it ({len(lacking)} weights are missing)")
    if unknown:
        raise WeightsError(f"the network has no {unknown[0]} ({len(unknown)} are unknown)")
    for name, shape in expected.items():
        if source.shape(name) != shape:
            raise WeightsError(f"{name} is {list(source.shape(name))}, expected {list(shape)}")
    if size != recommender.real(size.version) and not other_size:
        raise WeightsError(f"its size is not that of MLPerf's model: {size}")


def progress(total: int) -> Callable[[int], None]:
    """Tells how many bytes were written, to the file that CM_PROGRESS_FILE names."""
    path, done, told = os.environ.get("CM_PROGRESS_FILE"), 0, 0.0

    def tell(more: int) -> None:
        nonlocal done, told
        done += more
        now = time.monotonic()
        if path and now - told >= EVERY_S:
            told = now
            facts = {"label": "writing weights", "done": done, "total": total, "unit": "B"}
            Path(f"{path}.part").write_text(json.dumps(facts), encoding="utf-8")
            os.replace(f"{path}.part", path)

    return tell


def main(arguments: list[str] | None = None) -> int:
    """Convert as the command line asks."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--checkpoint", type=Path, required=True, help="file or folder")
    parser.add_argument("--version", choices=("v1", "v2"), required=True, help="of the DLRM")
    parser.add_argument("--out", type=Path, required=True, help="folder to write into")
    parser.add_argument("--other-size", action="store_true", help="accept other widths and rows")
    options = parser.parse_args(arguments)
    try:
        source = opened(options.checkpoint, options.version)
        size = size_of(source, options.version)
        check(source, size, options.other_size)
        facts = {
            "name": f"dlrm_{options.version}",
            "source": {"name": options.checkpoint.name},
            "options": {} if size == recommender.real(size.version) else OTHER,
        }
        tell = progress(recommender.weight_bytes(size))
        recommender.write(source, size, options.out, facts, tell)
    except (OSError, WeightsError) as error:
        print(f"convert: {options.checkpoint}: {error}", file=sys.stderr)
        return 1
    print(f"converted: {recommender.weight_bytes(size)} bytes of weights")
    return 0


if __name__ == "__main__":
    sys.exit(main())
