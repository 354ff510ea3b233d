"""Why a plan is as it is: who requests a step, what its cache entry lacks, where a value is from.

A ``PlanNotes`` object watches the planner. It derives everything from the steps that the planner
makes anyway, so that neither a plan without explanations nor a run pays for it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cmbench.cache.listing import EntrySummary
from cmbench.cache.store import CacheEntry, CacheStore, EntryLike
from cmbench.errors import Error, did_you_mean
from cmbench.format.env import MISSING, Pending, as_text, select_keys
from cmbench.format.merge import USER
from cmbench.format.model import Condition, Dependency, Script, ScriptSettings
from cmbench.index.select import merge_order
from cmbench.lib.secrecy import mask_values
from cmbench.plan.cache_lookup import CacheLookup
from cmbench.plan.entry_reads import recorded, value_now
from cmbench.plan.planned_step import PlannedStep, PlannedStepDetail
from cmbench.plan.read_values import changed
from cmbench.plan.requirements import Estimator
from cmbench.plan.resolve import PlanContext, call_env
from cmbench.plan.resolved_step import ResolvedStep
from cmbench.plan.step_run import StepRun, visible_env
from cmbench.plan.tree import TAGS_FROM


@dataclass(slots=True)
class _Seen:
    """Notes on one step until it is planned; ``now`` is the value of the explained key."""

    number: int
    requested_by: str
    misses: tuple[str, ...] = ()
    now: Any = MISSING


@dataclass(frozen=True, slots=True)
class ValueOrigin:
    """A setting, flag or step that sets, passes on or overrides the value.

    ``step`` is the label of its step, ``number`` distinguishes steps of one label, and ``depth`` is
    the number of steps above it.
    """

    step: str
    number: int
    depth: int
    where: str
    value: str
    in_force: bool = True


class PlanNotes:
    """A watcher of the planner: sets their ``PlannedStepDetail``, collects origins of one key."""

    def __init__(self, context: PlanContext, key: str = "") -> None:
        self.origins: list[ValueOrigin] = []
        self.readers: dict[str, list[str]] = {}
        self.inputs: list[str] = []
        self._lookup, store = context.lookup, context.lookup.store
        self._programs = context.resolver.index.contents.programs
        self._estimator = Estimator(os.path.dirname(store.root), self._made_by, self._programs)
        self._key = key
        self._known: set[str] = set()
        self._seen: dict[ResolvedStep, _Seen] = {}
        self._made: dict[str, list[EntrySummary]] | None = None
        self._makers = store.makers()

    def resolved(self, step_run: StepRun, entry: Dependency | None) -> None:
        """Record origins and the differences to cache entries, once settings are merged."""
        seen = _Seen(len(self._seen), _requester(step_run.parent, entry))
        self._seen[step_run.step] = seen
        if step_run.step.cacheable and not step_run.script.host_facts:
            seen.misses = tuple(misses(self._lookup, step_run, self._made_by))
        if self._key:
            self._known.update(dict.keys(step_run.env))
            self._trace_settings(step_run, entry)

    def _made_by(self, script: Script) -> Sequence[EntrySummary]:
        """Return the entries of one script; all are listed, once, when one of the steps has any."""
        if script.alias not in self._makers:
            return ()
        if self._made is None:
            self._made = {}
            for entry in self._lookup.store.listed():
                self._made.setdefault(entry.script_uid, []).append(entry)
        return self._made.get(script.uid, ())

    def planned(self, planned_step: PlannedStep) -> None:
        """Add the detail of a planned step, and record what it returned to its caller."""
        step_run = planned_step.step_run
        seen = self._seen[step_run.step] if step_run else None
        missed = planned_step.cached in ("miss", "maybe")
        planned_step.detail = PlannedStepDetail(
            requested_by=seen.requested_by if seen else _requester(None, planned_step.entry_of),
            variations=dict(step_run.step.choice.reasons) if step_run else {},
            version_from=_version_origin(step_run) if step_run else "",
            misses=seen.misses if seen and missed else (),
            needs=self._estimator.needs(planned_step),
        )
        if self._key and step_run is not None and step_run.parent is not None:
            self._trace_export(step_run, step_run.parent, planned_step)

    def _trace_settings(self, step_run: StepRun, entry: Dependency | None) -> None:
        key = self._key
        layers = list(_layers(step_run, entry, key))
        now = step_run.env.peek(key, MISSING)
        self._seen[step_run.step].now = now
        self._trace_uses(step_run, now)
        if all(layer[0].startswith("from ") for layer in layers):
            return
        last = max((n for n, (_, _, used) in enumerate(layers) if used), default=-1)
        for number, (where, value, _) in enumerate(layers):
            self._add(step_run, where, value, number == last)
        if now is not MISSING and now != layers[last][1]:
            self._add(step_run, "with its references filled in", now, True)

    def _trace_uses(self, step_run: StepRun, now: Any) -> None:
        if step_run.parent is None:
            pairs = {pair for block in step_run.step.blocks for pair in block.input_mapping.items()}
            self.inputs = sorted(name for name, key in pairs if key == self._key)
        sets, reads = self._uses(step_run)
        if sets:
            self._add(step_run, "its own code can set it", MISSING, True)
        if reads:
            steps = self.readers.setdefault(_now_text(self._key, now), [])
            if step_run.script.alias not in steps:
                steps.append(step_run.script.alias)

    def _uses(self, step_run: StepRun) -> tuple[bool, bool]:
        """Whether the step's own code sets the key, and whether it or a condition reads it."""
        sets, names = self._programs(step_run.script.path).uses(self._key)
        conditions = (
            c for entries in step_run.step.deps.values() for e in entries for c in e.conditions
        )
        in_conditions = any(self._key in condition.keys for condition in conditions)
        return sets, in_conditions or names

    def _trace_export(self, step_run: StepRun, parent: StepRun, planned_step: PlannedStep) -> None:
        now = parent.env.peek(self._key, MISSING)
        seen = self._seen[parent.step]
        if _same(now, seen.now):
            return
        seen.now = now
        source = "the cached entry of " if planned_step.cached == "hit" else ""
        if isinstance(now, Pending):
            where = f"will be set by {now.producer} when it has run"
            self._add(parent, where, MISSING, True)
        else:
            self._add(parent, f"given back by {source}{step_run.step.label}", now, True)

    def _add(self, step_run: StepRun, where: str, value: Any, in_force: bool) -> None:
        text = "" if value is MISSING else _shown(self._key, value)
        depth = len(step_run.chain()) - 1
        self.origins.append(
            ValueOrigin(
                step_run.step.label, self._seen[step_run.step].number, depth, where, text, in_force
            )
        )

    def require_origins(self) -> list[ValueOrigin]:
        """Return the origins; raises ``bad-value`` where no step of the plan knows the key."""
        if not (self.origins or self.readers or self.inputs):
            raise Error(
                "bad-value",
                f"no step of this plan sets or reads {self._key}",
                hint=did_you_mean(self._key, self._known)
                or "name an env key, such as --explain=CM_VERSION",
            )
        return self.origins


Layer = tuple[str, Any, bool]
"""Where a value comes from, the value as written, and whether it was put in."""


def _layers(step_run: StepRun, entry: Dependency | None, key: str) -> Iterator[Layer]:
    """Everything that lays ``key`` over the caller's env, in the order in which it is laid."""
    present = False
    if step_run.parent is not None:
        value = visible_env(step_run.parent, step_run.request).get(key, MISSING)
        if value is not MISSING:
            present = True
            yield f"from {step_run.parent.step.label}, its caller", value, True
    for layer in _call_layers(step_run, entry, key):
        present = True
        yield layer
    for label, block in _labelled_blocks(step_run):
        for layer in _block_layers(step_run, entry, label, block, key, present):
            present = True
            yield layer
    if key in step_run.request.const:
        yield f"--const.{key} on the command line", step_run.request.const[key], True


def _call_layers(step_run: StepRun, entry: Dependency | None, key: str) -> Iterator[Layer]:
    request = step_run.request
    if key in request.env:
        if step_run.parent is None or entry is None:
            yield f"--env.{key} on the command line", request.env[key], True
        else:
            yield _entry_origin(step_run.parent, entry, "env", key), request.env[key], True
    dialect = step_run.script.dialect
    prefix = dialect.prefix
    laid = call_env(request, step_run.step.version, dialect)
    if key not in laid or (key in request.env and laid[key] == request.env[key]):
        return
    if key.startswith((prefix + "VERSION", prefix + "TMP_PIP_VERSION")):
        yield f"version {_version_origin(step_run)}", laid[key], True
        return
    names = {prefix + name.upper(): name for name in dialect.inputs}
    names[prefix + "TMP_PATH"] = "path"
    yield _input_origin(step_run, entry, names.get(key, "")), laid[key], True


def _input_origin(step_run: StepRun, entry: Dependency | None, name: str) -> str:
    if step_run.parent is None or entry is None:
        return f"--{name} on the command line"
    return f"--{name}: {_entry_origin(step_run.parent, entry, 'inputs', name)}"


def _block_layers(
    step_run: StepRun,
    entry: Dependency | None,
    label: str,
    block: ScriptSettings,
    key: str,
    present: bool,
) -> Iterator[Layer]:
    if key in block.default_env:
        yield f"default_env of {label}", block.default_env[key], not present
    if key in block.env:
        yield f"env of {label}", block.env[key], True
    for name, target in block.input_mapping.items():
        if target == key and name in step_run.request.inputs:
            yield _input_origin(step_run, entry, name), step_run.request.inputs[name], True
    if key in block.const:
        yield f"const of {label}", block.const[key], True


def _labelled_blocks(step_run: StepRun) -> Iterator[tuple[str, ScriptSettings]]:
    names = merge_order(step_run.step.choice)
    for number, block in enumerate(step_run.step.blocks):
        if number == 0:
            yield "the script", block
        elif number <= len(names):
            name = names[number - 1]
            yield f"variation _{name} ({step_run.step.choice.reasons.get(name, 'active')})", block
        elif block is step_run.script.versions.get(step_run.step.version.exact):
            yield f"version {step_run.step.version.exact}", block
        else:
            yield "a block that its conditions chose", block


def _entry_origin(parent: StepRun, entry: Dependency, field: str, key: str) -> str:
    """Which update by name, or which dependency entry, put ``key`` into ``env`` or ``inputs``."""
    for source, where in reversed(list(_updates(parent))):
        for name in entry.names:
            update = source.get(name)
            if update is not None and key in getattr(update, field):
                return where.format(name=name)
    if key not in entry.env and select_keys((key,), entry.force_env_keys):
        return f"force_env_keys of a dependency of {parent.script.alias}"
    return f"the dependency in the meta of {parent.script.alias}"


def _updates(parent: StepRun) -> Iterator[tuple[Mapping[str, Dependency], str]]:
    for label, block in _labelled_blocks(parent):
        yield block.ad, f"ad.{{name}} in {label} of {parent.script.alias}"
    yield parent.hooks.late_updates, f"update_deps in customize.py of {parent.script.alias}"
    above: StepRun | None = parent.parent
    written = f"ad.{{name}} of a dependency in the meta of {above.script.alias}" if above else ""
    yield parent.request.ad, written or "--ad.{name} on the command line"
    above = parent
    while above is not None:
        for label, block in _labelled_blocks(above):
            yield block.adr, f"adr.{{name}} in {label} of {above.script.alias}"
        if above.parent is None:
            root = above.request.adr.items()
            by_user = {k.removeprefix(USER): v for k, v in root if k.startswith(USER)}
            yield by_user, "--adr.{name} on the command line"
        above = above.parent


def _version_origin(step_run: StepRun) -> str:
    bounds = step_run.request.version
    if bounds:
        return "asked for by " + (step_run.parent.step.label if step_run.parent else "the command")
    return "default_version of the script or variation" if step_run.step.version.exact else ""


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, Pending) and isinstance(other, Pending):
        return one.producer == other.producer
    return bool(one == other)


def _shown(key: str, value: Any) -> str:
    if isinstance(value, Pending):
        return repr(value)
    return as_text(mask_values({key: value})[key]) or '""'


def _requester(parent: StepRun | None, entry: Dependency | None) -> str:
    """Return the requester of a step and its conditions, in words."""
    if entry is None:
        return "by the command"
    conditions = "; ".join(_condition_text(c, parent) for c in entry.conditions)
    names = f" (named {', '.join(entry.names)})" if entry.names else ""
    by = f"a dependency of {parent.script.alias}" if parent else "a dependency"
    return f"{by}{names}" + (f", {conditions}" if conditions else "")


def _condition_text(condition: Condition, parent: StepRun | None) -> str:
    joint = " or " if condition.any_of else " and "
    rules = [f"{key}={'|'.join(values)}" for key, values in condition.rules]
    text = f"{'unless' if condition.skip else 'if'} {joint.join(rules)}"
    if parent is None:
        return text
    states = [f"{key} is {_now_text(key, parent.env.peek(key, MISSING))}" for key in condition.keys]
    return f"{text} ({', '.join(states)})"


def _now_text(key: str, value: Any) -> str:
    return "not set" if value is MISSING or value is None else _shown(key, value)


# ---------------------------------------------------------------- cache misses


def misses(
    lookup: CacheLookup, step_run: StepRun, made_by: Callable[[Script], Sequence[EntrySummary]]
) -> Iterator[str]:
    """Return why no entry answers ``step_run``: every difference to the entries that come near.

    ``made_by`` returns the entries that a script has made.
    """
    if step_run.request.new or step_run.request.renew:
        yield "a new entry was asked for"
        return
    candidates = lookup.store.candidates(step_run.step.identity)
    for entry in candidates[:3]:
        for text in differences(lookup, entry, step_run):
            yield f"{_entry_text(entry)}: {text}"
    if not candidates:
        yield from _nearest_entry(lookup.store, made_by(step_run.script), step_run)


def differences(lookup: CacheLookup, entry: CacheEntry, step_run: StepRun) -> list[str]:
    """Return everything that keeps ``entry`` from answering ``step_run``; empty when it does."""
    reasons = []
    for key, then in recorded(entry, step_run).items():
        now = value_now(key, step_run)
        if isinstance(now, Pending):
            reasons.append(f"{key} is unknown until {now.producer} has run")
        elif not lookup.store.is_same(then, now):
            reasons.append(changed(key, then, now))
    unsound = lookup.unsound(entry)
    return [*reasons, unsound] if unsound else reasons


def _nearest_entry(
    store: CacheStore, same: Sequence[EntrySummary], step_run: StepRun
) -> Iterator[str]:
    if not same:
        yield "this script has made no entry yet"
        return
    active = set(step_run.step.choice.variations)
    nearest = max(same, key=lambda e: (-len(active ^ set(e.variations)), e.created))
    head = _entry_text(nearest)
    if set(nearest.variations) != active:
        then, now = _names(nearest.variations), _names(step_run.step.choice.variations)
        yield f"{head} has the variations {then}, wanted are {now}"
        return
    entry = store.entry(nearest.key)
    made_by = entry.scripts if entry is not None else {}
    if made_by.get(step_run.script.path) != step_run.step.content:
        yield f"{head}: the script was edited since"
    elif edited := _edited_libraries(entry, step_run):
        yield f"{head}: the library {edited[0]} was edited since"
    elif nearest.name != step_run.request.name:
        yield f"{head} has the name {nearest.name or '(none)'}"
    else:
        version = f" (it has {nearest.version})" if nearest.version else ""
        yield f"{head} was made for other version bounds{version} or other extra tags"


def _edited_libraries(entry: CacheEntry | None, step_run: StepRun) -> list[str]:
    path = step_run.script.path
    then = entry.libraries.get(path, {}) if entry is not None else {}
    return [name for name, d in step_run.step.libraries.items() if then.get(name) != d]


def _entry_text(entry: EntryLike) -> str:
    return f"the entry of {time.strftime('%Y-%m-%d %H:%M', time.localtime(entry.created))}"


def _names(variations: Iterable[str]) -> str:
    return ",".join("_" + name for name in variations) or "none"


# ---------------------------------------------------------------- as data


def key_of(word: str, blocks: Sequence[ScriptSettings]) -> str:
    """Return the env key that ``word`` means: a key, or the name of an input of the script."""
    for block in blocks:
        if word in block.input_mapping:
            return block.input_mapping[word]
    return word


def node_data(planned_step: PlannedStep) -> dict[str, Any]:
    """``planned_step`` and all below it as JSON holds it, details included."""
    detail = planned_step.detail
    needs = detail.needs
    acquires = [c.tags for c in planned_step.children if acquires_for(planned_step, c)]
    return {
        "tags": planned_step.tags,
        "script": planned_step.script,
        "variations": planned_step.variations,
        "variation_reasons": dict(detail.variations),
        "version": planned_step.version,
        "version_from": detail.version_from,
        "phase": planned_step.phase,
        "asked": detail.requested_by,
        "when": planned_step.when,
        "cached": planned_step.cached,
        "why": planned_step.why,
        "misses": list(detail.misses),
        "arms": {"detect": planned_step.script, "acquire": acquires} if acquires else None,
        "fetches": planned_step.fetches,
        "downloads": [
            {
                "what": d.what,
                "host": d.host,
                "bytes": d.size,
                "about": d.about,
                "checksum": d.checksum,
            }
            for d in needs.downloads
        ],
        "disk_bytes": needs.disk,
        "seconds": round(needs.seconds, 1),
        "privileges": list(needs.privileges),
        "licences": list(needs.licences),
        "present": needs.present,
        "entry": planned_step.entry,
        "children": [node_data(child) for child in planned_step.children],
    }


def acquires_for(planned_step: PlannedStep, child: PlannedStep) -> bool:
    """Return whether ``planned_step`` falls back to ``child`` when its own code finds nothing."""
    decides = child.when.endswith(f" from {planned_step.script}") and not child.when.startswith(
        TAGS_FROM
    )
    return child.phase == "prehook_deps" and decides
