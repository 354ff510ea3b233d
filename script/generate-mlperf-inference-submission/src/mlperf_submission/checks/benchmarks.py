"""Which benchmarks and scenarios a tree holds, and how each implementation is described."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mlperf_harness import rules

from ..build import MEASUREMENT_KEYS
from ..layouts import Cell
from .base import CHECKER, NATURE, RULES, TREE, Finding, Rule, Site, missing, read_object, text

UNKNOWN = Rule("benchmark.unknown", "the round has this benchmark", RULES)
CATEGORY = Rule("benchmark.category", "the benchmark exists in the system's category", RULES)
LACKING = Rule("benchmark.scenario-missing", "all scenarios of the category", RULES)
FOREIGN = Rule("benchmark.scenario-unknown", "no other scenarios", CHECKER)
FILES = Rule("measurements.files", "description, user.conf and README.md, none empty", TREE)
KEYS = Rule("measurements.keys", "all keys of the description", CHECKER)
VALUES = Rule("measurements.values", "no key of the description is empty", CHECKER)
FORM = Rule("result.form", "the real model and data", RULES, NATURE)

FORM_LINE = re.compile(r"^# .*\((tiny|synthetic) form\)", re.MULTILINE)
RUN_ALL = (
    "make them, finished runs are kept: "
    "cm run script --tags=run-mlperf,inference,_all-modes,_all-scenarios,_compliance,_full"
)


def form(cell: Cell) -> str:
    """The form of the model and data that a scenario was run with; empty for the real ones."""
    found = FORM_LINE.search(text(cell.measurements / "README.md"))
    return found.group(1) if found else ""


def scenarios(site: Site) -> Iterator[Finding]:
    """Benchmarks by system: known, in this category, and whole."""
    for system, benchmark in sorted({(cell.system, cell.benchmark) for cell in site.cells}):
        folder = site.root / "results" / system / benchmark
        where = site.where(folder)
        known = site.rules(benchmark)
        if known is None:
            found = f"no benchmark is named {benchmark}"
            yield UNKNOWN.broken(where, found, "open division: name it in model_mapping.json")
            continue
        category = site.category(system)
        required = known.required(site.layout.round, category) if category else ()
        if not required:
            yield _absent(site, known, where, category)
            continue
        have = {
            cell.scenario
            for cell in site.cells
            if cell.system == system and cell.benchmark == benchmark
        }
        lower = {scenario.lower() for scenario in have}
        lacking = [scenario for scenario in required if scenario.lower() not in lower]
        if site.strict and lacking:
            yield LACKING.broken(where, f"without {', '.join(lacking)}", RUN_ALL)
        other = sorted(
            scenario
            for scenario in have
            if scenario.lower() not in {each.lower() for each in rules.ORDER}
            or (site.strict and scenario.lower() not in {each.lower() for each in required})
        )
        for scenario in other:
            found = f"{benchmark} has no scenario {scenario} in {category}"
            yield FOREIGN.broken(f"{where}/{scenario}", found, f"rm -r {where}/{scenario}")


def _absent(site: Site, known: rules.BenchmarkRules, where: str, category: str) -> Finding:
    anywhere = known.required(site.layout.round, ",".join(known.scenarios))
    if anywhere:
        found = f"{known.checker_name} is not measured in the category {category or '(none)'}"
        return CATEGORY.broken(where, found, "generate again with the right --category")
    found = f"round {site.layout.round} has no benchmark {known.checker_name}"
    return UNKNOWN.broken(where, found, "generate the tree for a round that has it")


def descriptions(site: Site) -> Iterator[Finding]:
    """measurements.json, user.conf and README.md of each scenario."""
    for cell in site.cells:
        yield from _described(site, cell)
        if form(cell):
            found = f"these are runs of a {form(cell)} form, not of the real model and data"
            yield FORM.broken(site.where(cell.results), found, "run the benchmark without the form")


def _described(site: Site, cell: Cell) -> Iterator[Finding]:
    folder = cell.measurements
    name = cell.layout.measurement_file(cell.system, cell.scenario)
    if not cell.layout.joined:
        others = sorted(folder.glob(f"{cell.system}*.json")) if folder.is_dir() else []
        name = others[0].name if others else name
    wanted = (name, "user.conf", "README.md")
    for lost in missing(folder, (*wanted, "mlperf.conf") if cell.layout.mlperf_conf else wanted):
        yield FILES.broken(
            site.where(folder / lost),
            "missing or empty",
            "run _populate-readme, then generate again",
        )
    document = read_object(folder / name)
    where = site.where(folder / name)
    if document is None:
        if (folder / name).is_file() and (folder / name).stat().st_size:
            yield KEYS.broken(where, "it is no JSON object", "generate the tree again")
        return
    for key in MEASUREMENT_KEYS:
        if key not in document:
            yield KEYS.broken(where, f"{key} is missing", "generate the tree again")
        elif not document[key]:
            yield VALUES.broken(where, f"{key} is empty", 'say what applies, for example "no"')
