"""The files of results: one per source that was added, from which the database is made.

``HOME/cmbench/results/places/<id>.jsonl``: the first line describes the source, all others are
results. A file is replaced as a whole by one rename; writers hold the lock next to them.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from cmbench.errors import Error
from cmbench.lib import locks
from cmbench.lib.files import file_error
from cmbench_results import readers
from cmbench_results.readers import ReadFault
from cmbench_results.values import BenchmarkResult, MalformedError, digest, from_json, to_json

FORMAT = 1
COPIED = ("run", "tree")
"""Kinds of sources that people lay out, where a folder may be a copy of another one."""
REPLACED = ("run", "load-test")
"""Kinds of sources that a program writes again at the same path, where earlier results count on."""
MAX_EXAMPLES = 200
"""The most faults of reading that are stored as examples; all are counted."""


@dataclass(frozen=True, slots=True)
class ResultSource:
    """Where results came from: a folder or file, its kind, and when it was read last."""

    id: str
    kind: str
    path: str
    added: str
    results: int = 0
    unread: int = 0
    examples: tuple[ReadFault, ...] = ()
    benchmark_round: str = ""


class SourceFiles:
    """The files of the sources of one CM home; ``root`` is the folder of cmbench in it."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(root) / "results"
        self._folder = self.root / "places"

    def readable(self) -> tuple[list[ResultSource], list[Error]]:
        """Return the sources whose files begin as they should, and the errors of the other files.

        They are in the order in which they were added.
        """
        readable: list[ResultSource] = []
        broken: list[Error] = []
        for path in sorted(self._folder.glob("*.jsonl")):
            try:
                source = self._head(path)
            except Error as error:
                broken.append(error)
                continue
            if source is not None:
                readable.append(source)
        return sorted(readable, key=lambda source: (source.added, source.path)), broken

    def is_listable(self) -> bool:
        """Return whether the folder can be listed; if not, no source may count as removed."""
        return os.access(self._folder, os.R_OK | os.X_OK)

    def ids(self) -> set[str]:
        """Return the ids of all sources, with those of broken files."""
        return {path.stem for path in self._folder.glob("*.jsonl")}

    def find(self, name: str) -> ResultSource | None:
        """Return the source with this id or path, though its file may be broken; ``None`` for none.

        Of a broken one only the id is known.
        """
        path = os.path.abspath(os.path.expanduser(name))
        ids = (name if name.isalnum() else "", digest(path)[:16])
        paths = (self._folder / f"{item}.jsonl" for item in ids if item)
        file = next((item for item in paths if item.is_file()), None)
        if file is None:
            return None
        try:
            return self._head(file)
        except Error:
            return ResultSource(file.stem, "", "", "")

    def has(self, source: ResultSource) -> bool:
        """Return whether a source still has its file."""
        return self._file(source).exists()

    def results(self, source: ResultSource) -> Iterator[BenchmarkResult]:
        """Yield the results of a source, none if it was removed; raise ``broken-results``."""
        path = self._file(source)
        try:
            with open(path, encoding="utf-8") as stream:
                missing = json.loads(next(stream))["results"]
                for line in stream:
                    yield from_json(line)
                    missing -= 1
            if missing:
                raise MalformedError("it is not as long as it was")
        except FileNotFoundError:
            return
        except (OSError, StopIteration, ValueError, KeyError, TypeError, AttributeError) as problem:
            raise _broken(path, problem) from None

    def add(self, path: Path, benchmark_round: str = "") -> ResultSource:
        """Read a source, or read it again, and store its results.

        Of runs of our own the ones that were there before stay: their folder shows the last only.
        Raises ``file-not-found``, ``no-results``, ``needs-input``, ``no-space``.
        """
        path = Path(os.path.abspath(path))
        kind = readers.kind_of(path)
        read = readers.read(kind, path, benchmark_round)
        items = list(_distinct(read) if kind in COPIED else read)
        results = [item for item in items if isinstance(item, BenchmarkResult)]
        faults = [item for item in items if isinstance(item, ReadFault)]
        source = ResultSource(
            id=digest(str(path))[:16],
            kind=kind,
            path=str(path),
            added=_now(),
            unread=len(faults),
            examples=tuple(faults[:MAX_EXAMPLES]),
            benchmark_round=benchmark_round,
        )
        if not results:
            raise _nothing(source)
        with self._locked():
            return self._write(source, results)

    def without(self, source: ResultSource, uids: Iterable[str]) -> ResultSource | None:
        """Remove some results of a source; return ``None`` if those were all."""
        gone = set(uids)
        with self._locked():
            remaining = [result for result in self.results(source) if result.uid not in gone]
            if remaining:
                return self._write(replace(source, added=_now()), remaining, whole=True)
            self._file(source).unlink(missing_ok=True)
            return None

    def remove(self, source: ResultSource) -> None:
        """Remove a source; its own files stay."""
        with self._locked():
            self._file(source).unlink(missing_ok=True)

    def _file(self, source: ResultSource) -> Path:
        return self._folder / f"{source.id}.jsonl"

    def _head(self, path: Path) -> ResultSource | None:
        """Return the source of a file; ``None`` if another process has removed it meanwhile."""
        try:
            with open(path, encoding="utf-8") as stream:
                head = json.loads(next(stream))
            if head.pop("format") > FORMAT:
                raise MalformedError("a newer version wrote it")
            head["examples"] = tuple(ReadFault(*fields) for fields in head["examples"])
            return ResultSource(**head)
        except FileNotFoundError:
            return None
        except (OSError, StopIteration, ValueError, KeyError, TypeError, AttributeError) as problem:
            raise _broken(path, problem) from None

    def _write(
        self, source: ResultSource, results: Sequence[BenchmarkResult], whole: bool = False
    ) -> ResultSource:
        path = self._file(source)
        by_key = {item.key: item for item in results}
        if source.kind in REPLACED and not whole and path.exists():
            by_key = {item.key: item for item in self.results(source)} | by_key
        source = replace(source, results=len(by_key))
        head = {**asdict(source), "format": FORMAT}
        head["examples"] = [[item.place, item.why] for item in source.examples]
        new = path.with_suffix(f".new.{os.getpid()}")
        try:
            with open(new, "w", encoding="utf-8") as stream:
                stream.write(json.dumps(head, ensure_ascii=False) + "\n")
                stream.writelines(f"{to_json(item)}\n" for item in by_key.values())
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(new, path)
        except OSError as problem:
            new.unlink(missing_ok=True)
            raise file_error(problem, path) from None
        return source

    @contextmanager
    def _locked(self) -> Iterator[None]:
        lock = self.root / "lock"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            handle = locks.acquire(lock)
        except OSError as problem:
            raise file_error(problem, self.root) from None
        try:
            self._clear()
            yield
        finally:
            locks.release(lock, handle)

    def clear(self) -> None:
        """Remove what killed writers have left."""
        with self._locked():
            pass

    def _clear(self) -> None:
        # Who writes holds the lock: whose file it was has ended.
        with suppress(OSError):
            for name in os.listdir(self._folder):
                if ".new." in name:
                    (self._folder / name).unlink()


def _distinct(items: readers.ReadItems) -> readers.ReadItems:
    """Return the same without results whose key an earlier one has; another figure is a fault."""
    seen: dict[str, BenchmarkResult] = {}
    for item in items:
        if isinstance(item, ReadFault):
            yield item
            continue
        first = seen.setdefault(item.key, item)
        if first is item:
            yield item
        elif (item.value, item.accuracy) != (first.value, first.accuracy):
            figures = f"{first.value} {first.unit}, here {item.value}"
            why = f"it claims to be the result in {first.folder}, which is taken: there {figures}"
            yield ReadFault(item.folder, why)


def _nothing(source: ResultSource) -> Error:
    return Error(
        "no-results",
        f"{source.path} contains no readable results",
        context=[f"{fault.place}: {fault.why}" for fault in source.examples[:10]],
        hint="name the folder that a run wrote, or the top of a tree (with closed/ or open/)",
    )


def _broken(path: Path, problem: Exception) -> Error:
    why = getattr(problem, "strerror", "") or problem or "it is empty"
    return Error(
        "broken-results",
        f"{path} cannot be read: {why}",
        hint=f"remove it (`cm rm results {path.stem}`) and add its results again: "
        "`cm add results DIR`",
    )


def _now() -> str:
    """Return the time in UTC; two states of a source within one second must differ."""
    micros = time.time_ns() // 1000
    seconds, rest = divmod(micros, 1_000_000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{rest:06}Z"
