"""Which modules of a package other packages import: its ``__all__`` names them, and no others.

The rest of a package may change with the package alone, see ``docs/decisions/083``. ``cmbench.lib``
is there to be imported as a whole, and tests may import everything.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import PurePosixPath

import pytest

from support import ROOT
from tests_of import dotted, project

PUBLIC_MODULES = 145
"""Modules that other packages import, in all packages of the engine: never raise it."""
SHARED = "automation/cmbench/lib"
# A module that is imported by its name in a table, such as the verbs of another package.
_QUOTED = re.compile(r'"(cmbench\w*(?:\.\w+)+)"')


def imported_by_others(graph: dict[str, set[str]]) -> dict[str, set[str]]:
    """Return by package the modules that files outside of the package import.

    ``graph`` has the importing files of a file. A module of a package within a package counts for
    both.
    """
    public = defaultdict(set)
    for name, importers in graph.items():
        parts = PurePosixPath(name.removesuffix(".py").removesuffix("/__init__")).parts
        for depth in range(2, len(parts)):
            package = "/".join(parts[:depth])
            outside = [file for file in importers if not file.startswith((f"{package}/", "tests/"))]
            if outside and package != SHARED:
                public[package].add(parts[depth])
    return public


def exported(package: str) -> set[str]:
    """Return ``__all__`` of the package in a folder, without the names that it defines itself."""
    tree = ast.parse((ROOT / package / "__init__.py").read_text(encoding="utf-8"))
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            names = set(ast.literal_eval(node.value))
    folder = ROOT / package
    return {n for n in names if (folder / n).is_dir() or (folder / f"{n}.py").is_file()}


@pytest.fixture(scope="module")
def public() -> dict[str, set[str]]:
    graph, names = project()
    shipped = [n for n in names if n.startswith(("automation/", "script/")) and n.endswith(".py")]
    modules = {dotted(name): name for name in shipped if name.startswith("automation/")}
    for name in shipped:
        for module in _QUOTED.findall((ROOT / name).read_text(encoding="utf-8")):
            if module in modules:
                graph[modules[module]].add(name)
    engine = {name: files for name, files in graph.items() if name.startswith("automation/cmbench")}
    return imported_by_others(engine)


def test_a_package_names_the_modules_that_others_import(public: dict[str, set[str]]) -> None:
    packages = {
        p.parent.relative_to(ROOT).as_posix() for p in ROOT.glob("automation/*/**/__init__.py")
    }
    wrong = {
        package: f"missing {sorted(public[package] - exported(package))}, "
        f"unused {sorted(exported(package) - public[package])}"
        for package in sorted(packages)
        if exported(package) != public[package]
    }
    assert not wrong, "change __all__ of the package, or better the import"


def test_faces_do_not_grow(public: dict[str, set[str]]) -> None:
    counts = {package: len(modules) for package, modules in sorted(public.items())}
    print(*counts.items(), sep="\n")
    assert sum(counts.values()) <= PUBLIC_MODULES


def test_modules_that_others_import_are_counted_in_all_their_packages() -> None:
    graph = {
        "automation/cmbench/cache/store.py": {"automation/cmbench/run/step.py"},
        "automation/cmbench/cache/disk.py": {"automation/cmbench/cache/store.py", "tests/a.py"},
        "automation/cmbench/run/step.py": {"script/get-x/customize.py"},
        "automation/cmbench/run/__init__.py": {"automation/cmbench/api/running.py"},
    }
    assert imported_by_others(graph) == {
        "automation/cmbench/cache": {"store"},
        "automation/cmbench/run": {"step"},
        "automation/cmbench": {"run"},
    }
