"""Print the tests of source files, the nearest first: ``python tests/tests_of.py FILE...``.

A test module is at distance 1 from the modules that it imports, at distance 2 from those that they
import, and so on. Tests that only run ``cm`` in a process import nothing: those named after the
module, and those of its script, are listed too.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from support import ROOT, project_files

SHOWN = 8
# Distances of tests that do not import the module.
SAME_NAME = 1
SAME_SCRIPT = 3
_IMPORT = re.compile(
    r"^[ \t]*(?:from (?P<base>\.*[\w.]*) import (?P<names>\([^)]*\)|.+)"
    r"|import (?P<modules>[\w., ]+))",
    re.MULTILINE,
)
# A program of lib that a test starts by its path.
_STARTED = re.compile(r'"((?:\w+/)*\w+)(?:\.py)?"(?: / "(\w+)\.py")?')
# Folders that are on the path of some Python; the longest match is the one that counts.
_IMPORT_ROOT = re.compile(r"^(automation|lib|script/[^/]+/src|script/[^/]+|tests(/\w+)*)/")


def dotted(name: str) -> str:
    """Return the name under which the file ``name`` is imported."""
    module = _IMPORT_ROOT.sub("", name, count=1).removesuffix(".py")
    return module.removesuffix("/__init__").replace("/", ".")


def imports(name: str, text: str) -> Iterator[str]:
    """Return the dotted names that a module may import; some of them are no modules."""
    package = name.split("/")[:-1]
    for match in _IMPORT.finditer(text):
        if match["modules"]:
            yield from (part.split(" as ")[0].strip() for part in match["modules"].split(","))
            continue
        base = match["base"].lstrip(".")
        if level := len(match["base"]) - len(base):
            folder = "/".join(package[: len(package) + 1 - level])
            base = ".".join(part for part in (dotted(f"{folder}/"), base) if part).strip(".")
        yield base
        yield from (f"{base}.{alias}" for alias in re.findall(r"\w+", match["names"]))


def started(text: str) -> Iterator[str]:
    """Return the dotted names of the programs of lib that a test may start by their path."""
    for path, name in _STARTED.findall(text):
        yield "/".join(filter(None, (path, name))).replace("/", ".")


def importers(sources: dict[str, str]) -> dict[str, set[str]]:
    """Return the files that import each file of ``sources``, which has the text of each name."""
    files = defaultdict(list)
    for name in sources:
        files[dotted(name)].append(name)
    graph: dict[str, set[str]] = defaultdict(set)
    for name, text in sources.items():
        more = started(text) if name.startswith("tests/") else ()
        for module in (*imports(name, text), *more):
            same_folder = [f for f in files[module] if Path(f).parent == Path(name).parent]
            for imported in same_folder or files[module][:1]:
                graph[imported].add(name)
    return graph


def distances(name: str, graph: dict[str, set[str]]) -> dict[str, int]:
    """Return the test modules that reach the file ``name``, with their distances."""
    reached, front = {name: 0}, [name]
    while front:
        following = [(importer, reached[one] + 1) for one in front for importer in graph[one]]
        front = list({importer for importer, _ in following} - set(reached))
        reached |= {i: distance for i, distance in following if i not in reached}
    return {test: n for test, n in reached.items() if Path(test).name.startswith("test_")}


def tests_of(name: str, graph: dict[str, set[str]], names: list[str]) -> dict[str, int]:
    """Return the tests of the file ``name``, which is one of ``names``, with their distances."""
    script = re.match(r"script/([^/]+)/", name)
    folder = script[1] if script else ""
    own = (f"script/{folder}/detection_test.yaml", f"tests/script/{folder}/test_")
    by_script = {test: SAME_SCRIPT for test in names if folder and test.startswith(own)}
    same = re.compile(rf"tests/.*/test_(.*_)?{Path(name).stem}(_.*)?\.py")
    by_name = {test: SAME_NAME for test in names if same.fullmatch(test)}
    tests = by_script | by_name | distances(name, graph)
    return dict(sorted(tests.items(), key=lambda item: (item[1], item[0])))


def project() -> tuple[dict[str, set[str]], list[str]]:
    """Return who imports which file of this project, and the names of all its files."""
    names = [path.relative_to(ROOT).as_posix() for path in project_files()]
    python = [name for name in names if name.endswith(".py") and _IMPORT_ROOT.match(name)]
    return importers({name: (ROOT / name).read_text(encoding="utf-8") for name in python}), names


def main() -> int:
    """Print the tests of the files that are named on the command line."""
    graph, names = project()
    for argument in sys.argv[1:]:
        name = Path(argument).resolve().relative_to(ROOT).as_posix()
        tests = tests_of(name, graph, names)
        print(f"{name}: {len(tests)} test modules")
        print(
            *(f"  {distance}  {test}" for test, distance in list(tests.items())[:SHOWN]), sep="\n"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
