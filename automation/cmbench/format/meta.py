"""``meta.yaml`` to ``Script``: reading, checking, and diagnostics that say where and what instead.

The key tables below are the format (see ``docs/reference/meta.md``). An unknown key is an error in
this project's own repository and a warning elsewhere; both name the nearest known key.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from cmbench.errors import Error, did_you_mean, invalid_syntax
from cmbench.format.dialect import CM, Dialect
from cmbench.format.model import (
    PHASES,
    Condition,
    Dependency,
    InputSpec,
    Script,
    ScriptSettings,
    Variation,
    VersionRange,
)
from cmbench.lib.yes_no import is_no, is_yes
from cmbench.values import immutable

META_FILES = ("meta.yaml", "meta.json", "_cm.yaml", "_cm.json")

SETTINGS_KEYS = frozenset(
    [
        "env",
        "default_env",
        "const",
        "state",
        "input_mapping",
        "deps",
        "prehook_deps",
        "posthook_deps",
        "post_deps",
        "ad",
        "add_deps",
        "adr",
        "add_deps_recursive",
        "new_env_keys",
        "new_state_keys",
        "local_env_keys",
        "default_variations",
        "default_version",
        "script_name",
        "fetches",
        "privileges",
        "licence",
        "exclusive",
        "warnings",
        "uses",
        "required_disk_space",
        "cache_expiration",
        "update_meta_if_env",
        "docker",
    ]
)
SCRIPT_KEYS = SETTINGS_KEYS | frozenset(
    [
        "alias",
        "uid",
        "automation_alias",
        "automation_uid",
        "name",
        "category",
        "category_sort",
        "developers",
        "tags",
        "tags_help",
        "sort",
        "cache",
        "can_force_cache",
        "host_facts",
        "input_description",
        "variations",
        "versions",
        "variation_groups_order",
        "default_variation",
        "version",
        "version_min",
        "version_max",
        "version_max_usable",
        "valid_variation_combinations",
        "invalid_variation_combinations",
        "extra_cache_tags_from_env",
        "registered_by",
        "print_env_at_the_end",
        "print_env_at_the_end_disabled",
        "print_files_if_script_error",
        "clean_files",
        "clean_output_files",
        "env_key_mappings",
        "tests",
        "gui",
        "help",
        "private",
        "docker_off",
        "docker_input_mapping",
        "min_cm_version",
        "min_mlc_version",
        "mlc_compat",
        "file_path_env_keys",
        "folder_path_env_keys",
        "remote_run",
        "repo_to_report_errors",
        "clean_env_keys_post_deps",
        "predeps",
        "foreign_flags",
    ]
)
VARIATION_KEYS = SETTINGS_KEYS | frozenset(
    [
        "group",
        "default",
        "base",
        "alias",
        "desc",
        "version",
        "version_min",
        "version_max",
        "version_max_usable",
        "const_state",
    ]
)
DEPENDENCY_KEYS = frozenset(
    [
        "tags",
        "names",
        "env",
        *("version", "version_min", "version_max", "version_max_usable"),
        "extra_cache_tags",
        "force_cache",
        "force_env_keys",
        "force_new_env_keys",
        "inherit_variation_tags",
        "skip_inherit_variation_groups",
        "reuse_version",
        "dynamic",
        "skip_if_fake_run",
        *("ad", "add_deps", "adr", "add_deps_recursive"),
        "update_tags_from_env",
        "update_tags_from_env_with_prefix",
        *("enable_if_env", "skip_if_env", "enable_if_any_env", "skip_if_any_env"),
        "inherit_cache_expiration",
        "cache_expiration",
        "update_tags_if_env",
        "continue_on_error",
    ]
)
INPUT_KEYS = frozenset(
    [
        *("desc", "type", "must_be", "choices", "default", "unit", "min", "max"),
        *("only_with", "not_with", "repeats", "synonyms", "sort", "boolean", "force", "is_path"),
    ]
)
INPUT_TYPES = ("str", "int", "float", "bool", "path")
CONDITIONS = {
    "enable_if_env": (False, False),
    "skip_if_env": (True, False),
    "enable_if_any_env": (False, True),
    "skip_if_any_env": (True, True),
}


@immutable(frozen=True, slots=True, eq=False, repr=False)
class Diagnostic:
    """One fault of one meta file; ``where`` is the dotted path of the key."""

    where: str
    message: str


def load_yaml(text: str, source: str, loader: Any = None) -> Any:
    """Parse YAML with the fast loader; raises ``bad-meta`` with file, line and column."""
    import yaml

    from cmbench.format.size_limits import SAFE_LENGTH, bounded, refuse_deep, too_deep

    loader = loader or getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        if len(text) > SAFE_LENGTH:
            refuse_deep(yaml.parse(text, Loader=loader), source)
        return bounded(yaml.load(text, Loader=loader), source)
    except RecursionError:
        raise too_deep(source) from None
    except yaml.YAMLError as problem:
        raise invalid_syntax("bad-meta", source, "YAML", problem) from None


def meta_file(directory: str) -> str | None:
    """The meta file of a script directory, or ``None``."""
    for name in META_FILES:
        path = os.path.join(directory, name)
        if os.path.isfile(path):
            return path
    return None


def read_meta(directory: str) -> dict[str, Any]:
    """The merged meta of a script directory (YAML first, JSON keys override, as CM does).

    Raises ``Error`` (``bad-meta``) when no file can be read as a mapping.
    """
    merged: dict[str, Any] = {}
    last_path = ""
    for name in META_FILES:
        path = os.path.join(directory, name)
        if not os.path.isfile(path) or (last_path.endswith("meta.yaml") and name == "_cm.yaml"):
            continue
        last_path = path
        try:
            with open(path, encoding="utf-8") as stream:
                text = stream.read()
        except UnicodeDecodeError as problem:
            raise invalid_syntax("bad-meta", path, "YAML", problem) from None
        data = _parse(text, path)
        if not isinstance(data, dict):
            raise Error("bad-meta", f"{path}: the file is not a mapping of keys")
        merged.update(data)
    if not last_path:
        raise Error("bad-meta", f"{directory}: no meta.yaml in this script directory")
    return merged


def _parse(text: str, path: str) -> Any:
    if not path.endswith(".json"):
        return load_yaml(text, path)
    from cmbench.format.size_limits import bounded, too_deep

    try:
        return bounded(json.loads(text), path)
    except RecursionError:
        raise too_deep(path) from None
    except ValueError as problem:
        raise invalid_syntax("bad-meta", path, "JSON", problem) from None


def check(meta: Mapping[str, Any]) -> list[Diagnostic]:
    """Every unknown or ill-typed key of a script's meta; an empty list means it is sound."""
    errors = list(_unknown(meta, SCRIPT_KEYS, ""))
    errors += [Diagnostic(key, "missing") for key in ("alias", "uid", "tags") if not meta.get(key)]
    if not isinstance(meta.get("uid", ""), str):
        errors.append(Diagnostic("uid", "must be text: put it in quotes"))
    if "/" in str(meta.get("alias")):
        errors.append(Diagnostic("alias", "must be a name: no / may be in it"))
    errors += _check_settings(meta, "")
    for group in ("variations", "versions"):
        blocks = meta.get(group) or {}
        if not isinstance(blocks, dict):
            errors.append(Diagnostic(group, "must be a mapping"))
            continue
        for name, block in blocks.items():
            where = f"{group}.{name}"
            if not isinstance(block or {}, dict):
                errors.append(Diagnostic(where, "must be a mapping"))
                continue
            errors += _unknown(block or {}, VARIATION_KEYS, where)
            errors += _check_settings(block or {}, where)
    return errors + _check_inputs(meta)


def _unknown(block: Mapping[str, Any], known: frozenset[str], where: str) -> Iterable[Diagnostic]:
    for key in block:
        if key not in known:
            path = f"{where}.{key}" if where else str(key)
            hint = did_you_mean(str(key), known)
            yield Diagnostic(path, "unknown key" + (f", {hint}" if hint else ""))


def _check_settings(block: Mapping[str, Any], where: str) -> list[Diagnostic]:
    errors: list[Diagnostic] = []
    prefix = where + "." if where else ""
    for phase in PHASES:
        entries = block.get(phase) or []
        if not isinstance(entries, list):
            errors.append(Diagnostic(prefix + phase, "must be a list"))
            continue
        for number, entry in enumerate(entries):
            entry_key = f"{prefix}{phase}[{number}]"
            if not isinstance(entry, dict):
                errors.append(Diagnostic(entry_key, "must be a mapping"))
            elif not entry.get("tags"):
                errors.append(Diagnostic(entry_key, "has no tags"))
    mappings = ("env", "default_env", "const", "state", "input_mapping")
    wrong = [key for key in mappings if not isinstance(block.get(key) or {}, dict)]
    return errors + [Diagnostic(prefix + key, "must be a mapping") for key in wrong]


def _check_inputs(meta: Mapping[str, Any]) -> list[Diagnostic]:
    errors: list[Diagnostic] = []
    specs = meta.get("input_description") or {}
    if not isinstance(specs, dict):
        return [Diagnostic("input_description", "must be a mapping")]
    for name, spec in specs.items():
        where = f"input_description.{name}"
        if not isinstance(spec, dict):
            continue
        errors += _unknown(spec, INPUT_KEYS, where)
        if spec.get("type", "str") not in INPUT_TYPES:
            errors.append(Diagnostic(f"{where}.type", f"must be one of {', '.join(INPUT_TYPES)}"))
        errors += _check_place(spec, where)
    return errors


def _check_place(spec: Mapping[str, Any], where: str) -> list[Diagnostic]:
    if "must_be" not in spec:
        return []
    from cmbench.lib.named_paths import KINDS

    if spec["must_be"] not in KINDS:
        return [Diagnostic(f"{where}.must_be", f"must be one of {', '.join(KINDS)}")]
    is_path = spec.get("type") == "path"
    return [] if is_path else [Diagnostic(f"{where}.must_be", "is for inputs of type path")]


def tags_of(meta: Mapping[str, Any]) -> list[str]:
    """The tags of a script; none where they are neither a list nor a text with commas."""
    value = meta.get("tags")
    words = value.split(",") if isinstance(value, str) else value
    return [str(word).strip() for word in words] if isinstance(words, list | tuple) else []


def parse_script(meta: Mapping[str, Any], path: str, repo: str, dialect: Dialect = CM) -> Script:
    """Typed form of a checked meta. ``path`` is the script directory, ``repo`` its repository."""
    variations = {
        str(name): _variation(str(name), block or {})
        for name, block in (meta.get("variations") or {}).items()
    }
    versions = {
        str(name): _settings(block or {}) for name, block in (meta.get("versions") or {}).items()
    }
    return Script(
        path=path,
        repo=repo,
        alias=str(meta.get("alias", os.path.basename(path))),
        uid=str(meta.get("uid", "")),
        tags=tuple(tags_of(meta)),
        title=str(meta.get("name", "")),
        settings=_settings(meta),
        variations=variations,
        versions=versions,
        inputs=_inputs(meta),
        cache=is_true(meta.get("cache", False)),
        can_force_cache=is_true(meta.get("can_force_cache", False)),
        host_facts=is_true(meta.get("host_facts", False)),
        default_variation=str(meta.get("default_variation") or ""),
        variation_groups_order=_texts(meta.get("variation_groups_order")),
        valid_combinations=_combinations(meta.get("valid_variation_combinations")),
        invalid_combinations=_combinations(meta.get("invalid_variation_combinations")),
        extra_cache_tags_from_env=tuple(
            (str(item.get("env", "")), str(item.get("prefix", "")))
            for item in meta.get("extra_cache_tags_from_env") or ()
        ),
        print_env_at_the_end={
            str(k): str(v) for k, v in (meta.get("print_env_at_the_end") or {}).items()
        },
        clean_files=_texts(meta.get("clean_files")),
        clean_output_files=_texts(meta.get("clean_output_files")),
        files_of_failure=_texts(meta.get("print_files_if_script_error")),
        env_key_mappings=_map(meta, "env_key_mappings"),
        sort=int(meta.get("sort") or 0),
        predeps=is_true(meta.get("predeps", True)),
        meta=meta,
        dialect=dialect,
    )


is_true = is_yes
"""The format's idea of yes."""


def _is_false(value: Any) -> bool:
    return is_no(value) or str(value).strip().lower() in ("none", "")


def _text(value: Any) -> str:
    return "" if value is None else str(value).strip()


def _texts(value: Any) -> tuple[str, ...]:
    if value is None or value == "":
        return ()
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return tuple(str(item) for item in value)


def _combinations(value: Any) -> tuple[tuple[str, ...], ...]:
    return tuple(_texts(item) for item in value or ())


def _map(block: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    return _mapping(block.get(key), key)


def _mapping(value: Any, key: str) -> Mapping[str, Any]:
    if not isinstance(value or {}, Mapping):
        raise TypeError(f"{key} must be a mapping")
    return value or {}


def _pairs(value: Any) -> dict[str, str]:
    return {str(name): str(text) for name, text in (value or {}).items()}


def _items(value: Any) -> tuple[str, ...]:
    return tuple(str(item) for item in value or ())


def _dependencies(value: Any) -> tuple[Dependency, ...]:
    return tuple(dependency(entry) for entry in value if entry.get("tags"))


def _conditional(value: Any) -> tuple[tuple[tuple[Condition, ...], ScriptSettings], ...]:
    return tuple((conditions(item), _settings(item)) for item in value or ())


def _settings(block: Mapping[str, Any]) -> ScriptSettings:
    fields: dict[str, Any] = {}
    deps: dict[str, tuple[Dependency, ...]] = {}
    for key, value in block.items():
        if key in _MAPPINGS:
            fields[key] = _mapping(value, key)
        elif key in PHASES and value:
            deps[key] = _dependencies(value)
        elif key in _SETTINGS and value is not None:
            name, read = _SETTINGS[key]
            fields[name] = read(value)
    return ScriptSettings(
        **fields,
        deps=deps,
        ad=updates(block.get("ad"), block.get("add_deps")),
        adr=updates(block.get("adr"), block.get("add_deps_recursive")),
    )


def _variation(name: str, block: Mapping[str, Any]) -> Variation:
    return Variation(
        name=name,
        settings=_settings(block),
        group=str(block.get("group") or ""),
        default="default" in block and not _is_false(block["default"]),
        base=_texts(block.get("base")),
        alias=str(block.get("alias") or ""),
    )


def updates(*blocks: Mapping[str, Any] | None) -> dict[str, Dependency]:
    """``ad``/``adr`` blocks (name to entry) as typed updates."""
    merged: dict[str, Dependency] = {}
    for block in blocks:
        for name, entry in (block or {}).items():
            if isinstance(entry, dict):
                merged[str(name)] = dependency(entry)
    return merged


def dependency(entry: Mapping[str, Any]) -> Dependency:
    """Typed form of one dependency entry or update."""
    fields: dict[str, Any] = {}
    inputs: dict[str, Any] = {}
    for key, value in entry.items():
        if key in _ENTRY:
            name, read = _ENTRY[key]
            if value is not None:
                # Only groups of updates have two names: both are read.
                fields[name] = {**fields[name], **read(value)} if name in fields else read(value)
        elif key not in DEPENDENCY_KEYS:
            inputs[str(key)] = value
    return Dependency(
        **fields,
        conditions=conditions(entry),
        env=_map(entry, "env"),
        version=version_range(entry),
        inputs=inputs,
    )


def _prefixes(value: Any) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return tuple((str(prefix), _texts(keys)) for prefix, keys in (value or {}).items())


def _tags_if(value: Any) -> tuple[tuple[str, tuple[Condition, ...]], ...]:
    return tuple((str(tag), conditions(rules)) for tag, rules in (value or {}).items())


def _tags_text(value: Any) -> str:
    return ",".join(_texts(value))


def version_range(entry: Mapping[str, Any]) -> VersionRange:
    """The four version keys of a call or an entry."""
    exact, low, high, usable = (
        entry.get(k) for k in ("version", "version_min", "version_max", "version_max_usable")
    )
    if exact is None and low is None and high is None and usable is None:
        return _ANY
    return VersionRange(*("" if v is None else str(v).strip() for v in (exact, low, high, usable)))


_ANY = VersionRange()


def conditions(entry: Mapping[str, Any]) -> tuple[Condition, ...]:
    """All condition groups of an entry; scalars count as lists of one."""
    groups = []
    for key, (skip, any_of) in CONDITIONS.items():
        rules = entry.get(key)
        if rules:
            groups.append(
                Condition(skip, any_of, tuple((str(k), _values(v)) for k, v in rules.items()))
            )
    return tuple(groups)


def _values(value: Any) -> tuple[str, ...]:
    items = value if isinstance(value, list | tuple) else [value]
    return tuple(str(item).strip().lower() for item in items)


def _bound(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _inputs(meta: Mapping[str, Any]) -> dict[str, InputSpec]:
    mapping = meta.get("input_mapping") or {}
    described = meta.get("input_description") or {}
    result = {}
    for name in dict.fromkeys([*mapping, *described]):
        spec = described.get(name)
        spec = spec if isinstance(spec, dict) else {"desc": str(spec or "")}
        result[str(name)] = InputSpec(
            name=str(name),
            env=str(mapping.get(name, "")),
            description=str(spec.get("desc", "")),
            type="path" if is_true(spec.get("is_path")) else str(spec.get("type", "str")),
            choices=_texts(spec.get("choices")),
            default=str(spec.get("default", "")),
            unit=str(spec.get("unit", "")),
            minimum=_bound(spec.get("min")),
            maximum=_bound(spec.get("max")),
            must_be=str(spec.get("must_be", "")),
            only_with=_texts(spec.get("only_with")),
            not_with=_texts(spec.get("not_with")),
            repeats=is_true(spec.get("repeats")),
            synonyms=_pairs(spec.get("synonyms")),
        )
    return result


# Key of the format to the field of the typed form and what reads a value that is there: blocks have
# few of many keys, and every script of a plan has several blocks.
_MAPPINGS = frozenset(["env", "default_env", "const", "state"])
_SETTINGS: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "input_mapping": ("input_mapping", _pairs),
    "new_env_keys": ("new_env_keys", _texts),
    "new_state_keys": ("new_state_keys", _texts),
    "local_env_keys": ("local_env_keys", _texts),
    "default_variations": ("default_variations", _pairs),
    "default_version": ("default_version", _text),
    "script_name": ("script_name", _text),
    "cache_expiration": ("expires", _text),
    "fetches": ("fetches", _items),
    "exclusive": ("exclusive", _items),
    "warnings": ("warnings", _items),
    "uses": ("uses", _texts),
    "update_meta_if_env": ("conditional", _conditional),
}
_ENTRY: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "tags": ("tags", _tags_text),
    "names": ("names", _texts),
    "extra_cache_tags": ("extra_cache_tags", _tags_text),
    "force_cache": ("force_cache", is_true),
    "force_env_keys": ("force_env_keys", _texts),
    "force_new_env_keys": ("force_new_env_keys", _texts),
    "inherit_variation_tags": ("inherit_variation_tags", is_true),
    "skip_inherit_variation_groups": ("skip_inherit_variation_groups", _texts),
    "reuse_version": ("reuse_version", is_true),
    "dynamic": ("dynamic", is_true),
    "skip_if_fake_run": ("skip_if_fake_run", is_true),
    "update_tags_from_env": ("tags_from_env", _texts),
    "update_tags_from_env_with_prefix": ("tags_from_env_with_prefix", _prefixes),
    "update_tags_if_env": ("tags_if_env", _tags_if),
    "continue_on_error": ("continue_on_error", is_true),
    "cache_expiration": ("expires", _text),
    "inherit_cache_expiration": ("inherits_expiration", is_true),
    "ad": ("ad", updates),
    "add_deps": ("ad", updates),
    "adr": ("adr", updates),
    "add_deps_recursive": ("adr", updates),
}
