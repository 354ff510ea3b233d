"""The checks of a script's files other than its meta: env keys, shell, downloads, company."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from cmbench.author.lint import LintedScript, LintFinding, check
from cmbench.author.lint_meta import mapping, texts
from cmbench.errors import nearest
from cmbench.index.select import parse_tags

_WORD = re.compile(r"\b[A-Z][A-Z0-9]*_[A-Z0-9_]*")
_ARCHIVE = re.compile(
    r"https?://\S+\.(tar|tgz|gz|xz|bz2|zip|zst|whl|onnx|pth|pt|pb|bin|deb|rpm|run|sh|h5)\b"
)
_PATH_VARIABLE = re.compile(
    r"\$\{?[A-Za-z_]*(?:PATH|DIR|FILE|FOLDER|PWD|HOME)\}?(?![A-Za-z0-9_{:])"
)


@check("CMB203", "every env key that is given back is written somewhere")
def exports_are_written(subject: LintedScript) -> Iterator[LintFinding]:
    """The next step relies on a key that is never set."""
    if any("<<<" in str(entry.get("tags")) for _, entry in subject.dependencies()):
        return  # any script at all may be what sets the key
    words = _words_written(subject)
    for where, key in _output_keys(subject):
        pattern = key.lstrip("+")
        plain = re.fullmatch("[A-Z][A-Z0-9]*_[A-Z0-9_*?]*", pattern)
        if plain and not any(_covers(pattern, word) for word in words):
            yield LintFinding(f"{key} is given back and never set", where)


def _output_keys(subject: LintedScript) -> Iterator[tuple[str, str]]:
    """Yield the entries of every ``new_env_keys`` with their paths."""
    for where, block in subject.blocks():
        for number, key in enumerate(texts(block.get("new_env_keys"))):
            yield f"{where}new_env_keys[{number}]", str(key)


def _covers(pattern: str, word: str) -> bool:
    # A word that ends in "_" is the beginning of a name that the code puts together.
    begins = word.endswith("_") and pattern.startswith(word)
    return fnmatchcase(word, pattern) or begins or word.startswith(pattern.rstrip("*") + "_")


def _words_written(subject: LintedScript) -> set[str]:
    words = set(_WORD.findall(subject.code))
    words |= set(map(str, mapping(subject.meta.get("input_mapping")).values()))
    for _, block in subject.blocks():
        for key in ("env", "default_env", "const"):
            words |= {str(name).lstrip("+") for name in mapping(block.get(key))}
            # A value may be the name of the key that a dependency is to set.
            words |= set(map(str, mapping(block.get(key)).values()))
        words |= set(map(str, mapping(block.get("input_mapping")).values()))
    for _, entry in subject.dependencies():
        for value in mapping(entry.get("env")).values():
            words.add(str(value))
        words |= _output_keys_of(subject, entry)
    return words


def _output_keys_of(subject: LintedScript, entry: Mapping[str, Any]) -> set[str]:
    """Keys, or beginnings of keys, that the scripts of a dependency give back."""
    tags = parse_tags(",".join(map(str, texts(entry.get("tags")))))
    keys: set[str] = set()
    for row in subject.index.find(tags) if tags.wanted else ():
        if row.faults:
            continue
        script = subject.index.script(row.path)
        blocks = [script.settings, *(v.settings for v in script.variations.values())]
        keys |= {key.lstrip("+").rstrip("*") for block in blocks for key in block.new_env_keys}
    return keys


@check("CMB204", "no env key is written under a name that is nearly one given back")
def exports_are_spelt_right(subject: LintedScript) -> Iterator[LintFinding]:
    """``CM_TOOL_VERSON`` in the code, ``CM_TOOL_VERSION`` in ``new_env_keys``."""
    promised = [key.lstrip("+") for _, key in _output_keys(subject)]
    used = _WORD.findall(subject.code)
    lost = set(filter(_WORD.fullmatch, promised)).difference(used)
    for line, key in _written_keys(subject.text("customize.py")):
        if used.count(key) > 1 or any(fnmatchcase(key, pattern) for pattern in promised):
            continue
        for name in nearest(key, lost):
            if _differ_little(name, key):
                yield LintFinding(
                    f"{key} is set, and {name} is given back", "", "customize.py", line
                )


def _differ_little(one: str, other: str) -> bool:
    import difflib

    return difflib.SequenceMatcher(None, one, other).ratio() > 0.9


def _written_keys(source: str) -> Iterator[tuple[int, str]]:
    """Env keys that Python code sets: ``env["KEY"] = ...`` and keys of dictionaries."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return
    for key in (key for node in ast.walk(tree) for key in _keys_of(node)):
        if isinstance(key, ast.Constant) and _WORD.fullmatch(str(key.value)):
            yield key.lineno, str(key.value)


def _keys_of(node: ast.AST) -> Iterable[ast.expr | None]:
    """Return the target of an assignment or a dictionary; ``None`` stands for ``**other``."""
    if isinstance(node, ast.Assign):
        return [target.slice for target in node.targets if isinstance(target, ast.Subscript)]
    return node.keys if isinstance(node, ast.Dict) else ()


@check("CMB401", "a native script stops at the first failing command")
def shell_stops(subject: LintedScript) -> Iterator[LintFinding]:
    """Without ``set -e`` a failed step counts as done, and is kept in the cache."""
    for name in subject.shell_names:
        text = subject.text(name)
        commands = [line for line in text.splitlines() if _is_command(line)]
        stops = re.search(
            r"^\s*set\s+(-\w*e|.*-o\s+errexit)|^#!.*\bbash\s+-\w*e", text, re.MULTILINE
        )
        if commands and not stops:
            yield LintFinding("set -e is missing: add set -euo pipefail", "", name, 1)


def _is_command(line: str) -> bool:
    stripped = line.strip()
    return bool(stripped) and not stripped.startswith("#")


@check("CMB402", "paths in a native script are quoted")
def paths_are_quoted(subject: LintedScript) -> Iterator[LintFinding]:
    """A blank in a path splits it; ``rm -rf $DIR/x`` then removes something else."""
    for name in subject.shell_names:
        for number, line in _plain_lines(subject.text(name)):
            match = _PATH_VARIABLE.search(_unquoted(line))
            if match:
                yield LintFinding(
                    f'{match.group()} is not in quotes: "{match.group()}"', "", name, number
                )


def _plain_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines in which an unquoted variable is split: no assignments, tests, here-documents."""
    end, open_quote = "", False
    for number, line in enumerate(text.splitlines(), 1):
        if end:
            end = "" if line.strip() == end else end
            continue
        heredoc = re.search(r"<<-?\s*['\"]?(\w+)", line)
        if heredoc and "<<<" not in line:
            end = heredoc.group(1)
        began_open, open_quote = open_quote, open_quote ^ (line.count('"') % 2 == 1)
        if began_open or open_quote or not _is_command(line):
            continue
        if re.search(r"\[\[|\(\(|^\s*(export\s+|local\s+|readonly\s+)?\w+\+?=|^\s*case\b", line):
            continue
        yield number, line


def _unquoted(line: str) -> str:
    line = re.sub(r"\\.", "", line)
    line = re.sub(r"'[^']*'|\"[^\"]*\"", "", line)
    return re.sub(r"(^|\s)#.*", "", line)


@check("CMB501", "a file from the network has a checksum")
def downloads_are_checked(subject: LintedScript) -> Iterator[LintFinding]:
    """What comes down the line is not always what was meant."""
    for where, block in _env_blocks(subject):
        urls = [k for k, v in block.items() if "URL" in str(k) and _ARCHIVE.match(str(v))]
        checked = any(word in str(key) for key in block for word in ("CHECKSUM", "SHA256", "MD5"))
        if urls and not checked:
            yield LintFinding(f"{urls[0]} has no checksum beside it", f"{where}.{urls[0]}")


def _env_blocks(subject: LintedScript) -> Iterator[tuple[str, Mapping[str, Any]]]:
    own = mapping(subject.meta.get("env"))
    checked_by_all = any("CHECKSUM" in str(key) for key in own)
    for where, block in subject.blocks():
        for key in ("env", "default_env"):
            if not (checked_by_all and where):
                yield where + key, mapping(block.get(key))
    for where, entry in subject.dependencies():
        yield f"{where}.env", mapping(entry.get("env"))


@check("CMB601", "a README says how it is used", house=True)
def has_readme(subject: LintedScript) -> Iterator[LintFinding]:
    """Check that the script has a page in its folder."""
    if not any(name.lower().startswith("readme") for name in subject.names):
        yield LintFinding("there is no README.md: cm doc script makes one")


@check("CMB602", "a test shows that it works", house=True)
def has_tests(subject: LintedScript) -> Iterator[LintFinding]:
    """Check for a ``detection_test.yaml``, or for test files in the repository's ``tests``."""
    places = (
        os.path.join(subject.path, "detection_test.yaml"),
        os.path.join(subject.path, "tests"),
        os.path.join(subject.repository, "tests", "script", subject.alias),
    )
    if not any(map(os.path.exists, places)):
        yield LintFinding("there is no test: write a detection_test.yaml")
