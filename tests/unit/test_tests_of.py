"""``tests/tests_of.py``: which tests a source file has."""

from __future__ import annotations

import tests_of
from support import ROOT

EMPTY = 200
"""Bytes of an ``__init__.py`` with nothing but its docstring."""


def test_tests_are_ordered_by_distance() -> None:
    sources = {
        "automation/engine/__init__.py": "",
        "automation/engine/store.py": "import os",
        "automation/engine/run.py": "from . import store as s\nfrom .store import (\n    Store,\n)",
        "lib/mlperf/queue.py": "from mlperf.batch import cut",
        "lib/mlperf/batch.py": "",
        "script/get-x/src/train.py": "import network",
        "script/get-x/src/network.py": "",
        "script/get-y/src/network.py": "",
        "tests/lab.py": "def lab():\n    import engine.run",
        "tests/engine/test_lab.py": "from lab import lab",
        "tests/engine/test_store.py": "",
        "tests/lib/test_queue.py": "import mlperf.queue, os",
        "tests/script/get-x/test_x.py": "",
        "tests/script/get-xy/test_y.py": "",
    }
    graph, names = tests_of.importers(sources), list(sources)

    def tests(name: str) -> list[tuple[str, int]]:
        return list(tests_of.tests_of(name, graph, names).items())

    assert tests("automation/engine/run.py") == [("tests/engine/test_lab.py", 2)]
    assert tests("automation/engine/store.py") == [
        ("tests/engine/test_store.py", tests_of.SAME_NAME),
        ("tests/engine/test_lab.py", 3),
    ]
    assert tests("lib/mlperf/batch.py") == [("tests/lib/test_queue.py", 2)]
    assert tests("script/get-x/src/network.py") == [
        ("tests/script/get-x/test_x.py", tests_of.SAME_SCRIPT)
    ]
    assert graph["script/get-x/src/network.py"] == {"script/get-x/src/train.py"}
    assert graph["script/get-y/src/network.py"] == set()


def test_every_package_of_ours_has_tests() -> None:
    graph, names = tests_of.project()
    packages: dict[str, int] = {}
    for name in names:
        package, _, file = name.rpartition("/")
        is_empty = file == "__init__.py" and (ROOT / name).stat().st_size < EMPTY
        if name.startswith(("automation/", "lib/")) and file.endswith(".py") and not is_empty:
            count = len(tests_of.tests_of(name, graph, names))
            packages[package] = packages.get(package, 0) + count
    # cmind loads the thin folders by their path, Alembic the migrations, and a step the others.
    by_path = {
        path.parent.relative_to(ROOT).as_posix() for path in ROOT.glob("automation/*/_cm.json")
    }
    without = {name for name, count in packages.items() if not count}
    assert without - by_path - {"automation"} == {
        "automation/cmbench_results/migrations/versions",
        "lib/aws_neuron/compiling",
    }
