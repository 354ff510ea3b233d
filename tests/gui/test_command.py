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
from cmbench_gui.command import ComposedCommand
from cmbench_gui.composer.fields import form_of
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
    words = command.words_of(ComposedCommand(script.alias, ("tiny",), flags), script, workspace)
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
    assert parsed.choice == ComposedCommand(
        "run-mlperf-inference-app", ("tiny",), {"model": "bert-99"}
    )
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
    assert "no flags --envv" in wrong["--envv.A=1"]
    assert not wrong["--quiet"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "runs a script"),
        ("rm -rf /", "runs a script"),
        ("cm rm cache --all", "runs a script"),
        ("cm run script", "no script is named"),
        ("cm run script --tags=get,python3 'x", "cannot be read"),
        ("cm run script --tags=get,python3 @/etc/passwd", "not supported here"),
        ("cm run script --tags=get,python3 --env=a --env.B=c", "both alone and as a group"),
        ("cm run script --tags=no,such,thing", "no script"),
        ("cm run script --tags=get,python3 'a\nb'", "line break"),
        ("cm run script --tags=detect,os ; rm x", "one name"),
    ],
)
def test_what_is_no_command_of_ours_is_refused(workspace: Workspace, text: str, told: str) -> None:
    with pytest.raises(Error, match=told):
        command.parse(text, workspace)


TWIN = """alias: {alias}
uid: {uid}
automation_alias: script
automation_uid: 5b4e0237da074764
tags: [{tags}]
input_mapping: {{size: CM_SIZE, adr.some-part.tags: CM_PART}}
variations:
  first: {{group: place}}
  second: {{group: place}}
  other.#: {{group: place}}
  rows.#: {{env: {{CM_ROWS: "#"}}}}
{more}
"""


@pytest.fixture
def twins(tmp_path: Path) -> Workspace:
    """Two repositories that have scripts of one alias, and tags that only variations tell apart."""
    for number, name in enumerate(("left", "right")):
        for alias, tags, more in (
            ("same", "is,same", ""),
            ("get-pear", "get,fruit,pear", ""),
            ("get-apple", "get,fruit,apple", "  sweet: {}"),
        ):
            folder = tmp_path / name / "script" / alias
            folder.mkdir(parents=True)
            uid = f"{number}{len(alias):015}"
            text = TWIN.format(alias=alias, uid=uid, tags=tags, more=more)
            (folder / "meta.yaml").write_text(text)
        (tmp_path / name / "cmr.yaml").write_text(f"alias: some@{name}\nuid: {number:016}\n")
    return Workspace.open(str(tmp_path / "CM"), [str(tmp_path / n) for n in ("left", "right")])


@pytest.mark.parametrize("repository", ["left", "right"])
def test_a_script_is_told_apart_from_its_namesake_elsewhere(
    twins: Workspace, repository: str
) -> None:
    script = api.show(twins, name=f"some@{repository}:same")
    choice = command.choice_of(script, [("size", "7")], command.ScriptNames(twins.index).of(script))
    words = command.words_of(choice, script, twins)
    assert words == ["cm", "run", "script", f"some@{repository}:same", "--size=7"]
    assert command.parse(command.in_bash(words), twins).choice == choice
    assert api.show(twins, name=choice.script).path == script.path


def test_a_pasted_command_is_that_of_the_script_which_has_its_variations(twins: Workspace) -> None:
    parsed = command.parse("cm run script --tags=get,fruit,_sweet", twins)
    assert parsed.choice.script == "some@left:get-apple"
    parsed = command.parse("cm run script --tags=get,fruit,_sour", twins)
    assert "no variation _sour" in parsed.words[-1].problem
    parsed = command.parse("cm run script --tags=get,fruit,-_sweet", twins)
    assert "yourself" in parsed.words[-1].problem


def test_the_form_holds_all_that_a_command_says(twins: Workspace) -> None:
    """Names with a dash behind a dot, what no control is made for, and what excludes each other."""
    text = "cm run script --tags=is,same,_first,_second,_other.9,_none --adr.some-part.tags=_x"
    parsed = command.parse(text, twins)
    assert parsed.words[-1].meaning == "sets CM_PART"
    script = api.show(twins, name=parsed.choice.script)
    parts = form_of(script, parsed.choice)
    held = [(field.name, field.value) for part in parts for field in part.fields if field.value]
    again = command.choice_of(script, held, parsed.choice.script)
    assert {*again.variations} == {"first", "second", "other.9", "none"}
    assert again.flags == parsed.choice.flags == {"adr.some-part.tags": "_x"}
    # A member of a group that takes a value can be chosen without a link that has it.
    empty = form_of(script, command.choice_of(script, []))
    assert "_other" in [field.name for part in empty for field in part.fields]


def test_a_value_of_a_variation_has_no_comma(twins: Workspace) -> None:
    script = api.show(twins, name="some@left:same")
    with pytest.raises(Error, match="is not a variation"):
        command.choice_of(script, [("_rows", "1,2")])


@pytest.mark.parametrize(
    "text",
    [
        "mlcr run-mlperf,inference,_tiny --model=bert-99",
        'mlcr "run-mlperf inference _tiny" --model=bert-99   # the small one, isn\'t it',
        "mlcr run-mlperf inference _tiny --model=bert-99",
        "mlc run script --tags=run-mlperf,inference,_tiny --model=bert-99",
        "$ mlcd run-mlperf,inference,_tiny \\\n  --model=bert-99",
    ],
)
def test_commands_of_mlc_are_read_as_ours(workspace: Workspace, text: str) -> None:
    assert command.is_command(text)
    parsed = command.parse(text, workspace)
    assert parsed.choice == ComposedCommand(
        "run-mlperf-inference-app", ("tiny",), {"model": "bert-99"}
    )
    assert parsed.verb == ("docker" if "mlcd" in text else "run")


def test_a_hash_in_quotes_or_in_a_word_is_no_comment(workspace: Workspace) -> None:
    text = "cm run script --tags=detect,os --env.A='b # c' --env.B=d#e # and so on"
    assert command.parse(text, workspace).choice.flags == {"env.A": "b # c", "env.B": "d#e"}
