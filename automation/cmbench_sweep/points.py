"""From a sweep to its points with their keys; all values that the script refuses are reported."""

from __future__ import annotations

import copy
import itertools
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cmbench import api
from cmbench.errors import Error
from cmbench.lib.text_files import counted
from cmbench_results.values import digest
from cmbench_sweep.expressions import ExpressionError, evaluate
from cmbench_sweep.kept_secrets import refuse_secrets
from cmbench_sweep.reading import MOST_PLACES, MOST_POINTS
from cmbench_sweep.values import Sweep, SweepPoint

_MOST_LISTED = 12
"""So many refused values a message lists."""


def points_of(workspace: api.Workspace, sweep: Sweep) -> list[SweepPoint]:
    """Return the points of a sweep in the order of its axes, the last one changing fastest.

    Raises ``bad-sweep`` with every value that the script refuses, ``bad-value`` for a secret,
    ``script-not-found`` and others.
    """
    points = []
    refused: dict[str, str] = {}
    request: api.RunRequest | None = None
    places = _chosen(sweep)
    if not places:
        raise Error("bad-sweep", f"{sweep.name} has no point", hint="exclude removes all of them")
    for number, values in enumerate(places, 1):
        flags = flags_of(sweep, values)
        try:
            request = request_of(workspace, flags)
        except Error as error:
            refused.setdefault(error.summary(), "")
            continue
        labels = [name for name, when in sweep.labels.items() if not when or _holds(when, values)]
        key = _key(request, flags, labels, sweep.site)
        points.append(SweepPoint(number, key, values, flags, labels))
    if refused:
        raise Error(
            "bad-sweep",
            f"{sweep.name}: the script refuses {counted(len(refused), 'thing')} of the sweep",
            context=list(refused)[:_MOST_LISTED],
            hint="see its inputs: `cm run script --tags=TAGS --help`",
        )
    if request:
        axes = [(name, value) for name, values in sweep.axes.items() for value in values]
        keys = {name: spec.env for name, spec in request.script.inputs.items()}
        refuse_secrets([*flat_flags(sweep.request), *axes], keys)
    return _distinct(points)


def request_of(workspace: api.Workspace, flags: Mapping[str, Any]) -> api.RunRequest:
    """Return the checked request of a point; raise what ``api.request`` raises."""
    inputs = copy.deepcopy(dict(flags))
    return api.request(workspace, inputs.pop("script", ""), **{"tags": "", **inputs})


def flags_of(sweep: Sweep, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request of a point: that of the sweep, with the values of the axes laid over it.

    ``tags`` are added to those of the request, such as a variation; ``env.KEY`` goes into its
    group.
    """
    flags: dict[str, Any] = _as_typed(sweep.request)
    if isinstance(flags.get("tags"), list):
        flags["tags"] = ",".join(map(str, flags["tags"]))
    for name, value in values.items():
        *groups, key = name.split(".")
        target = flags
        for group in groups:
            target = target.setdefault(group, {})
            if not isinstance(target, dict):
                raise _is_both(name, group)
        if isinstance(target.get(key), dict):
            raise _is_both(name, key)
        added = f"{target['tags']},{value}" if key == "tags" and target.get("tags") else str(value)
        target[key] = value if isinstance(value, bool) else added.rstrip(",")
    return flags


def _is_both(name: str, group: str) -> Error:
    text = f"axes.{name}: {group} is a value and a group of inputs"
    return Error("bad-sweep", text, hint=f"give either {group} or {group}.KEY")


def _as_typed(value: Any) -> Any:
    """Return what a file says as a command line would: numbers are texts there."""
    if isinstance(value, Mapping):
        return {str(key): _as_typed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_as_typed(item) for item in value]
    return value if isinstance(value, bool) else "" if value is None else str(value)


def _key(
    request: api.RunRequest, flags: Mapping[str, Any], labels: Sequence[str], site: str
) -> str:
    """Return the digest of a point: script, its files, request, labels of the machine, its site."""
    script = request.script
    content = request.workspace.index.contents.get(script.path).digest
    inputs = {key: value for key, value in flags.items() if key != "script"}
    tags = sorted(set(str(inputs.pop("tags", "")).split(",")))
    named = [site] if site else []
    return digest([script.uid, content, tags, inputs, sorted(labels), *named])[:24]


def _distinct(points: Sequence[SweepPoint]) -> list[SweepPoint]:
    """Return points without those that repeat an earlier request."""
    return list({point.key: point for point in reversed(points)}.values())[::-1]


def _chosen(sweep: Sweep) -> list[Mapping[str, Any]]:
    """Return the combinations to measure: all, or as many as a random search may try."""
    places = _drawn(sweep) if sweep.search.method == "random" else _places(sweep)
    chosen = list(itertools.islice(places, sweep.budget.points or MOST_POINTS + 1))
    if len(chosen) > MOST_POINTS:
        raise _too_many(f"more than {MOST_POINTS:,} points")
    return chosen


def _drawn(sweep: Sweep) -> Iterator[Mapping[str, Any]]:
    """Draw as many combinations as a random search may try; if very many, by their number."""
    source, most, whole = random.Random(sweep.search.seed), sweep.search.points, size(sweep)
    if whole <= MOST_PLACES:
        places = list(_places(sweep))
        return iter(source.sample(places, min(most, len(places))))
    numbers = source.sample(range(whole), MOST_PLACES)
    allowed = (place for n in numbers if _is_wanted(sweep, place := _place(sweep, n)))
    return itertools.islice(allowed, most)


def _too_many(what: str) -> Error:
    hint = "choose fewer values, or try some of them: search: {method: random, points: N}"
    return Error("bad-sweep", f"{what} are too many for a sweep", hint=hint)


def _places(sweep: Sweep) -> Iterator[Mapping[str, Any]]:
    """Return the product of the axes, zipped ones together, without what is excluded.

    Raises ``bad-sweep`` where too many are to be gone through.
    """
    rows = itertools.product(*(_group(sweep, names) for names in groups(sweep)))
    for number, values in enumerate(rows):
        if number == MOST_PLACES:
            raise _too_many(f"axes with {size(sweep):,} places, most of them excluded,")
        place = _joined(sweep, values)
        if _is_wanted(sweep, place):
            yield place


def _place(sweep: Sweep, number: int) -> Mapping[str, Any]:
    """Return the combination with this number in the product of the axes."""
    values = []
    for names in reversed(groups(sweep)):
        number, at = divmod(number, len(sweep.axes[names[0]]))
        values.append({name: sweep.axes[name][at] for name in names})
    return _joined(sweep, values)


def _joined(sweep: Sweep, values: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    joined = {name: value for part in values for name, value in part.items()}
    return {name: joined[name] for name in sweep.axes}


def _is_wanted(sweep: Sweep, values: Mapping[str, Any]) -> bool:
    return not any(_holds(text, values) for text in sweep.exclude)


def groups(sweep: Sweep) -> list[tuple[str, ...]]:
    """Return the axes that change independently: single ones, or those that are zipped."""
    together = {name: group for group in sweep.zips for name in group}
    return list(dict.fromkeys(together.get(name, (name,)) for name in sweep.axes))


def _group(sweep: Sweep, names: Sequence[str]) -> list[dict[str, Any]]:
    columns = [sweep.axes[name] for name in names]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _holds(text: str, values: Mapping[str, Any]) -> bool:
    try:
        return bool(evaluate(text, values))
    except ExpressionError as problem:
        raise Error(
            "bad-sweep", f"a condition: {problem}", hint="compare numbers with numbers"
        ) from None


def size(sweep: Sweep) -> int:
    """Return how many points the axes make before any is excluded."""
    return math.prod(len(_group(sweep, names)) for names in groups(sweep))


def command_of(point: SweepPoint) -> str:
    """Return the command line that runs a point once."""
    import shlex

    words = [f"--{name}={value}" for name, value in flat_flags(point.flags) if name != "script"]
    name = [str(point.flags["script"])] if point.flags.get("script") else []
    return shlex.join(["cm", "run", "script", *name, *words])


def flat_flags(flags: Mapping[str, Any], start: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the inputs of a request by their names, with dots for those of groups."""
    for key, value in flags.items():
        if isinstance(value, Mapping):
            yield from flat_flags(value, f"{start}{key}.")
        else:
            listed = ",".join(map(str, value)) if isinstance(value, list) else value
            yield f"{start}{key}", "yes" if listed is True else listed
