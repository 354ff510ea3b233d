"""OpenVINO's own measuring program on the samples of a benchmark: what its makers find best.

It comes with the ``openvino`` package and is tried with every batch size of a grid, with its
throughput hint and with one stream. Pictures have one shape, which is set in the model
beforehand; where samples have lengths of their own it gets the batches that our harness would make,
and in a second try the one of about the mean length alone.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mlperf.harness.backends.base import Feeds

WAYS = (("-hint", "throughput"), ("-hint", "none", "-nstreams", "1"))
# Its names of what ours computes in; an int8 model says so itself.
PRECISIONS = {"float32": "f32", "bfloat16": "bf16"}


class NotRunnableError(Exception):
    """It could not be run; the text says why."""


@dataclass(frozen=True, slots=True)
class Way:
    """A command line of it: a batch size and its other words."""

    batch: int
    words: tuple[str, ...]

    @property
    def label(self) -> str:
        """In a few characters."""
        kind = "hint" if "throughput" in self.words else "one stream"
        mixed = ", lengths" if "-inference_only" in self.words else ""
        return f"({kind}, b{self.batch}{mixed})"


@dataclass(frozen=True, slots=True)
class Peer:
    """A model with the folder that holds its inputs as files."""

    model: Path
    precision: str
    folder: Path

    def prepare(self, feeds: Sequence[Feeds], batch: int) -> list[Way]:
        """Write the batches as files; the ways to try with them.

        ``feeds`` are batches of at most ``batch`` samples; those that are not full are left out.
        """
        full = [one for one in feeds if _rows(one) == batch]
        groups = [full, _usual(full)] if _lengths(full) else [full]
        return [
            Way(batch, (*self._inputs(group), *_shapes(group), *way))
            for group in groups
            if group
            for way in WAYS
        ]

    def _inputs(self, feeds: Sequence[Feeds]) -> list[str]:
        """The option that names the files; a single input is not named, since names hold colons."""
        joined = []
        for place, name in enumerate(feeds[0]):
            paths = []
            for number, feed in enumerate(feeds):
                size = "x".join(map(str, feed[name].shape))
                path = self.folder / f"{place}_{size}_{len(feeds)}_{number}.npy"
                np.save(path, feed[name])
                paths.append(str(path))
            joined.append(f"{name}:{','.join(paths)}" if len(feeds[0]) > 1 else ",".join(paths))
        return ["-i", *joined]

    def rate(self, way: Way, seconds: float) -> float:
        """Samples/s in about ``seconds``. Raises NotRunnableError."""
        program = Path(sys.executable).with_name("benchmark_app")
        if not program.exists():
            raise NotRunnableError(f"there is no {program}: it comes with the package openvino")
        words = [str(program), "-m", str(self.model), "-d", "CPU", "-t", str(max(1, int(seconds)))]
        if self.precision in PRECISIONS:
            words += ["-infer_precision", PRECISIONS[self.precision]]
        done = subprocess.run([*words, *way.words], capture_output=True, text=True, check=False)
        return throughput(done.stdout, done.stderr)


def throughput(printed: str, errors: str = "") -> float:
    """Samples/s from what it printed. Raises NotRunnableError where it gave none."""
    found = re.search(r"Throughput:\s+([0-9.]+) FPS", printed)
    if not found:
        last = (errors.strip() or printed.strip() or "no output").splitlines()[-1]
        raise NotRunnableError(last)
    return float(found.group(1))


def _rows(feed: Feeds) -> int:
    return len(next(iter(feed.values())))


def _lengths(feeds: Sequence[Feeds]) -> bool:
    """Whether the samples have lengths of their own."""
    return len({tuple(array.shape for array in feed.values()) for feed in feeds}) > 1


def _usual(feeds: Sequence[Feeds]) -> list[Feeds]:
    """The batch of about the mean length alone: of one shape, it can be set in the model."""
    sizes = [sum(array.size for array in feed.values()) for feed in feeds]
    mean = sum(sizes) / len(sizes)
    return [min(feeds, key=lambda feed: abs(sum(a.size for a in feed.values()) - mean))]


def _shapes(feeds: Sequence[Feeds]) -> list[str]:
    """The shape set in the model beforehand, where all batches have the same."""
    if _lengths(feeds):
        return ["-inference_only", "false"]
    shapes = ((name, ",".join(map(str, array.shape))) for name, array in feeds[0].items())
    # Pictures would be taken for 8-bit ones.
    types = ("-ip", "f32") if len(feeds[0]) == 1 else ()
    return ["-shape", ",".join(f"{name}[{shape}]" for name, shape in shapes), *types]
