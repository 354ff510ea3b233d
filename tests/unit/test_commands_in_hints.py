"""Hints: commands in them are data from where an error is raised to where it is shown."""

from __future__ import annotations

import ast
import json
import pickle
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.problems import Hint, Problem, print_problem, raise_failure, shell_word

ROOT = Path(__file__).parents[2]
SEE = Hint("see: `cm show runs`; or `rm -r 'a b'`")


def test_a_hint_is_the_text_that_is_shown_with_its_commands() -> None:
    assert SEE == "see: cm show runs; or rm -r 'a b'"
    assert SEE.commands == ("cm show runs", "rm -r 'a b'")
    assert Hint("no command").commands == ()
    assert Hint(SEE) is SEE
    assert Hint(SEE.marked).parts == pickle.loads(pickle.dumps(SEE)).parts == SEE.parts


TEXTS = st.text(st.sampled_from("`a /-;\\'\"\n\t\x02\x03\x1aé")) | st.text()


@given(st.lists(st.tuples(TEXTS, TEXTS)), TEXTS)
def test_the_marks_carry_prose_and_commands_of_any_text(
    pairs: list[tuple[str, str]], end: str
) -> None:
    hint = Hint.of_parts([*(part for pair in pairs for part in pair), end])
    again = Hint(hint.marked)
    assert str(again) == str(hint)
    assert again.commands == tuple(command for command in hint.commands if command)
    assert Hint(again.marked).parts == again.parts


@given(TEXTS, TEXTS)
def test_no_value_disturbs_the_commands_of_a_hint(prose: str, word: str) -> None:
    text = f"no {Hint.plain(prose).marked} there; `cm show {shell_word(word)}`, or `cm find runs`"
    assert Hint(text).commands == (f"cm show {shell_word(word)}", "cm find runs")


@pytest.mark.parametrize("path", ["/tmp/a`b", "a`", "a`b`c"])
def test_a_backquote_in_a_path_marks_nothing(path: str) -> None:
    hint = Hint(f"{path}/x is not there; see `ls --path={path}/x` (or `cm find runs`)")
    assert hint.commands == (f"ls --path={path}/x", "cm find runs")


def test_a_program_writes_marks_only_for_a_parent_that_reads_them(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("CM_MARKED_HINTS", raising=False)
    print_problem("bench", Problem("bad-value", "no", SEE))
    assert capfd.readouterr().err == f"bench: no\nnext: {SEE}\n"
    monkeypatch.setenv("CM_MARKED_HINTS", "1")
    print_problem("bench", Problem("bad-value", "no", SEE))
    assert capfd.readouterr().err == f"bench: no\nnext: {SEE.marked}\n"


@pytest.mark.parametrize("text", ["a ` alone", "a`b` c", "` cm `", "``", ""])
def test_marks_without_a_partner_mark_nothing(text: str) -> None:
    assert (str(Hint(text)), Hint(text).commands) == (text, ())


def test_words_of_others_have_no_marks() -> None:
    foreign = Hint.plain("run `make`")
    assert (foreign, foreign.commands) == ("run `make`", ())
    assert Hint.joined(foreign, "", SEE).commands == SEE.commands


def test_a_page_shows_commands_as_such() -> None:
    assert Hint("a<b: `cm <x>`").__html__() == "a&lt;b: <code>cm &lt;x&gt;</code>"


def test_a_hint_passes_the_answer_of_a_program() -> None:
    answer = json.loads(json.dumps(Problem("bad-value", "no", SEE).answer()))
    with pytest.raises(Problem) as caught:
        raise_failure(answer)
    assert caught.value.hint.parts == SEE.parts


# ---- no hint of this project has a command without marks

UNMARKED = re.compile(
    r"(?<![\w`/.-])(?:cm [a-z][a-z-]+ (?:script|cache|experiment|results|crowd|repo|runs)\b"
    r"|(?:sudo|docker|podman) (?!with)[a-z-]+ -|export [A-Z]\w+=|unset [A-Z]|git [a-z]+ -"
    r"|nvidia-smi -|pip (?:un)?install|pip download|bash /|make [a-z]+_[a-z]+\b(?!\.)"
    r"|(?:rm|ls|mkdir|chmod) -)"
)
WORDS = ("hint", "advice", "mend", "remedy")


def _positions(trees: list[ast.Module]) -> dict[str, int]:
    """The position of the hint among the arguments of functions and of classes of failures."""
    found: dict[str, int] = {}
    parents: dict[str, list[str]] = {}
    for node in (node for tree in trees for node in ast.walk(tree)):
        if isinstance(node, ast.ClassDef):
            parents[node.name] = [ast.unparse(base).split(".")[-1] for base in node.bases]
            made = [part for part in node.body if isinstance(part, ast.FunctionDef)]
            for function in made:
                if function.name == "__init__":
                    _note(found, node.name, function)
        elif isinstance(node, ast.FunctionDef) and node.name != "__init__":
            _note(found, node.name, node)
    for _ in range(3):
        for name, bases in parents.items():
            known = [found[base] for base in bases if base in found]
            if known:
                found.setdefault(name, known[0])
    return found


def _note(found: dict[str, int], name: str, function: ast.FunctionDef) -> None:
    names = [argument.arg for argument in function.args.args if argument.arg != "self"]
    for word in set(WORDS) & set(names):
        found.setdefault(name, names.index(word))


def _hints(tree: ast.Module, positions: dict[str, int]) -> Iterator[ast.expr]:
    """Yield what is passed or assigned as a hint, and the constants that it names."""
    named: set[str] = set()
    for node in ast.walk(tree):
        for value in _values(node, positions):
            named |= {part.id for part in ast.walk(value) if isinstance(part, ast.Name)}
            yield value
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) in named:
            yield from [] if _is_command(statement.value) else [statement.value]


def _values(node: ast.AST, positions: dict[str, int]) -> Iterator[ast.expr]:
    if isinstance(node, ast.Call):
        yield from (keyword.value for keyword in node.keywords if keyword.arg in WORDS)
        at = positions.get(ast.unparse(node.func).split(".")[-1], len(node.args))
        yield from node.args[at : at + 1]
    elif isinstance(node, ast.Assign):
        names = [ast.unparse(target).split(".")[-1] for target in node.targets]
        yield from [node.value] if set(WORDS) & set(names) else []


def _is_command(value: ast.expr) -> bool:
    """Whether a constant is a command and nothing else, which a hint puts between marks."""
    return bool(UNMARKED.match(_text(value)))


def _text(value: ast.expr) -> str:
    """The text of a literal; what an f-string fills in is a word."""
    if isinstance(value, ast.JoinedStr):
        return "".join(_text(part) for part in value.values)
    return str(value.value) if isinstance(value, ast.Constant) else "x"


def _literals(value: ast.AST) -> Iterator[ast.expr]:
    if isinstance(value, ast.Constant | ast.JoinedStr):
        yield value
    else:
        yield from (part for child in ast.iter_child_nodes(value) for part in _literals(child))


def unmarked(tree: ast.Module, positions: dict[str, int]) -> Iterator[str]:
    """Yield the commands without marks in the hints of a module."""
    for value in _hints(tree, positions):
        for part in _literals(value):
            prose = "".join(Hint(_text(part)).parts[::2])
            yield from (f"{part.lineno}: {match[0]}" for match in UNMARKED.finditer(prose))


def test_no_hint_has_a_command_without_marks() -> None:
    paths = [
        path for top in ("automation", "lib", "script") for path in ROOT.glob(f"{top}/**/*.py")
    ]
    sources = {path: path.read_text(encoding="utf-8") for path in paths}
    # To parse all modules would take seconds.
    takes_hint = re.compile(rf"\b({'|'.join(WORDS)}): |class \w+(Error|Fault)\b")
    positions = _positions(
        [ast.parse(text) for text in sources.values() if takes_hint.search(text)]
    )
    found = {
        f"{path.relative_to(ROOT)}:{command}"
        for path, text in sources.items()
        if UNMARKED.search(text)
        for command in unmarked(ast.parse(text), positions)
    }
    assert sorted(found) == []


def test_a_command_without_marks_is_found_in_every_form_of_hint() -> None:
    source = """
AGAIN = "again: cm run script --tags=a"
Error("code", "text", hint=f"{x} cm show cache"); Error("code", "text", hint=AGAIN)
Problem("code", "text", "see: cm show cache"); hint = "sudo chown -R me"
Error("code", "cm show cache", hint="see: `cm show cache`")
"""
    found = list(unmarked(ast.parse(source), {"Problem": 2}))
    assert sorted({text.split(": ")[1] for text in found}) == [
        "cm run script",
        "cm show cache",
        "sudo chown -",
    ]
