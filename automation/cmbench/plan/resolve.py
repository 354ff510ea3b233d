"""One request to one step: script, variations, version, settings laid over the caller's env.

Planning and running share this code: a plan resolves with values that may be pending, a run goes on
from it and resolves again only what was open, so both follow the same rules.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from cmbench.errors import Error
from cmbench.format.dialect import Dialect, host_env
from cmbench.format.env import (
    MISSING,
    TracedEnv,
    decide,
    merge_value,
    substitute,
)
from cmbench.format.merge import USER, as_meant, merge_dependency, with_replacements
from cmbench.format.model import (
    PHASES,
    Condition,
    Dependency,
    Request,
    Script,
    ScriptSettings,
    VersionRange,
)
from cmbench.index.scripts import Index
from cmbench.index.select import (
    ScriptSelection,
    choose,
    expand,
    merge_order,
    variation_of,
    version_variations,
)
from cmbench.plan.resolved_step import ResolvedStep
from cmbench.plan.step_run import StepRun, look_at, visible_const, visible_env
from cmbench.values import field, immutable, replace

if TYPE_CHECKING:
    from cmbench.plan.cache_lookup import CacheLookup, Facts

REPEATS = 3
"""How often one script may stand in a chain with the same tags."""


@immutable(frozen=True, slots=True, eq=False, repr=False)
class ResolverMemory:
    """What resolvers of one index have worked out that depends on no env."""

    choices: dict[tuple[Any, ...], ScriptSelection] = field(default_factory=dict)
    blocks: dict[tuple[Any, ...], tuple[ScriptSettings, ...]] = field(default_factory=dict)
    dependencies: dict[tuple[Any, ...], Mapping[str, tuple[Dependency, ...]]] = field(
        default_factory=dict
    )


class Resolver:
    """Resolves requests against one index; ``names`` are those of dependencies it has met."""

    def __init__(self, index: Index, memory: ResolverMemory | None = None) -> None:
        self.index = index
        self.memory = memory or ResolverMemory()
        self.names: set[str] = set()

    def resolve(self, request: Request, parent: StepRun | None) -> ResolvedStep:
        """Return the step for ``request``; raises ``Error`` for what cannot be resolved."""
        choice = self._choice(request, parent.script if parent else None)
        script = choice.script
        request = as_meant(request, script)
        version = self._version(request, choice)
        blocks = self._settings(choice, version.exact)
        env, const, blocks = self._lay_env(request, script, blocks, version, parent)
        uses = dict.fromkeys([name for block in blocks for name in block.uses])
        path, contents = script.path, self.index.contents
        step = ResolvedStep(
            request=request,
            label=",".join([script.alias, *(f"_{name}" for name in request.tags.variations)]),
            choice=choice,
            blocks=blocks,
            version=version,
            env=env,
            state=_lay_state(request, blocks, parent),
            adr=_lay_adr(request, blocks),
            const=const,
            deps=self._merged_dependencies(choice, version.exact),
            content=contents.get(path).digest,
            libraries={name: contents.libraries.find(path, name).digest for name in uses},
        )
        _refuse_cycle(step, parent)
        if parent is None and request.inputs:
            from cmbench.plan.idle_inputs import refuse_idle

            refuse_idle(look_at(step, None), request.inputs)
        env.begin()
        step.state.running = True
        return step

    def resume(self, step: ResolvedStep) -> ResolvedStep:
        """Return a step of a plan for its run, whose caller has done all that the plan says."""
        return step

    def _choice(self, request: Request, caller: Script | None) -> ScriptSelection:
        own = (caller.repo, caller.dialect) if caller else None
        key = (request.tags, request.uid, request.version.exact, own)
        choice = self.memory.choices.get(key)
        if choice is None:
            row = choose(self.index, request.tags, request.uid, caller)
            script = self.index.script(row.path)
            extra = version_variations(script, request.version.exact)
            choice = self.memory.choices[key] = expand(script, request.tags, extra)
        return choice

    def _version(self, request: Request, choice: ScriptSelection) -> VersionRange:
        bounds = request.version
        if bounds.exact:
            return bounds
        default = _default_version(choice)
        if not default:
            return bounds
        from cmbench.lib import versions

        ceiling = bounds.usable or bounds.maximum
        if bounds.minimum and versions.compare(default, bounds.minimum) < 0:
            default = bounds.minimum
        if bounds.maximum and versions.compare(default, bounds.maximum) > 0:
            default = ceiling
        return replace(bounds, exact=default)

    def _settings(self, choice: ScriptSelection, version: str) -> tuple[ScriptSettings, ...]:
        key = (choice.script.path, choice.variations, version)
        blocks = self.memory.blocks.get(key)
        if blocks is None:
            script = choice.script
            layers = [script.settings]
            versioned = [script.versions[version]] if version in script.versions else []
            varied = [variation_of(script, name).settings for name in merge_order(choice)]
            first = script.dialect.version_first
            layers += versioned + varied if first else varied + versioned
            blocks = self.memory.blocks[key] = tuple(layers)
        return blocks

    def _lay_env(
        self,
        request: Request,
        script: Script,
        blocks: tuple[ScriptSettings, ...],
        version: VersionRange,
        parent: StepRun | None,
    ) -> tuple[TracedEnv, dict[str, Any], tuple[ScriptSettings, ...]]:
        """Env and constants, and the blocks with those that turned out to apply."""
        dialect = script.dialect
        env, const = self._first_env(request, dialect, parent)
        for key, value in call_env(request, version, dialect).items():
            env.overlay(key, value)
        conditional: list[tuple[tuple[Condition, ...], ScriptSettings]] = []
        for number, block in enumerate(blocks):
            mapped = _lay_block(env, block, request)
            if dialect.inputs_are_const:
                const.update(mapped)
            if number or dialect.top_level_rules:
                const.update(block.const)
                conditional = [*block.conditional, *conditional]
            for conditions, settings in conditional:
                if decide(conditions, env)[0]:
                    _lay_block(env, settings, request)
        applied = [settings for conditions, settings in conditional if decide(conditions, env)[0]]
        for settings in applied:
            const.update(settings.const)
        const.update(request.const)
        _lay_constants(env, const, parent.const if parent else {})
        _resolve_references(env)
        return env, const, (*blocks, *applied)

    def _first_env(
        self, request: Request, dialect: Dialect, parent: StepRun | None
    ) -> tuple[TracedEnv, dict[str, Any]]:
        """Env and constants as they come from the caller, or from the user's process."""
        if parent:
            env = parent.env.below(visible_env(parent, request))
            env.rules = dialect
            return env, visible_const(parent)
        env = TracedEnv(host_env(dialect))
        env.rules = dialect
        if dialect.user_directory:
            return env, {dialect.prefix + dialect.user_directory: os.getcwd()}
        return env, {}

    def _merged_dependencies(
        self, choice: ScriptSelection, version: str
    ) -> Mapping[str, tuple[Dependency, ...]]:
        key = (choice.script.path, choice.variations, version)
        merged = self.memory.dependencies.get(key)
        if merged is None:
            lists: dict[str, list[Dependency]] = {phase: [] for phase in PHASES}
            for block in self._settings(choice, version):
                for phase, entries in block.deps.items():
                    lists[phase] = with_replacements(lists[phase], entries)
            merged = {phase: tuple(entries) for phase, entries in lists.items() if entries}
            self.memory.dependencies[key] = merged
        return merged

    def dependencies(self, step_run: StepRun, phase: str) -> Iterator[Dependency]:
        """Yield the entries of one phase, with the updates that reach them by name."""
        for entry in step_run.step.deps.get(phase, ()):
            yield self.updated(step_run, entry)

    def updated(self, step_run: StepRun, entry: Dependency) -> Dependency:
        """One dependency entry with the updates that reach it by name."""
        if not entry.names:
            return entry
        self.names.update(entry.names)
        sources: list[Mapping[str, Dependency]] = [block.ad for block in step_run.step.blocks]
        sources += [step_run.hooks.late_updates, step_run.request.ad, step_run.adr]
        updates = [source.get(name) for source in sources for name in entry.names]
        updates += [step_run.adr.get(USER + name) for name in entry.names]
        for update in updates:
            if update and decide(update.conditions, step_run.env)[0]:
                entry = merge_dependency(entry, update)
        return entry


@immutable(frozen=True, slots=True, eq=False, repr=False)
class PlanContext:
    """What the steps of one command are resolved, looked up and described with."""

    resolver: Resolver
    lookup: CacheLookup
    facts: Facts

    @property
    def names(self) -> set[str]:
        """The names of the dependencies that were met, in entries too."""
        return self.resolver.names | self.lookup.names


def _default_version(choice: ScriptSelection) -> str:
    """Return the default of the last variation that has one, else of the script."""
    script = choice.script
    chosen = [variation_of(script, name).settings for name in choice.variations]
    defaults = [block.default_version for block in (script.settings, *chosen)]
    return next((version for version in reversed(defaults) if version), "")


def _refuse_cycle(step: ResolvedStep, parent: StepRun | None) -> None:
    """Refuse a chain that cannot end; a script may meet itself again with another env."""
    again = 0
    above = parent
    while above is not None:
        same = above.script.path == step.script.path and above.request.tags == step.request.tags
        again += same
        if again == REPEATS or (same and step.cacheable and above.step.identity == step.identity):
            raise Error(
                "dependency-cycle",
                f"{step.label} depends on itself",
                context=(" > ".join(look_at(step, parent).chain()),),
                hint="remove one of the dependencies in this chain",
            )
        above = above.parent


def _lay_block(env: TracedEnv, block: ScriptSettings, request: Request) -> dict[str, Any]:
    """Lay one block over ``env``; returns the keys that inputs have set."""
    for key, value in block.default_env.items():
        if key not in env:
            env.overlay(key, value)
    for key, value in block.env.items():
        grows = env.rules.lists_grow and isinstance(value, list)
        env.overlay(key, merge_value(env.get(key), value) if grows else value)
    mapped = {
        key: _input_text(request.inputs[name])
        for name, key in block.input_mapping.items()
        if name in request.inputs
    }
    for key, value in mapped.items():
        env.overlay(key, value)
    return mapped


def _lay_constants(env: TracedEnv, const: Mapping[str, Any], inherited: Mapping[str, Any]) -> None:
    """Lay constants over everything; those of the caller do not count as the step's settings."""
    for key, value in const.items():
        if inherited.get(key, MISSING) != value:
            env.overlay(key, value)
        elif env.peek(key, MISSING) != value:
            env.force(key, value)


def call_env(request: Request, version: VersionRange, dialect: Dialect) -> dict[str, Any]:
    """Env that comes with the call itself, before any meta."""
    prefix = dialect.prefix
    env: dict[str, Any] = dict(request.env)
    if request.path:
        env[prefix + "TMP_PATH"] = request.path
    for start, names in (("", dialect.inputs), ("TMP_", dialect.places)):
        for name in names:
            if name in request.inputs:
                env[prefix + start + name.upper()] = _input_text(request.inputs[name])
    if request.name:
        env[prefix + "NAME"] = request.name
    if request.extra_cache_tags:
        env[prefix + "EXTRA_CACHE_TAGS"] = ",".join(request.extra_cache_tags)
    if not version:
        return env
    from cmbench.lib import versions

    bounds = {
        "VERSION": version.exact,
        "VERSION_MIN": version.minimum,
        "VERSION_MAX": version.maximum,
        "VERSION_MAX_USABLE": version.usable,
        "TMP_PIP_VERSION_STRING": versions.pip_version_string(
            version.exact, version.minimum, version.maximum
        ),
    }
    env.update({prefix + key: value for key, value in bounds.items() if value})
    return env


def _input_text(value: Any) -> Any:
    if value is True:
        return "yes"
    if value is False:
        return "no"
    return value if isinstance(value, list) else str(value)


def _resolve_references(env: TracedEnv) -> None:
    for _ in range(4):
        changed = False
        for key in list(env.laid):
            old = env.peek(key)
            new = substitute(old, env)
            if new is not old and new != old:
                env.overlay(key, new)
                changed = True
        if not changed:
            return


def _lay_state(
    request: Request, blocks: tuple[ScriptSettings, ...], parent: StepRun | None
) -> TracedEnv:
    state = TracedEnv(copy.deepcopy(parent.state.plain()) if parent and parent.state else {})
    for block in blocks:
        for key, value in block.state.items():
            state.overlay(key, copy.deepcopy(value))
    for key, value in request.state.items():
        state.overlay(key, copy.deepcopy(value))
    return state


def _lay_adr(request: Request, blocks: tuple[ScriptSettings, ...]) -> TracedEnv:
    """Updates for dependencies at any depth: the script's own win over those of its callers."""
    adr = TracedEnv(request.adr)
    for block in blocks:
        for name, update in block.adr.items():
            adr.note(name)
            before = adr.peek(name)
            adr.overlay(name, merge_dependency(before, update) if before else update)
    adr.running = True
    return adr
