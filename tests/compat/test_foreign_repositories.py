"""Repositories of other people under this engine, against their own; run when one is pointed at.

    CM4MLOPS=~/cm4mlops MLPERF_AUTOMATIONS=~/mlperf-automations pytest tests/compat -s

Nothing of those repositories is needed otherwise: ``tests/engine`` covers each behaviour with
scripts of its own.
"""

from __future__ import annotations

import copy
import importlib.util
import logging
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cmbench.cache.store import CacheStore
from cmbench.errors import Error
from cmbench.format.model import Request, Script, StepOutcome
from cmbench.index.scripts import Index, Repository
from cmbench.index.select import expand, parse_tags
from cmbench.plan.cache_lookup import CacheLookup
from cmbench.plan.resolve import PlanContext, Resolver
from cmbench.plan.tree import Planner

FAULTS = {"variation-not-found", "script-not-found", "bad-value", "bad-meta"}
"""What the metadata of a foreign repository may be guilty of; anything else is our fault."""


def checkout(variable: str) -> Path:
    place = os.environ.get(variable)
    if not place:
        pytest.skip(f"{variable} names no checkout")
    return Path(place).expanduser().resolve()


def index_of(path: Path, home: Path) -> Index:
    return Index([Repository(path.name, str(path))], str(home / "index.db"))


def each_variation(index: Index) -> Iterator[tuple[Script, str]]:
    """Every script with its defaults (an empty name) and with each single variation."""
    for path in sorted(index.rows()):
        script = index.script(path)
        yield script, ""
        for name in script.variations:
            if "," not in name:
                yield script, name.replace("#", "1")


def no_facts(path: str) -> StepOutcome:
    return StepOutcome({}, {})


def query(script: Script, variation: str) -> str:
    return ",".join([*script.tags, *([f"_{variation}"] if variation else [])])


@pytest.mark.parametrize("variable", ["CM4MLOPS", "MLPERF_AUTOMATIONS"])
def test_every_script_and_variation_is_planned(variable: str, tmp_path: Path) -> None:
    index = index_of(checkout(variable), tmp_path)
    store = CacheStore(str(tmp_path))
    counts: Counter[str] = Counter()
    ours = []
    for script, variation in each_variation(index):
        lookup = CacheLookup(index, store, no_facts)
        request = Request(tags=parse_tags(query(script, variation)))
        try:
            Planner(PlanContext(Resolver(index), lookup, no_facts)).plan(request)
            counts["planned"] += 1
        except Error as error:
            counts[error.code] += 1
            if error.code not in FAULTS:
                ours.append((script.alias, variation, error.message))
    print(f"\n{variable}: {sum(counts.values())} requests: {dict(counts)}")
    assert ours == []
    assert counts["planned"] > 0.95 * sum(counts.values())


def test_variations_are_those_of_the_own_engine(tmp_path: Path) -> None:
    root = checkout("CM4MLOPS")
    index = index_of(root, tmp_path)
    theirs = own_expansion(root, tmp_path)
    counts: Counter[str] = Counter()
    different = []
    for script, variation in each_variation(index):
        other = theirs(dict(script.meta), [variation] if variation else [])
        try:
            mine: list[str] | None = list(
                expand(script, parse_tags(query(script, variation))).variations
            )
        except Error:
            mine = None
        if mine == other:
            counts["same"] += 1
        elif other is None or doubled(script, other):
            counts["their fault"] += 1
        else:
            different.append((script.alias, variation, other, mine))
    print(f"\nvariations: {dict(counts)}, different: {len(different)}")
    assert different == []


def doubled(script: Script, names: list[str]) -> bool:
    """Whether an expansion names a variation twice, or two members of one group."""
    groups = [script.variations[n].group for n in names if n in script.variations]
    groups = [group for group in groups if group]
    return len(set(names)) < len(names) or len(set(groups)) < len(groups)


def own_expansion(
    root: Path, home: Path
) -> Callable[[dict[str, Any], list[str]], list[str] | None]:
    """The expansion of variations by the engine in the checkout, ``None`` where it fails."""
    pytest.importorskip("cmind")
    from cmind.core import CM

    logging.disable(logging.CRITICAL)
    folder = root / "automation" / "script"
    sys.path.insert(0, str(folder))
    spec = importlib.util.spec_from_file_location("foreign_engine", folder / "module.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    cm = CM(repos_path=str(home / "cm"))
    cm.access({"action": "version", "automation": "core"})
    engine = module.CAutomation(cm, str(folder / "module.py"))

    def limited(meta: dict[str, Any], tags: list[str]) -> list[str] | None:
        def stop(number: int, frame: Any) -> None:
            raise TimeoutError

        signal.signal(signal.SIGALRM, stop)
        signal.setitimer(signal.ITIMER_REAL, 2)
        try:
            return own_steps(engine, meta, tags)
        except Exception:
            return None
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    return limited


def own_steps(engine: Any, meta: dict[str, Any], tags: list[str]) -> list[str] | None:
    variations = {k: v or {} for k, v in copy.deepcopy(meta.get("variations") or {}).items()}
    found = engine._get_variations_with_aliases(tags, variations)
    groups = engine._get_variation_groups(variations)
    if found["return"] or groups["return"]:
        return None
    names, excluded = found["variation_tags"], found["excluded_variation_tags"]
    if not names and meta.get("default_variation"):
        names = [meta["default_variation"]]
    known = groups["variation_groups"]
    grow = engine._update_variation_tags_from_variations
    if grow(names, variations, known, excluded)["return"]:
        return None
    more = engine._process_variation_tags_in_groups(names, known, excluded, variations)
    if more["return"]:
        return None
    if names != more["variation_tags"]:
        names = more["variation_tags"]
        if grow(names, variations, known, excluded)["return"]:
            return None
    result: list[str] = names
    return result
