"""The imports of a Python module, read from its source without running it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from cmbench.values import immutable

_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+\.?")
_OF_PROGRAM = re.compile(r"(?:^|\s)-m\s+([A-Za-z_][\w.]*)")
_FILES_OF_ITSELF = frozenset(("__file__", "__path__", "resources", "get_data", "PackageLoader"))
_RESOURCES = ("importlib.resources", "importlib_resources")
_IMPORTERS = frozenset(("import_module", "__import__", "run_module", "find_spec"))


@immutable(frozen=True, slots=True, eq=False, repr=False)
class ModuleImports:
    """What one module imports.

    ``names`` are those of import statements (``from a import b`` counts as ``a`` and ``a.b``),
    ``texts`` names in strings. ``opens_own_files`` says whether the module can open files next to
    itself.
    """

    names: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    opens_own_files: bool = False


def read_imports(source: bytes, package: str) -> ModuleImports:
    """Return what the ``source`` of a module of ``package`` may import.

    Imports for a type checker alone are left out. Of a module with a syntax error, which may be
    the syntax of another Python, everything in the top package counts as imported.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return ModuleImports(texts=(package.partition(".")[0],), opens_own_files=True)
    names: dict[str, None] = {}
    texts: dict[str, None] = {}
    opens_own_files = False
    for node in _run_time_nodes(tree):
        if isinstance(node, ast.Import):
            names.update((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.update((name, None) for name in _imported_from(node, package))
        texts.update((text, None) for text in _named_in_strings(node))
        opens_own_files = opens_own_files or _name_of(node) in _FILES_OF_ITSELF
    opens_own_files = opens_own_files or any(name.startswith(_RESOURCES) for name in names)
    return ModuleImports(tuple(names), tuple(texts), opens_own_files)


def _named_in_strings(node: ast.AST) -> Iterator[str]:
    """Yield the names of modules in a string, in the call of an importer or after ``-m``."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        if _DOTTED.fullmatch(node.value):
            yield node.value.rstrip(".")
        yield from _OF_PROGRAM.findall(node.value)
    elif isinstance(node, ast.Call) and _name_of(node.func) in _IMPORTERS:
        yield from (_text(argument) for argument in node.args[:1])
    elif isinstance(node, ast.List | ast.Tuple):
        pairs = zip(node.elts, node.elts[1:], strict=False)
        yield from (_text(after) for option, after in pairs if _text(option) == "-m")


def _text(node: ast.AST) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _run_time_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield all nodes but docstrings, and those below ``if TYPE_CHECKING:``."""
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        yield node
        if isinstance(node, ast.If) and _name_of(node.test) == "TYPE_CHECKING":
            pending += node.orelse
        elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            pending += ast.iter_child_nodes(node)


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
