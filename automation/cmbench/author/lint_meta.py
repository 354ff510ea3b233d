"""The checks of what ``meta.yaml`` says: its shape, inputs, variations and dependencies."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from cmbench.author.lint import LintedScript, LintFinding, check
from cmbench.errors import did_you_mean
from cmbench.format.meta import DEPENDENCY_KEYS, INPUT_TYPES, SCRIPT_KEYS, is_true
from cmbench.format.meta import check as check_meta
from cmbench.format.model import Tags
from cmbench.format.schema import KEY_ORDER
from cmbench.index.scripts import ScriptRow
from cmbench.index.select import parse_tags
from cmbench.plan.idle_inputs import unknown

SCHEMA_MARK = "# yaml-language-server: $schema="
SCHEMA_LINE = SCHEMA_MARK + "../../schema/meta.schema.json\n"
AUTOMATION = ("script", "5b4e0237da074764")


@check("CMB101", "every key is one that the format knows")
def unknown_keys(subject: LintedScript) -> Iterator[LintFinding]:
    """A misspelt key has no effect, without any notice."""
    for item in check_meta(subject.meta):
        if item.message.startswith("unknown key"):
            yield LintFinding(f"{item.where}: {item.message}", item.where)


@check("CMB102", "every value has the form that its key asks for")
def wrong_values(subject: LintedScript) -> Iterator[LintFinding]:
    """Lists, mappings, texts; and what no script can be without."""
    for item in check_meta(subject.meta):
        if not item.message.startswith("unknown key"):
            yield LintFinding(f"{item.where}: {item.message}", item.where)


def order_keys(text: str) -> str:
    """The text of a meta file with its keys in the house order; comments stay with their keys."""
    head, blocks = _key_blocks(text)
    rank = {key: number for number, key in enumerate(KEY_ORDER)}
    ordered = sorted(blocks, key=lambda block: rank.get(block[0], len(rank)))
    parts = [block.strip("\n") + "\n" for _, block in ordered]
    if head.strip():
        parts[0] = head.rstrip("\n") + "\n" + parts[0]
    joined = parts[0]
    for (before, _), (key, _), part in zip(ordered, ordered[1:], parts[1:], strict=False):
        joined += part if (before, key) in _TOGETHER else "\n" + part
    return joined


_TOGETHER = {
    ("alias", "uid"),
    ("uid", "automation_alias"),
    ("automation_alias", "automation_uid"),
    ("name", "category"),
    ("cache", "can_force_cache"),
}


def _key_blocks(text: str) -> tuple[str, list[tuple[str, str]]]:
    """Return the text before the first key, and the top-level keys with their text and comments."""
    lines = text.splitlines(keepends=True)
    starts = [n for n, line in enumerate(lines) if re.match(r"[A-Za-z_]\w*:", line)]
    if not starts:
        return text, []
    begins = [starts[0]]
    for start in starts[1:]:
        begin = start
        while lines[begin - 1].startswith("#"):
            begin -= 1
        begins.append(begin)
    ends = [*begins[1:], len(lines)]
    keys = [lines[start].partition(":")[0] for start in starts]
    return "".join(lines[: begins[0]]), [
        (key, "".join(lines[begin:end])) for key, begin, end in zip(keys, begins, ends, strict=True)
    ]


@check("CMB103", "the keys are in the standard order", fix=order_keys, house=True)
def key_order(subject: LintedScript) -> Iterator[LintFinding]:
    """Check that the keys have the same order in every file."""
    current = [key for key in subject.meta if key in KEY_ORDER]
    ordered = [key for key in KEY_ORDER if key in subject.meta]
    for key, expected in zip(current, ordered, strict=True):
        if key != expected:
            yield LintFinding(f'"{expected}" should stand before "{key}"', expected)
            return


@check("CMB104", "name says in one line what the script does", house=True)
def has_name(subject: LintedScript) -> Iterator[LintFinding]:
    """Lists of scripts and documentation show it."""
    name = str(subject.meta.get("name") or "")
    if not name.strip():
        yield LintFinding('there is no "name": say in one line what the script does')
    elif "\n" in name.strip():
        yield LintFinding("name has more than one line", "name")


def add_schema_line(text: str) -> str:
    """The text with the comment by which editors find the schema."""
    return SCHEMA_LINE + text


@check("CMB105", "the first line names the schema for editors", fix=add_schema_line, house=True)
def names_schema(subject: LintedScript) -> Iterator[LintFinding]:
    """Editors then complete keys and mark faults while one types."""
    if not subject.meta_name.endswith(".yaml"):
        return
    first = subject.text(subject.meta_name).partition("\n")[0]
    if not first.startswith(SCHEMA_MARK):
        yield LintFinding(f"the first line is not {SCHEMA_LINE.strip()}", line=1)


@check("CMB106", "alias, uid and automation are what the index relies on")
def identity(subject: LintedScript) -> Iterator[LintFinding]:
    """The alias is the directory's name, the uid 16 hex digits."""
    meta = subject.meta
    alias, uid = str(meta.get("alias", "")), str(meta.get("uid", ""))
    if alias and alias != subject.alias:
        yield LintFinding(f'alias is "{alias}" and the directory is "{subject.alias}"', "alias")
    if uid and not re.fullmatch("[0-9a-f]{16}", uid):
        yield LintFinding(f'uid "{uid}" is not 16 hex digits', "uid")
    for key, standard in zip(("automation_alias", "automation_uid"), AUTOMATION, strict=True):
        # CM writes "script,uid" as well.
        if str(meta.get(key, standard)).partition(",")[0] not in AUTOMATION:
            yield LintFinding(f"{key} must be {standard}", key)


@check("CMB107", "no other script has the same uid, alias or tags")
def unique(subject: LintedScript) -> Iterator[LintFinding]:
    """Two scripts under one name are chosen between by chance."""
    tags = frozenset(str(tag).strip() for tag in texts(subject.meta.get("tags")))
    rows = subject.index.rows()
    # The same script in another repository is its replacement or its origin.
    for path in filter(subject.is_neighbour, sorted(rows.keys() - {subject.path})):
        row = rows[path]
        for key, value in (("uid", row.uid), ("alias", row.alias)):
            if value and value == str(subject.meta.get(key, "")):
                yield LintFinding(f"{key} {value} belongs to {row.alias} too ({path})", key)
        if tags and tags == row.tags:
            yield LintFinding(f"{row.alias} has the same tags", "tags")


@check("CMB201", "every input is mapped to an env key and described with its type", house=True)
def inputs_declared(subject: LintedScript) -> Iterator[LintFinding]:
    """Help, checks of values and documentation come from the description."""
    described = mapping(subject.meta.get("input_description"))
    mapped = mapping(subject.meta.get("input_mapping"))
    for name in mapped:
        spec = described.get(name)
        if not isinstance(spec, dict):
            yield LintFinding(
                f"--{name} has no description (input_description.{name}: desc, type)",
                f"input_mapping.{name}",
            )
            continue
        for key in ("desc", "type"):
            if not spec.get(key):
                yield LintFinding(f"--{name} has no {key}", f"input_description.{name}")
        if spec.get("type") == "path" and not spec.get("must_be"):
            text = f"--{name} does not say what must exist (must_be)"
            yield LintFinding(text, f"input_description.{name}")
    for name in described:
        if name not in mapped:
            yield LintFinding(
                f"--{name} sets no env key (input_mapping)", f"input_description.{name}"
            )


@check("CMB202", "the default of an input is one of its choices and of its type")
def input_defaults(subject: LintedScript) -> Iterator[LintFinding]:
    """A default that the check of values would refuse."""
    for name, spec in mapping(subject.meta.get("input_description")).items():
        if not isinstance(spec, dict) or spec.get("default") in (None, ""):
            continue
        where = f"input_description.{name}.default"
        default, choices = str(spec["default"]), [str(c) for c in texts(spec.get("choices"))]
        if choices and default not in choices:
            yield LintFinding(f"--{name}: {default} is not one of {', '.join(choices)}", where)
        elif spec.get("type") in ("int", "float") and not _is_number(default, spec["type"]):
            yield LintFinding(f"--{name}: {default} is not a number ({spec['type']})", where)


@check("CMB205", "only_with and not_with name variations and inputs that exist")
def bound_inputs(subject: LintedScript) -> Iterator[LintFinding]:
    """A misspelt condition of only_with never holds, and one of not_with refuses nothing."""
    described = mapping(subject.meta.get("input_description"))
    variations = mapping(subject.meta.get("variations"))
    for name, spec in described.items():
        for key in ("only_with", "not_with"):
            for unknown_name in unknown(texts(mapping(spec).get(key)), variations, described):
                yield LintFinding(
                    f"--{name}: {key} names {unknown_name}", f"input_description.{name}.{key}"
                )


@check("CMB206", "a group of help names inputs that exist")
def grouped_inputs_exist(subject: LintedScript) -> Iterator[LintFinding]:
    """Help would leave a misspelt one out without a word."""
    described = mapping(subject.meta.get("input_description"))
    for title, names in mapping(mapping(subject.meta.get("help")).get("groups")).items():
        for name in texts(names):
            if name not in described:
                yield LintFinding(f"no input is named {name}", f"help.groups.{title}")


def _is_number(text: str, kind: str) -> bool:
    assert kind in INPUT_TYPES
    try:
        int(text) if kind == "int" else float(text)
    except ValueError:
        return False
    return True


@check("CMB301", "every dependency names a script that exists")
def dependencies_exist(subject: LintedScript) -> Iterator[LintFinding]:
    """Otherwise the run is refused when it comes to it."""
    for where, _, tags in _fixed_dependencies(subject):
        rows = subject.index.find(tags)
        if not rows:
            text = f'no script has the tags "{",".join(tags.wanted)}"'
            yield _misspelt(text, tags.wanted, subject.index.tags(), where)
            continue
        known = {v for row in rows for v in row.variations}
        for variation in tags.variations:
            if not any(row.accepts(variation) for row in rows):
                text = f'{rows[0].alias} has no variation "_{variation}"'
                yield _misspelt(text, [variation], known, where)


def _misspelt(text: str, words: Iterable[str], known: Collection[str], where: str) -> LintFinding:
    """A fault about one of ``words`` that is not ``known``, with those that are nearly so."""
    hint = did_you_mean(next((word for word in words if word not in known), ""), known)
    return LintFinding(f"{text}, {hint}" if hint else text, where)


@check("CMB302", "every dependency names one script and not several")
def dependencies_clear(subject: LintedScript) -> Iterator[LintFinding]:
    """Which of several is taken is decided by their order, not by the author."""
    for where, entry, tags in _fixed_dependencies(subject):
        fitting = _fitting(subject, tags)
        # A script that has exactly these tags and no more is what was meant.
        exact = [row for row in fitting if row.tags == set(tags.wanted)]
        if len(fitting) > 1 and len(exact) != 1 and not _by_variable_variation(entry):
            names = ", ".join(row.alias for row in fitting[:4])
            yield LintFinding(f'"{",".join(tags.wanted)}" fits several scripts: {names}', where)


def _fitting(subject: LintedScript, tags: Tags) -> list[ScriptRow]:
    """The scripts of the same repository that the tags, with their variations, find."""
    rows = [row for row in subject.index.find(tags) if subject.is_neighbour(row.path)]
    return [row for row in rows if all(row.accepts(name) for name in tags.variations)]


def _by_variable_variation(entry: Mapping[str, Any]) -> bool:
    keys = ("update_tags_from_env", "update_tags_from_env_with_prefix", "inherit_variation_tags")
    return any(entry.get(key) for key in keys)


def _fixed_dependencies(subject: LintedScript) -> Iterator[tuple[str, Mapping[str, Any], Tags]]:
    """Yield the path, entry and tags of the dependencies whose tags are known before a run."""
    for where, entry in subject.dependencies():
        tags = _fixed_tags(entry)
        if tags is not None:
            yield where, entry, tags


def _fixed_tags(entry: Mapping[str, Any]) -> Tags | None:
    """The tags of an entry; ``None`` where only a run knows them."""
    text = ",".join(str(t) for t in texts(entry.get("tags")))
    if "<<<" in text or "#" in text or not text:
        return None
    tags = parse_tags(text)
    return tags if tags.wanted else None


@check("CMB303", "a group that a dependency needs has a default")
def groups_have_defaults(subject: LintedScript) -> Iterator[LintFinding]:
    """Otherwise a run without a variation of the group requests tags with a hole in them."""
    members = _groups(subject.meta)
    needed = {key: where for where, entry in subject.dependencies() for key in _tag_keys(entry)}
    outside = _keys_set_outside(subject)
    for group, variations in members.items():
        blocks = list(variations.values())
        if any(is_true(block.get("default", "")) for block in blocks):
            continue
        lost = set.intersection(*(set(mapping(block.get("env"))) for block in blocks)) - outside
        for key, where in needed.items():
            if key in lost:
                text = f'the tags need {key}, which only the group "{group}" sets,'
                yield LintFinding(f"{text} and that group has no default", where)


def _tag_keys(entry: Mapping[str, Any]) -> set[str]:
    text = ",".join(str(t) for t in texts(entry.get("tags")))
    conditional = any(entry.get(key) for key in ("enable_if_env", "enable_if_any_env"))
    return set() if conditional else set(re.findall(r"<<<(\w+)>>>", text))


def _keys_set_outside(subject: LintedScript) -> set[str]:
    """Env keys that something else than a variation of a group may set."""
    keys = set(re.findall(r"\b[A-Z][A-Z0-9]*_[A-Z0-9_]+", subject.code))
    keys |= set(map(str, mapping(subject.meta.get("input_mapping")).values()))
    for key in ("env", "default_env", "const"):
        keys |= set(mapping(subject.meta.get(key)))
    for block in mapping(subject.meta.get("variations")).values():
        if isinstance(block, dict) and not block.get("group"):
            keys |= set(mapping(block.get("env")))
    for _, entry in subject.dependencies():
        for row in _rows_of(subject, entry):
            patterns = subject.index.script(row.path).settings.new_env_keys
            keys |= {key for key in patterns if "*" not in key}
    return keys


def _rows_of(subject: LintedScript, entry: Mapping[str, Any]) -> list[Any]:
    tags = _fixed_tags(entry)
    return [row for row in subject.index.find(tags) if not row.faults] if tags else []


def _groups(meta: Mapping[str, Any]) -> dict[str, dict[str, Mapping[str, Any]]]:
    """Return the variations of the groups by their names."""
    groups: dict[str, dict[str, Mapping[str, Any]]] = {}
    for name, block in mapping(meta.get("variations")).items():
        if isinstance(block, dict) and block.get("group"):
            groups.setdefault(str(block["group"]), {})[str(name)] = block
    return groups


@check("CMB304", "a group of variations has at most one default")
def one_default(subject: LintedScript) -> Iterator[LintFinding]:
    """Two defaults exclude each other: every run without a choice fails."""
    for group, variations in _groups(subject.meta).items():
        defaults = [name for name, block in variations.items() if is_true(block.get("default", ""))]
        if len(defaults) > 1:
            names = " and ".join("_" + name for name in defaults)
            yield LintFinding(
                f'group "{group}" has two defaults: {names}', f"variations.{defaults[1]}"
            )


@check("CMB305", "variations name only variations that exist")
def variations_exist(subject: LintedScript) -> Iterator[LintFinding]:
    """In base, alias, default_variations and the order of groups."""
    variations = mapping(subject.meta.get("variations"))
    heads = {str(name).removesuffix(".#") for name in variations if str(name).endswith(".#")}
    for name, block in variations.items():
        for where, other in _named_by(mapping(block)):
            if other not in variations and other.partition(".")[0] not in heads:
                text, key_path = f'no variation is named "{other}"', f"variations.{name}.{where}"
                yield _misspelt(text, [other], [*map(str, variations)], key_path)
    groups = set(_groups(subject.meta))
    for group in texts(subject.meta.get("variation_groups_order")):
        if str(group) not in groups:
            yield LintFinding(f'no variation is in the group "{group}"', "variation_groups_order")


def _named_by(variation: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the names of others in a variation, with their paths."""
    yield from (("base", str(other)) for other in texts(variation.get("base")))
    if variation.get("alias"):
        yield "alias", str(variation["alias"])
    for group, value in mapping(variation.get("default_variations")).items():
        yield f"default_variations.{group}", str(value)


@check("CMB306", "a key of a dependency is known, or an input of its script", house=True)
def dependency_keys(subject: LintedScript) -> Iterator[LintFinding]:
    """Any other key becomes an input that the script does not have: it has no effect."""
    for where, entry in subject.dependencies():
        tags = _fixed_tags(entry)
        fitting = _fitting(subject, tags) if tags else []
        inputs = {name for row in fitting for name in _input_names(subject, row)}
        yield from _without_effect(where, entry, inputs, bool(fitting))
        yield from _updates_without_effect(f"{where}.", entry)
    for where, block in subject.blocks():
        yield from _updates_without_effect(where, block)


def _updates_without_effect(where: str, block: Mapping[str, Any]) -> Iterator[LintFinding]:
    """Yield the keys of updates by name; which script they reach, only a run knows."""
    for group in ("ad", "add_deps", "adr", "add_deps_recursive"):
        for name, entry in mapping(block.get(group)).items():
            yield from _without_effect(f"{where}{group}.{name}", mapping(entry), set(), False)


def _without_effect(
    where: str, entry: Mapping[str, Any], inputs: Collection[str], decided: bool
) -> Iterator[LintFinding]:
    """Yield the keys that are neither known nor ``inputs``.

    Where it is not ``decided`` which script is meant, those that look like keys of the format.
    """
    known = {*DEPENDENCY_KEYS, *REQUEST_KEYS, *inputs}
    for key in map(str, entry):
        hint = did_you_mean(key, known if decided else DEPENDENCY_KEYS)
        if key not in known and (decided or hint or key in SCRIPT_KEYS):
            text = f"{key} is neither a key of a dependency nor an input of its script"
            yield LintFinding(f"{text}, {hint}" if hint else text, f"{where}.{key}")


def _input_names(subject: LintedScript, row: ScriptRow) -> Iterator[str]:
    script = subject.index.script(row.path)
    yield from script.inputs
    for _, block in LintedScript(row.path, subject.index).blocks():
        yield from mapping(block.get("input_mapping"))


REQUEST_KEYS = ("name", "path")
"""Parts of a request of their own that a dependency may have."""


def mapping(value: Any) -> Mapping[str, Any]:
    """``value`` if it is a mapping, else an empty one."""
    return value if isinstance(value, dict) else {}


def texts(value: Any) -> Iterable[Any]:
    """The items of a list, or of a text with commas."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return value if isinstance(value, list) else ()
