"""Small expressions of sweep files and of ``{{VAR{...}}}``: values, never code.

A part of Python's expressions: numbers, texts, lists, comparisons, ``and``/``or``/``not``,
arithmetic, ``range(...)`` and comprehensions. Nothing else can be said in them.
"""

from __future__ import annotations

import ast
import itertools
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any

LONGEST = 2_000
MOST = 100_000
"""So many values an expression may have, and so large the result of a power may be in bits."""


class ExpressionError(ValueError):
    """An expression that cannot be understood or computed; the text says why."""


def names_in(text: str) -> set[str]:
    """The names that an expression asks for; raises ``ExpressionError``."""
    tree = _parsed(text)
    bound = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and _is_target(n)}
    used = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and not _is_target(n)}
    dotted = {ast.unparse(n) for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
    heads = {name.partition(".")[0] for name in dotted}
    return {*(used - bound - _CALLS.keys() - heads), *dotted}


def evaluate(text: str, names: Mapping[str, Any]) -> Any:
    """The value of an expression in which ``names`` have these values.

    Raises ``ExpressionError``.
    """
    try:
        return _value(_parsed(text), names)
    except ExpressionError:
        raise
    except (TypeError, ValueError, ArithmeticError, LookupError, RecursionError) as problem:
        raise ExpressionError(f"{text}: {problem}") from None


def _is_target(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)


def _parsed(text: str) -> ast.expr:
    if len(text) > LONGEST:
        raise ExpressionError(f"an expression of {len(text)} characters is too long")
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as problem:
        reason = getattr(problem, "msg", "") or str(problem)
        raise ExpressionError(f"{text}: {reason}") from None


def _value(node: ast.expr, names: Mapping[str, Any]) -> Any:
    for kind, do in _KINDS.items():
        if isinstance(node, kind):
            return do(node, names)
    raise ExpressionError(f"{ast.unparse(node)} is not possible here")


def _constant(node: ast.Constant, names: Mapping[str, Any]) -> Any:
    return node.value


def _name(node: ast.Name | ast.Attribute, names: Mapping[str, Any]) -> Any:
    name = ast.unparse(node)
    if name in names:
        return names[name]
    raise ExpressionError(f"there is no {name}; there are: {', '.join(map(str, names)) or 'none'}")


def _list(node: ast.List | ast.Tuple, names: Mapping[str, Any]) -> list[Any]:
    return [_value(each, names) for each in node.elts]


def _unary(node: ast.UnaryOp, names: Mapping[str, Any]) -> Any:
    return _UNARY[type(node.op)](_value(node.operand, names))


def _binary(node: ast.BinOp, names: Mapping[str, Any]) -> Any:
    left, right = _value(node.left, names), _value(node.right, names)
    do = _BINARY.get(type(node.op))
    if do is None:
        raise ExpressionError(f"{ast.unparse(node)} is not possible here")
    _check_size(node.op, left, right)
    return do(left, right)


def _check_size(op: ast.operator, left: Any, right: Any) -> None:
    """Refuse what would fill the memory: large powers, repeated texts and lists."""
    power = isinstance(op, ast.Pow) and isinstance(left, int) and isinstance(right, int)
    if power and left.bit_length() * abs(right) > 4096:
        raise ExpressionError("a power is too large")
    texts = isinstance(left, str | list) or isinstance(right, str | list)
    if texts and isinstance(op, ast.Mult | ast.Mod):
        raise ExpressionError("texts and lists cannot be multiplied")


def _bools(node: ast.BoolOp, names: Mapping[str, Any]) -> Any:
    wants_all = isinstance(node.op, ast.And)
    for each in node.values:
        found = _value(each, names)
        if bool(found) != wants_all:
            return found
    return found


def _compare(node: ast.Compare, names: Mapping[str, Any]) -> bool:
    left = _value(node.left, names)
    for op, each in zip(node.ops, node.comparators, strict=True):
        right = _value(each, names)
        if not _COMPARE[type(op)](left, right):
            return False
        left = right
    return True


def _call(node: ast.Call, names: Mapping[str, Any]) -> Any:
    name = ast.unparse(node.func)
    if name not in _CALLS or node.keywords:
        raise ExpressionError(f"{name}() is not possible here; {', '.join(_CALLS)} are")
    return _CALLS[name](*[_value(each, names) for each in node.args])


def _range(*args: int) -> list[int]:
    found = range(*args)
    if len(found) > MOST:
        raise ExpressionError(f"{len(found)} values are too many")
    return list(found)


def _comprehension(node: ast.ListComp, names: Mapping[str, Any]) -> list[Any]:
    scopes = _scopes(node.generators, dict(names))
    found = [_value(node.elt, scope) for scope in itertools.islice(scopes, MOST + 1)]
    if len(found) > MOST:
        raise ExpressionError(f"more than {MOST:,} values are too many")
    return found


def _scopes(left: list[ast.comprehension], names: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    if not left:
        yield names
        return
    first, *others = left
    if not isinstance(first.target, ast.Name):
        raise ExpressionError("a loop of an expression has one name")
    for each in _value(first.iter, names):
        scope = {**names, first.target.id: each}
        if all(_value(condition, scope) for condition in first.ifs):
            yield from _scopes(others, scope)


_CALLS: Mapping[str, Callable[..., Any]] = {
    "range": _range,
    "list": list,
    "len": len,
    "int": int,
    "float": float,
    "str": str,
    "round": round,
    "min": min,
    "max": max,
    "abs": abs,
}
_UNARY: Mapping[type, Callable[[Any], Any]] = {
    ast.Not: operator.not_,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}
_BINARY: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_COMPARE: Mapping[type, Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}
_KINDS: Mapping[Any, Callable[[Any, Mapping[str, Any]], Any]] = {
    ast.Constant: _constant,
    (ast.Name, ast.Attribute): _name,
    (ast.List, ast.Tuple): _list,
    ast.UnaryOp: _unary,
    ast.BinOp: _binary,
    ast.BoolOp: _bools,
    ast.Compare: _compare,
    ast.Call: _call,
    ast.ListComp: _comprehension,
}
