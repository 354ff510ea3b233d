"""Command lines of CM's own experiments, as its collections write them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from cmbench.errors import Error
from cmbench_sweep.explore import exploration
from cmbench_sweep.expressions import ExpressionError, evaluate
from support import Finished, Home, run

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


SCC = """cm run experiment --tags=tuning,mlperf,bert,deepsparse,cpu,batch-size -- \\
     cmr "run mlperf inference generate-run-cmds _submission _short" \\
           --model=bert-99 \\
           --adr.implementation.max_batchsize="{{BATCH_SIZE{[8,16,32,64,128,256,192,384]}}}" \\
           --submission_dir="{{CM_EXPERIMENT_PATH3}}/output" \\
           --clean"""
LLAMA = (
    'cm run experiment --tags=loadgen,python,llama2 -- cmr script "python app loadgen-generic'
    ' _onnxruntime _cuda _custom _huggingface _model-stub.steerapi/Llama-2-7b-chat-hf-onnx-awq-w8"'
    " --samples=2 --intraop={{CM_OPT_INTRAOP{[1,2,4]}}} --interop={{CM_OPT_INTEROP{[1,2,4]}}}"
    " --quiet"
)
VERBATIM = [
    ('cme --tags=my,experiment,hello-world -- echo "Hello World!"', 1, "Hello World!"),
    ('cm run experiment local: --tags=my,hello-world -- echo "Hello World!"', 1, "Hello World!"),
    ("cme --tags=my,experiment -- echo {{CD}}", 1, "{world}"),
    ("cm run experiment --tags=test @test_input.json -- {{CD}}/test_run.sh", 36, "3 32 b"),
    ("cm run experiment --tags=test @test_input.yaml -- {{CD}}/test_run.sh", 36, "3 32 b"),
    (
        """cm run experiment --tags=test @test_input.yaml -- echo \
        "\\${VAR1} --batch_size={{VAR1}} {{VAR2}} {{VAR4{['xx','yy','zz']}}}-\\${VAR3}\"""",
        108,
        "3 --batch_size=3 b zz-32",
    ),
    (
        """cm run experiment --tags=xyz @test_input.yaml -- echo %%VAR1%% {{VAR1}} {{VAR2}} \\
        {{VAR4{['xx','yy','zz']}}}-%%VAR3%% {{CM_EXPERIMENT_PATH3}}""",
        108,
        "%%VAR1%% 3 b zz-%%VAR3%% {world}",
    ),
    (
        'cm run experiment --tags=tuning,batch_size -- echo "--batch_size={{VAR1{range(1,8)}}}"',
        7,
        "--batch_size=7",
    ),
    (LLAMA, 9, "--samples=2 --intraop=4 --interop=4 --quiet"),
    (SCC, 8, "--adr.implementation.max_batchsize=384 --submission_dir={world}"),
]


@pytest.mark.parametrize(("line", "steps", "told"), VERBATIM)
def test_lines_of_the_collections_as_they_are_typed(
    world: Path, home: Home, line: str, steps: int, told: str
) -> None:
    (world / "test_input.yaml").write_text("\ufeff" + VARIABLES, encoding="utf-8")
    read = {"VAR1": [1, 2, 3], "VAR2": ["a", "b"], "VAR3": "[2**i for i in range(0,6)]"}
    (world / "test_input.json").write_text(json.dumps({"explore": read}), encoding="utf-8")
    tools = world / "tools"
    tools.mkdir()
    # The scripts of other collections are not here: what each step would run is shown.
    for path, text in (
        (world / "test_run.sh", "echo $VAR1 $VAR3 $VAR2"),
        (tools / "cmr", 'echo "$@"'),
    ):
        path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        path.chmod(0o755)
    env = home.environment()
    env["PATH"] = f"{tools}:{env['PATH']}"
    done = run(["bash", "-c", line], cwd=world, env=env).ok()
    assert f"Experiment step: {steps} out of {steps}" in done.stdout
    assert told.format(world=world) in done.stdout


def test_a_recorded_line_is_run_again(cm: Cm, home: Home) -> None:
    cm("run", "experiment", "--tags=mine", "--explore.T=[1]", "--", "echo", "x{{T}} y").ok()
    again = cm("replay", "experiment", "--tags=mine").ok()
    assert "x1 y" in again.stdout
    (entry,) = (home.cm_repos / "repos" / "local" / "experiment").iterdir()
    assert len(list(entry.glob("*/cm-result.json"))) == 2
    assert "[sweep-not-found]" in cm("replay", "experiment", "--tags=other").stderr
    assert "[sweep-not-found]" in cm("replay", "experiment", "--tags=mine", "--uid=1").stderr


def test_names_that_have_no_values(cm: Cm) -> None:
    with pytest.raises(Error, match="has no values"):
        exploration(["echo {{NOT}}"], {})
    with pytest.raises(Error, match="has no values") as refused:
        exploration(["{{A[1}}-{{B[1}}", "{{A2]}}-{{B[1}}"], {})
    assert "expanded its braces" in str(refused.value.hint)
    cm("run", "script", "script", "measure nothing", "--size=1", "--threads=1").ok()


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


@pytest.mark.parametrize(("text", "character"), [("[1, 2", 1), ("n > $5", 5), (" 2 * )", 5)])
def test_a_mistake_in_an_expression_has_its_position(text: str, character: int) -> None:
    with pytest.raises(ExpressionError, match=rf" at character {character}$"):
        evaluate(text, {"n": 1})
