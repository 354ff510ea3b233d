"""Names and prose of what is shipped: limits that are only ever lowered.

``docs/reference/glossary.md`` says what to write instead. A limit is the count of the day on which
it was set; lower it when a change has made the count smaller, and never raise it.
"""

from __future__ import annotations

import ast
import functools
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from support import ROOT, project_files

PARTS = ("automation/", "lib/", "script/")

AMBIGUOUS_CLASSES = 12
"""Class names, without a leading underscore, that two or more classes have."""
VAGUE_CLASSES = 0
"""Classes whose name is one word that is a participle, or that says nothing."""
VAGUE_IDENTIFIERS = 4
"""Variables, arguments, attributes and functions that are called told, found, asked or given."""

IDENTIFIERS = {"told", "found", "asked", "given"}
VAGUE = re.compile(
    "Built|Brought|Doer|Door|Foreseen|Found|Here|Kept|Known|Late|Litter|Look|Luggage|Made|Moment|Own"
    "|Parcel|Ran|Silent|Spot|Story|Taken|Teller|There|Thing|Together|Trouble|Try|Unread|Way|Whole"
    "|Wish|Withdrawn|Words?|Written|(?!Need|Seed|Speed)[A-Z][a-z]+ed"
)

# Uses in 10,000 words of docstrings and comments.
PROSE = {
    r"tell|tells|told|telling": 1.5,
    r"what (is|it)": 12.3,
    r"each": 11.8,
    r"asked|asks": 3.4,
    r"place|places": 5.0,
    r"stands|beside": 4.7,
    r"somebody|nobody|whoever": 2.5,
    r"hand|hands|handed": 1.1,
}


@dataclass(frozen=True, slots=True)
class ModuleWords:
    """What a source file of a shipped part names and says."""

    name: str
    classes: list[str]
    identifiers: Counter[str]
    prose: list[str]


@functools.cache
def modules() -> list[ModuleWords]:
    """Return the Python files of the parts, tests of scripts left out."""
    names = {path.relative_to(ROOT).as_posix(): path for path in project_files()}
    return [
        words_of(name, path.read_text(encoding="utf-8"))
        for name, path in names.items()
        if name.startswith(PARTS) and name.endswith(".py") and "/tests/" not in name
    ]


def words_of(name: str, text: str) -> ModuleWords:
    """Return what a module names and says; its tree is large and not kept."""
    nodes = list(ast.walk(ast.parse(text)))
    classes = [node.name for node in nodes if isinstance(node, ast.ClassDef)]
    return ModuleWords(name, classes, Counter(identifiers(nodes)), list(prose(nodes, text)))


def identifiers(nodes: list[ast.AST]) -> Iterator[str]:
    """Return the names that are assigned to or defined: of values, arguments and functions."""
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name


def prose(nodes: list[ast.AST], text: str) -> Iterator[str]:
    """Return the docstrings of a module and its comments on lines of their own."""
    for node in nodes:
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node, clean=False) or ""
    yield from re.findall(r"(?m)^\s*#(.*)$", text)


def test_class_names_are_used_once() -> None:
    names = Counter(n for module in modules() for n in module.classes if not n.startswith("_"))
    ambiguous = {name: count for name, count in names.items() if count > 1}
    print(f"{len(ambiguous)} class names are used more than once: {ambiguous}")
    assert len(ambiguous) <= AMBIGUOUS_CLASSES


def test_class_names_are_nouns() -> None:
    vague = [
        f"{module.name}: {name}"
        for module in modules()
        for name in module.classes
        if VAGUE.fullmatch(name)
    ]
    print(f"{len(vague)} classes have a vague name:", *vague, sep="\n")
    assert len(vague) <= VAGUE_CLASSES


def test_identifiers_say_what_a_value_is() -> None:
    counts = {n: sum(m.identifiers[n] for m in modules()) for n in sorted(IDENTIFIERS)}
    print(f"{sum(counts.values())} identifiers say how a value came about: {counts}")
    assert sum(counts.values()) <= VAGUE_IDENTIFIERS


@functools.cache
def all_prose() -> str:
    return " ".join(text for module in modules() for text in module.prose).lower()


@pytest.mark.parametrize("words", PROSE)
def test_docstrings_and_comments_are_plain(words: str) -> None:
    total = len(re.findall(r"[a-z']+", all_prose()))
    share = 10_000 * len(re.findall(rf"\b(?:{words})\b", all_prose())) / total
    print(f"{words}: {share:.1f} in 10,000 words")
    assert share <= PROSE[words]


def test_names_and_prose_are_counted() -> None:
    source = '''
class Kept:
    """What is told."""

    size: int
    name: str = ""

    def found(self, asked):
        # Each of them.
        self.size = self.told = asked(given=1)
        self.size.found = 1  # not counted as prose
'''
    module = words_of("a.py", source)
    assert module.classes == ["Kept"]
    counts = {name: count for name, count in module.identifiers.items() if name in IDENTIFIERS}
    assert counts == {"found": 2, "asked": 1, "told": 1}
    assert [text for text in module.prose if text] == ["What is told.", " Each of them."]
    assert [
        name for name in ("Kept", "Linted", "LintedScript", "Seed") if VAGUE.fullmatch(name)
    ] == [
        "Kept",
        "Linted",
    ]
