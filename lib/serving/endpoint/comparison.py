"""Results to compare a session with: files of other programs, or of earlier runs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from common.problems import bad_value
from serving.bench.report import ms

from . import imports
from .imports import LoadTestPoint

LATENCIES = ("ttft_p50", "ttft_p99", "tpot_p50", "tpot_p99", "e2e_p99")


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """A file with results, under a name that no other one has."""

    name: str
    points: tuple[LoadTestPoint, ...]


def read_compared(paths: Sequence[str]) -> tuple[ComparedRun, ...]:
    """Return the runs in files; raise Problem for one that is none.

    Files of one name and program with different loads are one run: AIPerf writes a folder for
    each load.
    """
    runs: list[tuple[Path, list[LoadTestPoint]]] = []
    for path in map(Path, paths):
        points = _points(str(path))
        same = (each for file, each in runs if file.name == path.name and _continues(each, points))
        if earlier := next(same, None):
            earlier += points
        else:
            runs.append((path, list(points)))
    programs = [points[0].program for _, points in runs]
    return tuple(
        ComparedRun(_name(program, path.stem, programs.count(program)), tuple(points))
        for (path, points), program in zip(runs, programs, strict=True)
    )


def _continues(run: Sequence[LoadTestPoint], points: Sequence[LoadTestPoint]) -> bool:
    """Return whether these are further loads of a run of another program."""
    first, other = run[0], points[0]
    is_same = (first.program, first.model) == (other.program, other.model)
    loads = {point.load for point in run}
    return is_same and first.program != imports.OURS and loads.isdisjoint(p.load for p in points)


def _name(program: str, stem: str, count: int) -> str:
    """Return the name of a run: an earlier one of ours is known by its file."""
    if program == imports.OURS:
        return stem
    return program if count == 1 else f"{program}, {stem}"


def _points(path: str) -> tuple[LoadTestPoint, ...]:
    hint = "--beside=FILE of --json, vllm bench serve, AIPerf, GuideLLM or llama-bench"
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
        points = tuple(imports.points_of(document))
    except OSError as error:
        raise bad_value(f"--beside={path}: {error.strerror}", hint) from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise bad_value(f"--beside={path} has no results that are known: {error}", hint) from error
    if not points:
        raise bad_value(f"--beside={path} has no loads", hint)
    return points


def rows(runs: Sequence[ComparedRun]) -> Iterator[tuple[str, ...]]:
    """Yield a line for each load of other runs."""
    for run in runs:
        for point in run.points:
            cells = [point.latencies.get(name) for name in LATENCIES]
            yield (
                *(run.name, point.load),
                *map(_figure, (point.requests_per_s, point.output_tokens_per_s)),
                _figure(point.tokens_per_s_per_user),
                *("-" if cell is None else ms(cell) for cell in cells),
            )


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"
