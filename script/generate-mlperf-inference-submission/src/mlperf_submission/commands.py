"""The commands that make runs, as a person types them for results that are there already."""

from __future__ import annotations

import platform
import re
import shlex
from pathlib import Path

from mlperf_harness import rules
from mlperf_harness.reporting.results import Results
from mlperf_harness.settings import IMPLEMENTATION

GENERAL = re.compile(r"cm run script --tags=run-mlperf,inference(\S*)(.*)$")
STYLES = {"valid": "_full", "test": "_short"}
# What the benchmark's script takes when nothing is said; it chooses a backend by the processor.
DEFAULTS = {"backend": "", "device": "cpu", "precision": "float32", "division": "closed"}


def complete(advice: str, results: Results, scenario: str = "") -> str:
    """An advice whose general command becomes the one for these ``results`` and this scenario."""
    return GENERAL.sub(
        lambda found: _command(found.group(1), found.group(2), results, scenario), advice
    )


def _command(general: str, options: str, results: Results, scenario: str) -> str:
    """``general`` are variations with commas before them, ``options`` those that it has already."""
    tags = [tag for tag in general.split(",") if tag and tag not in STYLES.values()]
    everything = "_all-scenarios" in tags
    tags += [f"_{results.form}"] if results.form else []
    tags += [STYLES[results.style]] if results.style in STYLES else []
    tags += [f"_r{results.round}"] if results.round != rules.rounds()[-1] else []
    words = [f"--model={results.benchmark}"]
    words += [f"--scenario={scenario}"] if scenario and not everything else []
    words += [] if results.style in STYLES else [f"--execution_mode={results.style}"]
    words += [f"--category={results.category}"] if results.category else []
    words += _others(results)
    words.append(f"--results_dir={shlex.quote(str(folder_of(results)))}")
    return " ".join(
        ["cm run script", "--tags=" + ",".join(["run-mlperf,inference", *tags]), *words]
        + options.split()
    )


def _others(results: Results) -> list[str]:
    words = [
        f"--{name}={getattr(results, name)}"
        for name, usual in DEFAULTS.items()
        if getattr(results, name) != usual
    ]
    machine = results.sut.partition(f"-{IMPLEMENTATION}-")[0]
    usual = re.sub(r"[^A-Za-z0-9._]+", "_", platform.node())
    return words + ([f"--hw_name={machine}"] if machine != usual else [])


def folder_of(results: Results) -> Path:
    """The ``--results_dir`` that a benchmark's folder lies in."""
    return Path(results.folder).parents[2]
