"""The values that flow through the engine: frozen, typed, one direction, no behaviour.

Comparison and ``repr`` are generated only where something uses them: every command pays for each.

``Script`` and its parts come from ``meta.yaml``; ``Request`` comes from a caller;
``StepOutcome`` comes from a finished step.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cmbench.format.dialect import CM, Dialect
from cmbench.values import field, immutable

PHASES = ("deps", "prehook_deps", "posthook_deps", "post_deps")
"""The four kinds of dependencies, in the order in which they run."""

EMPTY: Mapping[str, Any] = {}


@immutable(frozen=True, slots=True, eq=False, repr=False)
class Condition:
    """One ``enable_if_env`` or ``skip_if_env`` group (``any_of`` for the ``_any_`` forms)."""

    skip: bool
    any_of: bool
    rules: tuple[tuple[str, tuple[str, ...]], ...]

    @property
    def keys(self) -> tuple[str, ...]:
        """The env keys that it looks at."""
        return tuple(key for key, _ in self.rules)


@immutable(frozen=True, slots=True, eq=True, repr=True)
class VersionRange:
    """What a caller accepts; empty strings mean no bound."""

    exact: str = ""
    minimum: str = ""
    maximum: str = ""
    usable: str = ""

    def __bool__(self) -> bool:
        return bool(self.exact or self.minimum or self.maximum or self.usable)


class PathArgument(str):
    """A word of the command line for a dependency, which may be a path: only its script knows.

    By then the working directory is another. The text itself is ``full`` where that is there, so
    that a request made in another directory is another one, and ``word`` elsewhere.
    """

    word: str
    full: str

    @classmethod
    def of(cls, word: str, full: str, there: bool) -> PathArgument:
        """What was typed, what it means as a path, and whether there is something."""
        made = cls(full if there else word)
        made.word, made.full = word, full
        return made

    def meant(self, is_path: bool) -> str:
        """The plain text for an input that is or is not a path."""
        return self.full if is_path else self.word


@immutable(frozen=True, slots=True, eq=False, repr=False)
class Dependency:
    """One entry of a dependency list; also an ``ad``/``adr`` update of such an entry.

    ``tags`` keeps the written form (``get,python3,_x,-virtual``). ``inputs`` holds every key that
    the format does not name: run flags and inputs of the called script.
    """

    tags: str = ""
    names: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()
    env: Mapping[str, Any] = field(default_factory=dict)
    version: VersionRange = VersionRange()
    extra_cache_tags: str = ""
    force_cache: bool | None = None
    force_env_keys: tuple[str, ...] = ()
    force_new_env_keys: tuple[str, ...] = ()
    inherit_variation_tags: bool = False
    skip_inherit_variation_groups: tuple[str, ...] = ()
    reuse_version: bool = False
    dynamic: bool = False
    skip_if_fake_run: bool = False
    tags_from_env: tuple[str, ...] = ()
    tags_from_env_with_prefix: tuple[tuple[str, tuple[str, ...]], ...] = ()
    tags_if_env: tuple[tuple[str, tuple[Condition, ...]], ...] = ()
    continue_on_error: bool = False
    expires: str = ""
    inherits_expiration: bool = False
    ad: Mapping[str, Dependency] = field(default_factory=dict)
    adr: Mapping[str, Dependency] = field(default_factory=dict)
    inputs: Mapping[str, Any] = field(default_factory=dict)


@immutable(frozen=True, slots=True, eq=False, repr=False)
class ScriptSettings:
    """What a script, a variation and a version block have in common."""

    env: Mapping[str, Any] = field(default_factory=dict)
    default_env: Mapping[str, Any] = field(default_factory=dict)
    const: Mapping[str, Any] = field(default_factory=dict)
    state: Mapping[str, Any] = field(default_factory=dict)
    input_mapping: Mapping[str, str] = field(default_factory=dict)
    deps: Mapping[str, tuple[Dependency, ...]] = field(default_factory=dict)
    ad: Mapping[str, Dependency] = field(default_factory=dict)
    adr: Mapping[str, Dependency] = field(default_factory=dict)
    new_env_keys: tuple[str, ...] = ()
    new_state_keys: tuple[str, ...] = ()
    local_env_keys: tuple[str, ...] = ()
    default_variations: Mapping[str, str] = field(default_factory=dict)
    default_version: str = ""
    script_name: str = ""
    expires: str = ""
    fetches: tuple[str, ...] = ()
    exclusive: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    conditional: tuple[tuple[tuple[Condition, ...], ScriptSettings], ...] = ()


@immutable(frozen=True, slots=True, eq=False, repr=False)
class Variation:
    """One named change to a script; ``name`` may end in ``.#`` (a dynamic variation)."""

    name: str
    settings: ScriptSettings
    group: str = ""
    default: bool = False
    base: tuple[str, ...] = ()
    alias: str = ""


@immutable(frozen=True, slots=True, eq=False, repr=False)
class InputSpec:
    """A declared input of a script; ``env`` is the key that it sets.

    ``must_be`` says of a path what has to be there, one of ``cmbench.lib.named_paths.KINDS``.
    ``only_with`` and ``not_with`` are conditions as ``cmbench.plan.idle_inputs`` reads them. One
    that ``repeats`` may be given several times, and its value is then the list of all.
    ``synonyms`` are other words for a choice.
    """

    name: str
    env: str = ""
    description: str = ""
    type: str = "str"
    choices: tuple[str, ...] = ()
    default: str = ""
    unit: str = ""
    minimum: float | None = None
    maximum: float | None = None
    must_be: str = ""
    only_with: tuple[str, ...] = ()
    not_with: tuple[str, ...] = ()
    repeats: bool = False
    synonyms: Mapping[str, str] = field(default_factory=dict)


@immutable(frozen=True, slots=True, eq=False, repr=False)
class Script:
    """A script directory: its identity and everything its ``meta.yaml`` says."""

    path: str
    repo: str
    alias: str
    uid: str
    tags: tuple[str, ...]
    title: str
    settings: ScriptSettings
    variations: Mapping[str, Variation]
    versions: Mapping[str, ScriptSettings]
    inputs: Mapping[str, InputSpec]
    cache: bool = False
    can_force_cache: bool = False
    host_facts: bool = False
    default_variation: str = ""
    variation_groups_order: tuple[str, ...] = ()
    valid_combinations: tuple[tuple[str, ...], ...] = ()
    invalid_combinations: tuple[tuple[str, ...], ...] = ()
    extra_cache_tags_from_env: tuple[tuple[str, str], ...] = ()
    print_env_at_the_end: Mapping[str, str] = field(default_factory=dict)
    clean_files: tuple[str, ...] = ()
    clean_output_files: tuple[str, ...] = ()
    files_of_failure: tuple[str, ...] = ()
    env_key_mappings: Mapping[str, str] = field(default_factory=dict)
    sort: int = 0
    predeps: bool = True
    meta: Mapping[str, Any] = field(default_factory=dict)
    dialect: Dialect = CM

    @property
    def blocks(self) -> tuple[ScriptSettings, ...]:
        """Its settings, and those of every variation and version."""
        named = (variation.settings for variation in self.variations.values())
        return (self.settings, *named, *self.versions.values())


@immutable(frozen=True, slots=True, eq=True, repr=True)
class Tags:
    """A parsed tag query: ``get,python3,_lto,-virtual,-_debug``."""

    wanted: tuple[str, ...] = ()
    unwanted: tuple[str, ...] = ()
    variations: tuple[str, ...] = ()
    unwanted_variations: tuple[str, ...] = ()

    def __str__(self) -> str:
        return ",".join(
            [
                *self.wanted,
                *("_" + v for v in self.variations),
                *("-" + t for t in self.unwanted),
                *("-_" + v for v in self.unwanted_variations),
            ]
        )


@immutable(frozen=True, slots=True, eq=False, repr=False)
class Request:
    """One call of one script, from a user or from a dependency entry.

    ``modes`` are the flags of the first engines that make it another kind of run (``fake_run``),
    ``arguments`` words without a flag, which its hooks find as ``artifacts``; ``call`` is the
    dictionary of the caller, or of the dependency entry, as far as hooks see it in ``input``.
    """

    tags: Tags
    uid: str = ""
    inputs: Mapping[str, Any] = field(default_factory=dict)
    env: Mapping[str, Any] = field(default_factory=dict)
    const: Mapping[str, Any] = field(default_factory=dict)
    state: Mapping[str, Any] = field(default_factory=dict)
    version: VersionRange = VersionRange()
    name: str = ""
    path: str = ""
    extra_cache_tags: tuple[str, ...] = ()
    force_new_env_keys: tuple[str, ...] = ()
    expires: str = ""
    ad: Mapping[str, Dependency] = field(default_factory=dict)
    adr: Mapping[str, Dependency] = field(default_factory=dict)
    force_cache: bool = False
    skip_cache: bool = False
    new: bool = False
    renew: bool = False
    modes: frozenset[str] = frozenset()
    arguments: tuple[str, ...] = ()
    call: Mapping[str, Any] = field(default_factory=dict)


@immutable(frozen=True, slots=True, eq=False, repr=False)
class RunOptions:
    """How one invocation behaves as a whole."""

    quiet: bool = False
    verbose: bool = False
    silent: bool = False
    debug: bool = False
    offline: bool = False
    prefetch: bool = True
    jobs: int = 1
    renew_from: tuple[str, ...] = ()
    out: str = ""
    command: tuple[str, ...] = ()
    package_files: str = ""
    prepared: str = ""


@immutable(frozen=True, slots=True, eq=False, repr=False)
class StepOutcome:
    """What a finished step gives back to its caller."""

    new_env: Mapping[str, Any]
    new_state: Mapping[str, Any]
    version: str = ""
    entry: str = ""
    cached: bool = False
