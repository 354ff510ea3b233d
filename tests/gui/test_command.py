"""From a form to a command and back: the same choice, whatever was chosen, of every script."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cmind.cli import parse as parsed_by_cmind
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cmbench import api
from cmbench.errors import Error
from cmbench.session.workspace import Workspace
from cmbench_gui import command
from cmbench_gui.command import Choice
from support import ROOT

SCRIPTS = sorted(path.parent.name for path in ROOT.glob("script/*/meta.yaml"))


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return Workspace.open(str(tmp_path_factory.mktemp("home")), [str(ROOT)])


# What a field can hold: no line ends, and no blanks around it.
TEXT = st.text(
    st.characters(blacklist_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1, max_size=20
).map(str.strip)
WORD = st.from_regex(r"[A-Za-z][A-Za-z0-9_]{0,8}", fullmatch=True)


def values(spec: Any) -> st.SearchStrategy[str]:
    fixed = [c for c in spec.choices if not c.endswith(".#")] or [spec.default or "7"]
    return st.one_of(st.sampled_from(fixed), TEXT)


def as_bash_reads(text: str) -> list[str]:
    """The words that bash makes of a command line."""
    told = "cm() { printf '%s\\0' cm \"$@\"; }\n" + text
    return subprocess.run(
        ["bash", "-c", told], check=True, capture_output=True, text=True
    ).stdout.split("\0")[:-1]


@pytest.mark.parametrize("alias", SCRIPTS)
@settings(max_examples=8, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_form_command_parse_form_is_the_identity(
    workspace: Workspace, alias: str, data: st.DataObject
) -> None:
    script = api.show(workspace, name=alias)
    fields: list[tuple[str, str]] = []
    for name in script.variations:
        if data.draw(st.booleans(), label=name):
            head, dynamic, _ = name.partition(".#")
            fields.append((f"_{head}", data.draw(WORD)) if dynamic else ("tags", f"_{name}"))
    inputs = [spec for spec in script.inputs.values() if data.draw(st.booleans(), label=spec.name)]
    fields += [(spec.name, data.draw(values(spec))) for spec in inputs]
    fields += [(flag, "yes") for flag in ("quiet", "offline") if data.draw(st.booleans())]
    groups = data.draw(st.lists(st.sampled_from(["env", "adr.python", "const"]), unique=True))
    fields += [("more", f"--{group}.{data.draw(WORD)}={data.draw(TEXT)}") for group in groups]
    choice = command.choice_of(script, fields)

    words = command.words_of(choice, script, workspace)
    for text in (command.in_bash(words), shlex.join(words)):
        assert command.parse(text, workspace).choice == choice
    # The link restores it as well, and so does the file.
    assert command.choice_of(script, choice.query()) == choice


def test_what_is_copied_means_the_same_in_each_form(workspace: Workspace, tmp_path: Path) -> None:
    import yaml

    script = api.show(workspace, name="run-mlperf-inference-app")
    flags = {
        "model": "bert-99",
        "hw_name": 'it\'s 7, "new" & $HOME',
        "env.A": "x y",
        "quiet": "yes",
    }
    words = command.words_of(Choice(script.alias, ("tiny",), flags), script, workspace)
    wanted = {k: v for k, v in parsed_by_cmind(words[1:])["cm_input"].items() if k != "cmd"}
    assert wanted["env"] == {"A": "x y"}
    assert wanted["hw_name"] == flags["hw_name"]

    assert as_bash_reads(command.in_bash(words)) == words
    assert as_bash_reads(command.in_container(words)) == ["cm", "docker", *words[2:]]
    file = yaml.safe_load(command.in_yaml(words))
    assert {**file, "action": "run", "automation": "script"} == wanted

    asked: dict[str, Any] = {}

    class Api:
        Workspace = Workspace

        @staticmethod
        def request(_: Any, **given: Any) -> None:
            asked.update(given)

        @staticmethod
        def run(*_: Any, **__: Any) -> None:
            pass

    source = command.in_python(words).replace("from cmbench import api", "")
    exec(source.replace("Workspace.open()", "Workspace"), {"api": Api})
    assert {**asked, "action": "run", "automation": "script"} == wanted


def test_powershell_quotes_what_it_would_split() -> None:
    words = ["cm", "run", "script", "--tags=a,b", "--x=it's", "--quiet"]
    shown = command.in_powershell(words)
    assert shown == "cm run script '--tags=a,b' `\n  '--x=it''s' `\n  --quiet"


@pytest.mark.parametrize(
    "text",
    [
        "cm run script --tags=run-mlperf,inference,_tiny --model=bert-99",
        'cm run script "run-mlperf inference _tiny" --model=bert-99',
        "$ cm run script --tags=run-mlperf,inference,_tiny \\\n    --model=bert-99",
        "> cm run script '--tags=run-mlperf,inference,_tiny' `\r\n  --model=bert-99",
        "cmr 'run-mlperf inference _tiny' --model=bert-99",
        "cm docker script run-mlperf-inference-app --tags=_tiny -model=bert-99",
    ],
)
def test_commands_as_people_paste_them(workspace: Workspace, text: str) -> None:
    parsed = command.parse(text, workspace)
    assert parsed.choice == Choice("run-mlperf-inference-app", ("tiny",), {"model": "bert-99"})
    assert all(word.meaning and not word.problem for word in parsed.words)


def test_each_word_that_is_wrong_says_why(workspace: Workspace) -> None:
    text = (
        "cm run script --tags=run-mlperf,inference,_tinny --modle=x --device=tpu --threads=many"
        " --envv.A=1 --quiet"
    )
    wrong = {word.word: word.problem for word in command.parse(text, workspace).words}
    assert 'did you mean "tiny"' in wrong["_tinny"]
    assert '"model"' in wrong["--modle=x"]
    assert "choose one of: cpu, " in wrong["--device=tpu"]
    assert "not a number" in wrong["--threads=many"]
    assert "no group" in wrong["--envv.A=1"]
    assert not wrong["--quiet"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "runs a script"),
        ("rm -rf /", "runs a script"),
        ("cm rm cache --all", "runs a script"),
        ("cm run script", "no script is named"),
        ("cm run script --tags=get,python3 'x", "cannot be read"),
        ("cm run script --tags=get,python3 @/etc/passwd", "not read here"),
        ("cm run script --tags=get,python3 --env=a --env.B=c", "alone and a group"),
        ("cm run script --tags=no,such,thing", "no script"),
        ("cm run script --tags=get,python3 'a\nb'", "line break"),
        ("cm run script --tags=detect,os ; rm x", "one name"),
    ],
)
def test_what_is_no_command_of_ours_is_refused(workspace: Workspace, text: str, told: str) -> None:
    with pytest.raises(Error, match=told):
        command.parse(text, workspace)
