"""Small expressions of sweep files and of ``{{VAR{...}}}``: values, never code.

A part of Python's expressions: numbers, texts, lists, comparisons, ``and``/``or``/``not``,
arithmetic, ``range(...)`` and comprehensions. Nothing else can be said in them.
"""

from __future__ import annotations

import ast
import itertools
import keyword
import operator
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any

MAX_CHARACTERS = 2_000
MAX_VALUES = 100_000
"""The most values of a list in an expression."""
MAX_STEPS = 2_000_000
"""The most steps of an evaluation: nodes visited, and values made."""


class ExpressionError(ValueError):
    """An expression that cannot be understood or computed; the text says why."""


class _Scope(dict[str, Any]):
    """Names with their values, and the budget of steps, which inner scopes share."""

    def __init__(self, names: Mapping[str, Any], left: list[int]) -> None:
        super().__init__(names)
        self._left = left

    def spend(self, steps: int) -> None:
        """Count ``steps``; raises ``ExpressionError`` where they are too many."""
        self._left[0] -= steps
        if self._left[0] < 0:
            raise ExpressionError("an expression is too expensive")

    def inner(self, name: str, value: Any) -> _Scope:
        """Return the same with one more name."""
        return _Scope({**self, name: value}, self._left)


def referenced_names(text: str) -> set[str]:
    """Return the names that an expression uses; raise ``ExpressionError``."""
    tree = _parsed(text)
    bound = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and _is_target(n)}
    used = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and not _is_target(n)}
    dotted = {ast.unparse(n) for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
    heads = {name.partition(".")[0] for name in dotted}
    quoted = {name for n in ast.walk(tree) if (name := _quoted(n)) is not None}
    return {*(used - bound - _CALLS.keys() - heads - {_AXIS}), *dotted, *quoted}


_AXIS = "axis"


def reference_to(name: str) -> str:
    """Return a name as an expression writes it: ``axis('adr.a-b.c')`` if it is not Python's."""
    plain = all(part.isascii() and part.isidentifier() for part in name.split("."))
    has_keyword = any(keyword.iskeyword(part) for part in name.split("."))
    return name if plain and not has_keyword else f"{_AXIS}({name!r})"


def _quoted(node: ast.AST) -> str | None:
    """Return the name in ``axis('NAME')``; ``None`` for anything else."""
    if not (isinstance(node, ast.Call) and ast.unparse(node.func) == _AXIS):
        return None
    first = node.args[0] if len(node.args) == 1 else None
    text = first.value if isinstance(first, ast.Constant) else None
    return text if isinstance(text, str) else None


def evaluate(text: str, names: Mapping[str, Any]) -> Any:
    """Return the value of an expression in which ``names`` have these values.

    Raises ``ExpressionError``.
    """
    try:
        return _value(_parsed(text), _Scope(names, [MAX_STEPS]))
    except ExpressionError:
        raise
    except (TypeError, ValueError, ArithmeticError, LookupError, RecursionError) as problem:
        raise ExpressionError(f"{_short(text)}: {problem}") from None


def _short(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:79]}…"


def _is_target(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)


@lru_cache(maxsize=256)
def _parsed(text: str) -> ast.expr:
    if len(text) > MAX_CHARACTERS:
        raise ExpressionError(f"an expression of {len(text)} characters is too long")
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as problem:
        reason = getattr(problem, "msg", "") or str(problem)
        offset = getattr(problem, "offset", None)
        where = f" at character {offset}" if offset else ""
        raise ExpressionError(f"{_short(text.strip())}: {reason}{where}") from None


def _value(node: ast.expr, names: _Scope) -> Any:
    names.spend(1)
    for kind, do in _KINDS.items():
        if isinstance(node, kind):
            return do(node, names)
    raise ExpressionError(f"{ast.unparse(node)} is not possible here")


def _constant(node: ast.Constant, names: _Scope) -> Any:
    return node.value


def _name(node: ast.Name | ast.Attribute, names: _Scope) -> Any:
    return _known(ast.unparse(node), names)


def _known(name: str, names: _Scope) -> Any:
    if name in names:
        return names[name]
    raise ExpressionError(f"there is no {name}; there are: {', '.join(map(str, names)) or 'none'}")


def _list(node: ast.List | ast.Tuple, names: _Scope) -> list[Any]:
    return [_value(element, names) for element in node.elts]


def _unary(node: ast.UnaryOp, names: _Scope) -> Any:
    return _operator(_UNARY, node.op, node)(_value(node.operand, names))


def _operator(table: Mapping[type, Callable[..., Any]], op: ast.AST, node: ast.expr) -> Any:
    if type(op) not in table:
        raise ExpressionError(f"{ast.unparse(node)} is not possible here")
    return table[type(op)]


def _binary(node: ast.BinOp, names: _Scope) -> Any:
    left, right = _value(node.left, names), _value(node.right, names)
    do = _operator(_BINARY, node.op, node)
    _check_size(node.op, left, right)
    return _charged(do(left, right), names)


def _check_size(op: ast.operator, left: Any, right: Any) -> None:
    """Refuse what would fill the memory: large powers, repeated texts and lists."""
    power = isinstance(op, ast.Pow) and isinstance(left, int) and isinstance(right, int)
    if power and left.bit_length() * abs(right) > 4096:
        raise ExpressionError("a power is too large")
    texts = isinstance(left, str | list) or isinstance(right, str | list)
    if texts and isinstance(op, ast.Mult | ast.Mod):
        raise ExpressionError("texts and lists cannot be multiplied")


def _bools(node: ast.BoolOp, names: _Scope) -> Any:
    wants_all = isinstance(node.op, ast.And)
    for operand in node.values:
        value = _value(operand, names)
        if bool(value) != wants_all:
            return value
    return value


def _compare(node: ast.Compare, names: _Scope) -> bool:
    left = _value(node.left, names)
    for op, comparator in zip(node.ops, node.comparators, strict=True):
        right = _value(comparator, names)
        if not _operator(_COMPARE, op, node)(left, right):
            return False
        left = right
    return True


def _call(node: ast.Call, names: _Scope) -> Any:
    if (quoted := _quoted(node)) is not None:
        return _known(quoted, names)
    name = ast.unparse(node.func)
    if name not in _CALLS or node.keywords:
        raise ExpressionError(f"{name}() is not possible here; {', '.join(_CALLS)} are")
    return _charged(_CALLS[name](*[_value(argument, names) for argument in node.args]), names)


def _charged(value: Any, names: _Scope) -> Any:
    """Charge the length of a list or text to the step budget; return the value."""
    names.spend(len(value) if isinstance(value, list | str) else 0)
    return value


def _range(*args: int) -> list[int]:
    numbers = range(*args)
    if len(numbers) > MAX_VALUES:
        raise ExpressionError(f"{len(numbers)} values are too many")
    return list(numbers)


def _comprehension(node: ast.ListComp, names: _Scope) -> list[Any]:
    scopes = _scopes(node.generators, names)
    values = [_value(node.elt, scope) for scope in itertools.islice(scopes, MAX_VALUES + 1)]
    if len(values) > MAX_VALUES:
        raise ExpressionError(f"more than {MAX_VALUES:,} values are too many")
    return values


def _scopes(left: list[ast.comprehension], names: _Scope) -> Iterator[_Scope]:
    if not left:
        yield names
        return
    first, *others = left
    if not isinstance(first.target, ast.Name):
        raise ExpressionError("a loop in an expression has exactly one name")
    for item in _value(first.iter, names):
        names.spend(1)
        scope = names.inner(first.target.id, item)
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
_KINDS: Mapping[type | tuple[type, ...], Callable[[Any, _Scope], Any]] = {
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
