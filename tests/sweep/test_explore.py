"""Command lines of CM's own experiments, as its collections write them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from cmbench.errors import Error
from cmbench_sweep.explore import exploration, filled
from cmbench_sweep.expressions import ExpressionError, evaluate
from support import Finished, Home

Cm = Callable[..., Finished]
VARIABLES = """\
explore:
  VAR1: [1,2,3]
  VAR2: ["a","b"]
  VAR3: "[2**i for i in range(0,6)]"
"""


def test_values_on_the_spot_and_from_a_file(cm: Cm, world: Path, home: Home) -> None:
    (world / "test_input.yaml").write_text(VARIABLES, encoding="utf-8")
    words = r"""${VAR1} --batch_size={{VAR1}} {{VAR2}} {{VAR4{['xx','yy','zz']}}}-${VAR3}"""
    done = cm("run", "experiment", "--tags=test", "@test_input.yaml", "--", "echo", words).ok()
    assert "Experiment step: 108 out of 108" in done.stdout
    assert "3 --batch_size=3 b zz-32" in done.stdout
    (entry,) = (home.cm_repos / "repos" / "local" / "experiment").iterdir()
    found = json.loads(cm("find", "experiment", "--tags=test", "--out=json").ok().stdout)
    assert found["return"] == 0
    (results,) = entry.glob("*/cm-result.json")
    rows = json.loads(results.read_text(encoding="utf-8"))
    assert len(rows) == 108
    assert (results.parent / rows[0]["uid"] / "cm-input.json").is_file()


def test_scripts_in_a_command_and_what_they_leave(cm: Cm, world: Path, home: Home) -> None:
    script = "cm run script --tags=measure,nothing --threads=1 --quiet"
    made = "import json; json.dump({'a': {'b': {{S}}}}, open('cm-result.json', 'w'))"
    done = cm(
        *("run", "experiment", "mine", "--tags=a,b", "--"),
        *("bash", "-c", f"{script} --size={{{{S{{[1,2]}}}}}}; cd {{{{CD}}}}"),
    ).ok()
    assert done.stdout.count("Experiment step:") == 2
    assert sorted(_lines(world)) == ["1,1", "2,1", "prepared"]
    again = cm("run", "experiment", "mine", "--explore.S=[5,6]", "--", "python3", "-c", made)
    rows = _rows(home)
    assert again.status == 0, again.stderr
    assert [row.get("a.b") for row in rows][-2:] == [5, 6]


def _lines(world: Path) -> list[str]:
    return (world / "count").read_text(encoding="utf-8").split()


def _rows(home: Home) -> list[dict[str, object]]:
    place = home.cm_repos / "repos" / "local" / "experiment" / "mine"
    found: list[dict[str, object]] = []
    for path in sorted(place.glob("*/cm-result.json")):
        found += json.loads(path.read_text(encoding="utf-8"))
    return found


def test_a_failed_step_stops_no_other(cm: Cm, home: Home) -> None:
    done = cm("run", "experiment", "mine", "--", "test", "{{X{[1,2,1]}}}", "=", "1")
    assert done.status == 1
    assert "1 of 3 steps failed" in done.stderr
    assert "X=2: exit status 1" in done.stderr
    assert [row.get("error") for row in _rows(home)] == [None, "exit status 1", None]
    assert "nothing to run" in cm("run", "experiment", "--tags=x").stderr


def test_the_lines_of_the_collections_are_understood() -> None:
    line = (
        "cmr script",
        "python app loadgen-generic _onnxruntime",
        "--intraop={{CM_OPT_INTRAOP{[1,2,4]}}}",
        "--interop={{CM_OPT_INTEROP{[1,2,4]}}}",
    )
    found = exploration(line, {})
    assert {name: list(v) for name, v in found.axes.items()} == {
        "CM_OPT_INTRAOP": [1, 2, 4],
        "CM_OPT_INTEROP": [1, 2, 4],
    }
    told = filled(found.command, {"CM_OPT_INTRAOP": "2", "CM_OPT_INTEROP": "4"})
    assert told.endswith('"python app loadgen-generic _onnxruntime" --intraop=2 --interop=4')
    with pytest.raises(Error, match="has no values"):
        exploration(["echo {{NOT}}"], {})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[2**i for i in range(0,6)]", [1, 2, 4, 8, 16, 32]),
        ("[a*b for a in [1,2] for b in range(3) if b]", [1, 2, 2, 4]),
        ("['x', 'y'] + ['z']", ["x", "y", "z"]),
        ("range(3)", [0, 1, 2]),
        ("1 < 2 <= 2 and not 0", True),
    ],
)
def test_expressions(text: str, value: object) -> None:
    assert evaluate(text, {}) == value


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "(1).__class__",
        "open('x')",
        "9**9**9**9",
        "'a'*10**9",
        "[0]*10**9",
        "range(10**9)",
        "[a for a in range(10**5) for b in range(10**5)]",
        "lambda: 1",
        "1/0",
        "(" * 500,
        "x",
    ],
)
def test_expressions_that_are_refused(text: str) -> None:
    with pytest.raises(ExpressionError):
        evaluate(text, {})
