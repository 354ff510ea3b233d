"""``.ci/check_types.py``: what it checks, and which module an import of a bare name means."""

from __future__ import annotations

import runpy
from typing import Any

import pytest

from support import ROOT


@pytest.fixture(scope="module")
def program() -> dict[str, Any]:
    pytest.importorskip("mypy")
    return runpy.run_path(str(ROOT / ".ci" / "check_types.py"))


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("import network", "import get_x.network as network"),
        ("    from network import Net, cut", "    from get_x.network import Net, cut"),
        ("from network import (", "from get_x.network import ("),
        ("import numpy", "import numpy"),
        ("import numpy as np", "import numpy as np"),
        ("from network.part import x", "from network.part import x"),
        ("# we import network", "# we import network"),
        ('cases = siblings.hooks(__file__, "cases")', "import script.hooks.cases as cases"),
        (
            'ask = siblings.hooks(__file__, "cases").require',
            "from script.hooks.cases import require as ask",
        ),
    ],
)
def test_a_neighbour_is_imported_from_the_package(
    program: dict[str, Any], line: str, wanted: str
) -> None:
    assert program["packaged"](line, {"network": "get_x"}) == wanted


def test_packages_are_named_after_scripts(program: dict[str, Any]) -> None:
    names = program["programs"]()
    assert names[ROOT / "script/get-ml-model-gptj/src/train.py"] == "get_ml_model_gptj"
    assert names[ROOT / "script/run-harness/flow_containers.py"] == "run_harness"


def test_no_two_sources_have_the_same_copy(program: dict[str, Any]) -> None:
    names = program["programs"]()
    assert len({(package, path.name) for path, package in names.items()}) == len(names)


def test_customize_of_every_script_is_checked(program: dict[str, Any]) -> None:
    wanted = set(ROOT.glob("script/*/customize.py"))
    assert wanted
    assert wanted <= set(program["programs"]())


def test_nothing_asks_for_hooks_in_words_that_a_copy_keeps(program: dict[str, Any]) -> None:
    sources = [path.read_text(encoding="utf-8") for path in program["programs"]()]
    assert not [s for s in sources if "siblings.hooks(" in program["packaged"](s, {})]


def test_every_package_of_the_engine_and_of_its_verbs_is_checked(program: dict[str, Any]) -> None:
    packages = {path.parent for path in ROOT.glob("automation/*/__init__.py")}
    assert packages <= {ROOT / name for name in program["checked"]()}
