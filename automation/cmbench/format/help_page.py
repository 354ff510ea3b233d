"""What ``meta.yaml`` says for help and forms alone: groups of inputs, examples, variations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cmbench.format.model import InputSpec, Script
from cmbench.values import field, immutable


@immutable(frozen=True, slots=True, eq=False, repr=False)
class HelpPage:
    """The help of a script beyond the list of its inputs.

    ``groups`` are names of inputs by the title of their group, the essential ones first;
    ``examples`` are commands by their purpose; ``variations`` are descriptions by name.
    """

    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    examples: Mapping[str, str] = field(default_factory=dict)
    variations: Mapping[str, str] = field(default_factory=dict)


def help_page(script: Script) -> HelpPage:
    """Return the help of ``script``; empty parts where its ``meta.yaml`` has none."""
    page = _mapping(script.meta.get("help"))
    described = _mapping(script.meta.get("variations"))
    return HelpPage(
        groups={
            str(title): tuple(name for name in map(str, names) if name in script.inputs)
            for title, names in _mapping(page.get("groups")).items()
            if isinstance(names, list)
        },
        examples={str(purpose): str(c) for purpose, c in _mapping(page.get("examples")).items()},
        variations={
            str(name): str(block["desc"])
            for name, block in described.items()
            if isinstance(block, dict) and block.get("desc")
        },
    )


def grouped_inputs(script: Script, page: HelpPage) -> dict[str, list[InputSpec]]:
    """Return the inputs of ``script`` by group; those of no group last, under an empty title."""
    groups = {
        title: [script.inputs[name] for name in names] for title, names in page.groups.items()
    }
    grouped = {name for names in page.groups.values() for name in names}
    rest = [spec for name, spec in script.inputs.items() if name not in grouped]
    return {**groups, "": rest}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
