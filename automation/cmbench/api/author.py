"""What authors of scripts do: begin one, lint it, test it, write its documentation."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cmbench.api.resolving import make_context, make_plan, silent_facts
from cmbench.api.running import FinishedRun, run
from cmbench.author.author_session import Workbench, repository_to_write, scripts_in
from cmbench.errors import Error
from cmbench.format.model import Script
from cmbench.lib.text_files import counted
from cmbench.session import request as requests_in
from cmbench.session.call import Call
from cmbench.session.workspace import OWN_ALIAS, Workspace
from cmbench.values import immutable

if TYPE_CHECKING:
    from cmbench.author.lint import LintFault
    from cmbench.author.scaffold import ScaffoldRequest


@immutable(frozen=True, slots=True, eq=True, repr=True)
class LintReport:
    """The faults of the linter: those that do not bind are warnings; ``fixed`` are scripts."""

    scripts: Sequence[str]
    checks: int
    faults: Sequence[LintFault]
    fixed: Sequence[str]


@immutable(frozen=True, slots=True, eq=True, repr=True)
class GeneratedPages:
    """The generated pages by path, and those that were not up to date."""

    pages: Mapping[str, str]
    stale: Sequence[str]


@immutable(frozen=True, slots=True, eq=True, repr=True)
class ScriptTestResult:
    """One test of a script; it has passed where there are no problems.

    ``warnings`` are those of scripts of other engines, whose metas are not held to our rules.
    """

    script: str
    test: str
    problems: Sequence[str]
    warnings: Sequence[str] = ()


@immutable(frozen=True, slots=True, eq=True, repr=True)
class CheckSelection:
    """Which checks of the linter are made; ``strict`` holds other dialects to all of them."""

    only: str = ""
    skip: str = ""
    strict: bool = False


def lint(bench: Workbench, choice: CheckSelection | None = None, fix: bool = False) -> LintReport:
    """Return the faults of scripts; ``fix`` corrects what is safe to correct.

    Faults of a foreign dialect are warnings, and its style is not checked, unless ``choice.strict``
    says that the user is its author.
    """
    from cmbench.author import lint as linter
    from cmbench.author.checks import REGISTRY

    choice = choice or CheckSelection()
    every = linter.choose_checks(REGISTRY, choice.only, choice.skip)
    of_foreign = every if choice.only else [item for item in every if not item.house]
    numbers: set[str] = set()
    faults: list[LintFault] = []
    fixed: list[str] = []
    for path in bench.paths:
        foreign = linter.is_foreign(path) and not choice.strict
        checks = of_foreign if foreign else every
        numbers.update(item.number for item in checks)
        if fix and linter.fix(path, bench.index, checks):
            fixed.append(path)
        findings = linter.lint(path, bench.index, checks)
        faults += [replace(fault, binding=not foreign) for fault in findings]
    return LintReport(bench.paths, len(numbers), faults, fixed)


def title_of(number: str) -> str:
    """Return what the check with that number demands."""
    from cmbench.author.checks import REGISTRY

    return REGISTRY[number].title


def document(bench: Workbench, only_check: bool = False) -> GeneratedPages:
    """Write the generated documentation of scripts where it is not up to date."""
    from cmbench.author import docs
    from cmbench.author.meta_parts import meta_files

    pages: dict[str, str] = {}
    for root, scripts in bench.by_repository().items():
        pages |= {os.path.join(s.path, "README.md"): docs.readme(s, bench.index) for s in scripts}
        own = _is_own(root)
        if own:
            # A program of another repository is not run for its documentation.
            pages |= meta_files(script.path for script in scripts)
        if len(scripts) == len(scripts_in(root)):
            pages |= docs.repository_pages(root, scripts, own)
    stale = docs.stale(pages)
    if not only_check:
        _write({path: pages[path] for path in stale})
    return GeneratedPages(pages, stale)


def _write(files: Mapping[str, str]) -> None:
    for path, text in files.items():
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(text)


def _is_own(root: str) -> bool:
    try:
        with open(os.path.join(root, "cmr.yaml"), encoding="utf-8") as stream:
            return f"alias: {OWN_ALIAS}\n" in stream.read()
    except OSError:
        return False


def test(bench: Workbench) -> list[ScriptTestResult]:
    """Plan every variation of scripts, and run every case of their ``detection_test.yaml``."""
    from cmbench.author.detection import read_cases, run_case

    tested: list[ScriptTestResult] = []
    for script in bench.scripts():
        variation_count = counted(len(script.variations), "variation")
        plans = f"plans with its defaults and each of {variation_count}"
        problems, ours = list(plan_problems(bench, script)), script.dialect.inputs_bind
        tested.append(
            ScriptTestResult(script.alias, plans, *((problems, ()) if ours else ((), problems)))
        )
        for case in read_cases(script.path):
            result = run_case(script.path, case, run_call)
            tested.append(ScriptTestResult(script.alias, result.name, result.problems))
    return tested


def run_call(workspace: Workspace, arguments: Mapping[str, Any]) -> FinishedRun:
    """Run the request of ``arguments``, in the words of the command line."""
    return run(Call(workspace, arguments).request())


def plan_problems(bench: Workbench, script: Script) -> Iterator[str]:
    """Yield why a script cannot be planned with its defaults or with one of its variations."""
    context = make_context(bench.as_written, silent_facts(bench.as_written))
    for name in ["", *script.variations]:
        variation = "_" + name.replace("#", "1").replace(",", ",_") if name else ""
        tags, _ = requests_in.tags_of({"tags": variation})
        request = requests_in.request_of({}, tags, script.uid, script)
        try:
            make_plan(bench.as_written, request, context)
        except Error as error:
            # What this machine lacks is no fault of the script.
            if error.code != "no-device":
                yield f"{variation or 'defaults'}: {error.render()}"


def relocate(
    workspace: Workspace,
    source: Script,
    target: str,
    move: bool = False,
    tags: tuple[str, ...] = (),
) -> str:
    """Copy or move a script to ``target``, which is ``name`` or ``repository:name``; its folder.

    Without a repository it stays in its own, and a point is the one that we are in. A copy gets
    ``tags``, if there are any.
    """
    from cmbench.author import relocate as places

    repository, _, name = target.rpartition(":")
    inside = repository_to_write(workspace, repository) if repository else ""
    root = inside or os.path.dirname(os.path.dirname(source.path))
    return places.relocate(source.path, root, name, move, tags)


def add(workspace: Workspace, wish: ScaffoldRequest, repository: str = "") -> list[str]:
    """A new script that passes the linter and its own tests at once; the files written."""
    from cmbench.author import docs, scaffold
    from cmbench.format.schema import META_SCHEMA, meta_schema_text

    root = repository_to_write(workspace, repository)
    written = scaffold.create(root, replace(wish, house=_is_own(root)))
    schema = os.path.join(root, META_SCHEMA)
    if not os.path.exists(schema):
        _write({schema: meta_schema_text()})
        written.append(schema)
    bench = Workbench(workspace, path=os.path.dirname(written[0]))
    _write(
        {os.path.join(s.path, "README.md"): docs.readme(s, bench.index) for s in bench.scripts()}
    )
    return written
