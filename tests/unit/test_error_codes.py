"""The codes of errors: what the sources raise is registered, and what is registered is raised."""

from __future__ import annotations

import ast
import functools
import re
import sys
from collections.abc import Iterator

import pytest

from cmbench.error_codes import AREAS, CODES, Code
from cmbench.errors import Error
from support import AUTOMATION, ROOT, project_files, python_env, run

# Where the code stands in a call of each class.
PLACES = {
    "Error": (0, "code"),
    "AttemptError": (0, "code"),
    "Problem": (0, "code"),
    "ProgramError": (2, "code"),
    "SubmissionError": (2, "code"),
    "CatalogError": (2, "code"),
}
SOURCES = [
    path
    for path in project_files()
    if path.suffix == ".py" and path.relative_to(ROOT).parts[0] in ("automation", "lib", "script")
]


def raised(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """The codes that a module gives to errors, with their lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            for value in _codes_given(node):
                yield from ((text, value.lineno) for text in _strings(value))
        elif isinstance(node, ast.FunctionDef) and node.name == "__init__":
            yield from ((text, node.lineno) for text in _default_codes(node))


def _codes_given(call: ast.Call) -> Iterator[ast.expr]:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name not in PLACES:
        return
    place, keyword = PLACES[name]
    yield from call.args[place : place + 1]
    yield from (word.value for word in call.keywords if word.arg == keyword)


def _strings(value: ast.expr) -> Iterator[str]:
    """The string, or both of ``a if b else c``; nothing for a code that comes from elsewhere."""
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        yield value.value
    elif isinstance(value, ast.IfExp):
        yield from _strings(value.body)
        yield from _strings(value.orelse)


def _default_codes(function: ast.FunctionDef) -> Iterator[str]:
    arguments = function.args.args
    for argument, value in zip(reversed(arguments), reversed(function.args.defaults), strict=False):
        if argument.arg == "code":
            yield from _strings(value)


@functools.cache
def codes_in_sources() -> dict[str, list[str]]:
    """Code to the places that raise it."""
    found: dict[str, list[str]] = {}
    # To parse all modules would take seconds.
    gives_code = re.compile(rf"\b({'|'.join(PLACES)})\(|\bcode\b[^=\n]*=")
    for path in SOURCES:
        name = path.relative_to(ROOT).as_posix()
        text = path.read_text(encoding="utf-8")
        for code, line in raised(ast.parse(text)) if gives_code.search(text) else ():
            found.setdefault(code, []).append(f"{name}:{line}")
    return found


def test_every_code_that_is_raised_is_registered() -> None:
    assert {code: at for code, at in codes_in_sources().items() if code not in CODES} == {}


def test_every_registered_code_is_raised() -> None:
    assert sorted(set(CODES) - set(codes_in_sources())) == []


def test_codes_are_found_in_every_form_of_call() -> None:
    source = """
Error("a", "text"); errors.Error(code="b"); Error("c" if x else "d", "text"); Error(last.code, "")
SubmissionError("text", "hint", "e"); SubmissionError("text", code="f"); ValueError("no")
class SubmissionError(Exception):
    def __init__(self, text, hint="h", code="g"): ...
"""
    assert {code for code, _ in raised(ast.parse(source))} == set("abcdefg")


def test_names_are_unique_and_in_order() -> None:
    assert sum(map(len, AREAS.values())) == len(CODES)
    for area, codes in AREAS.items():
        assert [code.name for code in codes] == sorted(code.name for code in codes), area


@pytest.mark.parametrize("code", CODES.values(), ids=lambda code: code.name)
def test_a_code_says_what_it_means_and_what_to_do(code: Code) -> None:
    assert code.meaning.endswith(".")
    assert code.remedy.endswith(".")
    assert f"### {code.name}\n" in (ROOT / "docs/reference/errors.md").read_text(encoding="utf-8")


# The exit codes of the first version; callers rely on them.
EXITS = {
    2: "pip-failed script-failed",
    4: "ambiguous bad-meta bad-site bad-sweep bad-value chain-too-long dependency-cycle"
    " unknown-flag unknown-verb",
    16: "entry-not-found not-detected not-registered result-not-found script-not-found"
    " site-not-found sweep-not-found variation-not-found version-not-found",
    130: "interrupted",
}


def test_exit_codes_stay_as_they_are() -> None:
    special = {name: status for status, names in EXITS.items() for name in names.split()}
    assert {name: code.exit_code for name, code in CODES.items()} == {
        name: special.get(name, 1) for name in CODES
    }


def test_a_code_of_another_repository_exits_with_1() -> None:
    assert Error("their-own", "text").exit_code == 1


def test_a_place_may_name_another_exit_code() -> None:
    assert Error("bad-value", "text").exit_code == 4
    assert Error("bad-value", "text", exit_code=7).exit_code == 7


def test_the_command_line_starts_without_the_table() -> None:
    code = "import sys, cmbench.cli.dispatch; print('cmbench.error_codes' in sys.modules)"
    env = python_env(AUTOMATION)
    assert run([sys.executable, "-c", code], env=env).ok().stdout.strip() == "False"
