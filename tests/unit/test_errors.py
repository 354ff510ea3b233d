"""What a user sees of a failure, whatever stands in its texts."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from cmbench.errors import Error, visible
from cmbench.record import load_record
from common.problems import Hint, shell_word
from common.text import wrapped

FORGED = "a\n  next:   rm -rf ~\x1b[2K\x1b[1A\rerror\x9b2J\u202ex"


@pytest.mark.parametrize("where", ["message", "context", "doing"])
def test_no_text_can_forge_a_line(where: str) -> None:
    texts = {"message": "m", "context": ("c",), "doing": "d"}
    texts[where] = (FORGED,) if where == "context" else FORGED
    shown = Error("bad-value", **texts, hint="the true one").within(FORGED).render()
    assert [line for line in shown.splitlines() if line.startswith("  next:")] == [
        "  next:   the true one"
    ]
    assert not [c for c in shown if c in "\x1b\r\x9b\u202e"]


def test_a_long_text_over_several_lines_stays_readable() -> None:
    assert Error("bad-value", "first\nsecond").render() == "error [bad-value]: first\n    second"


def test_on_a_terminal_no_word_of_the_first_line_is_cut() -> None:
    message = "the script run-mlperf-inference-app has no variation for what was asked, _tinny"
    error = Error("variation-not-found", message)
    assert error.render() == f"error [variation-not-found]: {message}"
    shown = error.render(on_terminal=True).splitlines()
    assert len(shown) == 2
    assert max(map(len, shown)) <= 80
    assert " ".join(line.strip() for line in shown) == error.render()


def test_colours_go_and_other_controls_are_seen() -> None:
    assert visible("\x1b[1;31mred\x1b[0m\tok\x07") == "red\tok\\x07"
    assert visible("a\nb") == "a\nb"
    assert visible("a\nb", lines=False) == "a\\nb"


@pytest.mark.parametrize(
    "path", ["plain.tar", "it's a.tar", "a\nrm -rf x", "$(x) `y` \x1b[2K", "`a` b'", ""]
)
def test_a_path_in_a_hint_is_one_word_of_the_shell_on_one_line(path: str) -> None:
    word = shell_word(path)
    assert word.isprintable()
    told = subprocess.run(["bash", "-c", f"printf %s {word}"], capture_output=True, text=True)
    assert told.stdout == path
    assert word == shlex.quote(path) or not path.isprintable() or "`" in path
    assert Hint(f"see `cat {word}` and `ls`").commands == (f"cat {word}", "ls")


COMMANDS = [
    "cm plan script run-mlperf-inference-app --tags=run-mlperf,inference,_tiny",
    'cm run script "install python-venv" --name=mlperf',
    "cm upload crowd FILE --server=URL",
    "cm show crowd last --file=performance-detail",
    "cm find results",
    "cm run experiment --tags=mine -- cm run script --tags=detect,os",
    "sudo nvidia-ctk runtime configure --runtime=docker && sudo systemctl restart docker",
    "docker load --input FILE",
    "pip install --upgrade 'cmbench[gui]'",
    "/opt/venv/bin/python3.11 -m pip uninstall -y neuronx-cc torch-neuron",
    'git config --global user.name "YOUR NAME"',
    "export CM_REPOS=/path/with/space",
    "make launch_docker DOCKER_COMMAND='make run_harness'",
    "rm -r /a/b /c/d",
    "sbatch --wrap=hostname",
    "nvidia-smi -L",
    "apt-get install -y slurm-wlm munge",
    "python3 -c 'import secrets; print(secrets.token_urlsafe())' > FILE",
]


@pytest.mark.parametrize("mark", ["`", '"', "'"])
def test_a_quoted_command_in_a_message_is_not_parted(mark: str) -> None:
    for before in range(1, 80):
        message = f"{'a ' * before}run {mark}cm find results --plain{mark}, don't wait"
        shown = Error("bad-value", message).render(on_terminal=True)
        assert "cm find results --plain" in shown
        assert " ".join(line.strip() for line in shown.splitlines()[1:]) in message


def test_the_cause_is_shown_as_it_was_printed() -> None:
    line = "To update, run: python -m pip install " + "--more " * 15 + "--end"
    assert Error("bad-value", "no", context=[line]).render(on_terminal=True).endswith(line)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("end", ["", ", or leave it out", "; then again", " (see the guide)"])
def test_a_command_is_never_parted_wherever_it_stands(command: str, end: str) -> None:
    for before in range(1, 80):
        hint = Hint(f"{'a ' * (before // 2)}with `{command}`{end}")
        shown = Error("bad-value", "text", hint=hint).render(on_terminal=True).splitlines()
        assert sum(command in line for line in shown) == 1, "\n".join(shown)
        lines = wrapped(hint, "note: ", " " * 6)
        assert sum(command in line for line in lines) == 1, "\n".join(lines)
        assert " ".join(line.strip() for line in lines) == f"note: {hint}"


def test_a_line_after_a_colon_is_a_command_whatever_it_is() -> None:
    command = f"neuron-ls --json {'--more ' * 15}end"
    assert f" {command}" in Error("bad-value", "no", hint=f"see:\n{command}").render()


@pytest.mark.parametrize(
    ("content", "place", "hint"),
    [
        (b'{\n "run": }', ":2:9: not valid JSON", "correct line 2 of it and try again"),
        (b"\xff", ": not valid UTF-8 text", "save it as UTF-8 text and try again"),
    ],
)
def test_a_file_with_a_fault_names_its_line_and_what_to_do(
    tmp_path: Path, content: bytes, place: str, hint: str
) -> None:
    path = tmp_path / "record.json"
    path.write_bytes(content)
    with pytest.raises(Error) as caught:
        load_record(str(path))
    assert caught.value.code == "bad-value"
    assert caught.value.message.startswith(f"{path}{place}: ")
    assert str(caught.value.hint) == hint
