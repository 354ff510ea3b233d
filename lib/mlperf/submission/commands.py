"""The commands that make runs, as a person types them for results that are there already."""

from __future__ import annotations

import platform
import re
from pathlib import Path

from common.problems import Hint, shell_word
from mlperf.catalog import rounds
from mlperf.harness.reporting.results import NETWORK, Results
from mlperf.harness.settings import IMPLEMENTATION

GENERAL = re.compile(r"cm run script --tags=run-mlperf,inference(\S*)(.*)$")
STYLES = {"valid": "_full", "test": "_short"}
# What the benchmark's script takes when nothing is said; it chooses a backend by the processor.
DEFAULTS = {"backend": "", "device": "cpu", "precision": "float32", "division": "closed"}


def complete(advice: str, results: Results, scenario: str = "") -> str:
    """Return advice with its general command made specific to ``results`` and the scenario."""

    def specific(match: re.Match[str]) -> str:
        return _command(match.group(1), match.group(2), results, scenario)

    return Hint(advice).changed(command=lambda command: GENERAL.sub(specific, command))


def elsewhere(advice: str) -> str:
    """An advice about runs that another program has made, which also makes them again."""
    return GENERAL.sub("with the program that made it, and generate the tree again", advice)


def _command(general: str, options: str, results: Results, scenario: str) -> str:
    """``general`` are variations with commas before them, ``options`` those that it has already."""
    tags = [tag for tag in general.split(",") if tag and tag not in STYLES.values()]
    style = STYLES.get(results.style)
    one = "" if "_all-scenarios" in tags else scenario
    options_of_run = {
        "--model": results.benchmark,
        "--scenario": one,
        "--execution_mode": "" if style else results.style,
        "--category": results.category,
    }
    more = {
        f"_{results.form}": results.form,
        style: style,
        f"_r{results.round}": results.round != rounds.LATEST,
    }
    tags += [str(tag) for tag, is_needed in more.items() if is_needed]
    words = [f"{option}={value}" for option, value in options_of_run.items() if value]
    words += _others(results)
    words.append(f"--results_dir={shell_word(str(folder_of(results)))}")
    tags_word = "--tags=" + ",".join(["run-mlperf,inference", *tags])
    return " ".join(["cm run script", tags_word, *words, *options.split()])


def _others(results: Results) -> list[str]:
    usual_of, values = DEFAULTS, {name: str(getattr(results, name)) for name in DEFAULTS}
    if results.backend == NETWORK:
        backend_options = results.backend_options
        values |= {"backend": str(backend_options["backend"]), "network": "lon"}
        values |= {"sut_servers": str(backend_options["servers"])}
        values |= {"sut_token_file": str(backend_options.get("token_file", ""))}
        usual_of = {**DEFAULTS, "division": NETWORK, "sut_token_file": ""}
    words = [f"--{name}={value}" for name, value in values.items() if value != usual_of.get(name)]
    machine = results.sut.partition(f"-{IMPLEMENTATION}-")[0]
    usual = re.sub(r"[^A-Za-z0-9._]+", "_", platform.node())
    return words + ([f"--hw_name={machine}"] if machine != usual else [])


def folder_of(results: Results) -> Path:
    """The ``--results_dir`` that a benchmark's folder lies in."""
    return Path(results.folder).parents[2]
