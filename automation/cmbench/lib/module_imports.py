"""The imports of a Python module, read from its source without running it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from cmbench.values import immutable

_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+\.?")
_FILES_OF_ITSELF = frozenset(("__file__", "resources", "PackageLoader"))


@immutable(frozen=True, slots=True, eq=False, repr=False)
class ModuleImports:
    """What one module imports.

    ``names`` are those of import statements (``from a import b`` counts as ``a`` and ``a.b``),
    ``texts`` dotted names in strings. ``opens_own_files`` says whether the module can open files
    beside itself.
    """

    names: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    opens_own_files: bool = False


def read_imports(source: bytes, package: str) -> ModuleImports:
    """Return what the ``source`` of a module of ``package`` may import.

    Imports for a type checker alone are left out. A module with a syntax error imports nothing:
    whoever runs it reports the error.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return ModuleImports()
    names: dict[str, None] = {}
    texts: dict[str, None] = {}
    opens_own_files = False
    for node in _run_time_nodes(tree):
        if isinstance(node, ast.Import):
            names.update((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.update((name, None) for name in _imported_from(node, package))
        elif isinstance(node, ast.Constant) and _is_dotted(node.value):
            texts[str(node.value).rstrip(".")] = None
        opens_own_files = opens_own_files or _name_of(node) in _FILES_OF_ITSELF
    return ModuleImports(tuple(names), tuple(texts), opens_own_files)


def _run_time_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes but for those below ``if TYPE_CHECKING:``."""
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        yield node
        if isinstance(node, ast.If) and _name_of(node.test) == "TYPE_CHECKING":
            pending += node.orelse
        else:
            pending += ast.iter_child_nodes(node)


def _is_dotted(value: object) -> bool:
    return isinstance(value, str) and _DOTTED.fullmatch(value) is not None


def _imported_from(node: ast.ImportFrom, package: str) -> Iterator[str]:
    parts = package.split(".") if package else []
    above = parts[: len(parts) - node.level + 1] if node.level else []
    base = ".".join([*above, *([node.module] if node.module else [])])
    if base:
        yield base
    for alias in node.names:
        if alias.name != "*":
            yield f"{base}.{alias.name}" if base else alias.name


def _name_of(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.name if isinstance(node, ast.alias) else ""
