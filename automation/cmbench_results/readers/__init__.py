"""From a path on the disk to results: one module per kind of source.

A kind is a function from a path to its items, results and what could not be read.
``kind_of`` derives the kind of a source from its files.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from cmbench.errors import Error
from cmbench_results.values import BenchmarkResult

__all__ = ["crowd", "run", "tree"]


@dataclass(frozen=True, slots=True)
class ReadFault:
    """A file, or a part of one, that looks like a result and could not be read."""

    place: str
    why: str


ReadItems = Iterator[BenchmarkResult | ReadFault]
Reader = Callable[[Path, str], ReadItems]

BIGGEST = 64 << 20
"""Bytes of a file that is read whole."""
DEEPEST = 6
"""Folders below the given one in which the results of runs are looked for."""

_KINDS = {
    "run": "results.json of a run, or a folder with such files",
    "experiments": "results in the format of cm4mlperf-results (cm-result.json)",
    "summary": "summary_results.json of a published round",
    "tree": "a submission tree, or a published results repository",
    "load-test": "JSON of bench,endpoint, vllm bench, AIPerf, GuideLLM or llama-bench",
    "client": "runs of the client of MLPerf Endpoints, or a submission made of them",
    "bundle": "what cm export results --bundle wrote",
    "crowd": "what a server of volunteers' results has published of one of them",
}


def read(kind: str, path: Path, benchmark_round: str = "") -> ReadItems:
    """Return all items of a source of a kind; ``benchmark_round`` if it does not name its round."""
    module = _MODULES.get(kind, kind)
    reader: Reader = import_module(f"{__name__}.{module}").read
    return reader(path, benchmark_round)


_MODULES = {"load-test": "load_tests", "client": "client_runs"}


def kind_of(path: Path) -> str:
    """Return the kind of a source; raise ``file-not-found``, ``no-results``."""
    if not path.exists():
        raise Error("file-not-found", f"{path} does not exist", hint="check the path")
    kind = _of_file(path) if path.is_file() else _of_folder(path)
    if kind:
        return kind
    kinds = [f"{what}" for what in _KINDS.values()]
    raise Error(
        "no-results",
        f"{path} contains no results of a known kind",
        context=["known are:", *kinds],
        hint="name the folder that a run wrote, or the top of a tree (with closed/ or open/)",
    )


def _of_file(path: Path) -> str:
    if path.suffix == ".zip":
        return "bundle"
    by_name = {"cm-result.json": "experiments", "summary_results.json": "summary"}
    if path.name in by_name:
        return by_name[path.name]
    if path.suffix != ".json":
        return ""
    from cmbench_results.readers import load_tests

    return "load-test" if path.name != "results.json" and load_tests.is_load_test(path) else "run"


def _of_folder(path: Path) -> str:
    if (path / "closed").is_dir() or (path / "open").is_dir():
        return "tree"
    if (path / "crowd.jsonl").is_file():
        return "crowd"
    if (path / "summary_results.json").is_file():
        return "summary"
    first = next(files(path, ("results.json", "cm-result.json")), None)
    if first is None:
        from mlperf.client_run import find_runs

        return "client" if next(find_runs(path), None) else ""
    return "experiments" if first.name == "cm-result.json" else "run"


def files(path: Path, names: tuple[str, ...], deepest: int = DEEPEST) -> Iterator[Path]:
    """Yield the files of these names in ``path``, in a fixed order; follow no links to folders."""
    if path.is_file():
        yield path
        return
    start = len(path.parts)
    for folder, below, file_names in os.walk(path):
        parent = Path(folder)
        below[:] = sorted(name for name in below if not name.startswith("."))
        if len(parent.parts) - start >= deepest:
            below.clear()
        yield from (parent / name for name in names if name in file_names)


def text_of(path: Path) -> str:
    """Return the text of a file; raise ``OSError``, ``ValueError`` for a pipe or a large file."""
    if path.exists() and not path.is_file():
        raise ValueError("it is not a regular file")
    if path.stat().st_size > BIGGEST:
        raise ValueError(f"it is larger than {BIGGEST >> 20} MiB")
    return path.read_text(encoding="utf-8")


def rows_of(path: Path) -> list[object]:
    """Return the list in a JSON file; raise ``OSError`` and ``ValueError``."""
    import json

    try:
        rows = json.loads(text_of(path))
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    if not isinstance(rows, list):
        raise ValueError("it is not a list of results")
    return rows


def unread(path: Path, problem: Exception) -> ReadFault:
    """Return the fault of a file that could not be read."""
    why = getattr(problem, "strerror", "") or str(problem)
    return ReadFault(str(path), " ".join(why.split())[:300] or type(problem).__name__)
