"""RUN_ARGS as typed values: benchmarks, scenarios, options and overridden fields."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from common.problems import Problem
from mlperf.catalog import Scenario
from nvidia_mlperf.flow import vocabulary
from nvidia_mlperf.flow.errors import nearest
from nvidia_mlperf.flow.fields import REFUSED, ConfigField

W = TypeVar("W", bound=str)

PERFORMANCE, ACCURACY = "PerformanceOnly", "AccuracyOnly"
MODES = {
    "performanceonly": PERFORMANCE,
    "accuracyonly": ACCURACY,
    "accuracymode": ACCURACY,
    "submissionrun": "SubmissionRun",
    "findpeakperformance": "FindPeakPerformance",
}
"""The test modes; AccuracyMode is in a README of round v2.0, and no program knows it."""
ALL = "all"
AUDITS = ("TEST01", "TEST04", "TEST04-A", "TEST04-B", "TEST05", "TEST06")
_LONG_DASH = re.compile(r"(?<!\S)[\u2013\u2014\u2212]{1,2}(?=[A-Za-z])")
"""Typographic dashes that pages show for two hyphens."""


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag that is no field: its type, and its use here (as in fields.yaml)."""

    type: str
    here: str
    why: str = ""
    choices: tuple[str, ...] = ()


_VERSION = "asks for a config_ver in other words"
FLAGS: Mapping[str, Flag] = {
    "benchmarks": Flag("list", "used"),
    "scenarios": Flag("list", "used"),
    "config_ver": Flag("list", "used"),
    "harness_type": Flag("str", "used", _VERSION, ("auto", "lwis", "custom", "triton", "hetero")),
    "accuracy_target": Flag("str", "used", _VERSION, (".99", ".999", "0.99", "0.999")),
    "power_setting": Flag("str", "used", _VERSION, ("MaxP", "MaxQ")),
    "fast": Flag("bool", "used"),
    "test_run": Flag("bool", "used", "what fast is called since round v4.0"),
    "audit_test": Flag("str", "used", "", AUDITS),
    "system_name": Flag("str", "used"),
    "system": Flag("str", "used", "what system_name is called in scripts here"),
    "allow_nearest": Flag("str", "used"),
    "log_dir": Flag("str", "used"),
    "verbose": Flag("bool", "used"),
    "gpu_only": Flag("bool", "record", "there is no DLA here"),
    "no_gpu": Flag("bool", REFUSED, "there is no DLA here, so nothing would be left"),
    "no_child_process": Flag("bool", "record", "each LoadGen run has a process of its own"),
    "no_audit_verify": Flag("bool", "record", "compliance tests are verified where they are made"),
    "action": Flag("str", REFUSED, "the word after make says what is done"),
    "configs": Flag("str", REFUSED, "benchmarks, scenarios and config_ver choose what is run"),
    "engine_file": Flag("str", REFUSED, "an engine is found by its name in build/engines"),
    "num_samples": Flag("int", REFUSED, "accuracy is that of the whole data set"),
    "help": Flag("bool", REFUSED, "make info shows all words"),
    "profile": Flag("str", REFUSED, "start the profiler around the cm line that is shown"),
    "power": Flag("bool", REFUSED, "power runs are not made here"),
}


@dataclass(frozen=True, slots=True)
class RunArguments:
    """The arguments of RUN_ARGS; an empty tuple means all that have a configuration."""

    benchmarks: tuple[str, ...] = ()
    scenarios: tuple[Scenario, ...] = ()
    versions: tuple[str, ...] = ()
    mode: str = PERFORMANCE
    fast: bool = False
    audit: str = ""
    system: str = ""
    nearest: str = ""
    log_dir: str = ""
    verbose: bool = False
    fields: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """Return the arguments as they were understood, in lines for the user."""
        lines = [
            f"benchmarks: {', '.join(self.benchmarks) or ALL}",
            f"scenarios: {', '.join(self.scenarios) or ALL}",
            f"config_ver: {', '.join(self.versions) or 'default'}",
            f"test_mode: {self.mode}",
        ]
        lines += [
            f"{name}: {value}"
            for name, value in (
                ("fast", self.fast),
                ("audit_test", self.audit),
                *self.system_flags.items(),
                ("log_dir", self.log_dir),
            )
            if value
        ]
        return [*lines, *(f"{k}: {v}" for k, v in self.fields.items())]

    @property
    def system_flags(self) -> dict[str, str]:
        """Return the flags that choose the system, where they are set."""
        flags = {"system_name": self.system, "allow_nearest": self.nearest}
        return {name: value for name, value in flags.items() if value}


def read(
    text: str, known: Mapping[str, ConfigField], vendor_round: str, benchmarks: str = ""
) -> RunArguments:
    """Parse RUN_ARGS; ``benchmarks`` is the variable BENCHMARKS, separated by blanks.

    Raises Problem with all that is wrong: unknown words, values that do not fit, what is refused.
    """
    text = _LONG_DASH.sub("--", text)
    _refuse_placeholders(text)
    wrong: list[str] = []
    notes: list[str] = []
    flags: dict[str, Any] = {}
    settings: dict[str, Any] = {}
    pairs = list(_pairs(text, known, wrong))
    wrong += _twice(pairs)
    for name, value in pairs:
        if name in FLAGS:
            flags[name] = _flag(name, value, wrong, notes)
        elif name in known:
            settings[name] = _field(known[name], value, wrong, notes)
        else:
            wrong.append(f"there is no --{name}: {nearest(name, [*FLAGS, *known])}")
    arguments = _run_arguments(flags, settings, vendor_round, benchmarks, wrong, notes)
    if wrong:
        fields = "cm run script --tags=explain,nvidia-config --field=all"
        hint = f"all fields: `{fields}`\nall words: `make info`"
        raise Problem("bad-value", f"RUN_ARGS: {'; '.join(wrong)}", hint)
    return replace(arguments, notes=tuple(notes))


def _refuse_placeholders(text: str) -> None:
    """Raise Problem for a guide's line with placeholders in it, with all of them."""
    if placeholders := vocabulary.placeholders(text):
        what = "is a placeholder" if len(placeholders) == 1 else "are placeholders"
        raise Problem(
            "bad-value",
            f"RUN_ARGS: {', '.join(placeholders)} {what} of the guide",
            "write what you want in its place, or leave it out: --benchmarks=resnet50 "
            "--scenarios=offline; all words: make info",
        )


def _twice(pairs: Sequence[tuple[str, str]]) -> list[str]:
    """Return a message for each name with several values, which are ambiguous."""
    values: dict[str, list[str]] = {}
    for name, value in pairs:
        values.setdefault(name, []).append(value)
    return [
        f"--{name} is given twice: {' and '.join(choices)}"
        for name, every in values.items()
        if len(choices := list(dict.fromkeys(every))) > 1
    ]


def _pairs(
    text: str, known: Mapping[str, ConfigField], wrong: list[str]
) -> Iterator[tuple[str, str]]:
    """Yield names and values of ``--name=value``, ``--name value`` and ``--name`` (yes)."""
    try:
        typed = shlex.split(text)
    except ValueError as problem:
        wrong.append(f"{text!r} cannot be read ({problem})")
        return
    while typed:
        word = typed.pop(0)
        if not word.startswith("--"):
            wrong.append(f"{word} belongs to no --name")
            continue
        name, equals, value = word[2:].partition("=")
        if not equals:
            switch = (FLAGS.get(name) or known.get(name) or FLAGS["fast"]).type == "bool"
            follows = bool(typed) and not typed[0].startswith("--")
            value = typed.pop(0) if follows and not switch else "true"
        yield name, value


def _flag(name: str, text: str, wrong: list[str], notes: list[str]) -> Any:
    """Return the value of a flag."""
    flag = FLAGS[name]
    if flag.here == REFUSED:
        wrong.append(f"--{name} is refused: {flag.why}")
    elif flag.here == "record":
        notes.append(f"--{name} has no effect: {flag.why}")
    if flag.type == "list":
        return tuple(part for part in text.split(",") if part)
    value = ConfigField(name, flag.type, flag.here).from_text(text) if flag.type == "bool" else text
    if flag.type == "bool" and not isinstance(value, bool):
        wrong.append(f"--{name} is yes or no, and {text!r} is not")
    return _choice(name, text, flag.choices, wrong) if flag.choices else value


def _choice(name: str, text: str, choices: Sequence[str], wrong: list[str]) -> str:
    """Return the matching choice, case-insensitively."""
    folded = {each.lower(): each for each in choices}
    if text.lower() not in folded:
        wrong.append(f"--{name} is {text!r}: {nearest(text, choices)}")
    return folded.get(text.lower(), text)


def _field(of: ConfigField, text: str, wrong: list[str], notes: list[str]) -> Any:
    """Return the value of a field in its type."""
    if of.name == "test_mode":
        text = MODES.get(text.lower(), text)
    value = of.from_text(text)
    problem = of.misfit(value)
    if not problem and of.here == REFUSED:
        problem = f"{of.name} is refused: {of.why}"
    wrong += [problem] if problem else []
    if not problem and of.here == "record":
        notes.append(f"--{of.name} is kept for the record{': ' + of.why if of.why else ''}")
    return value


def _run_arguments(
    flags: Mapping[str, Any],
    settings: Mapping[str, Any],
    vendor_round: str,
    benchmarks: str,
    wrong: list[str],
    notes: list[str],
) -> RunArguments:
    fields = {
        name: value for name, value in settings.items() if name not in ("test_mode", "log_dir")
    }
    names = flags.get("benchmarks") or tuple(benchmarks.replace(",", " ").split())
    if benchmarks and flags.get("benchmarks"):
        notes.append(f"BENCHMARKS={benchmarks} does not count beside --benchmarks")
    return RunArguments(
        benchmarks=_each(names, lambda word: vocabulary.benchmark(vendor_round, word), wrong),
        scenarios=_each(flags.get("scenarios", ()), vocabulary.scenario, wrong),
        versions=_versions(flags, wrong, notes),
        mode=str(settings.get("test_mode", PERFORMANCE)),
        fast=bool(flags.get("fast") or flags.get("test_run")),
        audit=str(flags.get("audit_test", "")),
        system=str(flags.get("system_name") or flags.get("system", "")),
        nearest=str(flags.get("allow_nearest", "")),
        log_dir=str(flags.get("log_dir", settings.get("log_dir", ""))),
        verbose=bool(flags.get("verbose")),
        fields=fields,
    )


def _each(typed: Iterable[str], meaning: Callable[[str], W], wrong: list[str]) -> tuple[W, ...]:
    """Return the meanings of the words without duplicates; ``all`` equals none."""
    meanings: dict[W, None] = {}
    for word in typed:
        if word.lower() == ALL:
            return ()
        try:
            meanings[meaning(word.strip())] = None
        except Problem as problem:
            wrong.append(f"{problem}: {problem.hint}" if problem.hint else str(problem))
    return tuple(meanings)


def _versions(flags: Mapping[str, Any], wrong: list[str], notes: list[str]) -> tuple[str, ...]:
    """Return the versions of the configuration, also from the three flags of round v2.0."""
    parts = []
    if str(flags.get("accuracy_target", "")).endswith(".999"):
        parts.append("high_accuracy")
    if flags.get("harness_type") == "triton":
        parts.append("triton")
    versions = tuple(ver.lower() for ver in flags.get("config_ver", ()))
    if flags.get("harness_type") == "hetero" or any("hetero" in ver for ver in versions):
        wrong.append("HeteroMIG is refused: several benchmarks at once are no result of one")
    if flags.get("power_setting") == "MaxQ" or any("maxq" in ver for ver in versions):
        wrong.append("MaxQ is refused: power runs are not made here")
    if parts and versions:
        notes.append(
            f"config_ver={','.join(versions)} counts, not harness_type and accuracy_target"
        )
    return versions or (("_".join(parts),) if parts else ())
