"""Docstrings of public functions say what they raise, shapes of arrays and units of quantities.

ruff checks that there are docstrings, and their form (D).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache

import pytest

from support import ROOT, project_files

PARTS = ("automation/", "script/")
HOOKS = {"preprocess", "postprocess", "install"}
"""Functions of a customize.py whose name and meaning come from the format."""
RAISES = re.compile(r"\b[Rr]aises?\b|[Ss]ee ``|\b(?:[A-Z]\w*)?Error\b")
# Errors of Python itself that say "not this one" to a caller who asks for that.
PLAIN = {"AttributeError", "KeyError", "NotImplementedError"}


NUMERIC = ("script/",)
"""Where arrays are passed on."""
ARRAY = re.compile(r"\b(Array|ndarray|NDArray)\b")
# ``[n, 4]``, words that tell a shape, or the interface that tells it.
SHAPE = re.compile(r"\[|shape|[Ss]ee ``|batch|row|one (for|per) (each )?sample|side by side")
QUANTITIES = {"timeout", "duration", "interval", "delay", "period", "size", "amount"}
UNIT = re.compile(
    r"(?i)\b(logarithm|ms|ns|s|seconds?|minutes?|bytes?|MB|GB|voxels|pixels|samples|samples/s|share|percent)\b"
    r"|\bmilliseconds\b|\bunits?\b|``unit``|0 (to|and) 1|count|number of| W\b| J\b"
)


def functions_of(source: str) -> list[ast.FunctionDef]:
    """Return the public functions of a module."""
    with suppress(SystemError):
        return list(public_functions(ast.parse(source)))
    # Another thread has parsed in between: CPython 3.11 counts the depth of all together.
    return list(public_functions(ast.parse(source)))


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


def silent(functions: list[ast.FunctionDef]) -> list[tuple[str, int]]:
    """Those of ``functions`` that raise an error and do not say so, with their lines."""
    return [
        (function.name, function.lineno)
        for function in functions
        if errors_raised(function) and not RAISES.search(told(function))
    ]


def told(function: ast.FunctionDef) -> str:
    return ast.get_docstring(function) or ""


def arguments(function: ast.FunctionDef) -> Iterator[tuple[str, str]]:
    """The names and types of what a function takes."""
    for each in [*function.args.args, *function.args.kwonlyargs]:
        yield each.arg, ast.unparse(each.annotation) if each.annotation else ""


def without_shape(functions: list[ast.FunctionDef]) -> list[tuple[str, int]]:
    """Those of ``functions`` that take or give back an array and tell no shape."""
    return [
        (function.name, function.lineno)
        for function in functions
        if ARRAY.search(" ".join([*(kind for _, kind in arguments(function)), given(function)]))
        and not SHAPE.search(told(function))
    ]


def given(function: ast.FunctionDef) -> str:
    return ast.unparse(function.returns) if function.returns else ""


def without_unit(functions: list[ast.FunctionDef]) -> list[tuple[str, int]]:
    """Those of ``functions`` with a time, a size or a figure whose unit no word and no name tells.

    A name such as ``wait_s`` or ``free_bytes`` tells it.
    """
    return [
        (function.name, function.lineno)
        for function in functions
        if (
            (given(function) in ("float", "float | None") and not UNIT.search(spaced(function)))
            or any(
                name in QUANTITIES and kind in ("int", "float")
                for name, kind in arguments(function)
            )
        )
        and not UNIT.search(told(function))
    ]


def spaced(function: ast.FunctionDef) -> str:
    """The name of a function as words."""
    return function.name.replace("_", " ")


RULES = (silent, without_shape, without_unit)


@cache
def violations(part: str) -> dict[Callable[..., object], list[str]]:
    """Return by rule which functions of a part break it; the trees of modules are not kept."""
    broken: dict[Callable[..., object], list[str]] = {rule: [] for rule in RULES}
    for path in project_files():
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(part) or path.suffix != ".py":
            continue
        functions = functions_of(path.read_text(encoding="utf-8"))
        for rule in RULES:
            broken[rule] += [f"{name}:{line} {function}" for function, line in rule(functions)]
    return broken


@pytest.mark.parametrize("part", NUMERIC)
def test_a_public_function_tells_the_shapes_of_arrays(part: str) -> None:
    found = violations(part)[without_shape]
    assert found == [], "their docstrings tell no shape, such as [n, 4], and no interface"


@pytest.mark.parametrize("part", PARTS)
def test_a_public_function_tells_the_units_of_quantities(part: str) -> None:
    found = violations(part)[without_unit]
    assert found == [], "neither their docstrings nor their names tell the unit"


def test_functions_without_shape_or_unit_are_found() -> None:
    source = '''
def boxes(found: Array) -> None:
    """The boxes."""

def corners(found: Array) -> None:
    """The boxes [n, 4]."""

def predict(feeds: dict[str, Array]) -> None:
    """See ``base.Predictor``."""

def wait(timeout: float) -> None:
    """Wait."""

def waited(timeout: float) -> None:
    """Wait for so many seconds."""

def latency() -> float:
    """How long."""

def latency_ms() -> float:
    """How long."""
'''
    functions = functions_of(source)
    assert without_shape(functions) == [("boxes", 2)]
    assert without_unit(functions) == [("wait", 11), ("latency", 17)]


@pytest.mark.parametrize("part", PARTS)
def test_a_public_function_says_what_it_raises(part: str) -> None:
    hooks = tuple(f" {hook}" for hook in HOOKS)
    found = [
        place
        for place in violations(part)[silent]
        if not ("/customize.py:" in place and place.endswith(hooks))
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
    assert silent(functions_of(source)) == [("silent", 6), ("quiet", 19)]
