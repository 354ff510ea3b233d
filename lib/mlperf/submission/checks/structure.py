"""Folders and files of the whole tree."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from mlperf import catalog
from mlperf.catalog import Division

from ..files import text
from ..layouts import CALIBRATION, DIVISIONS, MAPPING, RESULTS, SYSTEMS, SubmissionTree, folders
from .base import (
    ACCURACY_SUFFIX,
    CHECKER,
    FIRST_FILLED,
    FIRST_TIDY,
    LAST_SINGLE_FILE,
    NOTE,
    RULES,
    TREE,
    WARNING,
    Finding,
    Rule,
    SubmitterSite,
    read_object,
)

LARGEST = 50 * 1024 * 1024


def _single_file(rule_id: str, title: str, first: str, source: str = CHECKER) -> Rule:
    """A rule that the single-file checkers have from a round on, and the modular one not."""
    return Rule(rule_id, title, source, first=first, last=LAST_SINGLE_FILE)


ROOT = _single_file("tree.root", "only divisions and documents at the top", FIRST_FILLED)
EMPTY = Rule("tree.nothing", "a tree holds at least one result", TREE)
OUTSIDE = _single_file("tree.division", "only folders of submitters in a division", FIRST_FILLED)
NAMES = _single_file("tree.names", "no hidden names, spaces or compiled files", FIRST_TIDY)
LINKS = _single_file("tree.links", "links only to what the tree holds", FIRST_TIDY)
SIZE = _single_file("tree.size", "no file above 50 MB", FIRST_TIDY)
EMPTY_FOLDER = _single_file("tree.empty-folder", "no empty folders", FIRST_TIDY)
CODE = Rule("tree.code", "the code, or where it is, for every benchmark", TREE)
CALIBRATED = _single_file("tree.calibration", "how calibration was done", "5.1", RULES)
UNUSED = _single_file("tree.system-without-results", "no description without results", "5.1")
MAPPED = Rule("tree.model-mapping", "open: which benchmark each own name stands for", CHECKER)
UNKNOWN = Rule("tree.unknown-folder", "only folders that the layout knows", TREE, NOTE)


def top(tree: SubmissionTree) -> Iterator[Finding]:
    """Check the top of the tree, above the submitters."""
    if not tree.submitters():
        yield EMPTY.broken(".", "no division holds a submitter", "generate the tree first")
    for path in sorted(tree.root.iterdir()) if tree.root.is_dir() else []:
        document = path.is_file() and path.suffix in (".md", ".pdf")
        known = path.is_dir() and path.name in (*DIVISIONS, ".git", ".github", "assets")
        where = tree.relative(path)
        remedy = f"remove it: `rm -r {where}`"
        yield from ROOT.unless(document or known, where, "it belongs to no division", remedy)
    for path in (path for name in DIVISIONS for path in sorted((tree.root / name).glob("*"))):
        where = tree.relative(path)
        fault = "a file beside the submitters"
        yield from OUTSIDE.unless(not path.is_file(), where, fault, f"rm {where}")


def files(site: SubmitterSite) -> Iterator[Finding]:
    """Names, sizes and links of everything that a submitter submits."""
    for parent, folder_names, file_names in os.walk(site.root):
        folder_names.sort()
        if not folder_names and not file_names:
            where = site.where(Path(parent))
            yield EMPTY_FOLDER.broken(where, "it is empty", f"rmdir {where}")
        for name in sorted((*folder_names, *file_names)):
            yield from _entry(site, Path(parent) / name)


def _entry(site: SubmitterSite, path: Path) -> Iterator[Finding]:
    where = site.where(path)
    compiled = path.name.endswith("__pycache__") and path.is_dir()
    if path.name.startswith(".") or " " in path.name or compiled:
        yield NAMES.broken(where, "git and the checkers refuse this name", "rename or remove it")
    if path.is_symlink():
        yield from _link(site, path, where)
    elif path.is_file() and path.stat().st_size > LARGEST:
        fault = f"{path.stat().st_size / 2**20:.0f} MB"
        yield SIZE.broken(
            where, fault, "truncate logs: `cm run script --tags=truncate,accuracy-log`"
        )


def _link(site: SubmitterSite, path: Path, where: str) -> Iterator[Finding]:
    """Check that a link leads into the tree, as both kinds of checkers resolve it."""
    inside = path.exists() and path.resolve().is_relative_to(site.tree.root.resolve())
    fault = "a link that leads nowhere, or out of the tree"
    mend = "put the file itself in its place"
    yield from LINKS.unless(inside, where, fault, mend)
    # The single-file checkers resolve its target from the top of the tree.
    seen = (site.tree.root / os.readlink(path)).exists() or path.is_dir() or not inside
    fault = "a link that the single-file checker takes for broken"
    yield from LINKS.unless(seen, where, fault, mend)


def parts(site: SubmitterSite) -> Iterator[Finding]:
    """Check code, calibration, systems and the mapping of names."""
    known = {site.layout.code, RESULTS, SYSTEMS, site.layout.measurements, site.layout.compliance}
    for path in folders(site.root):
        if path.name not in known | {"documentation", "calibration", "power", "tools"}:
            fault = f"the layout of v{site.layout.round} has no such folder"
            yield UNKNOWN.broken(
                site.where(path), fault, "give --round=ROUND if it is of another round"
            )
    yield from _code(site)
    yield from _calibration(site)
    measured = {cell.system for cell in site.cells}
    described = {path: path.stem for path in sorted((site.root / SYSTEMS).glob("*.json"))}
    others = () if site.layout.joined else folders(site.root / site.layout.measurements)
    described |= {path: path.name for path in others}
    for place, system in described.items():
        fault, where = f"there are no results of {system}", site.where(place)
        yield from UNUSED.unless(system in measured, where, fault, f"`rm -r {where}`")
    if site.division == Division.OPEN:
        yield from _mapping(site)


def _code(site: SubmitterSite) -> Iterator[Finding]:
    """Check for code; from 6.0 on the checkers ask for the folder ``src`` alone."""
    code = site.root / site.layout.code
    there = site.layout.joined and code.is_dir() and any(code.iterdir())
    rule = CODE.at(WARNING, there or site.allows_empty)
    for benchmark in sorted({cell.benchmark for cell in site.cells}):
        accepted = list(_code_names(site, code, benchmark))
        there = any(_has_code(code, name) for name in accepted)
        where = site.where(code / benchmark)
        mend = "put the code, or a README.md that says where it is, there"
        yield from rule.unless(there, where, "there is nothing", mend)


def _code_names(site: SubmitterSite, code: Path, benchmark: str) -> Iterator[str]:
    """The folders of code that stand for a benchmark; before 6.0 the checkers compare letters."""
    yield benchmark
    rules = site.rules(benchmark)
    if site.layout.joined and rules is not None:
        yield from (rules.name, rules.checker_name)
    if site.layout.joined and code.is_dir():
        plain = _plain(benchmark)
        yield from (path.name for path in sorted(code.iterdir()) if _plain(path.name) == plain)


def _plain(name: str) -> str:
    """A benchmark's name without its accuracy and its marks: llama3_1-8b is llama3.1-8b."""
    return re.sub(r"[^a-z0-9]", "", ACCURACY_SUFFIX.sub("", name.lower()))


def _has_code(code: Path, name: str) -> bool:
    """Whether there is a folder that is not empty, or a file that names such a folder."""
    place = code / text(code / name).strip() if (code / name).is_file() else code / name
    return place != code and place.is_dir() and any(place.rglob("*"))


def _calibration(site: SubmitterSite) -> Iterator[Finding]:
    places = (CALIBRATION, f"documentation/{CALIBRATION}")
    there = any((site.root / name).is_file() for name in places)
    where = site.where(site.root / CALIBRATION)
    mend = "write there how the models were quantized, or that they were not"
    yield from CALIBRATED.unless(there or not site.strict, where, "there is no such file", mend)


def _mapping(site: SubmitterSite) -> Iterator[Finding]:
    path = site.root / MAPPING
    if not path.exists():
        return
    document = read_object(path)
    if document is None:
        yield MAPPED.broken(site.where(path), "no JSON object", "write {own name: official}")
        return
    used = {cell.benchmark for cell in site.cells}
    for name, value in sorted(document.items()):
        # Of names that stand for nothing here the checkers say nothing.
        rule = MAPPED.at(WARNING, name not in used)
        fault = f"{name} stands for {value!r}, and no benchmark is named so"
        known = isinstance(value, str) and catalog.find(value) is not None
        yield from rule.unless(known, site.where(path), fault, "use the official names")
