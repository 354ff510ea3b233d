"""Whether the logs of an accuracy run that came with an upload are those of its result.

The server has no data set: the accuracy itself stays a claim of its contributor.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from cmbench_crowd_server import claims

if TYPE_CHECKING:
    from mlperf.catalog import BenchmarkSpec
    from mlperf.harness.measuring.detail_log import DetailLog
    from mlperf.submission.checks.base import Finding, SubmitterSite

RULE = "crowd.accuracy-run"
TITLE = "the logs of its accuracy run are of the same benchmark, machine and time"
DETAIL, LOG = "mlperf_log_detail.txt", "mlperf_log_accuracy.json"
_INDEX = re.compile(rb'"qsl_idx"\s*:\s*(\d{1,12})')


def findings(site: SubmitterSite) -> Iterator[Finding]:
    """Yield the faults of the submission checks of the logs of accuracy runs."""
    from mlperf.submission.checks import accuracy

    for cell, known in site.known_cells:
        if (cell.accuracy / DETAIL).is_file():
            yield from accuracy.logged(site, cell, known)


def faults(site: SubmitterSite) -> Iterator[str]:
    """Yield that an accuracy run was none, or not over the data set of its benchmark."""
    from mlperf.submission.checks.base import read_detail_log

    for cell, known in site.known_cells:
        detail, answers = cell.accuracy / DETAIL, cell.accuracy / LOG
        if detail.is_file():
            yield from _of_data(read_detail_log(cell.accuracy), known)
        if answers.is_file():
            yield from _of_answers(answers, known)
            if not detail.is_file():
                yield "the answers of an accuracy run were sent without its detailed log"


def doubts(site: SubmitterSite) -> Iterator[str]:
    """Yield in what an accuracy run and the performance run differ, which a person may explain."""
    from mlperf.submission.checks.base import read_detail_log

    for cell, _ in site.known_cells:
        if (cell.accuracy / DETAIL).is_file():
            yield from _beside(read_detail_log(cell.accuracy), read_detail_log(cell.run))


def _beside(run: DetailLog, measured: DetailLog) -> Iterator[str]:
    for key, title in (("loadgen_version", "LoadGen"), ("loadgen_file_sha1", "LoadGen's source")):
        if run.values.get(key) != measured.values.get(key):
            yield f"{title} is another one in its accuracy run"
    day, other = claims.day_of(run.values), claims.day_of(measured.values)
    if day and other and abs((day - other).days) > claims.DAYS:
        yield f"its accuracy run is of {day}, its performance run of {other}"


def _of_data(run: DetailLog, known: BenchmarkSpec) -> Iterator[str]:
    mode = run.values.get("effective_test_mode")
    if mode != "AccuracyOnly":
        yield f"its accuracy run was made in the mode {mode}"
    sizes = (known.dataset_size, known.accuracy_samples)
    yield from (f"in its accuracy run {words}" for words in claims.of_data(run.values, sizes))


def _of_answers(path: Path, known: BenchmarkSpec) -> Iterator[str]:
    """Yield that a log does not have an answer for each sample of the data set."""
    with open(path, "rb") as stream:
        indices = {int(match) for line in stream for match in _INDEX.findall(line)}
    required = known.accuracy_samples or known.dataset_size
    if len(indices) < required:
        yield f"it has answers for {len(indices):,} samples, the data set has {required:,}"
