"""A folder with all that a run fetches, for a machine that has no network."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cmbench.errors import Error
from cmbench.values import immutable

if TYPE_CHECKING:
    from cmbench.lib.wheels import WheelTarget
    from cmbench.plan.planned_step import PlannedStep
    from cmbench.plan.step_run import StepRun
    from cmbench.run.prefetch import PrefetchFile
    from cmbench.session.call import RunRequest

INSTALLER = "94b62a682bc44791"
"""The uid of the script that installs Python packages: get-generic-python-lib."""
PYTHONS = ("d0b5dd74373f4a62", "7633ebada4584c6c")
"""The uids of the scripts that find a Python and make an environment of one."""
BASE = "CM_PYTHON_LAYER_BASE"
NAME, BOUNDS = "CM_GENERIC_PYTHON_PACKAGE_NAME", "CM_TMP_PIP_VERSION_STRING"
SOURCE, INDEX = "CM_GENERIC_PYTHON_PIP_URL", "CM_GENERIC_PYTHON_PIP_EXTRA_INDEX_URL"

Say = Callable[[str], None]


@immutable(frozen=True, slots=True, eq=True, repr=True)
class PreparedFolder:
    """The contents of a folder for a run without a network.

    ``wheels`` and ``files`` are names in its sub-folders of that name; ``missing`` says which needs
    of the plan are not covered.
    """

    path: str
    wheels: Sequence[str]
    files: Sequence[str]
    missing: Sequence[str]

    def data(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {
            "path": self.path,
            "wheels": list(self.wheels),
            "files": list(self.files),
            "missing": list(self.missing),
        }


def prepare(request: RunRequest, folder: str, wheels_for: str, say: Say) -> PreparedFolder:
    """Fetch the wheels and the files of a plan into ``folder``; ``say`` is called for each step.

    ``wheels_for`` names another interpreter and platform, as ``cp312,linux_x86_64``. Raises
    ``Error`` where one of them cannot be had.
    """
    from cmbench.api.planning import plan
    from cmbench.api.resolving import check_sources
    from cmbench.lib.local_sources import FILES, write_listing
    from cmbench.lib.wheels import WheelTarget
    from cmbench.plan.planned_step import walk
    from cmbench.run.prefetch import wish_of

    target = WheelTarget.parse(wheels_for) if wheels_for else None
    check_sources(request)
    root = plan(request).plan.root
    planned_steps = [
        planned_step for planned_step in walk(root) if planned_step.cached not in ("fact", "above")
    ]
    steps = [
        planned_step.step_run
        for planned_step in planned_steps
        if planned_step.step_run and not planned_step.detail.needs.present
    ]
    if target:
        _require_target(target, root)
    packages, missing = _packages(steps)
    base = _values(root.step_run).get(BASE, "") if root.step_run and not wheels_for else ""
    wheels: list[str] = []
    if packages:
        words = [*(target.options() if target else ()), *_indexes(steps), *_links(request)]
        wheels = _fetch_wheels(packages, base, words, folder, say)
    files = []
    for wish in dict.fromkeys(filter(None, map(wish_of, steps))):
        say(f"fetching {wish.urls[0]}")
        files.append(_fetch(wish, os.path.join(folder, FILES)))
    write_listing(folder)
    return PreparedFolder(folder, wheels, files, [*missing, *_uncovered(planned_steps)])


def _require_target(target: WheelTarget, root: PlannedStep) -> None:
    """Raise ``bad-value`` where a step of the plan needs another Python than that of ``--for``."""
    from cmbench.lib.tools import bounds_of

    for step in _unconditional(root):
        if step.script.uid in PYTHONS:
            target.require_within(bounds_of(_values(step)))


def _links(request: RunRequest) -> Sequence[str]:
    links = request.options.package_files
    return ("--find-links", links) if links else ()


def _unconditional(planned_step: PlannedStep) -> Iterator[StepRun]:
    """Yield the steps of a plan that are not left to a condition, cached ones too."""
    if planned_step.step_run is not None and not planned_step.when:
        yield planned_step.step_run
        for child in planned_step.children:
            yield from _unconditional(child)


def _fetch_wheels(
    packages: Sequence[str], base: str, words: Sequence[str], folder: str, say: Say
) -> list[str]:
    """Fetch wheels of ``packages``; of their needs only those that the Python ``base`` lacks."""
    from cmbench.lib.local_sources import WHEELS
    from cmbench.lib.pythons import interpreter_of
    from cmbench.lib.wheels import fetch_wheels, lacking

    say(f"fetching wheels: {', '.join(packages)}")
    place = os.path.join(folder, WHEELS)
    if not base:
        return fetch_wheels(_python(), packages, place, words)
    python = str(interpreter_of(base))
    added = lacking(python, packages, words)
    return fetch_wheels(python, added, place, ["--no-deps", *words]) if added else []


def _packages(steps: Sequence[StepRun]) -> tuple[list[str], list[str]]:
    """Return the requirements of the packages of a plan, and those that no wheel is had of."""
    requirements: dict[str, None] = {}
    missing = []
    for step in steps:
        values = _values(step)
        name = values.get(NAME, "")
        if step.script.uid != INSTALLER or not name or name == NAME:
            continue
        if values.get(SOURCE):
            missing.append(f"Python package {name}: it comes from {values[SOURCE]}")
        else:
            requirements[name + values.get(BOUNDS, "")] = None
    return list(requirements), list(dict.fromkeys(missing))


def _values(step: StepRun) -> Mapping[str, str]:
    """Return the settings of an installer that are texts."""
    return {k: v for k, v in step.env.plain().items() if isinstance(v, str) and "<<<" not in v}


def _indexes(steps: Sequence[StepRun]) -> list[str]:
    urls = {_values(step).get(INDEX, "") for step in steps if step.script.uid == INSTALLER}
    return [word for url in sorted(urls - {""}) for word in ("--extra-index-url", url)]


def _python() -> str:
    """Return an interpreter of this machine that has pip; raises ``pip-missing``."""
    from cmbench.lib.probe import search_path
    from cmbench.lib.pythons import candidates_in, describe

    for path in candidates_in(search_path()):
        python, _ = describe(path)
        if python is not None and python.has_pip:
            return python.path
    raise Error(
        "pip-missing",
        "no Python in PATH has pip, which fetches wheels",
        hint="install the package python3-pip of your distribution",
    )


def _fetch(wish: PrefetchFile, folder: str) -> str:
    """Fetch one file under the name that a run looks for; return the name."""
    from cmbench.lib.download import download, place_of

    place = place_of(folder, wish.checksum)
    assert place is not None
    place.parent.mkdir(parents=True, exist_ok=True)
    download(wish.urls, place, size=wish.size, checksum=wish.checksum, verify=wish.verify)
    return place.name


def _uncovered(planned_steps: Sequence[PlannedStep]) -> Iterator[str]:
    """Yield the downloads of a plan that are neither packages nor files with a checksum."""
    from cmbench.run.prefetch import wish_of

    seen = {
        download.what
        for planned_step in planned_steps
        for download in planned_step.detail.needs.downloads
        if planned_step.step_run is None
        or (
            planned_step.step_run.script.uid != INSTALLER and wish_of(planned_step.step_run) is None
        )
    }
    yield from sorted(seen)
