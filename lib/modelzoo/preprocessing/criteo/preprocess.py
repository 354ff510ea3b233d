"""Turn a day of Criteo's click logs into arrays that a benchmark loads at once.

    python -m modelzoo.preprocessing.criteo.preprocess --name NAME --out DIR OPTIONS

    --day FILE --rows 90,40,... [--hot 3,2,...]
    --arrays DIR [--groups FILE]
    --binary FILE --rows 90,40,... [--groups FILE]

The first form reads a log of text: a label, 13 counts and 26 hexadecimal values in a line, divided
by tabs, empty where unknown. The second one takes the arrays that MLCommons gives out for the last
day (dense, multi-hot values, labels), of which the first half is the validation set. The third one
takes a file that the first DLRM's own preprocessing leaves (terabyte_processed_test.bin): 40
numbers of int32 per pair, a label, 13 counts and 26 numbers of rows. For calibration,
``--part BEGIN,COUNT`` takes other pairs of the source, ``--group-size N`` groups of one size.

Written are ``dense.npy`` float32 [pairs, 13], ``indices.npy`` int32 [pairs, values], ``labels.npy``
float32 [pairs], ``offsets.npy`` int64 [groups + 1] and ``dataset.json``. A sample of the benchmark
is a group: a few to hundreds of user-item pairs that are scored together.
"""

from __future__ import annotations

import argparse
import sys
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from modelzoo import files, program
from modelzoo.program import ProgramError

DENSE = 13
FEATURES = 26
GROUP_SEED = 123
# Of the rules' groups; the tiny ones are a hundredth of their size.
RULE_SIZES, TINY_SIZES = (100, 700), (1, 7)
# Two odd numbers without a meaning: they spread further values of a category over its rows.
STEP, TURN = 7919, 104729
BLOCK = 1 << 20
FILES = ("dense.npy", "indices.npy", "labels.npy", "offsets.npy")

Array = npt.NDArray[Any]


def read_day(path: Path) -> tuple[Array, Array, Array]:
    """Labels [n], counts [n, 13] (0 where unknown) and values [n, 26] of a log.

    Raises ProgramError for a file that is no log.
    """
    labels, counts, values = [], [], []
    with path.open(encoding="ascii") as file:
        for number, line in enumerate(file, 1):
            words = line.rstrip("\n").split("\t")
            if len(words) != 1 + DENSE + FEATURES:
                raise ProgramError(
                    f"{path}:{number}: {len(words)} columns, expected {1 + DENSE + FEATURES}"
                )
            try:
                labels.append(int(words[0]))
                counts.append([int(word or 0) for word in words[1 : 1 + DENSE]])
                values.append([int(word or "0", 16) for word in words[1 + DENSE :]])
            except ValueError as error:
                raise ProgramError(f"{path}:{number}: {error}") from error
    if not labels:
        raise ProgramError(f"{path} has no lines")
    return np.asarray(labels), np.asarray(counts), np.asarray(values)


def dense_of(counts: Array) -> Array:
    """Return the logarithm of one more than the counts [n, 13], float32; negative ones are 0."""
    return np.log1p(np.maximum(counts, 0)).astype(np.float32)


def indices_of(values: Array, rows: Sequence[int], hot: Sequence[int]) -> Array:
    """Return columns of row numbers: per category its value, then further ones up to ``hot``.

    The further ones follow from the value, as in MLPerf's made-up multi-hot set.
    """
    columns = []
    for feature, (size, many) in enumerate(zip(rows, hot, strict=True)):
        value = values[:, feature] % size
        columns += [(value * (1 + STEP * k) + (TURN + feature) * k) % size for k in range(many)]
    return np.stack(columns, axis=1).astype(np.int32)


def drawn_offsets(pairs: int, smallest: int, largest: int) -> Array:
    """Return the offsets of groups of random sizes, int64 [groups + 1], from a fixed seed.

    The last group takes what is left.
    """
    random = np.random.default_rng(GROUP_SEED)
    ends = np.cumsum(random.integers(smallest, largest + 1, 1 + pairs // smallest))
    ends = ends[ends < pairs]
    return np.concatenate([[0], ends, [pairs]]).astype(np.int64)


def read_groups(path: Path, pairs: int) -> Array:
    """Offsets int64 [groups + 1] from a trace with ``begin, end, size`` in a line.

    Raises ProgramError unless its groups cover all pairs without a gap.
    """
    try:
        trace = np.loadtxt(path, dtype=np.int64, delimiter=",", ndmin=2)
    except ValueError as error:
        raise ProgramError(f"{path}: {error}") from error
    offsets = np.concatenate([trace[:, 0], trace[-1:, 1]])
    chained = bool((trace[1:, 0] == trace[:-1, 1]).all() and (np.diff(offsets) > 0).all())
    if not chained or offsets[0] != 0 or offsets[-1] != pairs:
        raise ProgramError(f"{path} does not divide {pairs} pairs into groups without a gap")
    return offsets


@dataclass(frozen=True, slots=True)
class PairSelection:
    """A selection of the pairs of a source, and their grouping.

    ``part`` is their begin and count; without it, the validation set. Groups are those of the file
    ``trace``, or have ``size`` pairs, or random sizes.
    """

    part: tuple[int, int] | None = None
    trace: Path | None = None
    size: int = 0

    def rows(self, source: Path, judged: int, pairs: int) -> slice:
        """Of a ``source`` of so many ``pairs``; ProgramError when it ends before them."""
        begin, count = self.part or (0, judged)
        if begin + count > pairs:
            raise ProgramError(
                f"{source} has {pairs} pairs, it lacks those from {max(begin, pairs)} to "
                f"{begin + count - 1}, counted from 0"
            )
        return slice(begin, begin + count)

    def offsets(self, pairs: int) -> Array:
        """Where the groups of so many pairs begin, and the last one ends: int64 [groups + 1]."""
        if self.size:
            return np.asarray([*range(0, pairs, self.size), pairs], dtype=np.int64)
        return read_groups(self.trace, pairs) if self.trace else drawn_offsets(pairs, *RULE_SIZES)

    def facts(self) -> dict[str, Any]:
        """Return the entries of dataset.json."""
        groups = f"{self.size} pairs" if self.size else self.trace or "uniform, 100 to 700 pairs"
        return {"groups": str(groups), **({"part": self.part} if self.part else {})}


def from_day(
    day: Path, rows: Sequence[int], hot: Sequence[int], size: int, out: Path
) -> dict[str, Any]:
    """Write the arrays of a log of text; return their facts.

    ``size`` is the number of pairs in a group; 1 to 7 where that is 0.
    """
    labels, counts, values = read_day(day)
    np.save(out / "dense.npy", dense_of(counts))
    np.save(out / "indices.npy", indices_of(values, rows, hot))
    np.save(out / "labels.npy", labels.astype(np.float32))
    pairs = len(labels)
    offsets = PairSelection(size=size).offsets(pairs) if size else drawn_offsets(pairs, *TINY_SIZES)
    np.save(out / "offsets.npy", offsets)
    return {"rows": list(rows), "hot": list(hot)}


def _blocks(count: int) -> Iterator[slice]:
    return (slice(begin, min(begin + BLOCK, count)) for begin in range(0, count, BLOCK))


def _of(rows: slice, part: slice) -> slice:
    """Where a part of these rows lies in their source."""
    return slice(rows.start + part.start, rows.start + part.stop)


def _member(archive: Path, name: str) -> Array:
    """A stored (not compressed) array of an .npz file, mapped into memory."""
    with zipfile.ZipFile(archive) as members:
        try:
            info = members.getinfo(name)
        except KeyError as error:
            raise ProgramError(f"{archive} has no {name}") from error
        if info.compress_type != zipfile.ZIP_STORED:
            return np.asarray(np.load(archive)[name.removesuffix(".npy")])
        with members.open(info) as file:
            version = np.lib.format.read_magic(file)
            read = (
                np.lib.format.read_array_header_1_0
                if version == (1, 0)
                else np.lib.format.read_array_header_2_0
            )
            shape, fortran, dtype = read(file)
            header = file.tell()
    with archive.open("rb") as raw:
        raw.seek(info.header_offset + 26)
        name_bytes, extra = np.frombuffer(raw.read(4), dtype="<u2")
    offset = info.header_offset + 30 + int(name_bytes) + int(extra) + header
    order = "F" if fortran else "C"
    return np.memmap(archive, dtype, "r", offset, shape, order)  # type: ignore[call-overload,no-any-return]


def from_arrays(folder: Path, choice: PairSelection, out: Path) -> dict[str, Any]:
    """Write pairs of MLCommons's arrays of a whole day; return their facts.

    The first half of the day is the validation set. Raises ProgramError when arrays are missing
    or of different lengths.
    """
    wanted = ("day_23_dense.npy", "day_23_sparse_multi_hot.npz", "day_23_labels.npy")
    missing = [name for name in wanted if not (folder / name).is_file()]
    if missing:
        raise ProgramError(f"{folder} has no {', '.join(missing)}")
    dense = np.load(folder / wanted[0], mmap_mode="r")
    labels = np.load(folder / wanted[2], mmap_mode="r").reshape(-1)
    values = [_member(folder / wanted[1], f"{number}.npy") for number in range(FEATURES)]
    lengths = {len(dense), len(labels), *(len(value) for value in values)}
    if len(lengths) != 1 or dense.shape[1:] != (DENSE,):
        raise ProgramError(f"the arrays of {folder} do not belong together: {sorted(lengths)}")
    rows = choice.rows(folder, (len(labels) + 1) // 2, len(labels))
    count = rows.stop - rows.start
    hot = [int(value.shape[1]) for value in values]
    _copy(dense, out / "dense.npy", rows, np.float32)
    np.save(out / "labels.npy", labels[rows].astype(np.float32))
    target = files.array(out / "indices.npy", np.int32, count, sum(hot))
    for part in _blocks(count):
        target[part] = np.concatenate([value[_of(rows, part)] for value in values], axis=1)
    target.flush()
    np.save(out / "offsets.npy", choice.offsets(count))
    return {"hot": hot, **choice.facts()}


def from_binary(
    path: Path, rows: Sequence[int], choice: PairSelection, out: Path
) -> dict[str, Any]:
    """Write pairs of a file of the first DLRM's preprocessing; return their facts.

    Raises ProgramError when its size is not that of whole pairs.
    """
    columns = 1 + DENSE + FEATURES
    whole, rest = divmod(path.stat().st_size, 4 * columns)
    if rest or not whole:
        raise ProgramError(f"{path} has {path.stat().st_size} bytes, not {columns} int32 a pair")
    taken = choice.rows(path, whole, whole)
    pairs = taken.stop - taken.start
    source = np.memmap(path, "<i4", "r", shape=(whole, columns))
    arrays = {
        "dense": files.array(out / "dense.npy", np.float32, pairs, DENSE),
        "indices": files.array(out / "indices.npy", np.int32, pairs, FEATURES),
        "labels": files.array(out / "labels.npy", np.float32, pairs),
    }
    for part in _blocks(pairs):
        block = np.asarray(source[_of(taken, part)])
        values = block[:, 1 + DENSE :]
        _check_block(path, block[:, 0], values, rows)
        arrays["labels"][part] = block[:, 0]
        arrays["dense"][part] = dense_of(block[:, 1 : 1 + DENSE])
        arrays["indices"][part] = values
    for array in arrays.values():
        array.flush()
    np.save(out / "offsets.npy", choice.offsets(pairs))
    return {"rows": list(rows), "hot": [1] * FEATURES, **choice.facts()}


def _check_block(path: Path, labels: Array, values: Array, rows: Sequence[int]) -> None:
    """Raise ProgramError for numbers that another file would have."""
    if labels.min() < 0 or labels.max() > 1:
        raise ProgramError(f"{path} has labels other than 0 and 1")
    beyond = np.flatnonzero((values.min(axis=0) < 0) | (values.max(axis=0) >= rows))
    if len(beyond):
        feature = int(beyond[0])
        raise ProgramError(
            f"{path} has values up to {values[:, feature].max()} in category {feature}, "
            f"whose table has {rows[feature]} rows: was it made with --max-ind-range=40000000?"
        )


def _copy(source: Array, path: Path, rows: slice, dtype: Any) -> None:
    count = rows.stop - rows.start
    target = files.array(path, dtype, count, *source.shape[1:])
    for part in _blocks(count):
        target[part] = source[_of(rows, part)]
    target.flush()


def facts(name: str, qsl_count: int, more: dict[str, Any], out: Path) -> dict[str, Any]:
    """What dataset.json says."""
    offsets = np.load(out / "offsets.npy")
    sizes = np.diff(offsets)
    repeated = {"qsl_count": qsl_count} if qsl_count else {}
    return {
        "name": name,
        "count": len(sizes),
        **repeated,
        "pairs": int(offsets[-1]),
        "largest_group": int(sizes.max()),
        **more,
        "files": files.facts_of_files(out, FILES),
        "made_with": {"numpy": np.__version__},
    }


def numbers(text: str) -> list[int]:
    """Parse a list of numbers divided by commas, one per category.

    Raises ArgumentTypeError for another list.
    """
    values = [int(word) for word in text.split(",")]
    if len(values) != FEATURES or min(values) < 1:
        raise argparse.ArgumentTypeError(f"expected {FEATURES} numbers above zero")
    return values


def part(text: str) -> tuple[int, int]:
    """Where pairs begin and how many they are, divided by a comma.

    Raises ArgumentTypeError for other numbers.
    """
    begin, count = (int(word) for word in text.split(","))
    if begin < 0 or count < 1:
        raise argparse.ArgumentTypeError("expected a place and a number above zero")
    return begin, count


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = program.parser(__doc__)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--day", type=Path, help="a log of text")
    source.add_argument("--binary", type=Path, help="terabyte_processed_test.bin or ..._val.bin")
    source.add_argument("--arrays", type=Path, help="folder with MLCommons's arrays of day 23")
    parser.add_argument("--rows", type=numbers, help="rows of the table of each category")
    parser.add_argument("--hot", type=numbers, default=[1] * FEATURES, help="values of each")
    parser.add_argument("--groups", type=Path, help="trace of the groups: begin, end, size")
    parser.add_argument("--group-size", type=int, default=0, help="pairs of every group")
    parser.add_argument("--part", type=part, help="pairs to take: begin, count")
    parser.add_argument("--qsl-count", type=int, default=0, help="samples that the rules want")
    parser.add_argument("--name", required=True, help="name of the data set, for its facts")
    options = parser.parse_args(arguments)
    if (options.day or options.binary) and not options.rows:
        parser.error("--day and --binary need --rows")
    return options


def make(options: argparse.Namespace) -> str:
    """Write the arrays and, last of all, dataset.json; returns a line about them."""
    size, out = options.group_size, options.out
    choice = PairSelection(options.part, options.groups, size)
    if options.day:
        more = from_day(options.day, options.rows, options.hot, size, out)
    elif options.binary:
        more = from_binary(options.binary, options.rows, choice, out)
    else:
        more = from_arrays(options.arrays, choice, out)
    return finish(out, options.name, options.qsl_count, more)


def finish(out: Path, name: str, qsl_count: int, more: dict[str, Any]) -> str:
    """Write dataset.json; returns a line about the arrays."""
    facts_ = facts(name, qsl_count, more, out)
    files.write_facts(out, facts_)
    return f"{facts_['count']} groups of {facts_['pairs']} pairs written"


def main(arguments: list[str] | None = None) -> int:
    """Run the command line."""
    options = parse(arguments)
    return program.run("preprocess", lambda: make(options))


if __name__ == "__main__":
    sys.exit(main())
