"""What earlier runs say of a choice: measured here, elsewhere, never, or known to fail."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cmbench import api
from cmbench.errors import Error
from cmbench.format.model import Script
from cmbench.session.workspace import Workspace
from cmbench_gui.command import ComposedCommand, parse
from cmbench_gui.site import Site

LOOKED_AT = 200
"""So many of the newest runs are looked at."""


@dataclass(frozen=True, slots=True)
class ScriptBadge:
    """A badge: its words, whether that is ``good``, ``bad`` or neither, and a link to more."""

    text: str
    kind: str = ""
    link: str = ""


def known_of(
    site: Site, script: Script, choice: ComposedCommand, words: Sequence[str]
) -> list[ScriptBadge]:
    """The badges of a choice: what its last run here came to, and results like it."""
    return [*_runs(site, choice, words), *_results(site, script, choice)]


def _runs(site: Site, choice: ComposedCommand, words: Sequence[str]) -> list[ScriptBadge]:
    workspace = site.workspace()
    runs = api.runs(workspace, LOOKED_AT)
    same = [run for run in runs if _is_same(run.command, choice, words, workspace)]
    if not same:
        return [ScriptBadge("never run here")]
    last, times = same[0], f"{len(same)} time{'s' if len(same) > 1 else ''}"
    link = f"/jobs/{last.id}"
    facts = {
        "done": ScriptBadge(f"run here {times}, the last one went well", "good", link),
        "running": ScriptBadge("running now", "", link),
        "killed": ScriptBadge("its last run here was killed", "bad", link),
    }
    return [
        facts.get(last.status, ScriptBadge(f"its last run here failed: {last.error}", "bad", link))
    ]


def _is_same(
    command: Sequence[str], choice: ComposedCommand, words: Sequence[str], workspace: Workspace
) -> bool:
    """Whether a command makes the same choice, by whatever tags it names the script."""
    if list(command[:3]) != list(words[:3]):
        return False
    if set(command) == set(words):
        return True
    if any(f"--{name}={value}" not in command for name, value in choice.flags.items()):
        return False
    try:
        return parse(command, workspace).choice == choice
    except Error:
        return False


def _results(site: Site, script: Script, choice: ComposedCommand) -> list[ScriptBadge]:
    """Return, for a script that measures, how many results there are of the chosen values."""
    from mlperf.catalog.forms import FORMS

    if not {"model", "scenario"} <= script.inputs.keys() or not FORMS.keys().isdisjoint(
        choice.variations
    ):
        return []
    chosen = {
        "benchmark": choice.flags.get("model") or script.inputs["model"].default,
        "scenario": choice.flags.get("scenario") or script.inputs["scenario"].default,
    }
    if not all(chosen.values()):
        return []
    try:
        local, all_of_them = _counted(site, chosen)
    except Error:
        return []
    name = " ".join(chosen.values())
    link = f"/results?benchmark={chosen['benchmark']}&scenario={chosen['scenario']}"
    if not all_of_them:
        return [ScriptBadge(f"no result of {name} yet")]
    elsewhere = all_of_them - local
    return [
        ScriptBadge(f"{name}: {count:,} {where}", "", link)
        for count, where in ((local, "measured here"), (elsewhere, "measured elsewhere"))
        if count
    ]


def _counted(site: Site, chosen: dict[str, str]) -> tuple[int, int]:
    from cmbench_results import query
    from cmbench_results.result_sources import SourceFiles
    from cmbench_results.store import Store

    with Store(SourceFiles(site.workspace().root), site.db) as store:
        store.refresh()
        selection = query.of_flags(chosen)
        every = query.find(store, selection, limit=1).total
        local = query.find(store, query.of_flags({**chosen, "tier": "local"}), limit=1).total
    return local, every
