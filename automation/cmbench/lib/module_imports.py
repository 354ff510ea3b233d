"""The imports of a Python module, read from its source without running it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from cmbench.values import immutable

_MODULE = r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*"
_DOTTED = re.compile(rf"(\.*{_MODULE})\.?(?::\w+)?")
"""A name of a module, and of a class or function in it after a colon."""
_OF_PROGRAM = re.compile(rf"(?:^|\s)-m\s*({_MODULE})")
_IMPORT_LINE = re.compile(rf"(?:^|[;\n])[ \t]*(?:from|import)[ \t]+({_MODULE})")
_FILE_NAME = re.compile(r"[\w.*?\[\]!/+-]{2,100}")
_FILES_OF_ITSELF = frozenset(
    (
        *("__file__", "__path__", "__spec__", "__loader__", "resources", "get_data"),
        *("PackageLoader", "getfile", "getsourcefile"),
    )
)
_RESOURCES = ("importlib.resources", "importlib_resources")
_IMPORTERS = frozenset(("import_module", "__import__", "run_module", "find_spec"))
_OPENERS = frozenset(
    (
        *("files", "get_data", "PackageLoader", "open_text", "open_binary", "read_text"),
        *("read_binary", "resource_filename", "resource_string", "resource_stream"),
    )
)
"""Functions whose first argument is the package whose files they open."""
_LISTERS = frozenset(("iter_modules", "walk_packages"))
_OWN = "."
"""The package of the module itself."""
_OWN_NAMES = ("__package__", "__name__")


@immutable(frozen=True, slots=True, eq=False, repr=False)
class ModuleImports:
    """What one module imports.

    ``names`` are those of import statements (``from a import b`` counts as ``a`` and ``a.b``),
    ``texts`` names in strings, and packages of which the module imports what it lists.
    ``opens_own_files`` says whether the module can open files next to itself; ``opened_next_to``
    are other modules next to which it can. ``file_names`` are its strings that may name such files.
    """

    names: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    opens_own_files: bool = False
    opened_next_to: tuple[str, ...] = ()
    file_names: tuple[str, ...] = ()


def read_imports(source: bytes, package: str) -> ModuleImports:
    """Return what the ``source`` of a module of ``package`` may import.

    Imports for a type checker alone are left out. Of a module with a syntax error, which may be
    the syntax of another Python, everything in the top package counts as imported.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        lines = _IMPORT_LINE.findall(source.decode(errors="replace"))
        return ModuleImports(texts=(package.partition(".")[0], *lines), opens_own_files=True)
    reader = _ImportReader(package)
    for node in _run_time_nodes(tree):
        reader.read(node)
    return reader.imports()


class _ImportReader:
    """Collects the imports of a module of ``package`` from the nodes of its tree."""

    def __init__(self, package: str) -> None:
        self._package = package
        self._names: dict[str, None] = {}
        self._texts: dict[str, None] = {}
        self._file_names: dict[str, None] = {}
        self._meanings: dict[str, str] = {}
        self._anchors: dict[str, None] = {}
        self._opens_own_files = False
        self._lists = False
        self._has_own_path = False

    def read(self, node: ast.AST) -> None:
        """Take one node."""
        self._opens_own_files |= _name_of(node) in _FILES_OF_ITSELF
        self._lists |= _name_of(node) in _LISTERS
        self._has_own_path |= isinstance(node, ast.Name) and node.id in ("__path__", "__file__")
        if isinstance(node, ast.Import):
            self._read_import(node)
        elif isinstance(node, ast.ImportFrom):
            self._read_from(node)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            self._read_text(node.value)
        elif isinstance(node, ast.Call):
            self._read_call(node)
        elif isinstance(node, ast.List | ast.Tuple):
            pairs = zip(node.elts, node.elts[1:], strict=False)
            self._add_texts([_text(after) for option, after in pairs if _text(option) == "-m"])
        elif isinstance(node, ast.Attribute) and node.attr in ("__file__", "__path__"):
            self._anchors[ast.unparse(node.value)] = None

    def imports(self) -> ModuleImports:
        """Return what was read."""
        names = tuple(self._names)
        opens = self._opens_own_files or any(name.startswith(_RESOURCES) for name in names)
        next_to = [self._meaning(anchor) for anchor in self._anchors]
        if self._lists:
            self._add_texts([*next_to, *([_OWN] if self._has_own_path else [])])
        files = tuple(self._file_names) if opens else ()
        return ModuleImports(names, tuple(self._texts), opens, tuple(filter(None, next_to)), files)

    def _read_import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._names[alias.name] = None
            top = alias.name.partition(".")[0]
            self._meanings[alias.asname or top] = alias.name if alias.asname else top

    def _read_from(self, node: ast.ImportFrom) -> None:
        base = _absolute("." * node.level + (node.module or ""), self._package)
        if base:
            self._names[base] = None
        for alias in node.names:
            if alias.name == "*":
                # Of a package, __all__ may name modules.
                self._texts[base] = None
                continue
            name = f"{base}.{alias.name}" if base else alias.name
            self._names[name] = None
            self._meanings[alias.asname or alias.name] = name

    def _read_text(self, text: str) -> None:
        match = _DOTTED.fullmatch(text)
        self._add_texts([match[1]] if match and "." in match[1] else [])
        self._add_texts(_OF_PROGRAM.findall(text))
        if _FILE_NAME.fullmatch(text) and ("." in text or "*" in text):
            self._file_names[text] = None
        elif _IMPORT_LINE.search(text):
            try:
                code = ast.parse(text)
            except (SyntaxError, ValueError):
                return
            for node in ast.walk(code):
                self.read(node)

    def _read_call(self, node: ast.Call) -> None:
        """Take a name in the call of an importer, and the package whose files are opened."""
        function = _name_of(node.func)
        keywords = [keyword.value for keyword in node.keywords if keyword.arg != "package"]
        arguments = [*node.args[:1], *keywords]
        if function in _IMPORTERS:
            for argument in arguments:
                self._add_texts(_imported(argument))
        elif function in _OPENERS and arguments:
            self._add_texts([_text(arguments[0])])
            self._anchors[ast.unparse(arguments[0])] = None

    def _add_texts(self, names: list[str]) -> None:
        for name in names:
            if whole := _absolute(name, self._package):
                self._texts[whole] = None

    def _meaning(self, anchor: str) -> str:
        """Return the module that an expression means; empty where it is none."""
        if anchor in ("__package__", "__name__"):
            return self._package
        first, dot, rest = anchor.partition(".")
        return f"{self._meanings[first]}{dot}{rest}" if first in self._meanings else ""


def _imported(argument: ast.expr) -> list[str]:
    """Return the modules and packages that the argument of an importer names.

    Where it is put together, its start is a package that has them, ``.`` the module's own.
    """
    whole = _text(argument)
    if whole:
        return [whole]
    parts = [node for node in ast.walk(argument) if isinstance(node, ast.Constant | ast.Name)]
    texts = [node.value for node in parts if isinstance(node, ast.Constant)]
    starts = [re.match(rf"\.*(?:{_MODULE})?", text) for text in texts if isinstance(text, str)]
    own = [_OWN for node in parts if isinstance(node, ast.Name) and node.id in _OWN_NAMES]
    return own + [match[0] for match in starts if match and match[0] != "."] + _relative(argument)


def _relative(argument: ast.expr) -> list[str]:
    """Return the package of the module itself if ``argument`` begins with a dot."""
    first: ast.AST = argument
    while isinstance(first, ast.JoinedStr | ast.BinOp | ast.Call | ast.Attribute):
        first = next(ast.iter_child_nodes(first), ast.Pass())
    return [_OWN] if _text(first).startswith(".") else []


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


def _absolute(name: str, package: str) -> str:
    """Return the whole name of a module that ``name`` means in ``package``, with dots before it."""
    rest = name.lstrip(".")
    level = len(name) - len(rest)
    parts = package.split(".") if package else []
    above = parts[: len(parts) - level + 1] if level else []
    return ".".join([*above, *([rest] if rest else [])])


def _name_of(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.name if isinstance(node, ast.alias) else ""
