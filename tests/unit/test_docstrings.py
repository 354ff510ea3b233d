"""Docstrings of public functions that raise one of our errors say so. ruff checks the rest (D)."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from support import ROOT, project_files

PARTS = (
    "automation/",
    "script/app-mlperf-inference/src/",
    "script/generate-mlperf-inference-submission/src/",
)
# Errors of Python itself that say "not this one" to a caller who asks for that.
PLAIN = {"AttributeError", "KeyError", "NotImplementedError"}


def public_functions(node: ast.Module | ast.ClassDef) -> Iterator[ast.FunctionDef]:
    for item in node.body:
        if isinstance(item, ast.ClassDef) and not item.name.startswith("_"):
            yield from public_functions(item)
        elif isinstance(item, ast.FunctionDef) and not item.name.startswith("_"):
            yield item


def errors_raised(function: ast.FunctionDef) -> set[str]:
    """The errors that a function raises: not what it catches, nor its inner functions."""
    found, caught, left = set(), set(PLAIN), list[ast.AST](function.body)
    while left:
        node = left.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            continue
        if isinstance(node, ast.Try) and any(handler.type for handler in node.handlers):
            caught |= {ast.unparse(handler.type) for handler in node.handlers if handler.type}
        if isinstance(node, ast.Raise) and node.exc is not None:
            raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            found.add(raised.attr if isinstance(raised, ast.Attribute) else ast.unparse(raised))
        left += ast.iter_child_nodes(node)
    return {name for name in found if name.endswith("Error")} - caught


def silent(source: str) -> list[tuple[str, int]]:
    """Public functions of a module that raise an error and do not say so, with their lines."""
    return [
        (function.name, function.lineno)
        for function in public_functions(ast.parse(source))
        if errors_raised(function) and "raise" not in (ast.get_docstring(function) or "").lower()
    ]


@pytest.mark.parametrize("part", PARTS)
def test_a_public_function_says_what_it_raises(part: str) -> None:
    found = [
        f"{name}:{line} {function}"
        for path in project_files()
        if (name := path.relative_to(ROOT).as_posix()).startswith(part) and path.suffix == ".py"
        for function, line in silent(path.read_text(encoding="utf-8"))
    ]
    assert found == [], "their docstrings do not say what they raise"


def test_functions_that_are_silent_are_found() -> None:
    source = '''
def says():
    """It works; raises Error where it cannot."""
    raise Error("bad-value", "text")

def silent():
    """It works."""
    raise errors.Error("bad-value", "text")

def hands_on():
    """A function that raises is made."""
    def inner():
        raise Error("bad-value", "text")
    return inner

class Public:
    def method(self):
        raise error_of(1)
    def quiet(self):
        raise HarnessError("text")
    def caught(self):
        try:
            raise HarnessError("text")
        except HarnessError:
            pass
    def _own(self):
        raise HarnessError("text")
'''
    assert silent(source) == [("silent", 6), ("quiet", 19)]
