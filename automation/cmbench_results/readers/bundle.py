"""A bundle of results that ``cm export results --bundle`` wrote elsewhere."""

from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path

from cmbench_results.export import BUNDLE_FORMAT, CHECKSUMS, RESULTS
from cmbench_results.readers import BIGGEST, ReadFault, ReadItems, unread
from cmbench_results.values import BenchmarkResult, MalformedError, from_json


def read(path: Path, benchmark_round: str = "") -> ReadItems:
    """Its results, where they are as they were written."""
    try:
        lines = _lines(path)
    except (OSError, ValueError, KeyError, zipfile.BadZipFile, RecursionError) as problem:
        yield unread(path, problem)
        return
    for number, line in enumerate(lines, 1):
        result = _result(line)
        yield ReadFault(f"{path}, line {number}", result) if isinstance(result, str) else result


def _result(line: str) -> BenchmarkResult | str:
    try:
        return from_json(line)
    except MalformedError as problem:
        return str(problem)


def _lines(path: Path) -> list[str]:
    with zipfile.ZipFile(path) as archive:
        checksums = json.loads(_member(archive, CHECKSUMS))
        if checksums["format"] > BUNDLE_FORMAT:
            raise ValueError("a newer version of cmbench wrote it")
        data = _member(archive, RESULTS)
    if hashlib.sha256(data).hexdigest() != checksums["sha256"][RESULTS]:
        raise ValueError("its results have changed since they were written")
    return data.decode("utf-8").splitlines()


def _member(archive: zipfile.ZipFile, name: str) -> bytes:
    if archive.getinfo(name).file_size > BIGGEST:
        raise ValueError(f"{name} is larger than {BIGGEST >> 20} MiB")
    with archive.open(name) as stream:
        # What the directory of an archive says of a size need not be so.
        data = stream.read(BIGGEST + 1)
    if len(data) > BIGGEST:
        raise ValueError(f"{name} is larger than {BIGGEST >> 20} MiB")
    return data
