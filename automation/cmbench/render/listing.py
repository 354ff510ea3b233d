"""Scripts and cache entries as text for a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cmbench.format.help_page import HelpPage, grouped_inputs, help_page
from cmbench.format.model import InputSpec, Script
from cmbench.lib.text_files import counted
from cmbench.session.request import FLAGS
from common.text import WIDTH, wrapped

if TYPE_CHECKING:
    from cmbench.api.scripts import ScriptSummary


def closing_text(steps: Sequence[Mapping[str, Any]], record: str) -> str:
    """How many steps a run had, what came from the cache, what was made, and its record."""
    listed = [step for step in steps if step["status"] != "fact"]
    cached = [step["step"] for step in listed if step["status"] == "cached"]
    made = [step["step"] for step in listed if step["entry"] and step["status"] == "done"]
    ran = len(listed) - len(cached) - len(made)
    shares = f"{len(cached)} from the cache, {len(made)} made for it, {ran} run"
    lines = [f"{counted(len(listed), 'step')}: {shares}"]
    for title, names in (("cached: ", cached), ("made:   ", made)):
        if names:
            lines.append(title + _as_many_as_fit(list(dict.fromkeys(names)), WIDTH - len(title)))
    return "\n".join([*lines, f"record: {record}"])


def _as_many_as_fit(names: Sequence[str], width: int) -> str:
    """Return the first names, and the number of the others, in one line of ``width`` columns."""
    for count in range(len(names), 0, -1):
        more = f" and {len(names) - count} more" if count < len(names) else ""
        text = ", ".join(names[:count]) + more
        if len(text) <= width or count == 1:
            return text
    return ""


def scripts_text(scripts: Sequence[ScriptSummary]) -> str:
    """Scripts with their tags and what they are for; whose they are, if not all of one."""
    blocks = []
    several = len({script.repository for script in scripts}) > 1
    for script in scripts:
        name = f"{script.alias} ({script.repository})" if several else script.alias
        lines = _titled(name, script.title)
        lines.append("  tags " + ",".join(script.tags))
        if script.matches:
            lines += wrapped(f"with {', '.join(script.matches)}", "  ", "    ")
        if script.variations:
            shown = ", ".join("_" + v for v in script.variations)
            lines += wrapped(f"variations {shown}", "  ", "    ")
        blocks.append("\n".join(lines))
    return "\n".join(blocks) or "no script matches"


def _titled(name: str, title: str) -> list[str]:
    """Return the name and the title of a script; the name stays whole."""
    text = f"{name}: {title}" if title else name
    return wrapped(text, rest="    ") or [text]


def help_text(script: Script, tags: Sequence[str], whole: bool) -> str:
    """What a script is for, how it is called by ``tags``, its inputs and variations.

    Unless ``whole``, inputs of no group and the flags of every script are left out, where the
    script has groups of inputs.
    """
    page = help_page(script)
    called = f"cm run script --tags={','.join(tags)}"
    lines = [*_titled(script.alias, script.title), "", f"  {called} [flags]", ""]
    for purpose, command in page.examples.items():
        lines += [f"{purpose}:", f"  {command}", ""]
    groups = grouped_inputs(script, page)
    rest = groups.pop("")
    whole = whole or not groups
    shown = {**groups, "Inputs": rest if whole else []}
    for title, specs in shown.items():
        lines += _group_lines(title, specs)
    if script.variations:
        lines.append("Variations (add them to the tags as _name):")
        lines += [*_variation_lines(script, page), ""]
    if whole:
        return "\n".join([*lines, *_closing_lines(script)])
    more = f"{counted(len(rest), 'more input')}, and the flags of every script:"
    return "\n".join([*lines, more, f"{called} --help=all"])


def _group_lines(title: str, specs: Sequence[InputSpec]) -> list[str]:
    entries = [line for spec in specs for line in _input_lines(spec)]
    return [f"{title}:", *entries, ""] if entries else []


def _closing_lines(script: Script) -> list[str]:
    lines = []
    if script.settings.new_env_keys:
        lines.append("Gives back:")
        lines += [*wrapped(", ".join(script.settings.new_env_keys), "  ", "  "), ""]
    lines.append("Flags of every script:")
    for name, meaning in FLAGS.items():
        lines += flag_lines(name, meaning)
    return lines


def flag_lines(name: str, meaning: str) -> list[str]:
    """Return a flag, named without its dashes, and its meaning in two columns."""
    return _entry(f"--{name}", meaning)


def _input_lines(spec: InputSpec) -> list[str]:
    notes = [spec.description]
    if spec.choices:
        notes.append("one of: " + ", ".join(spec.choices))
    if spec.default:
        notes.append(f"default: {spec.default}")
    if spec.unit:
        notes.append(f"in {spec.unit}")
    return _entry(f"--{spec.name}", "; ".join(n for n in notes if n))


def _entry(name: str, meaning: str) -> list[str]:
    head = f"  {name:<24}"
    if len(name) > 23:
        return [head, *wrapped(meaning, " " * 26, " " * 26)]
    lines = wrapped(meaning, " " * 26, " " * 26) or [""]
    return [head + lines[0].strip(), *lines[1:]]


def _variation_lines(script: Script, page: HelpPage) -> list[str]:
    groups: dict[str, list[str]] = {}
    lines: list[str] = []
    for name, variation in script.variations.items():
        mark = " (default)" if variation.default else ""
        if name in page.variations:
            lines += _entry(f"_{name}{mark}", page.variations[name])
        else:
            groups.setdefault(variation.group, []).append("_" + name + mark)
    for group, names in groups.items():
        prefix = f"{group}: " if group else ""
        lines += wrapped(prefix + ", ".join(names), "  ", "  ")
    return lines
