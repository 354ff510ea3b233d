"""Results as files for other programs: CSV, JSON, Parquet, and a bundle to carry elsewhere."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cmbench.errors import Error
from cmbench.lib.files import file_error, whole_file
from cmbench_results.values import BenchmarkResult, to_json

Rows = Sequence[Mapping[str, Any]]

BUNDLE_FORMAT = 1
RESULTS, CHECKSUMS = "results.jsonl", "checksums.json"
_LOGS = ("mlperf_log_summary.txt", "mlperf_log_detail.txt")


def check_free(path: Path, force: bool) -> None:
    """Raise ``bad-value`` for an existing file, unless it may be replaced."""
    if path.is_file() and not force:
        raise Error(
            "bad-value",
            f"{path} exists already",
            hint="add --force to replace it, or name another file: --output=FILE",
        )


def refuse_file_name(kind: str, value: Any) -> None:
    """Raise ``bad-value`` where a format has a value, which is most likely the name of a file."""
    if value is not True and str(value).lower() not in ("true", "yes", "on", "1"):
        raise Error(
            "bad-value",
            f"--{kind}={value}: --{kind} takes no value",
            hint=f"name the file with --output: `--{kind} --output={value}`",
        )


def flat(rows: Iterable[Mapping[str, Any]], settings: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield rows with a column for each of these settings in place of one for all of them."""
    for row in rows:
        values = {name: value for name, value in row.items() if name != "settings"}
        yield values | {f"settings.{name}": row["settings"].get(name, "") for name in settings}


def as_csv(rows: Rows, path: Path) -> None:
    """Write a table with a line per result; raise ``no-space``, ``not-writable``."""

    def write(new: Path) -> None:
        with open(new, "w", encoding="utf-8", newline="") as stream:
            stream.writelines(csv_lines(rows))

    _written(path, write)


def csv_lines(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Write a table with a line per result, line by line; its head is of the first result."""
    part = io.StringIO()
    writer: csv.DictWriter[str] | None = None
    for row in rows:
        if writer is None:
            writer = csv.DictWriter(part, list(row))
            writer.writeheader()
        writer.writerow({name: _cell(value) for name, value in row.items()})
        yield part.getvalue()
        part.seek(0)
        part.truncate()


def as_json(rows: Rows, path: Path) -> None:
    """Write the same as a list of objects."""

    def write(new: Path) -> None:
        with open(new, "w", encoding="utf-8") as stream:
            stream.writelines(json_lines(rows))

    _written(path, write)


def json_lines(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the same as a list of objects, object by object."""
    mark = "[\n"
    for row in rows:
        yield mark + json.dumps(dict(row), ensure_ascii=False)
        mark = ",\n"
    yield "\n]\n" if mark != "[\n" else "[]\n"


def as_parquet(rows: Rows, path: Path) -> None:
    """Write the same for DuckDB, pandas and their like; raises ``extra-missing``."""
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ModuleNotFoundError:
        raise Error(
            "extra-missing",
            "Parquet needs pyarrow, which is not installed",
            hint="`pip install pyarrow`, or use --csv",
        ) from None
    table = pa.Table.from_pylist([dict(row) for row in rows])
    _written(path, lambda new: parquet.write_table(table, new))


def as_bundle(results: Sequence[BenchmarkResult], path: Path) -> int:
    """Write results with the logs that still lie in their folders; returns the number of logs.

    ``cm add results FILE`` reads it elsewhere.
    """
    logs: list[tuple[str, Path]] = []
    for result in results:
        logs += _logs(result)

    def write(new: Path) -> None:
        lines = "".join(f"{to_json(result)}\n" for result in results)
        sums = {RESULTS: hashlib.sha256(lines.encode()).hexdigest()}
        with zipfile.ZipFile(new, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(RESULTS, lines)
            for name, log in logs:
                data = log.read_bytes()
                sums[name] = hashlib.sha256(data).hexdigest()
                archive.writestr(name, data)
            checksums = {"format": BUNDLE_FORMAT, "sha256": sums}
            archive.writestr(CHECKSUMS, json.dumps(checksums, indent=1))

    _written(path, write)
    return len(logs)


def _logs(result: BenchmarkResult) -> list[tuple[str, Path]]:
    if not result.folder:
        return []
    folder = Path(result.folder)
    places = (folder / result.workload.scenario.lower(), folder)
    runs = (root / "performance" / "run_1" for root in places)
    run = next((path for path in runs if path.is_dir()), None)
    if run is None:
        return []
    return [(f"logs/{result.uid}/{n}", run / n) for n in _LOGS if (run / n).is_file()]


def _cell(value: Any) -> Any:
    """A spreadsheet takes a text that begins with one of these for a formula."""
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return f"'{value}"
    return value


def _written(path: Path, write: Callable[[Path], Any]) -> None:
    try:
        with whole_file(path) as new:
            write(new)
    except OSError as problem:
        raise file_error(problem, path) from None
