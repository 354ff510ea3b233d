"""Folders and files of the whole tree."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import mlperf_catalog as catalog
from mlperf_catalog import Division

from ..files import text
from ..layouts import CALIBRATION, DIVISIONS, MAPPING, RESULTS, SYSTEMS, Tree, folders
from .base import (
    CHECKER,
    FIRST_FILLED,
    FIRST_TIDY,
    NOTE,
    RULES,
    TREE,
    WARNING,
    Finding,
    Rule,
    Site,
    read_object,
)

LARGEST = 50 * 1024 * 1024

ROOT = Rule("tree.root", "only divisions and documents at the top", CHECKER, first=FIRST_FILLED)
EMPTY = Rule("tree.nothing", "a tree holds at least one result", TREE)
OUTSIDE = Rule(
    "tree.division", "only folders of submitters in a division", CHECKER, first=FIRST_FILLED
)
NAMES = Rule("tree.names", "no hidden names, spaces or compiled files", CHECKER, first=FIRST_TIDY)
LINKS = Rule("tree.links", "links only to what the tree holds", CHECKER, first=FIRST_TIDY)
SIZE = Rule("tree.size", "no file above 50 MB", CHECKER, first=FIRST_TIDY)
EMPTY_FOLDER = Rule("tree.empty-folder", "no empty folders", CHECKER, first=FIRST_TIDY)
CODE = Rule("tree.code", "the code, or where it is, for every benchmark", TREE)
CALIBRATED = Rule("tree.calibration", "how calibration was done", RULES, first="5.1")
UNUSED = Rule("tree.system-without-results", "no description without results", CHECKER, first="5.0")
MAPPED = Rule("tree.model-mapping", "open: which benchmark each own name stands for", CHECKER)
UNKNOWN = Rule("tree.unknown-folder", "only folders that the layout knows", TREE, NOTE)


def top(tree: Tree) -> Iterator[Finding]:
    """What lies above the submitters."""
    if not tree.submitters():
        yield EMPTY.broken(".", "no division holds a submitter", "generate the tree first")
    for path in sorted(tree.root.iterdir()) if tree.root.is_dir() else []:
        document = path.is_file() and path.suffix in (".md", ".pdf")
        known = path.is_dir() and path.name in (*DIVISIONS, ".git", ".github", "assets")
        where = tree.relative(path)
        remedy = f"remove it: rm -r {where}"
        yield from ROOT.unless(document or known, where, "it belongs to no division", remedy)
    for path in (path for each in DIVISIONS for path in sorted((tree.root / each).glob("*"))):
        where = tree.relative(path)
        told = "a file beside the submitters"
        yield from OUTSIDE.unless(not path.is_file(), where, told, f"rm {where}")


def files(site: Site) -> Iterator[Finding]:
    """Names, sizes and links of everything that a submitter submits."""
    for parent, folder_names, file_names in os.walk(site.root):
        folder_names.sort()
        if not folder_names and not file_names:
            where = site.where(Path(parent))
            yield EMPTY_FOLDER.broken(where, "it is empty", f"rmdir {where}")
        for name in sorted((*folder_names, *file_names)):
            yield from _entry(site, Path(parent) / name)


def _entry(site: Site, path: Path) -> Iterator[Finding]:
    where = site.where(path)
    compiled = path.name.endswith("__pycache__") and path.is_dir()
    if path.name.startswith(".") or " " in path.name or compiled:
        yield NAMES.broken(where, "git and the checkers refuse this name", "rename or remove it")
    if path.is_symlink():
        yield from _link(site, path, where)
    elif path.is_file() and path.stat().st_size > LARGEST:
        found = f"{path.stat().st_size / 2**20:.0f} MB"
        yield SIZE.broken(where, found, "truncate logs: cm run script --tags=truncate,accuracy-log")


def _link(site: Site, path: Path, where: str) -> Iterator[Finding]:
    """Whether a link leads to what the tree holds, by each checker's way of looking."""
    inside = path.exists() and path.resolve().is_relative_to(site.tree.root.resolve())
    told = "a link that leads nowhere, or out of the tree"
    mend = "put the file itself in its place"
    yield from LINKS.unless(inside, where, told, mend)
    # The single-file checkers look for what it says from the top of the tree; the modular one,
    # which counts from 6.0 on, looks at no link.
    seen = (site.tree.root / os.readlink(path)).exists() or path.is_dir() or not inside
    told = "a link that the single-file checker takes for broken"
    yield from LINKS.at(WARNING, site.layout.joined).unless(seen, where, told, mend)


def parts(site: Site) -> Iterator[Finding]:
    """Code, calibration, systems and the mapping of names."""
    known = {site.layout.code, RESULTS, SYSTEMS, site.layout.measurements, site.layout.compliance}
    for path in folders(site.root):
        if path.name not in known | {"documentation", "calibration", "power", "tools"}:
            found = f"the layout of v{site.layout.round} has no such folder"
            yield UNKNOWN.broken(
                site.where(path), found, "give --round=ROUND if it is of another round"
            )
    yield from _code(site)
    yield from _calibration(site)
    measured = {cell.system for cell in site.cells}
    described = {path: path.stem for path in sorted((site.root / SYSTEMS).glob("*.json"))}
    others = () if site.layout.joined else folders(site.root / site.layout.measurements)
    described |= {path: path.name for path in others}
    for place, system in described.items():
        found, where = f"there are no results of {system}", site.where(place)
        yield from UNUSED.unless(system in measured, where, found, f"rm -r {where}")
    if site.division == Division.OPEN:
        yield from _mapping(site)


def _code(site: Site) -> Iterator[Finding]:
    code = site.root / site.layout.code
    for benchmark in sorted({cell.benchmark for cell in site.cells}):
        rules = site.rules(benchmark)
        accepted = {benchmark, *((rules.name,) if rules else ())}
        there = any(_has_code(code, name) for name in accepted)
        where = site.where(code / benchmark)
        yield from CODE.unless(there, where, "there is nothing", "generate the tree again")


def _has_code(code: Path, name: str) -> bool:
    """Whether there is a folder that is not empty, or a file that names such a folder."""
    place = code / text(code / name).strip() if (code / name).is_file() else code / name
    return place != code and place.is_dir() and any(place.rglob("*"))


def _calibration(site: Site) -> Iterator[Finding]:
    places = (CALIBRATION, f"documentation/{CALIBRATION}")
    there = any((site.root / name).is_file() for name in places)
    where = site.where(site.root / CALIBRATION)
    again = "generate the tree again"
    yield from CALIBRATED.unless(there or not site.strict, where, "there is no such file", again)


def _mapping(site: Site) -> Iterator[Finding]:
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
        found = f"{name} stands for {value!r}, and no benchmark is named so"
        known = isinstance(value, str) and catalog.find(value) is not None
        yield from rule.unless(known, site.where(path), found, "use the official names")
