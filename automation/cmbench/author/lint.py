"""The linter of scripts: a registry of numbered checks, the run over scripts, and safe fixes.

A check is a function from a ``LintedScript`` to its findings, registered with ``@check``. Lines are
looked up only when there is something to report.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from cmbench.errors import Error
from cmbench.format.dialect import dialect_of
from cmbench.format.libraries import locate
from cmbench.format.meta import META_FILES, meta_file, read_meta
from cmbench.format.model import PHASES
from cmbench.index.scripts import Index
from cmbench.lib.text_files import read_or_empty

CHECKS: dict[str, LintCheck] = {}
"""Every check by its number, filled by the decorator below."""


@dataclass(frozen=True, slots=True)
class LintFinding:
    """What a check saw: ``where`` is the dotted path of a key, or ``line`` a line of ``file``."""

    message: str
    where: str = ""
    file: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True)
class LintFault:
    """A fault as users see it: with its check's number, file and line (from 1).

    One that is not ``binding`` is a warning.
    """

    number: str
    path: str
    line: int
    message: str
    fixable: bool
    binding: bool = True

    def __str__(self) -> str:
        level = "" if self.binding else "warning: "
        note = " (--fix corrects it)" if self.fixable else ""
        return f"{self.path}:{self.line}: {level}{self.number} {self.message}{note}"


Fix = Callable[[str], str]
"""From the text of a meta file to its corrected text."""


@dataclass(frozen=True, slots=True)
class LintCheck:
    """A numbered check: its title, and how a finding is fixed where that is safe.

    One of the ``house`` style demands what this format asks of its authors; a script in a foreign
    dialect works without it.
    """

    number: str
    title: str
    run: Callable[[LintedScript], Iterable[LintFinding]]
    fix: Fix | None
    house: bool


def check(
    number: str, title: str, fix: Fix | None = None, house: bool = False
) -> Callable[
    [Callable[[LintedScript], Iterable[LintFinding]]],
    Callable[[LintedScript], Iterable[LintFinding]],
]:
    """Register a check under ``number``; ``title`` says in the reference what it demands."""

    def register(
        function: Callable[[LintedScript], Iterable[LintFinding]],
    ) -> Callable[[LintedScript], Iterable[LintFinding]]:
        CHECKS[number] = LintCheck(number, title, function, fix, house)
        return function

    return register


class LintedScript:
    """A script directory under the linter, with its files read once; ``index`` knows the others."""

    def __init__(self, path: str, index: Index) -> None:
        self.path = path
        self.index = index
        self.alias = os.path.basename(path)
        self.repository = os.path.dirname(os.path.dirname(path))
        self.meta_name = os.path.basename(meta_file(path) or META_FILES[0])
        self.meta: Mapping[str, Any] = read_meta(path)

    @cached_property
    def nodes(self) -> Any:
        """The meta file (YAML, of which JSON is a part) as nodes that know their lines."""
        import yaml

        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        try:
            return yaml.compose(self.text(self.meta_name), Loader=loader)
        except yaml.YAMLError:
            return None

    @cached_property
    def names(self) -> list[str]:
        """Files directly in the directory."""
        return sorted(e.name for e in os.scandir(self.path) if e.is_file())

    @cached_property
    def shell_names(self) -> list[str]:
        """The native scripts among them."""
        return [name for name in self.names if name.endswith(".sh")]

    @cached_property
    def code(self) -> str:
        """All of its own programs as one text, for scans, with the modules that it uses."""
        texts = []
        for folder, folders, names in os.walk(self.path):
            folders[:] = [f for f in folders if f not in ("tests", "__pycache__")]
            texts += [
                read_or_empty(os.path.join(folder, name))
                for name in names
                if name.endswith((".py", ".sh", ".c", ".cpp"))
            ]
        texts += [read_or_empty(f"{path}.py") for path in self._modules_used()]
        return "\n".join(texts)

    def _modules_used(self) -> Iterator[str]:
        """Return the paths of the entries of ``uses``, without ``.py``."""
        for _, block in self.blocks():
            names = block.get("uses")
            for name in names if isinstance(names, list) else ():
                with suppress(Error):
                    root, dotted = locate(self.path, str(name))
                    yield os.path.join(root, *dotted.split("."))

    def text(self, name: str) -> str:
        """A file of the directory; empty when there is none."""
        return read_or_empty(os.path.join(self.path, name))

    def is_neighbour(self, path: str) -> bool:
        """Whether the script at ``path`` is in the same repository."""
        return os.path.dirname(os.path.dirname(path)) == self.repository

    def dependencies(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield every dependency entry with its path, those of variations and versions included."""
        for where, block in self.blocks():
            for phase in PHASES:
                entries = block.get(phase)
                for number, entry in enumerate(entries if isinstance(entries, list) else ()):
                    if isinstance(entry, dict):
                        yield f"{where}{phase}[{number}]", entry

    def blocks(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield the block of the script and of its variations and versions; paths end in a dot."""
        yield "", self.meta
        for kind in ("variations", "versions"):
            named = self.meta.get(kind)
            for name, block in named.items() if isinstance(named, dict) else ():
                if isinstance(block, dict):
                    yield f"{kind}.{name}.", block


def is_foreign(path: str) -> bool:
    """Whether the script directory is written in a dialect whose faults do not bind."""
    repository = os.path.dirname(os.path.dirname(path))
    name = os.path.basename(meta_file(path) or META_FILES[0])
    return not dialect_of(repository, name).faults_bind


def lint(path: str, index: Index, chosen: Iterable[LintCheck]) -> list[LintFault]:
    """All faults of the script directory ``path``, in the order of the files and lines."""
    try:
        subject = LintedScript(path, index)
    except Error as error:
        name = os.path.join(path, os.path.basename(meta_file(path) or META_FILES[0]))
        message = error.message.removeprefix(name).lstrip(":")
        position = re.match(r"(\d+):\d+: ", message)
        line = int(position.group(1)) if position else 1
        return [
            LintFault(
                "CMB100", name, line, message[position.end() if position else 0 :].strip(), False
            )
        ]
    faults = [_fault(subject, item, finding) for item in chosen for finding in item.run(subject)]
    return sorted(faults, key=lambda f: (f.path, f.line, f.number))


def _fault(subject: LintedScript, item: LintCheck, finding: LintFinding) -> LintFault:
    name = finding.file or subject.meta_name
    line = finding.line or (line_of(subject.nodes, finding.where) if not finding.file else 1)
    fixable = item.fix is not None and name.endswith(".yaml")
    return LintFault(item.number, os.path.join(subject.path, name), line, finding.message, fixable)


def line_of(node: Any, where: str) -> int:
    """The line (from 1) of the key ``a.b[2].c`` below a YAML node; as far as it exists."""
    line = 1
    while where and node is not None:
        step = _step(node, where)
        if step is None:
            break
        line, node, where = step
    return line


def _step(node: Any, where: str) -> tuple[int, Any, str] | None:
    """Return the line, the value and the rest of the path one key or number of ``where`` deeper."""
    numbered = re.match(r"\[(\d+)\]\.?", where)
    if numbered and isinstance(node.value, list):
        item = dict(enumerate(node.value)).get(int(numbered.group(1)), ())
        return None if isinstance(item, tuple) else (_line(item), item, where[numbered.end() :])
    pairs = [pair for pair in _children(node) if isinstance(pair, tuple)]
    keys = [key for key, _ in pairs if _leads_to(str(key.value), where)]
    if not keys:
        return None
    # Names of variations hold dots themselves: the longest key that fits is meant.
    key = max(keys, key=lambda key: len(str(key.value)))
    rest = where.removeprefix(str(key.value)).removeprefix(".")
    return _line(key), dict(pairs)[key], rest


def _children(node: Any) -> list[Any]:
    """The items of a list, the pairs of a mapping, nothing of a text."""
    return node.value if isinstance(node.value, list) else []


def _leads_to(key: str, where: str) -> bool:
    return where.startswith(key) and where.removeprefix(key)[:1] in ("", ".", "[")


def _line(node: Any) -> int:
    return int(node.start_mark.line) + 1


def choose_checks(
    checks: Mapping[str, LintCheck], only: str = "", skip: str = ""
) -> list[LintCheck]:
    """Those of ``checks`` whose numbers start with one of ``only`` and with none of ``skip``.

    Both are numbers or their beginnings with commas between. Raises ``Error`` for unknown ones.
    """
    chosen = (_numbered(checks, only) or set(checks)) - _numbered(checks, skip)
    return [checks[number] for number in sorted(chosen)]


def _numbered(checks: Iterable[str], text: str) -> set[str]:
    """The numbers that begin with one of the words of ``text``."""
    numbers: set[str] = set()
    for word in filter(None, (part.strip().upper() for part in text.split(","))):
        fitting = {number for number in checks if number.startswith(word)}
        if not fitting:
            raise Error("bad-value", f"no check is numbered {word}", hint="see: `cm help script`")
        numbers |= fitting
    return numbers


def fix(path: str, index: Index, chosen: Iterable[LintCheck]) -> bool:
    """Correct what can be corrected safely in a script's ``meta.yaml``; whether it changed.

    A correction must leave the meaning as it was, else it is not written.
    """
    from cmbench.format.meta import load_yaml

    file = meta_file(path)
    if file is None or not file.endswith(".yaml"):
        return False
    subject = LintedScript(path, index)
    before = after = read_or_empty(file)
    for item in chosen:
        if item.fix is not None and any(item.run(subject)):
            after = item.fix(after)
    if after == before or load_yaml(after, file) != load_yaml(before, file):
        return False
    with open(file, "w", encoding="utf-8") as stream:
        stream.write(after)
    return True
