"""What a step gives back, what its caller takes over, and what an entry of it depends on."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from cmbench.cache.cache_entry import Reliance, expiration, paths_in, reliance
from cmbench.cache.store import remove_tree
from cmbench.errors import Error
from cmbench.format.env import MISSING, TracedEnv, is_pattern, merge_value, select_keys
from cmbench.format.model import Request, StepOutcome, Tags
from cmbench.plan.step_run import OF_THE_ENGINE, StepRun, begin
from cmbench.run.cm_objects import StepFolders
from cmbench.values import field, mutable

if TYPE_CHECKING:
    from cmbench.plan.resolve import Resolver
    from cmbench.run.step import StepRunner


@mutable(slots=True, eq=False, repr=False)
class HookReport:
    """What the hooks of a step report besides its env and state.

    ``skip`` says that the rest of the step does not run, ``instead`` which script does its work.
    """

    version: Any = ""
    tags: list[Any] = field(default_factory=list)
    relies_on: list[str] = field(default_factory=list)
    skip: bool = False
    instead: Mapping[str, Any] = field(default_factory=dict)


class FactReader:
    """Runs a ``host_facts`` script at most once per process."""

    def __init__(self, runner: StepRunner, scratch: str) -> None:
        self._runner = runner
        self._scratch = scratch
        self._outcomes: dict[str, StepOutcome] = {}
        self.resolver: Resolver | None = None

    def __call__(self, path: str) -> StepOutcome:
        """Return what the script at ``path`` reports of this machine."""
        if path not in self._outcomes:
            assert self.resolver is not None
            alias = self.resolver.index.rows()[path].alias
            step = self.resolver.resolve(Request(tags=Tags(), uid=alias), None)
            step_run = begin(step, None)
            place = StepFolders(os.getcwd(), self._scratch)
            for name in ("preprocess", "postprocess"):
                self._runner.hook(step_run, place, name)
            self._outcomes[path] = StepOutcome(exports(step_run), state_exports(step_run))
        return self._outcomes[path]


def expires(step_run: StepRun, now: float) -> float:
    """When the result of the step gets too old, in seconds; raises ``bad-meta``."""
    try:
        return expiration(step_run.step.expires, now)
    except ValueError:
        raise Error(
            "bad-meta",
            f"{step_run.script.alias}: cache_expiration: {step_run.step.expires} is not a time",
            hint="write a number with its unit: 30m, 2h, 5d",
        ) from None


def check_version(step_run: StepRun, version: str) -> None:
    """Raise ``version-not-found`` for a result outside the requested version bounds."""
    bounds = step_run.step.version
    if not (bounds.minimum or bounds.maximum):
        return
    from cmbench.lib import versions

    bounds_text = " and ".join(
        f"{sign} {bound}"
        for sign, bound in ((">=", bounds.minimum), ("<=", bounds.maximum))
        if bound
    )
    if version and not versions.satisfies(version, bounds.minimum, bounds.maximum, ""):
        raise Error(
            "version-not-found",
            f"{step_run.script.alias} has version {version}, asked for {bounds_text}",
            hint="install one that fits, give its location with --path, or ask for other bounds",
        )
    binds = step_run.script.dialect.versions_bind
    if binds and not version and step_run.parent is None and not bounds.exact:
        raise Error(
            "version-not-found",
            f"{step_run.script.alias} reports no version, asked for {bounds_text}",
            hint="leave out the version bounds: this script cannot check them",
        )


def working_directory(step_run: StepRun) -> str:
    """Where an uncached step works: in the entry that is being made, else where the user is."""
    return step_run.parent.cwd if step_run.parent and step_run.parent.cwd else os.getcwd()


def absorb(step_run: StepRun, child: StepRun, outcome: StepOutcome) -> None:
    """Add the reads and the exported values of a dependency to ``step_run``.

    Its reads come first: once its values are written, they would no longer count as read.
    """
    step_run.note(name for name in child.outer_reads() if name not in child.request.env)
    if not child.request.uid:
        choices = step_run.trace.chosen.setdefault(step_run.script.path, {})
        choices[str(child.request.tags)] = child.script.uid
    step_run.trace.depend_on(child.trace, outcome.entry)
    if not outcome.entry:
        step_run.trace.add_facts(child.env.fact_reads)
    for key, value in outcome.new_env.items():
        if child.script.host_facts:
            step_run.env.learn(key, value, child.script.path)
        else:
            step_run.env[key] = merge_value(step_run.env.peek(key), value)
    for key, value in outcome.new_state.items():
        step_run.state[key] = merge_value(step_run.state.peek(key), value)


def settle(step_run: StepRun) -> bool:
    """Constants win over whatever a step or a dependency has set; whether any had to."""
    changed = {k: v for k, v in step_run.const.items() if step_run.env.peek(k, MISSING) != v}
    step_run.env.update(changed)
    return bool(changed)


def exports(step_run: StepRun) -> dict[str, Any]:
    """Return the env that a step gives back: what ``new_env_keys`` names and the step itself set.

    A value that settings or inputs have set counts as read: it is part of the result.
    """
    prefix = step_run.script.dialect.prefix
    of_the_engine = tuple([prefix + name for name in OF_THE_ENGINE])
    patterns = step_run.given_back()
    env = step_run.env
    own = {*env.written, *env.laid, *env.facts}
    if not step_run.script.dialect.inputs_bind:
        # As with the first engines: what the caller passed too. It counts as read, below.
        own |= {*dict.keys(env)}
    named = select_keys(dict.keys(env), patterns)
    keys = [key for key in named if key in own and not key.startswith(of_the_engine)]
    env.note_each([*keys, *(p for p in patterns if not is_pattern(p))])
    values = env.plain()
    return {key: _storable(values.get(key)) for key in keys}


def state_exports(step_run: StepRun) -> dict[str, Any]:
    """Return the state that the step gives back."""
    state: TracedEnv = step_run.state
    keys = select_keys(dict.keys(state), step_run.texts("new_state_keys"))
    state.note_each(keys)
    return {key: state.peek(key) for key in keys}


def paths_given_back(values: Mapping[str, Any], home: str) -> list[str]:
    """Return reads of what exported ``values`` name outside of ``home``: it must still be there."""
    from cmbench.format.outside import IN_PATH

    shared = os.environ.get("CMBENCH_SHARED") or home
    own = (f"{home}/", f"{shared}/")
    outside = [path.rstrip("/") for path in paths_in(values) if not f"{path}/".startswith(own)]
    return [f"os:{IN_PATH}{path}" for path in outside if os.path.exists(path)]


def _storable(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [str(item) for item in value]
    return value if isinstance(value, str | int | float | bool) else str(value)


def rely(step_run: StepRun, paths: Iterable[str]) -> None:
    """Record the state of files outside that a hook names, before anything else is done.

    A file that does not exist yet is read when the step has ended.
    """
    for path in paths:
        with suppress(OSError):
            step_run.trace.relies_on.setdefault(path, reliance(path))


def named_by_env(step_run: StepRun) -> list[str]:
    """Return the file that a step relies on by the older way: a key of its env."""
    key = step_run.script.dialect.prefix + "GET_DEPENDENT_CACHED_PATH"
    path = step_run.env.peek(key) if key in step_run.env.written else None
    return [str(path)] if path else []


def reliances(step_run: StepRun, paths: Sequence[str]) -> tuple[Reliance, ...]:
    """Return the files outside that the entry relies on; raises ``bad-customize``."""
    rely(step_run, paths)
    missing = next((path for path in paths if path not in step_run.trace.relies_on), "")
    if missing and not step_run.script.dialect.faults_bind:
        # The first engines look at it when the entry is to be used again, and make another.
        step_run.trace.doubts[f"it relies on {missing}, which did not exist"] = None
    elif missing:
        raise Error(
            "bad-customize", f"{step_run.script.alias} relies on {missing}, which does not exist"
        )
    return tuple(step_run.trace.relies_on.values())


def files_of_user(step_run: StepRun) -> tuple[Reliance, ...]:
    """The files that inputs of this call name, as they are before the step: their content counts.

    Of a folder the path counts, as before: it may be where the step writes.
    """
    inputs = step_run.request.inputs
    of_type = [name for name, spec in step_run.script.inputs.items() if spec.type == "path"]
    paths = [os.path.expanduser(str(inputs[name])) for name in of_type if name in inputs]
    return tuple(reliance(path) for path in paths if os.path.isfile(path))


def remove(names: Iterable[str], place: StepFolders) -> None:
    """Remove files and folders of the working directory of a step."""
    for name in names:
        path = os.path.join(place.cwd, name)
        if os.path.isdir(path) and not os.path.islink(path):
            remove_tree(path)
        else:
            with suppress(OSError):
                os.unlink(path)
