"""Descriptions of systems."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mlperf.catalog import Division

from ..fields import FIELDS, NETWORK_FIELDS, STATUSES, TYPES, UNKNOWN, SystemField
from ..layouts import RESULTS, SYSTEMS, folders
from .base import (
    CHECKER,
    FIRST_FILLED,
    NOTE,
    RULES,
    WARNING,
    Finding,
    Rule,
    SubmitterSite,
    number,
    read_object,
)

MISSING = Rule("system.missing", "every system is described", CHECKER)
UNREADABLE = Rule("system.unreadable", "a description is a JSON object", CHECKER)
FIELD = Rule("system.field-missing", "every field is there", CHECKER)
EMPTY = Rule("system.field-empty", "fields that matter are not empty", CHECKER, first=FIRST_FILLED)
TEXT = Rule("system.field-type", 'fields are texts; zero is written as "0"', CHECKER)
COUNT = Rule("system.field-number", "counts are whole numbers", CHECKER, first=FIRST_FILLED)
STATUS = Rule("system.status", "available, preview or rdi", RULES)
TYPE = Rule("system.type", "edge, datacenter or both", RULES)
OWNER = Rule("system.owner", "submitter and division are those of the folders", CHECKER)
NETWORK = Rule("system.network", "only the network division is measured over a network", RULES)
OPEN = Rule("system.unanswered", "unknown fields are asked for", RULES, NOTE)

LATER = ("system_type_detail", "host_network_card_count")
# Several times what a processor has.
MOST_CORES = 1024
AT_LEAST_ONE = ("number_of_nodes", "host_processors_per_node")
# What descriptions say for no accelerator.
NONE = re.compile(r"\s*(?:n/?a|none|no|-|0|)\s*\.?", re.IGNORECASE)
WHOLE = re.compile(r"\s*\d+\s*")
CPU_ONLY = re.compile(r"(?:^|[-_])cpu(?:$|[-_])", re.IGNORECASE)
# Where the checkers of before 6.0 write them into their table, they add texts to them; notes are
# added to each other, and is_network is compared, by all.
JOINED = (
    *("system_name", "system_type", "framework", "operating_system"),
    *("host_processor_model_name", "accelerator_model_name"),
)
ADDED = ("hw_notes", "sw_notes")
# What the modular checker turns into whole numbers.
COUNTED = ("number_of_nodes", "accelerators_per_node")
MEND = "write the field into a file, and generate again with --system_file=FILE"


def descriptions(site: SubmitterSite) -> Iterator[Finding]:
    """Check the JSON files of the systems with results."""
    # A folder without a result counts as a system too.
    for system in (folder.name for folder in folders(site.root / RESULTS)):
        path = site.root / SYSTEMS / f"{system}.json"
        if not path.is_file():
            yield MISSING.broken(
                site.where(path), "there is no such file", "generate the tree again"
            )
            continue
        document = read_object(path)
        if document is None:
            yield UNREADABLE.broken(site.where(path), "no JSON object", "generate the tree again")
            continue
        yield from _fields(site, path, document)
        yield from _values(site, path, document)
        yield from _taken(site, site.where(path), document)
        yield from _counts(site.where(path), document)
        yield from _plausible(site.where(path), document)
        yield from _twice(site.where(path), path)


def _fields(site: SubmitterSite, path: Path, document: Mapping[str, Any]) -> Iterator[Finding]:
    where, unanswered = site.where(path), []
    for field, rule in _required_fields(site, document):
        if field.name not in document:
            yield rule.broken(where, f"the field {field.name} is missing", MEND)
            continue
        value = document[field.name]
        yield from _field(where, field, value)
        blank = field.needed and str(value).isspace()
        yield from EMPTY.at(WARNING).unless(
            not blank, where, f"the field {field.name} is blank", MEND
        )
        if field.needed and value == UNKNOWN and not _may_be_unknown(field, document):
            unanswered.append(field.name)
    if unanswered:
        yield OPEN.broken(where, f"not known: {', '.join(unanswered)}", MEND)


def _required_fields(
    site: SubmitterSite, document: Mapping[str, Any]
) -> Iterator[tuple[SystemField, Rule]]:
    """Yield the fields that a description must have, with the rule that requires them."""
    for field in FIELDS:
        yield field, FIELD.at(WARNING, site.allows_empty and field.name in LATER)
    networked = site.division == Division.NETWORK or over_network(document)
    # The modular checker requires them with any is_network.
    said = site.layout.modular and bool(document.get("is_network"))
    rule = FIELD.at(WARNING, not networked and not site.layout.joined)
    for field in NETWORK_FIELDS if networked or said else ():
        yield field, rule


def _counts(where: str, document: Mapping[str, Any]) -> Iterator[Finding]:
    """Check for no node or processor, and for accelerators whose name and number do not fit."""
    for name in AT_LEAST_ONE:
        count = number(document.get(name))
        yield from COUNT.unless(count is None or count >= 1, where, f"{name} is {count}", MEND)
    some = number(document.get("accelerators_per_node"))
    model = str(document.get("accelerator_model_name") or UNKNOWN)
    named = not NONE.fullmatch(model)
    fault = f"accelerators_per_node is {some or 0:.0f}, accelerator_model_name {model!r}"
    fits = some is None or named == bool(some)
    yield from COUNT.at(WARNING).unless(fits, where, fault, "count the ones that took part")


def _plausible(where: str, document: Mapping[str, Any]) -> Iterator[Finding]:
    """Check for impossible counts, and for accelerators of a system named after its CPU."""
    cores = number(document.get("host_processor_core_count"))
    fault = f"host_processor_core_count is {cores or 0:.0f}"
    fits = cores is None or 0 < cores <= MOST_CORES
    yield from COUNT.at(WARNING).unless(fits, where, fault, "give the cores of one processor")
    some = number(document.get("accelerators_per_node"))
    fault = f"accelerators_per_node is {some or 0:.0f}, the name of the system says cpu"
    alone = not CPU_ONLY.search(Path(where).stem) or not some
    yield from COUNT.at(WARNING).unless(alone, where, fault, "write 0 where none took part")


def _twice(where: str, path: Path) -> Iterator[Finding]:
    """Check for a field with two values, of which everybody reads another one."""
    said: list[str] = []

    def note(pairs: list[tuple[str, object]]) -> dict[str, object]:
        document = dict(pairs)
        said.extend(key for key, value in pairs if document[key] != value)
        return document

    json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=note)
    for key in said[:1]:
        yield TEXT.broken(where, f"the field {key} is there twice, and not the same", MEND)


def over_network(document: Mapping[str, Any]) -> bool:
    """Whether a system is measured over a network, by its description."""
    return str(document.get("is_network", "")).lower() == "true"


def _taken(site: SubmitterSite, where: str, document: Mapping[str, Any]) -> Iterator[Finding]:
    """Check values at which a checker ends with a traceback, or which it compares exactly."""
    yield from _notes(site, where, document)
    for name in (*JOINED, *ADDED, "is_network"):
        value = document.get(name, "")
        # Another rule reports empty fields; is_network may be null.
        if isinstance(value, str) or value is None or (not value and name != "is_network"):
            continue
        rule = TEXT.at(WARNING, site.layout.joined and name in JOINED)
        fault = f"the field {name} is {value!r}, which is not text"
        yield rule.broken(where, fault, f'write "{str(value).lower()}" with quotes')
    if site.layout.modular:
        rule = COUNT.at(WARNING, not site.layout.joined)
        yield from _counted(rule, where, document)


def _notes(site: SubmitterSite, where: str, document: Mapping[str, Any]) -> Iterator[Finding]:
    """Check notes that are no text, which a checker would append to the table."""
    notes = document.get("hw_notes", "")
    if not (isinstance(notes, str) or notes or document.get("sw_notes")):
        fault = f"the field hw_notes is {notes!r}, which is not text, and sw_notes is empty"
        yield TEXT.at(WARNING, site.layout.joined).broken(where, fault, 'write "" for no notes')


def _counted(rule: Rule, where: str, document: Mapping[str, Any]) -> Iterator[Finding]:
    """Check that counts which are numbers are whole ones."""
    for name in COUNTED:
        value = document.get(name)
        if value and value != UNKNOWN and number(value) is None:
            # Said of the field itself.
            continue
        fault = f"{name} is {document.get(name)!r}, which is not a whole number"
        whole = WHOLE.fullmatch(str(document.get(name, 0))) or isinstance(document[name], float)
        yield from rule.unless(bool(whole), where, fault, "write a whole number, 0 for none")


def _may_be_unknown(field: SystemField, document: Mapping[str, Any]) -> bool:
    none = number(document.get("accelerators_per_node")) == 0
    return field.name == "host_networking_topology" or (
        none and field.name.startswith("accelerator")
    )


def _field(where: str, field: SystemField, value: object) -> Iterator[Finding]:
    if not value and field.needed:
        fault = f"the field {field.name} is {value!r}"
        yield EMPTY.broken(where, fault, f"{MEND}; where it does not apply, write {UNKNOWN}")
    elif not isinstance(value, str) and not value:
        fault = f"the field {field.name} is {value!r}, which counts as empty"
        yield TEXT.at(WARNING).broken(where, fault, "write a text, such as N/A")
    if (
        field.whole_number
        and value
        and value != UNKNOWN
        and (number(value) is None or number(value) != int(number(value) or 0))
    ):
        yield COUNT.broken(where, f"{field.name} is {value!r}", "write a whole number")


def _values(site: SubmitterSite, path: Path, document: Mapping[str, Any]) -> Iterator[Finding]:
    where = site.where(path)
    status = str(document.get("status", "")).lower()
    if status not in STATUSES:
        yield STATUS.broken(where, f"status is {status!r}", f"use one of: {', '.join(STATUSES)}")
    kind = document.get("system_type")
    # With a space after the comma too it is none.
    if kind not in TYPES:
        yield TYPE.broken(where, f"system_type is {kind!r}", "generate again with --category")
    for name, folder in (("submitter", site.submitter), ("division", site.division)):
        said = str(document.get(name, ""))
        # The checkers compare divisions to the letter.
        if (said if name == "division" else said.lower()) != folder.lower():
            fault = f"{name} is {document.get(name)!r}, the folder is {folder!r}"
            yield OWNER.broken(where, fault, f"make them the same: generate again with --{name}")
    networked = over_network(document)
    if Division(site.division).strict and networked != (site.division == Division.NETWORK):
        fault = f"is_network is {networked} in the {site.division} division"
        yield NETWORK.broken(where, fault, "submit it to the other division")
