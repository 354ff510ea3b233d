"""The JSON Schema of ``meta.yaml`` and the house order of its keys, for editors and the linter.

Which keys exist is said by the tables in ``cmbench.format.meta``; here is only what a key
holds and what it is for. A key without an entry here is accepted with any value.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from cmbench.format.meta import (
    DEPENDENCY_KEYS,
    INPUT_KEYS,
    INPUT_TYPES,
    SCRIPT_KEYS,
    VARIATION_KEYS,
)
from cmbench.lib.named_paths import KINDS

META_SCHEMA = "schema/meta.schema.json"
"""Where a repository of scripts keeps the schema, from its root."""

KEY_ORDER = (
    *("alias", "uid", "automation_alias", "automation_uid", "name", "category", "tags"),
    *("uses",),
    *("cache", "can_force_cache", "host_facts", "exclusive", "fetches"),
    *("required_disk_space", "privileges", "licence"),
    *("default_env", "env", "input_mapping", "input_description", "help"),
    *("foreign_flags",),
    *("new_env_keys", "new_state_keys", "local_env_keys", "registered_by"),
    *("deps", "prehook_deps", "posthook_deps", "post_deps"),
    *("default_version", "versions", "variations", "variation_groups_order"),
    *("print_env_at_the_end",),
)
"""Keys of a script in the order that files of this repository use."""

_SCALAR = {"type": ["string", "number", "boolean", "null"]}
_TEXT = {"type": ["string", "number"]}
_FLAG = {"type": ["boolean", "string", "integer"]}
_TEXTS = {"type": ["array", "string", "null"], "items": _TEXT}
_ENV = {
    "type": ["object", "null"],
    "additionalProperties": {"anyOf": [_SCALAR, {"type": ["array", "object"]}]},
}
_NAMES = {"type": ["object", "null"], "additionalProperties": {"type": ["string", "number"]}}
_DEPS = {"type": ["array", "null"], "items": {"$ref": "#/$defs/dependency"}}
_UPDATES = {"type": ["object", "null"], "additionalProperties": {"$ref": "#/$defs/update"}}
_BLOCKS = {"type": ["object", "null"], "additionalProperties": {"$ref": "#/$defs/variation"}}
_RULES = {
    "type": ["object", "null"],
    "additionalProperties": {"anyOf": [_SCALAR, {"type": "array", "items": _SCALAR}]},
}
_HELP = {
    "type": "object",
    "properties": {
        "groups": {"type": "object", "additionalProperties": {"type": "array", "items": _TEXT}},
        "examples": {"type": "object", "additionalProperties": {"type": "string"}},
    },
    "additionalProperties": False,
}
_FOREIGN_FLAG = {
    "type": "object",
    "properties": {
        "ignored": {"type": "string", "description": "Why it has no effect"},
        "refused": {"type": "string", "description": "Why it is an error"},
        "instead": {"type": "string", "description": "What to do in its place"},
    },
    "additionalProperties": False,
}

_ABOUT: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "alias": ({"type": "string"}, "The script's name; that of its directory"),
    "uid": ({"type": "string"}, "Unique id: 16 hex digits, quoted if all are digits"),
    "automation_alias": ({"type": "string"}, "Always script"),
    "automation_uid": ({"type": "string"}, "Always 5b4e0237da074764"),
    "name": ({"type": "string"}, "One line: what it is for"),
    "category": (_TEXT, "Where it belongs"),
    "cache": (_FLAG, "Keep its result, or run it every time"),
    "can_force_cache": (_FLAG, "Let --force_cache or a dependency entry turn caching on"),
    "host_facts": (_FLAG, "A cheap, read-only fact of the machine, never kept"),
    "exclusive": (_TEXTS, "Names of locks held while its own work runs, across processes"),
    "fetches": (_TEXTS, "What it takes from the network, for the plan"),
    "required_disk_space": (_TEXT, "Least disk space that its cache entry takes, in MB"),
    "privileges": (_TEXTS, "What it needs root for, for the plan"),
    "licence": (_TEXTS, "Licences that its user accepts, for the plan"),
    "uses": (_TEXTS, "Modules and packages of lib/ that its programs and hooks import"),
    "env": (_ENV, "Env keys set"),
    "default_env": (_ENV, "Env keys set when they are not set yet"),
    "const": (_ENV, "Env keys that nothing overrides"),
    "state": (_ENV, "State keys set"),
    "input_mapping": (_NAMES, "Input to env key: --input=value sets the key"),
    "input_description": (
        {"type": ["object", "null"], "additionalProperties": {"$ref": "#/$defs/input"}},
        "What each input is: desc, type, choices, default, unit",
    ),
    "help": (
        _HELP,
        "For help and forms: titles of groups with their inputs, example commands by purpose",
    ),
    "foreign_flags": (
        {"type": "object", "additionalProperties": _FOREIGN_FLAG},
        "Flags of CM, MLC and other programs that users may type, and what becomes of each",
    ),
    "new_env_keys": (_TEXTS, "Env keys it gives back: names or patterns such as CM_X_*"),
    "new_state_keys": (_TEXTS, "State keys it gives back"),
    "local_env_keys": (_TEXTS, "Env keys that its dependencies must not see"),
    "registered_by": (_TEXTS, "Env keys of what users hand in: calls without them find it again"),
    "deps": (_DEPS, "Steps that run first"),
    "prehook_deps": (_DEPS, "Steps between preprocess and run.sh"),
    "posthook_deps": (_DEPS, "Steps between run.sh and postprocess"),
    "post_deps": (_DEPS, "Steps that run last"),
    "ad": (_UPDATES, "Changes to this script's own dependencies, by their names"),
    "add_deps": (_UPDATES, "The same as ad"),
    "adr": (_UPDATES, "Changes to dependencies at any depth, by their names"),
    "add_deps_recursive": (_UPDATES, "The same as adr"),
    "default_version": (_TEXT, "Version when none is asked for"),
    "versions": (_BLOCKS, "Settings by version"),
    "variations": (_BLOCKS, "Named changes: _name in the tags makes one active"),
    "variation_groups_order": (_TEXTS, "Order in which groups are shown"),
    "print_env_at_the_end": (_NAMES, "Env keys to print, with their titles"),
    "group": (_TEXT, "At most one variation of a group is active"),
    "default": (_SCALAR, "The one of its group when none is asked for"),
    "base": (_TEXTS, "Variations that come with it"),
    "default_variations": (_NAMES, "Group to variation, for groups without a member"),
    "names": (_TEXTS, "Handles for ad and adr"),
    "enable_if_env": (_RULES, "Run it only if all these keys have one of these values"),
    "skip_if_env": (_RULES, "Leave it out if all these keys have one of these values"),
    "enable_if_any_env": (_RULES, "Run it only if one of these keys has one of these values"),
    "skip_if_any_env": (_RULES, "Leave it out if one of these keys has one of these values"),
    "force_new_env_keys": (_TEXTS, "More env keys for it to give back"),
    "version": (_TEXT, "Exact version wanted"),
    "version_min": (_TEXT, "Lowest version accepted"),
    "version_max": (_TEXT, "Highest version accepted"),
    "version_max_usable": (_TEXT, "Version to take when the default is above version_max"),
    "dynamic": (_FLAG, "Run it also when the caller comes from the cache"),
    "reuse_version": (_FLAG, "Pass the caller's version on"),
    "inherit_variation_tags": (_FLAG, "Pass the caller's variations on"),
    "force_cache": (_FLAG, "Turn caching on for this use"),
    "desc": (_TEXT, "What the input or the variation is for"),
    "type": ({"enum": list(INPUT_TYPES)}, "What values it takes"),
    "must_be": ({"enum": list(KINDS)}, "Of a path, what has to be there before a run begins"),
    "only_with": (_TEXTS, "It has no effect without one of these: _variation, input, input=value"),
    "not_with": (_TEXTS, "It has no effect with one of these: _variation, input, input=value"),
    "repeats": (_FLAG, "It may be given several times; its value is then the list of all"),
    "choices": (_TEXTS, "The values that are possible"),
    "synonyms": (_NAMES, "Other words for a choice: word to choice"),
    "unit": (_TEXT, "Unit of the value"),
    "min": ({"type": "number"}, "The least value that makes sense"),
    "max": ({"type": "number"}, "The largest value that makes sense"),
}


def meta_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of ``meta.yaml``."""
    script = _object(_in_order(SCRIPT_KEYS), ("alias", "uid", "tags"), strict=True)
    script["properties"]["tags"] = {**_TEXTS, "description": "What it is found by"}
    # A dependency entry passes every other key on as an input of the script that it names.
    dependency = _object(sorted(DEPENDENCY_KEYS), ("tags",), strict=False)
    dependency["properties"]["tags"] = {**_TEXTS, "description": "get,python3,_variation,-unwanted"}
    update = _object(sorted(DEPENDENCY_KEYS), (), strict=False)
    update["properties"]["tags"] = dependency["properties"]["tags"]
    parts = {
        "dependency": dependency,
        "update": update,
        "variation": _nullable(_object(sorted(VARIATION_KEYS), (), strict=True)),
        "input": {"anyOf": [_object(sorted(INPUT_KEYS), (), strict=True), {"type": "string"}]},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "meta.yaml of an automation script",
        **script,
        "$defs": parts,
    }


def meta_schema_text() -> str:
    """The published file."""
    return json.dumps(meta_schema(), indent=1) + "\n"


def _in_order(keys: Iterable[str]) -> list[str]:
    known = set(keys)
    return [*(k for k in KEY_ORDER if k in known), *sorted(known - set(KEY_ORDER))]


def _object(keys: Iterable[str], required: tuple[str, ...], strict: bool) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": {key: _value(key) for key in keys}}
    if required:
        schema["required"] = list(required)
    if strict:
        schema["additionalProperties"] = False
    return schema


def _value(key: str) -> dict[str, Any]:
    if key not in _ABOUT:
        return {}
    form, meaning = _ABOUT[key]
    return {**form, "description": meaning}


def _nullable(form: dict[str, Any]) -> dict[str, Any]:
    return {**form, "type": [form["type"], "null"]}
