"""The documents of a submission tree that people read."""

from __future__ import annotations

import re
from collections.abc import Iterable

from mlperf.catalog import BenchmarkSpec
from mlperf.harness.reporting.results import Results

REPOSITORY_HINT = "the README.md of each scenario names its revision and the exact command"
_CONF = (
    "# LoadGen carries the rules of the round itself (its built-in mlperf.conf) and none of them\n"
    "# was changed; what was set for a run stands in user.conf.\n"
)


PERMUTATION = "sample_concatenate_permutation"


def loadgen_conf(known: BenchmarkSpec | None) -> str:
    """mlperf.conf of a benchmark: of LoadGen's rules the one that the checker of 4.1 looks for."""
    if known is None or not known.equal_issue:
        return _CONF
    return f"{_CONF}{known.loadgen_key}.*.{PERMUTATION} = 1\n"


# Not within an address, a unit or a longer word; of one folder below the root only known ones.
LOCAL = re.compile(
    r"(?:(?<![\w:/.~-])(?:~|/)/?(?:[\w.+@-]+/)+"
    r"|(?<![\w:/.~-])/(?=(?:root|data|scratch|workspace|mnt|opt|tmp|work)\b)"
    r"|(?<!\w)[A-Za-z]:\\(?:[^\\\s\"']+\\)+)([\w.+@-]+)"
)


def without_places(text: str) -> str:
    """Return a text with local paths shortened to their last name."""
    return LOCAL.sub(lambda match: match.group(1), text)


def code(results: Results) -> str:
    """Return the README.md of the code of a benchmark: where the implementation is."""
    return (
        f"# {results.benchmark}: implementation\n\n"
        "The runs were made by the harness of cmbench (script `app-mlperf-inference`), with "
        f"{results.runtime} on {results.device}; {REPOSITORY_HINT}.\n\n"
        f"Model: {results.model['name']}, {results.model['precision']}, SHA-256 "
        f"`{results.model['sha256']}`.\n\n"
        f"Data set: {results.dataset['name']}, {results.dataset['count']} samples, SHA-256 of its "
        f"facts `{results.dataset['sha256']}`.\n"
    )


def calibrated(results: Results) -> str:
    """A line about how numbers of lower precision were chosen, or that there were none."""
    precision = str(results.model["precision"])
    if precision == "int8":
        how = (
            "post-training quantization by the script `quantize-ml-model`, with the samples of "
            "the calibration list of the benchmark and no sample of the accuracy run"
        )
    else:
        how = "no quantization, so no calibration data was used"
    return f"- {results.benchmark} with {results.backend}, {precision}: {how}."


def calibration(lines: Iterable[str]) -> str:
    """Return calibration.md from the notes of the benchmarks."""
    return "\n".join(["# Calibration", "", *sorted(set(lines))]) + "\n"
