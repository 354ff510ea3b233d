"""The form of a script, from the data that ``--help`` shows: its variations, inputs and flags."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from cmbench.format.help_page import help_page
from cmbench.format.model import InputSpec, Script, Variation
from cmbench.session.request import FLAGS, SWITCHES
from cmbench_gui.command import ComposedCommand, can_be_typed, meaning_of, problem_of

FEW = 12
"""A form with no more inputs shows all of them at once."""

_OF_RUNS = ("quiet", "offline", "new", "skip_cache", "jobs", "name", "path")
_OF_VERSIONS = ("version", "version_min", "version_max")


@dataclass(frozen=True, slots=True)
class FormField:
    """One control: its name in the query, its label, and its value.

    ``kind`` is ``select``, ``check`` (it holds one value or nothing), ``number``, ``text`` or
    ``area``. ``options`` are values that can be chosen, ``empty`` what no choice means. ``asked``:
    the planner may say which of its options cannot be combined with the rest.
    """

    name: str
    label: str
    kind: str
    value: str = ""
    help: str = ""
    options: tuple[str, ...] = ()
    empty: str = ""
    unit: str = ""
    low: float | None = None
    high: float | None = None
    whole: bool = False
    problem: str = ""
    asked: bool = False


@dataclass(frozen=True, slots=True)
class FormPart:
    """Fields that stand together; one that is not ``shown`` opens on request, or if one is set."""

    title: str
    fields: tuple[FormField, ...]
    shown: bool = True
    note: str = ""

    @property
    def set(self) -> int:
        """How many of them hold something."""
        return sum(bool(field.value) for field in self.fields)


def form_of(script: Script, choice: ComposedCommand) -> list[FormPart]:
    """The parts of the form, filled in with ``choice``."""
    inputs = [_input(spec, choice, script) for spec in _distinct(script, choice)]
    parts = [
        *_inputs(inputs, script, tuple(_variations(script, choice))),
        FormPart("How it runs", tuple(_flags(_OF_RUNS, script, choice)), shown=False),
        FormPart("Versions", tuple(_flags(_OF_VERSIONS, script, choice)), shown=False),
        _more(script, choice),
    ]
    return [part for part in parts if part.fields]


def _inputs(
    inputs: Sequence[FormField], script: Script, variations: tuple[FormField, ...]
) -> Iterator[FormPart]:
    """Return the fields by the groups of the script's help, or else choices first.

    Variations come next, and the many others by their type.
    """
    if len(inputs) <= FEW:
        yield FormPart("Inputs", tuple(inputs))
        yield FormPart("Variations", variations)
        return
    groups = help_page(script).groups
    if groups:
        yield from _grouped(inputs, groups, variations)
        return
    chosen = [field for field in inputs if field.asked]
    yield FormPart("Choices", tuple(chosen))
    yield FormPart("Variations", variations)
    kinds = {name: spec.type for name, spec in script.inputs.items()}
    for title, types in (
        ("Numbers", ("int", "float")),
        ("Files and folders", ("path",)),
        ("Switches", ("bool",)),
        ("Texts", ("str", "")),
    ):
        left = [field for field in inputs if field not in chosen and kinds[field.name] in types]
        yield FormPart(title, tuple(left), shown=False)


def _grouped(
    inputs: Sequence[FormField],
    groups: Mapping[str, Sequence[str]],
    variations: tuple[FormField, ...],
) -> Iterator[FormPart]:
    """Yield the first group and the variations open, and the others to unfold."""
    by_name = {field.name: field for field in inputs}
    first, *others = (
        (title, tuple(by_name.pop(name) for name in names if name in by_name))
        for title, names in groups.items()
    )
    yield FormPart(first[0], first[1])
    yield FormPart("Variations", variations)
    for title, fields in others:
        yield FormPart(title, fields, shown=False)
    yield FormPart("More inputs", tuple(by_name.values()), shown=False)


def _distinct(script: Script, choice: ComposedCommand) -> Iterator[InputSpec]:
    """Return every input once: of two names for one key the first, and the chosen ones.

    ``cm`` makes a low line of a dash in a name, and reads some names itself: those have no field.
    """
    seen: set[str] = set()
    for name, spec in script.inputs.items():
        if not can_be_typed(name):
            continue
        new = not spec.env or spec.env not in seen
        if new or name in choice.flags:
            seen.add(spec.env)
            yield spec


def _input(spec: InputSpec, choice: ComposedCommand, script: Script) -> FormField:
    value = choice.flags.get(spec.name, "")
    options = tuple(c for c in spec.choices if not c.endswith(".#"))
    kind = "select" if options else "number" if spec.type in ("int", "float") else "text"
    if spec.type == "bool":
        kind, options = "select", ("yes", "no")
    extra = (value,) if value and value not in options else ()
    return FormField(
        spec.name,
        spec.name.replace("_", " "),
        kind,
        value,
        meaning_of(spec),
        options=(*options, *extra) if options else (),
        empty=f"{spec.default} (default)" if spec.default else "chosen for you" * bool(options),
        unit=spec.unit,
        low=spec.minimum,
        high=spec.maximum,
        whole=spec.type == "int",
        problem=problem_of(spec, value, script) if value else "",
        asked=bool(spec.choices),
    )


def _variations(script: Script, choice: ComposedCommand) -> Iterator[FormField]:
    """Return a select for a group, a box for another variation, a text for one with a value."""
    groups: dict[str, list[Variation]] = {}
    # One with a comma in its name is what several together mean: they are chosen one by one.
    for variation in (v for v in script.variations.values() if "," not in v.name):
        groups.setdefault(variation.group, []).append(variation)
    for group, members in groups.items():
        if group:
            yield from _group(group, members, choice)
    for variation in groups.get("", []):
        head, dynamic, _ = variation.name.partition(".#")
        if dynamic:
            yield from _dynamic(head, choice)
        else:
            yield _box(variation.name, variation.name in choice.variations)
    for unknown in unmatched(script, choice):
        yield _box(unknown.removeprefix("_"), True)


def _box(name: str, on: bool) -> FormField:
    return FormField("tags", f"_{name}", "check", f"_{name}" * on, "", (f"_{name}",), asked=True)


def _group(
    group: str, members: Sequence[Variation], choice: ComposedCommand
) -> Iterator[FormField]:
    """Yield a select, and a text for a member that takes a value.

    There is a box for every further one that a link has chosen, which the planner refuses.
    """
    plain = [v.name for v in members if not v.name.endswith(".#")]
    chosen = [v for v in choice.variations if v in plain]
    value = f"_{chosen[0]}" if chosen else ""
    default = next((f"_{v.name} (default)" for v in members if v.default), "")
    options = tuple(f"_{name}" for name in plain)
    label = group.replace("-", " ").replace("_", " ")
    if plain:
        yield FormField("tags", label, "select", value, "", options, default or "none", asked=True)
    for name in chosen[1:]:
        yield _box(name, True)
    for variation in members:
        if variation.name.endswith(".#"):
            yield from _dynamic(variation.name.removesuffix(".#"), choice)


def _dynamic(head: str, choice: ComposedCommand) -> Iterator[FormField]:
    values = [v.partition(".")[2] for v in choice.variations if v.startswith(f"{head}.")]
    for value in values or [""]:
        yield FormField(
            f"_{head}", f"_{head}.…", "text", value, f"makes the variation _{head}.VALUE"
        )


def _flags(names: Iterable[str], script: Script, choice: ComposedCommand) -> Iterator[FormField]:
    for name in names:
        if name in script.inputs:
            continue
        kind = "check" if name in SWITCHES else "number" if name == "jobs" else "text"
        options = ("yes",) if kind == "check" else ()
        value = choice.flags.get(name, "")
        label = name.replace("_", " ")
        yield FormField(name, label, kind, value, FLAGS[name], options, whole=True, low=1)


def _more(script: Script, choice: ComposedCommand) -> FormPart:
    """What has no field of its own: groups such as ``env.KEY``, and rare flags."""
    own = {*(spec.name for spec in _distinct(script, choice)), *_OF_RUNS, *_OF_VERSIONS}
    lines = [f"{name}={value}" for name, value in choice.flags.items() if name not in own]
    meaning = "one a line: env.KEY=value, adr.python.version=3.11, or a rare flag"
    value = "\n".join(lines)
    return FormPart(
        "More flags", (FormField("more", "More flags", "area", value, meaning),), shown=False
    )


def unmatched(script: Script, choice: ComposedCommand) -> list[str]:
    """What the form has no control for: variations that the script does not have."""
    from cmbench_gui.command import variation_of

    return [f"_{name}" for name in choice.variations if variation_of(script, name) is None]
