"""``docs/reference/python-api.md``: its code runs, and the API prints nothing of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cmbench import api
from cmbench.cli import commands
from cmbench.cli.completion import complete
from cmbench.cli.verb import Verb
from cmbench.errors import Error
from lab import Lab
from support import AUTOMATION, ROOT, python_env

PAGE = (ROOT / "docs/reference/python-api.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def test_the_code_of_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"home": str(tmp_path / "CM"), "repository": str(ROOT)}
    for number, block in enumerate(BLOCKS):
        exec(compile(block, f"python-api.md, block {number}", "exec"), names)
    assert len(BLOCKS) > 8
    assert names["ran"].env["CM_PYTHON_BIN_WITH_PATH"]
    assert [step["status"] for step in names["again"].ran.steps][-1] == "cached"
    assert names["again"].differences.keys() <= {"cache"}
    assert "unknown-flag" in capsys.readouterr().out


def test_every_name_of_the_api_is_there_and_only_the_needed_modules_are_loaded() -> None:
    assert all(getattr(api, name) is not None for name in api.__all__)
    assert dir(api) == sorted(api.__all__)
    code = (
        "import sys; from cmbench import api; api.Workspace, api.request;"
        "print([m for m in sys.modules if m.startswith(('cmbench.run', 'cmbench.cli', 'cmind'))])"
    )
    env = python_env(AUTOMATION)
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


@pytest.fixture
def workspace(lab: Lab) -> api.Workspace:
    lab.script(
        "get-x",
        cache=True,
        run="echo hello; echo CM_X=1 > tmp-run-env.out",
        new_env_keys=["CM_X"],
        input_mapping={"level": "CM_LEVEL"},
        input_description={"level": {"desc": "how much", "type": "int"}},
    )
    lab.script("app-x", deps=[{"tags": "get,x", "names": ["x"]}], new_env_keys=["CM_X"])
    return api.Workspace.open(str(lab.home), [str(lab.repo)])


def test_nothing_is_printed(
    workspace: api.Workspace, capfd: pytest.CaptureFixture[str], lab: Lab
) -> None:
    request = api.request(workspace, tags="app,x")
    ran = api.run(api.plan(request))
    api.replay(api.recall(workspace, ran.record))
    lab.script("get-bad", run="exit 3")
    with pytest.raises(Error):
        api.run(api.request(workspace, tags="get,bad"))
    assert capfd.readouterr() == ("", "")


def test_a_home_that_is_a_file_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "CM").write_text("")
    with pytest.raises(Error, match="it is a file") as refused:
        api.Workspace.open(str(tmp_path / "CM"))
    assert refused.value.code == "bad-value"


def test_the_events_of_a_run(workspace: api.Workspace) -> None:
    events: list[api.Event] = []
    api.run(api.request(workspace, tags="app,x", verbose=True), on_event=events.append)
    assert [event.kind for event in events] == [
        *("began", "started", "started", "output", "left", "finished", "left", "finished"),
        "ended",
    ]
    steps = [event.step for event in events if event.kind == "finished" and event.step]
    assert [(step.label, step.depth, step.status) for step in steps] == [
        ("get-x", 1, "done"),
        ("app-x", 0, "done"),
    ]
    assert str(events[3]) == "output hello"


def test_a_failure_is_an_error_with_its_record(workspace: api.Workspace, lab: Lab) -> None:
    lab.script("get-bad", run="echo no such thing; exit 3")
    with pytest.raises(Error) as failed:
        api.run(api.request(workspace, tags="get,bad"))
    assert failed.value.code == "script-failed"
    assert failed.value.chain == ("get-bad",)
    assert api.record(workspace, failed.value.record)["status"] == "failed"


def test_whoever_listens_may_fail_and_the_run_is_recorded(workspace: api.Workspace) -> None:
    def full(event: api.Event) -> None:
        if event.kind == "began":
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        api.run(api.request(workspace, tags="app,x"), on_event=full)
    assert api.record(workspace)["run"]


def test_a_request_knows_what_a_call_on_the_command_line_knows(
    workspace: api.Workspace, lab: Lab
) -> None:
    flags = {"adr": {"x": {"level": "2"}}, "env": {"CM_Y": "1"}}
    ran = api.run(api.request(workspace, "app x", **flags))
    called = lab.run("app,x", **flags)
    assert called.record["flags"] | {"tags": "app,x"} == api.record(workspace, ran.record)["flags"]
    with pytest.raises(Error, match="is not a number"):
        api.request(workspace, "get-x", level="much")


VERB = """
from cmbench.cli.reply import Reply

def greet(command):
    who = command.flags.get("who", "you")
    return Reply({"greeted": who}, f"hello, {who}", {"who": who})
"""


def test_a_verb_is_added_by_one_declaration(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a_place").mkdir()
    (tmp_path / "a_place/__init__.py").write_text("")
    (tmp_path / "a_place/greeting.py").write_text(VERB)
    monkeypatch.syspath_prepend(tmp_path)
    greet = Verb(
        "script",
        "greet",
        "a_place.greeting:greet",
        {"cm greet script --who=NAME": "say hello"},
        {"who=NAME": "to whom"},
        takes=("out", "json"),
    )
    declared = commands.verbs_of
    monkeypatch.setattr(
        commands, "verbs_of", lambda thing: (*declared(thing), *([greet] * (thing == "script")))
    )
    assert lab.call("greet", who="me").out == "hello, me\n"
    assert lab.call("greet", who="me", json=True).out == '{\n "who": "me"\n}\n'
    assert lab.call("greet", whom="me").answer["code"] == "unknown-flag"
    assert "cm greet script --who=NAME" in lab.call("help").out
    assert "--who=NAME" in lab.call("help", help_of="greet").out
    index = api.Workspace.open(str(lab.home), [str(lab.repo)]).index
    assert complete("cm gre", commands.verbs(), index) == ["greet"]
    assert complete("cm greet script --w", commands.verbs(), index) == ["--who="]
