"""Whether what a manifest claims fits its logs, and how it is shown: form, data, time, command.

Who sends a result writes its manifest by any program: what the honest client keeps to is looked at
again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import date, datetime
from typing import Any

from cmbench.errors import Error
from cmbench_crowd import manifest as m

DAYS = 2
"""Days that a log and its manifest may be apart: the log has the machine's own time."""
_LOADGEN = re.compile(r"v?(\d{1,3})\.(\d{1,3})\b")
_SETTINGS = {"workers": "num_workers", "threads": "threads", "batch": "batch_size"}
_TARGETS = ("target_qps", "target_latency_ms")
_NUMBER = re.compile(r"\d{1,20}(\.\d{1,20})?(e[+-]?\d{1,3})?")


def form_of(manifest: m.Manifest) -> str:
    """Return the form of a benchmark that was measured, by its model; empty for the real one."""
    from mlperf.catalog.forms import FORMS

    model = manifest.workload.model
    return next((form for form in FORMS if model.endswith(f"_{form}")), "")


def stands_in_closed(manifest: m.Manifest) -> bool:
    """Return whether a stand-in is said to be of the closed division, whose models are fixed."""
    from mlperf.catalog import Division

    return bool(form_of(manifest)) and manifest.workload.division == Division.CLOSED


def refuse(manifest: m.Manifest) -> None:
    """Raise ``bad-manifest`` for what no client sends: names that no maker writes, other settings.

    A result is only told apart from others by its model and its data set.
    """
    work, system = manifest.workload, manifest.system
    for name in ("model", "dataset"):
        if not getattr(work, name):
            raise _bad(f"workload.{name} is empty: it says what was measured")
    if stands_in_closed(manifest):
        raise _bad(f"{work.model} stands in for {work.benchmark}, which is not of division closed")
    for name in ("cpu", "accelerator"):
        if not m.is_name_of_part(getattr(system, name)):
            raise _bad(f"system.{name} is not the name of a part as its maker writes it")
    for name, value in manifest.config.settings.items():
        if name not in (*_SETTINGS, *_TARGETS) or not _NUMBER.fullmatch(value):
            raise _bad(f"config.settings.{name:.60} is not a setting with a number")


def _bad(why: str) -> Error:
    hint = "make it with `cm bundle crowd ID --output=FILE`; `cm show crowd ID` names its fields"
    return Error("bad-manifest", f"the manifest is refused: {why}", hint=hint)


def command_of(manifest: m.Manifest) -> str:
    """Return the command that measures such a result, made from the fields of its manifest."""
    work, config, form = manifest.workload, manifest.config, form_of(manifest)
    inputs = {
        "model": work.benchmark,
        "scenario": work.scenario,
        "backend": config.backend,
        "device": config.device,
        "precision": work.precision,
        "execution_mode": config.style,
    }
    inputs |= {flag: config.settings.get(name, "") for name, flag in _SETTINGS.items()}
    words = [f"--{name}={value}" for name, value in inputs.items() if value]
    tags = f"run-mlperf,inference{f',_{form}' * bool(form)}"
    return " ".join(("cm run script", f"--tags={tags}", *words))


def of_data(values: Mapping[str, Any], sizes: tuple[int | None, ...]) -> Iterator[str]:
    """Yield that a log is of another data set than the benchmark's, by its number of samples."""
    samples = values.get("qsl_reported_total_count")
    if samples is not None and samples not in sizes:
        yield f"its data set has {samples} samples, that of the benchmark {sizes[0]}"


def of_loadgen(values: Mapping[str, Any], newest: str) -> Iterator[str]:
    """Yield that a log names no LoadGen, or one of a round after ``newest``."""
    version = str(values.get("loadgen_version", ""))
    match = _LOADGEN.match(version)
    if match is None:
        yield "it names no version of LoadGen"
    elif int(match[1]) > int(newest.partition(".")[0]) + 1:
        yield f"there is no LoadGen {version}"


def of_day(values: Mapping[str, Any], created: str) -> Iterator[str]:
    """Yield that a log is of another day than its manifest says."""
    day = _day(values)
    if day is not None and abs((day - date.fromisoformat(created)).days) > DAYS:
        yield f"its log is of {day}, its manifest says {created}"


def _day(values: Mapping[str, Any]) -> date | None:
    forms = (("test_datetime", "%Y-%m-%d"), ("power_begin", "%m-%d-%Y"))
    days = (_parsed(str(values.get(key))[:10], form) for key, form in forms)
    return next(filter(None, days), None)


def _parsed(text: str, form: str) -> date | None:
    try:
        return datetime.strptime(text, form).date()
    except ValueError:
        return None
