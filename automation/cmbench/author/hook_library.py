"""The reference of what a ``customize.py`` may import, from the sources of these modules."""

from __future__ import annotations

import ast
from importlib.util import find_spec
from pathlib import Path

from cmbench.lib import PUBLIC


def hook_library() -> str:
    """Return the public names by module as Markdown: how each is called, and its docstring."""
    parts = []
    for module, names in PUBLIC.items():
        parts.append(f"## {module}")
        tree = ast.parse(_source_of(module))
        definitions = {
            node.name: node
            for node in tree.body
            if isinstance(node, ast.ClassDef | ast.FunctionDef)
        }
        for name in names:
            node = definitions[name]
            parts.append(f"### {name}")
            parts.append("\n".join(f"    {line}" for line in _usage(node)))
            parts.append(_as_markdown(ast.get_docstring(node) or ""))
    return "\n\n".join(parts)


def _source_of(module: str) -> str:
    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).read_text(encoding="utf-8")


def _usage(node: ast.ClassDef | ast.FunctionDef) -> list[str]:
    """Return the lines that show a call, or the fields of a class without a constructor."""
    if isinstance(node, ast.FunctionDef):
        function, result = node, f" -> {ast.unparse(node.returns)}" if node.returns else ""
    else:
        methods = [item for item in node.body if isinstance(item, ast.FunctionDef)]
        constructor = next((item for item in methods if item.name == "__init__"), None)
        if constructor is None:
            fields = [ast.unparse(item) for item in node.body if isinstance(item, ast.AnnAssign)]
            return [f"{node.name}:", *(f"    {field}" for field in fields)]
        function, result = constructor, ""
    parameters = _parameters(function.args)
    one_line = f"{node.name}({', '.join(parameters)}){result}"
    if len(one_line) <= 90:
        return [one_line]
    return [f"{node.name}(", *(f"    {parameter}," for parameter in parameters), f"){result}"]


def _parameters(arguments: ast.arguments) -> list[str]:
    positional = [argument for argument in arguments.args if argument.arg != "self"]
    defaults = [None] * (len(positional) - len(arguments.defaults)) + list(arguments.defaults)
    words = [_parameter(*pair) for pair in zip(positional, defaults, strict=True)]
    if arguments.vararg:
        words.append(f"*{ast.unparse(arguments.vararg)}")
    elif arguments.kwonlyargs:
        words.append("*")
    named = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return [*words, *(_parameter(*pair) for pair in named)]


def _parameter(argument: ast.arg, default: ast.expr | None) -> str:
    return ast.unparse(argument) + (f" = {ast.unparse(default)}" if default else "")


def _as_markdown(text: str) -> str:
    return text.replace("``", "`")
