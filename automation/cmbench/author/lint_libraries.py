"""The checks of what a script uses of the shared code in ``lib``."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress

import cmbench
from cmbench.author.lint import LintedScript, LintFinding, check
from cmbench.author.lint_meta import texts
from cmbench.errors import Error
from cmbench.format.libraries import FOLDER, locate
from cmbench.lib.import_closure import source_of
from cmbench.lib.module_imports import read_imports
from cmbench.lib.text_files import read_or_empty

_MODULE = r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)"
_RUNS_MODULE = re.compile(rf"(?:^|\s)-m\s*[\"']?{_MODULE}", re.MULTILINE)
_IMPORTS_MODULE = re.compile(rf"(?:^|['\";])\s*(?:from|import)\s+{_MODULE}", re.MULTILINE)
_PARTS = re.compile(rf"(?:^|['\";])\s*from\s+{_MODULE}\s+import\s+{_MODULE}", re.MULTILINE)


@check("CMB701", "what a script imports of lib stands under uses")
def imports_are_used(subject: LintedScript) -> Iterator[LintFinding]:
    """An edit of a module that is not named there would leave old results in the cache."""
    used = [dotted for _, _, dotted in _used(subject)]
    for where, name, dotted in _used(subject):
        if not dotted:
            yield LintFinding(f"there is no {name} in lib", where)
    for file, dotted in _imported(subject):
        if not any(_covers(name, dotted) for name in used):
            yield LintFinding(f"{dotted} is imported and missing under uses", "", file, 1)
    yield from _missing_in_shell(subject, used)


def _missing_in_shell(subject: LintedScript, used: list[str]) -> Iterator[LintFinding]:
    for name in subject.shell_names:
        text = subject.text(name)
        for module in _RUNS_MODULE.findall(text):
            if _is_shared(subject, module) and not any(_holds(u, module) for u in used):
                yield LintFinding(f"{module} is started and missing under uses", "", name, 1)
        for module in _imported_in_shell(text):
            if _is_shared(subject, module) and not any(_covers(u, module) for u in used):
                yield LintFinding(f"{module} is imported and missing under uses", "", name, 1)


@check("CMB702", "what stands under uses is imported", house=True)
def uses_are_imported(subject: LintedScript) -> Iterator[LintFinding]:
    """An edit of an unused library would make entries stale for nothing."""
    imported = {dotted for _, dotted in _imported(subject)}
    for name in subject.shell_names:
        text = subject.text(name)
        imported.update([*_RUNS_MODULE.findall(text), *_imported_in_shell(text)])
    for where, name, dotted in _used(subject):
        if dotted and not any(_covers(dotted, other) for other in imported):
            yield LintFinding(f"no program or hook of the script imports {name}", where)


@check("CMB703", "shared code hides no module of Python")
def no_module_is_hidden(subject: LintedScript) -> Iterator[LintFinding]:
    """A program with ``lib`` on its path would import it in place of Python's own, everywhere."""
    for where, name, dotted in _used(subject):
        root = locate(subject.path, name)[0] if dotted else ""
        for file in sorted(os.listdir(root)) if root else ():
            module = file.partition(".")[0]
            if module in sys.stdlib_module_names and source_of(root, module):
                text = f"{FOLDER}/{file} hides Python's module {module}, which others import too"
                yield LintFinding(f"{text}: rename it", where)


def _imported_in_shell(text: str) -> Iterator[str]:
    """Return the modules that Python code in a shell script imports, and the parts of packages."""
    yield from _IMPORTS_MODULE.findall(text)
    yield from (f"{package}.{name}" for package, name in _PARTS.findall(text))


def _used(subject: LintedScript) -> Iterator[tuple[str, str, str]]:
    """Where a name is, the name, and what it is below its root: empty where it is not there."""
    for where, block in subject.blocks():
        for name in map(str, texts(block.get("uses"))):
            dotted = ""
            with suppress(Error):
                dotted = locate(subject.path, name)[1]
            yield f"{where}uses", name, dotted


def _imported(subject: LintedScript) -> Iterator[tuple[str, str]]:
    """The file, and a module or package of ``lib`` that it imports; of a package, the parts."""
    for file in _programs(subject.path):
        source = read_or_empty(os.path.join(subject.path, file)).encode()
        module = read_imports(source, "")
        names = dict.fromkeys([*module.names, *module.texts])
        shared = [name for name in names if _is_shared(subject, name)]
        for name in shared:
            # `from a import b` names both: where b is a module, b is meant.
            if not any(other.startswith(f"{name}.") for other in shared):
                yield file, name


def _programs(path: str) -> Iterator[str]:
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if name not in ("tests", "__pycache__"))
        inner = os.path.relpath(folder, path)
        yield from (os.path.join(inner, n) for n in sorted(names) if n.endswith(".py"))


def _is_shared(subject: LintedScript, dotted: str) -> bool:
    """Return whether ``dotted`` is in ``lib``, and its first part no module of the script's own."""
    top = dotted.partition(".")[0]
    beside = (f"{top}.py", f"src/{top}.py", top, f"src/{top}")
    if any(os.path.exists(os.path.join(subject.path, name)) for name in beside):
        return False
    own = os.path.join(subject.repository, FOLDER)
    return any(source_of(root, dotted) for root in (own, cmbench.LIBRARIES))


def _holds(used: str, dotted: str) -> bool:
    return dotted == used or dotted.startswith(f"{used}.")


def _covers(used: str, dotted: str) -> bool:
    """Whether ``used`` counts for an import of ``dotted``, as it does for packages above itself."""
    return _holds(used, dotted) or used.startswith(f"{dotted}.")
