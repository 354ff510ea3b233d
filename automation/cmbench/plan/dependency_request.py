"""The request of a dependency entry, made with the env of its caller."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from cmbench.errors import Error
from cmbench.format.env import (
    Pending,
    TracedEnv,
    as_text,
    decide,
    select_keys,
    substitute,
    unresolved,
)
from cmbench.format.merge import merge_dependency
from cmbench.format.model import Condition, Dependency, Request, VersionRange
from cmbench.index.select import parse_tags, variation_of
from cmbench.lib.secrecy import mask_word
from cmbench.plan.resolve import call_env
from cmbench.plan.step_run import StepRun


def request_of(step_run: StepRun, entry: Dependency, known_only: bool = False) -> Request | Pending:
    """Return the request that a dependency entry makes; pending when its tags are not yet known.

    With ``known_only`` it is made without the tags that are not.
    """
    env = step_run.env
    text = _tags_text(step_run, entry, known_only)
    if isinstance(text, Pending):
        return text
    inputs = {k: substitute(v, env) for k, v in entry.inputs.items()}
    extra = substitute(entry.extra_cache_tags, env)
    return Request(
        tags=parse_tags(text),
        inputs=inputs,
        env={**_forced(entry, env), **{k: substitute(v, env) for k, v in entry.env.items()}},
        version=_child_version(step_run, entry),
        name=str(inputs.get("name", "")),
        path=str(inputs.get("path", "")),
        extra_cache_tags=tuple(t for t in str(extra).split(",") if t),
        force_new_env_keys=entry.force_new_env_keys,
        expires=_expiration(step_run, entry),
        ad=entry.ad,
        adr=_passed_down(step_run, entry),
        force_cache=bool(entry.force_cache),
        call=_call(entry),
    )


def _call(entry: Dependency) -> dict[str, Any]:
    """Return the fields of the entry that hooks see in addition to the request."""
    names = {"names": list(entry.names)} if entry.names else {}
    return {**names, "adr": {}} if entry.adr else names


def tags_of_deps(step_run: StepRun, entries: Iterable[Dependency]) -> tuple[str, ...]:
    """Return the tags of all of ``entries``, as a result of MLC lists the dependencies of a script.

    They are its own ``deps``, listed whether they are active or not.
    """
    tags_of_entries = []
    for entry in entries:
        is_active = decide(entry.conditions, step_run.env)[0]
        request = request_of(step_run, entry, known_only=True) if is_active else None
        tags_of_entries.append(str(request.tags) if isinstance(request, Request) else entry.tags)
    return tuple(tags_of_entries)


def _tags_text(step_run: StepRun, entry: Dependency, known_only: bool) -> Any:
    """Return the tags of the entry as text; ``Pending`` where one is known only during a run."""
    words = list(_tag_words(step_run, entry))
    pending = [word for word in words if isinstance(word, Pending)]
    if pending and not known_only:
        return pending[0]
    resolved = [str(word) for word in words if word and not isinstance(word, Pending)]
    return substitute(",".join(resolved), step_run.env)


def _tag_words(step_run: StepRun, entry: Dependency) -> Iterator[Any]:
    env = step_run.env
    yield entry.tags
    for prefix, keys in entry.tags_from_env_with_prefix:
        for key in keys:
            yield _prefixed(prefix, _own_value(entry, env, key))
    for key in entry.tags_from_env:
        yield _prefixed("", _own_value(entry, env, key))
    for tag, rules in entry.tags_if_env:
        yield _tag_if(tag, rules, env)
    if entry.inherit_variation_tags:
        yield from _inherited(step_run, entry)


def refuse_gaps(step_run: StepRun) -> None:
    """Raise ``missing-input`` where a caller passes a ``<<<KEY>>>`` for which nothing has a value.

    It is asked before the cache, so that no entry answers where a fresh run would be refused. What
    the user has typed for the requested script is taken as it is. Scripts that were written for
    other engines are used to such values.
    """
    script, request = step_run.script, step_run.request
    if step_run.parent is None or step_run.step.is_fake or not script.dialect.faults_bind:
        return
    mapping = [item for block in step_run.step.blocks for item in block.input_mapping.items()]
    mapped = [key for name, key in mapping if name in request.inputs]
    for key in (*call_env(request, step_run.step.version, script.dialect), *mapped):
        value = step_run.env.peek(key, "")
        if unresolved(value):
            raise Error(
                "missing-input",
                f"{script.alias} needs {key}, and nothing has set {value}",
                hint="see which step sets it: `cm plan script --explain`, "
                "or set it: --env.KEY=VALUE",
            )


def command_of(request: Request) -> str:
    """Return the command line that makes ``request``, secrets hidden."""
    version = request.version
    options = {
        "tags": request.tags,
        "version": version.exact,
        "version_min": version.minimum,
        "version_max": version.maximum,
        "version_max_usable": version.usable,
        "extra_cache_tags": ",".join(request.extra_cache_tags),
        **request.inputs,
        **{f"env.{key}": as_text(value) for key, value in request.env.items()},
    }
    flags = [mask_word(f"--{name}={value}") for name, value in options.items() if str(value)]
    import shlex

    return shlex.join(["cm", "run", "script", *flags])


def _own_value(entry: Dependency, env: TracedEnv, key: str) -> Any:
    """Return what the entry itself sets for ``key``, else what the caller's env holds."""
    own = substitute(entry.env[key], env) if key in entry.env else ""
    return env.get(key) if own in ("", None) else own


def _tag_if(tag: str, rules: tuple[Condition, ...], env: TracedEnv) -> Any:
    answer, question = decide(rules, env)
    if answer is None:
        return Pending(question.rpartition(" from ")[2])
    return tag if answer else ""


def _prefixed(prefix: str, value: Any) -> Any:
    if value is None or value == "":
        return ""
    if isinstance(value, Pending):
        return value
    items = value if isinstance(value, list) else [value]
    return ",".join(f"{prefix}{item}" for item in items)


def _inherited(step_run: StepRun, entry: Dependency) -> list[str]:
    skipped = set(entry.skip_inherit_variation_groups)
    refused = {word[2:] for word in entry.tags.split(",") if word.startswith("-_")}
    return [
        "_" + name
        for name in step_run.step.choice.variations
        if name not in refused
        and "," not in name
        and variation_of(step_run.script, name).group not in skipped
    ]


def _forced(entry: Dependency, env: TracedEnv) -> dict[str, Any]:
    if not entry.force_env_keys:
        return {}
    return {key: env[key] for key in select_keys(dict.keys(env), entry.force_env_keys)}


def _child_version(step_run: StepRun, entry: Dependency) -> VersionRange:
    return entry.version or (step_run.step.version if entry.reuse_version else entry.version)


def _expiration(step_run: StepRun, entry: Dependency) -> str:
    return entry.expires or (step_run.step.expires if entry.inherits_expiration else "")


def _passed_down(step_run: StepRun, entry: Dependency) -> Mapping[str, Dependency]:
    adr: dict[str, Dependency] = step_run.adr.plain()
    for name, update in entry.adr.items():
        adr[name] = merge_dependency(adr[name], update) if name in adr else update
    return adr
