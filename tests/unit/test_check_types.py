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
    ],
)
def test_a_neighbour_is_imported_from_the_package(
    program: dict[str, Any], line: str, wanted: str
) -> None:
    assert program["packaged"](line, {"network": "get_x"}) == wanted


def test_packages_are_named_after_scripts(program: dict[str, Any]) -> None:
    names = program["programs"]()
    assert names[ROOT / "script/get-ml-model-gptj/src"] == "get_ml_model_gptj"
    assert len(set(names.values())) == len(names)


def test_every_package_of_the_engine_and_of_its_verbs_is_checked(program: dict[str, Any]) -> None:
    packages = {path.parent for path in ROOT.glob("automation/*/__init__.py")}
    assert packages <= {ROOT / name for name in program["checked"]()}
