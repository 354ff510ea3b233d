"""Checks of benchmarks, scenarios and the descriptions of implementations."""

from __future__ import annotations

import glob
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from mlperf.catalog import BenchmarkSpec, Scenario, stand_in
from mlperf.catalog.forms import FORMS

from .. import truncate
from ..build import MEASUREMENT_KEYS
from ..files import text
from ..layouts import RESULTS, SYSTEMS, ScenarioCell, folders
from .base import (
    CHECKER,
    FIRST_FILLED,
    NATURE,
    RULES,
    TREE,
    WARNING,
    Finding,
    Rule,
    SubmitterSite,
    missing,
    read_object,
)

UNKNOWN = Rule("benchmark.unknown", "the round has this benchmark", RULES)
CATEGORY = Rule("benchmark.category", "the benchmark exists in the system's category", RULES)
LACKING = Rule("benchmark.scenario-missing", "all scenarios of the category", RULES)
FOREIGN = Rule("benchmark.scenario-unknown", "no other scenarios", CHECKER)
FILES = Rule("measurements.files", "description, user.conf and README.md, none empty", TREE)
KEYS = Rule("measurements.keys", "all keys of the description", CHECKER)
VALUES = Rule(
    "measurements.values", "no key of the description is empty", CHECKER, first=FIRST_FILLED
)
RETRAINING = Rule("measurements.retraining", "closed division: no retrained weights", RULES)
RETRAINED = re.compile(r"\s*(?:yes|y|true|1)\b.*", re.IGNORECASE | re.DOTALL)
FORM = Rule("result.form", "the real model and data", RULES, NATURE)
STAND_IN = Rule("result.stand-in", "what the system is said to compute with", RULES, NATURE)

STAND_IN_BACKEND = re.compile(r'"framework": *"stand-in\b')
NEURON = "a Neuron device"
STAND_IN_NOTE = "stand-in for NVIDIA's TensorRT engines"
# The command in a README, with its flags in any order.
CPU_COMMAND = re.compile(
    r"--backend=neuron\b[^\n]*--device=cpu\b|--device=cpu\b[^\n]*--backend=neuron\b"
)
# How the harness names a system whose processor computes what was compiled for Neuron.
CPU_FOR_NEURON = re.compile(r"-cpu-neuron(?:-|$)")
FORM_LINE = re.compile(rf"^# .*\(({'|'.join(FORMS)}) form\)", re.MULTILINE)
DESCRIBE = (
    "make them: `cm run script --tags=run-mlperf,inference,_populate-readme,_full`, then generate "
    "the tree again"
)
RUN_ALL = (
    "make them, finished runs are kept: "
    "`cm run script --tags=run-mlperf,inference,_all-modes,_all-scenarios,_compliance,_full`"
)


def form(cell: ScenarioCell) -> str:
    """Return the form of a scenario's model and data; empty for the real ones."""
    match = FORM_LINE.search(text(cell.measurements / "README.md"))
    return match.group(1) if match else ""


def stands_in(site: SubmitterSite, system: str) -> str:
    """Return the device that a system stands in for, by its description or name; empty for none."""
    return next(iter(_of_system(site, system).values()), "")


def _of_system(site: SubmitterSite, system: str) -> dict[str, str]:
    """Return the devices that a system stands in for, by the source of the fact."""
    described = text(site.root / SYSTEMS / f"{system}.json")
    tensorrt = STAND_IN_NOTE in described or STAND_IN_BACKEND.search(described)
    document = site.systems.get(system, {})
    without = str(document.get("accelerators_per_node", "")) == "0"
    bare = without and str(document.get("framework", "")).startswith("neuron")
    stand_ins = {
        "the system's name": NEURON if CPU_FOR_NEURON.search(system) else "",
        f"{SYSTEMS}/{system}.json": stand_in.find_replaced(described)
        or ("TensorRT" if tensorrt else ""),
        "a framework of Neuron without an accelerator": NEURON if bare else "",
    }
    return {said_by: place for said_by, place in stand_ins.items() if place}


def _of_cell(site: SubmitterSite, cell: ScenarioCell) -> dict[str, str]:
    """Return the same, by the files of a scenario too, which renaming a system does not change."""
    stand_ins = _of_system(site, cell.system)
    paths = (
        *sorted(cell.measurements.glob("*.json")),
        cell.measurements / "user.conf",
        cell.measurements / "README.md",
        cell.accuracy / truncate.TEXT,
    )
    for path in paths:
        content = text(path)
        place = stand_in.find_replaced(content) or (NEURON if CPU_COMMAND.search(content) else "")
        stand_ins |= {site.where(path): place} if place else {}
    return stand_ins


def scenarios(site: SubmitterSite) -> Iterator[Finding]:
    """Check that the benchmarks of a system are known, of its category, and complete."""
    have = _scenarios_of(site)
    for system, benchmark in sorted(have):
        where = site.where(site.root / "results" / system / benchmark)
        known = site.rules(benchmark)
        if known is None:
            fault = f"no benchmark is named {benchmark}"
            # The modular checker looks at folders of scenarios alone.
            rule = UNKNOWN.at(WARNING, site.layout.joined and not have[system, benchmark])
            yield rule.broken(where, fault, "open division: name it in model_mapping.json")
            continue
        category = site.category(system)
        if not known.allowed(site.layout.round, category):
            absent = _absent(site, known, where, category)
            # An older round with a stand-in is a test, not meant for submission.
            yield replace(absent, severity=NATURE) if stands_in(site, system) else absent
            continue
        excused = stands_in(site, system)
        for finding in _scenarios(site, known, category, where, have[system, benchmark]):
            yield replace(finding, severity=NATURE) if excused else finding


def _scenarios_of(site: SubmitterSite) -> dict[tuple[str, str], list[str]]:
    """The folders of scenarios, by system and benchmark; a benchmark may have none."""
    have: dict[tuple[str, str], list[str]] = {
        (system.name, benchmark.name): []
        for system in folders(site.root / RESULTS)
        for benchmark in folders(system)
    }
    for cell in site.cells:
        have[cell.system, cell.benchmark].append(cell.scenario)
    return have


def _scenarios(
    site: SubmitterSite, known: BenchmarkSpec, category: str, where: str, named: list[str]
) -> Iterator[Finding]:
    measured = {Scenario.of_folder(name) for name in named}
    required = known.required(site.layout.round, category)
    lacking = [scenario for scenario in required if scenario not in measured]
    if site.strict and lacking:
        # The modular checker looks at folders of scenarios alone.
        rule = LACKING.at(WARNING, site.layout.joined and not named)
        yield rule.broken(where, f"without {', '.join(lacking)}", RUN_ALL)
    allowed = known.allowed(site.layout.round, category) if site.strict else tuple(Scenario)
    for name in sorted(set(named)):
        fault = f"{Path(where).name} has no scenario {name} in {category}"
        # In capitals or in lower case as a whole; the checkers map no other name.
        fits = Scenario.of_folder(name) in allowed and name in (*Scenario, name.lower())
        yield from FOREIGN.unless(fits, f"{where}/{name}", fault, f"`rm -r {where}/{name}`")


def _absent(site: SubmitterSite, known: BenchmarkSpec, where: str, category: str) -> Finding:
    if known.allowed(site.layout.round, ",".join(known.scenarios)):
        fault = f"{known.checker_name} is not measured in the category {category or '(none)'}"
        return CATEGORY.broken(where, fault, "generate again with the right --category")
    fault = f"round {site.layout.round} has no benchmark {known.checker_name}"
    return UNKNOWN.broken(where, fault, "generate the tree for a round that has it")


def descriptions(site: SubmitterSite) -> Iterator[Finding]:
    """Check measurements.json, user.conf and README.md of all scenarios."""
    for cell in site.cells:
        yield from _described(site, cell)
        if form(cell):
            fault = f"these are runs of a {form(cell)} form, not of the real model and data"
            yield FORM.broken(site.where(cell.results), fault, "run the benchmark without the form")
        if said := _of_cell(site, cell):
            place = next(iter(said.values()))
            fault = f"a stand-in took the place of {place}"
            mend = f"submit what computed itself, or run with {place}; said by: {', '.join(said)}"
            yield STAND_IN.broken(site.where(cell.results), fault, mend)


def _described(site: SubmitterSite, cell: ScenarioCell) -> Iterator[Finding]:
    folder, names = cell.measurements, _descriptions(cell)
    wanted = (
        *names,
        *(["user.conf"] if not cell.by_client else []),
        "README.md",
        *(["mlperf.conf"] if cell.layout.mlperf_conf else []),
    )
    again = DESCRIBE
    for lost in missing(folder, wanted):
        rule = FILES.at(WARNING, site.allows_empty and folder.is_dir())
        yield rule.broken(site.where(folder / lost), "missing or empty", again)
    for name in names:
        if not missing(folder, (name,)):
            yield from _description(site, cell, folder / name)


def _description(site: SubmitterSite, cell: ScenarioCell, path: Path) -> Iterator[Finding]:
    """One description of an implementation."""
    where, document = site.where(path), read_object(path)
    if document is None:
        yield KEYS.broken(where, "it is not a JSON object", "generate the tree again")
        return
    for key in MEASUREMENT_KEYS:
        if key not in document:
            rule = KEYS.at(WARNING, site.allows_empty)
            yield rule.broken(where, f"{key} is missing", "generate the tree again")
        elif not str(document[key] or "").strip():
            rule = VALUES.at(WARNING, bool(document[key]))
            yield rule.broken(where, f"{key} is empty", 'say what applies, for example "no"')
    yield from _kinds(cell, where, document.get("weight_data_types", ""))
    retrained = RETRAINED.fullmatch(str(document.get("retraining", "")))
    fault = f"retraining is {document.get('retraining')}, in the {site.division} division"
    free = not (site.strict and retrained)
    yield from RETRAINING.unless(free, where, fault, "submit it to the open division")


def _kinds(cell: ScenarioCell, where: str, kinds: object) -> Iterator[Finding]:
    """Check that the types of weights are a text, to which checkers append the power."""
    # The checkers of before 6.0 add it to a text, and end with a traceback.
    free = isinstance(kinds, str) or cell.layout.joined or not cell.powered
    fault = f"weight_data_types is {kinds!r}, which is not text"
    yield from VALUES.unless(free, where, fault, "write one text")


def _descriptions(cell: ScenarioCell) -> list[str]:
    """The files that describe the implementation; rounds before 6.0 leave the name free.

    Of several the checkers of those rounds read the one that the file system lists first.
    """
    name = cell.layout.measurement_file(cell.system, cell.scenario)
    if cell.layout.joined:
        return [name]
    others = sorted(cell.measurements.glob(f"{glob.escape(cell.system)}*.json"))
    return [path.name for path in others] or [name]
