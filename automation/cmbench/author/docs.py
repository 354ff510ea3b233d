"""Documentation from meta: the reference part of every README, and the lists of a repository.

Generated text lies between two marks; the text around them is written by hand and stays.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

from cmbench.author.checks import REGISTRY
from cmbench.author.detection import CASE_KEYS
from cmbench.author.hook_library import hook_library
from cmbench.error_codes import AREAS
from cmbench.format.model import PHASES, Dependency, InputSpec, Script
from cmbench.format.schema import META_SCHEMA, meta_schema_text
from cmbench.index.scripts import Index, ScriptRow
from cmbench.index.select import parse_tags, short_tags
from common.text import wrapped

BEGIN = "<!-- begin: written by `cm doc script` -->"
END = "<!-- end: written by `cm doc script` -->"
_PHASE_WORDS = {
    "deps": "",
    "prehook_deps": "before its native part",
    "posthook_deps": "after its native part",
    "post_deps": "at the end",
}


def readme(script: Script, index: Index) -> str:
    """The README of ``script`` with its generated part brought up to date."""
    path = os.path.join(script.path, "README.md")
    text = _read(path) or f"# {script.alias}\n\n{script.title}.\n"
    return fill(text, reference(script, index))


def repository_pages(root: str, scripts: Sequence[Script], own: bool) -> dict[str, str]:
    """Path to wanted text of the pages of a whole repository; those of ``own`` say more."""
    pages = {os.path.join(root, META_SCHEMA): meta_schema_text()}
    if not own:
        return pages
    folder = os.path.join(root, "docs", "reference")
    parts = {
        "scripts.md": scripts_table(scripts),
        "errors.md": error_codes(),
        "hook-library.md": hook_library(),
        "lint.md": checks_table(),
        "testing.md": _table(
            ("key", "what it says"), [(f"`{k}`", v) for k, v in CASE_KEYS.items()]
        ),
    }
    for name, part in parts.items():
        path = os.path.join(folder, name)
        pages[path] = fill(_read(path), part)
    return pages


def stale(pages: Mapping[str, str]) -> list[str]:
    """The paths whose file does not hold the wanted text."""
    return [path for path, text in pages.items() if _read(path) != text]


def fill(text: str, part: str) -> str:
    """``text`` with ``part`` between the marks, which are put at its end when it has none."""
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    block = f"{BEGIN}\n\n{part.strip()}\n\n{END}"
    if begin and end:
        return head + block + tail
    return (text.rstrip("\n") + "\n\n" if text.strip() else "") + block + "\n"


def reference(script: Script, index: Index) -> str:
    """What meta says of a script, as Markdown."""
    tags = ",".join(short_tags(script, index, os.path.dirname(script.path)))
    cached = "no, it runs every time"
    if script.cache:
        cached = "yes"
    elif script.host_facts:
        cached = "no, it is a fact of the machine"
    elif script.can_force_cache:
        cached = "with `--force_cache`"
    parts = ["## Reference", f"    cm run script --tags={tags}"]
    parts.append(f"Tags: {_codes(script.tags)}. Result kept in the cache: {cached}.")
    parts += _inputs(script.inputs.values())
    parts += _foreign_flags(script)
    parts += _variations(script)
    parts += _dependencies(script, index)
    if script.settings.new_env_keys or script.settings.new_state_keys:
        keys = [*script.settings.new_env_keys, *script.settings.new_state_keys]
        parts.append("### Gives back\n\n" + _codes(keys))
    return "\n\n".join(parts)


def _beside(script: Script, rows: Iterable[ScriptRow]) -> list[ScriptRow]:
    """Those of the script's own repository: what else is registered must not change its page."""
    folder = os.path.dirname(script.path)
    return [row for row in rows if os.path.dirname(row.path) == folder]


def _codes(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


def _inputs(specs: Iterable[InputSpec]) -> list[str]:
    rows = [
        (f"`--{s.name}`", f"`{s.env}`", s.type, _cell(s.default and f"`{s.default}`"), _meaning(s))
        for s in specs
    ]
    head = ("input", "env key", "type", "default", "meaning")
    return ["### Inputs", _table(head, rows)] if rows else []


def _foreign_flags(script: Script) -> list[str]:
    """Return lines on the flags of other programs, by what becomes of them."""
    declared: Mapping[str, Mapping[str, str]] = script.meta.get("foreign_flags") or {}
    lines = []
    for kind in ("ignored", "refused"):
        names = [f"--{name}" for name, what in declared.items() if kind in what]
        lines += (
            [f"Of other programs, and {kind} here, with a reason: {_codes(names)}."]
            if names
            else []
        )
    return lines


def _meaning(spec: InputSpec) -> str:
    notes = [spec.description]
    if spec.choices:
        notes.append("one of " + _codes(spec.choices))
    if spec.unit:
        notes.append(f"in {spec.unit}")
    return _cell("; ".join(note for note in notes if note))


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _variations(script: Script) -> list[str]:
    groups: dict[str, list[str]] = {}
    for variation in script.variations.values():
        mark = " (default)" if variation.default else ""
        groups.setdefault(variation.group, []).append(f"`_{variation.name}`{mark}")
    lines = [
        f"- {group or 'any of'}{': one of' if group else ''} {', '.join(names)}"
        for group, names in groups.items()
    ]
    return ["### Variations", "\n".join(lines)] if lines else []


def _dependencies(script: Script, index: Index) -> list[str]:
    blocks = [("", script.settings)]
    blocks += [(f"with `_{name}`", v.settings) for name, v in script.variations.items()]
    lines = []
    for owner, settings in blocks:
        for phase in PHASES:
            for entry in settings.deps.get(phase, ()):
                notes = [owner, _PHASE_WORDS[phase], "on a condition" if entry.conditions else ""]
                shown = ", ".join(note for note in notes if note)
                lines.append(
                    f"- {_dependency(script, entry, index)}" + (f": {shown}" if shown else "")
                )
    return ["### Dependencies", "\n".join(dict.fromkeys(lines))] if lines else []


def _dependency(script: Script, entry: Dependency, index: Index) -> str:
    """The tags of a dependency, with a link where they name one script of the same repository."""
    text = f"`{entry.tags}`"
    tags = parse_tags(entry.tags)
    fixed = tags.wanted and "<<<" not in entry.tags
    rows = _beside(script, index.find(tags)) if fixed else []
    if len(rows) == 1:
        return f"[{text}](../{os.path.basename(rows[0].path)}/README.md)"
    return text


def scripts_table(scripts: Sequence[Script]) -> str:
    """All scripts of a repository by category."""
    categories: dict[str, list[Script]] = {}
    for script in sorted(scripts, key=lambda s: s.alias):
        categories.setdefault(str(script.meta.get("category") or "Other"), []).append(script)
    parts = []
    for category in sorted(categories):
        rows = [
            (f"[{s.alias}](../../script/{s.alias}/README.md)", _cell(s.title), _codes(s.tags))
            for s in categories[category]
        ]
        parts += [f"## {category}", _table(("script", "what it is for", "tags"), rows)]
    return "\n\n".join(parts)


def checks_table() -> str:
    """The linter's checks."""
    rows = [
        (item.number, _cell(item.title), _yes(item.fix is not None), _yes(item.house))
        for _, item in sorted(REGISTRY.items())
    ]
    return _table(("number", "what it demands", "`--fix`", "house style"), rows)


def error_codes() -> str:
    """Every error code with its meaning, remedy and exit code, by area."""
    parts = []
    for area, codes in AREAS.items():
        parts.append(f"## {area}")
        for code in codes:
            text = f"{code.meaning} {code.remedy} Exit code {code.exit_code}."
            parts += [f"### {code.name}", "\n".join(wrapped(text))]
    return "\n\n".join(parts)


def _yes(holds: bool) -> str:
    return "yes" if holds else ""


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as stream:
            return stream.read()
    except OSError:
        return ""
