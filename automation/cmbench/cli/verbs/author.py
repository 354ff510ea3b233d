"""What authors of scripts call: ``cm add``, ``lint``, ``test``, ``doc`` and ``complete script``."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sized
from dataclasses import asdict, replace
from typing import Any

from cmbench.author.author_session import Workbench, refuse_unknown, repository_to_write, scripts_in
from cmbench.errors import Error
from cmbench.format.meta import is_true
from cmbench.format.model import Script
from cmbench.session import request as requests_in
from cmbench.session.session import OWN_ALIAS, Answer, Session


def lint_script(cmind: Any, i: dict[str, Any]) -> Answer:
    """``cm lint script``: the faults of scripts; ``--fix`` corrects what is safe to correct.

    What is found in a foreign dialect is a warning, and the house style is not asked of it, unless
    ``--strict`` says that this is its author.
    """
    from cmbench.author import lint
    from cmbench.author.lint_files import REGISTRY

    bench = Workbench(cmind, i, ("fix", "only", "skip", "strict"))
    only, skip = (str(bench.flags.get(key) or "") for key in ("only", "skip"))
    every = lint.choose_checks(REGISTRY, only, skip)
    checks: set[str] = set()
    faults: list[lint.Fault] = []
    fixed: list[str] = []
    for path in bench.paths:
        foreign = lint.is_foreign(path) and not is_true(bench.flags.get("strict") or "")
        chosen = [item for item in every if only or not (foreign and item.house)]
        checks.update(item.number for item in chosen)
        if bench.flags.get("fix") and lint.fix(path, bench.index, chosen):
            fixed.append(path)
        found = lint.lint(path, bench.index, chosen)
        faults += [replace(fault, binding=not foreign) for fault in found]
    errors = [fault for fault in faults if fault.binding]
    warnings = len(faults) - len(errors)
    count = f"{_count(bench.paths, 'script')}, {len(checks)} checks, {_count(errors, 'fault')}"
    if warnings:
        count += f", {_counted(warnings, 'warning')}"
    lines = [f"{_shown(path)}: meta.yaml corrected" for path in fixed]
    lines += [str(fault).replace(fault.path, _shown(fault.path), 1) for fault in faults]
    answer = {"faults": [asdict(fault) for fault in faults], "fixed": fixed}
    return _answer(bench, answer, [*lines, count], count if errors else "")


def _shown(path: str) -> str:
    """``path`` as one would type it from here."""
    near = os.path.relpath(path)
    return path if near.startswith(os.pardir + os.sep + os.pardir) else near


def _count(items: Sized, noun: str) -> str:
    return _counted(len(items), noun)


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _answer(bench: Workbench, answer: dict[str, Any], lines: Iterable[str], failed: str) -> Answer:
    """Print and return the end of a command; ``failed`` says what failed, if anything."""
    if bench.session.i.get("out") == "con":
        print(json.dumps(answer, indent=1) if bench.flags.get("json") else "\n".join(lines))
    return {"return": 1, "error": failed, **answer} if failed else {"return": 0, **answer}


def doc_script(cmind: Any, i: dict[str, Any]) -> Answer:
    """``cm doc script``: write the generated documentation, or ``--check`` it."""
    from cmbench.author import docs

    bench = Workbench(cmind, i, ("check",))
    pages: dict[str, str] = {}
    for root, scripts in bench.by_repository().items():
        pages |= {os.path.join(s.path, "README.md"): docs.readme(s, bench.index) for s in scripts}
        if len(scripts) == len(scripts_in(root)):
            pages |= docs.repository_pages(root, scripts, _is_own(root))
    stale = docs.stale(pages)
    if bench.flags.get("check"):
        lines = [f"{_shown(path)}: not up to date: cm doc script" for path in stale]
        lines.append(f"{_count(pages, 'file')}, {len(stale)} not up to date")
        return _answer(bench, {"stale": stale}, lines, lines[-1] if stale else "")
    _write({path: pages[path] for path in stale})
    lines = [f"{_shown(path)}: written" for path in stale]
    lines.append(f"{_count(pages, 'file')}, {len(stale)} written")
    return _answer(bench, {"written": stale}, lines, "")


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


def test_script(cmind: Any, i: dict[str, Any]) -> Answer:
    """``cm test script``: plan every variation, run every case of ``detection_test.yaml``."""
    from cmbench.author.detection import read_cases, run_case
    from cmbench.cli.verbs.run import run_script

    bench = Workbench(cmind, i)
    lines: list[str] = []
    tested: list[dict[str, Any]] = []
    for script in bench.scripts():
        problems = list(plan_problems(bench, script))
        results = [run_case(script.path, case, run_script) for case in read_cases(script.path)]
        variations = _count(script.variations, "variation")
        outcomes = [(f"plans with its defaults and each of {variations}", problems)]
        outcomes += [(result.name, list(result.problems)) for result in results]
        lines.append(script.alias)
        for name, found in outcomes:
            lines.append(f"  {'FAIL' if found else 'ok  '} {name}")
            lines += [f"         {line}" for text in found for line in text.splitlines()]
            tested.append({"script": script.alias, "test": name, "problems": found})
    failed = sum(bool(item["problems"]) for item in tested)
    lines.append(f"{_count(bench.paths, 'script')}, {_count(tested, 'test')}, {failed} failed")
    return _answer(bench, {"tests": tested}, lines, lines[-1] if failed else "")


def plan_problems(bench: Workbench, script: Script) -> Iterator[str]:
    """Why a script cannot be planned with its defaults or with one of its variations."""
    from cmbench.plan.resolve import Resolver
    from cmbench.plan.tree import Planner
    from cmbench.render.progress import Silent
    from cmbench.run.scheduler import FactTeller
    from cmbench.run.step import StepRunner

    session = bench.session
    words = lambda path: bench.index.content(path).words  # noqa: E731
    facts = FactTeller(
        StepRunner(Silent(None), None, True, False, session.cmind, words), os.devnull
    )
    facts.resolver = resolver = Resolver(bench.index, session.store, facts)
    for name in ["", *script.variations]:
        asked = "_" + name.replace("#", "1").replace(",", ",_") if name else ""
        tags, _ = requests_in.tags_of({"tags": asked})
        try:
            Planner(resolver, facts).plan(requests_in.request_of({}, tags, script.uid, script))
        except Error as error:
            yield f"{asked or 'defaults'}: {error.render()}"


def add_script(cmind: Any, i: dict[str, Any]) -> Answer:
    """``cm add script``: a new script that passes the linter and its own tests at once."""
    from cmbench.author import docs, scaffold
    from cmbench.format.schema import META_SCHEMA, meta_schema_text

    session = Session(cmind, i, write=False)
    refuse_unknown(session.flags, {"tags", "name", "kind", "repo", "url", "sha256", "out", "json"})
    repo, _, alias = str(i.get("artifact") or "").rpartition(":")
    if not alias:
        raise Error(
            "bad-value",
            "the new script has no name",
            hint="name it <verb>-<thing>:\ncm add script get-cmake --kind=detect",
            context=[f"--kind={kind}: {text}" for kind, text in scaffold.KINDS.items()],
        )
    root = repository_to_write(session, str(session.flags.get("repo") or repo))
    text = {key: str(session.flags.get(key) or "") for key in ("name", "url", "sha256")}
    tags = tuple(t for t in str(session.flags.get("tags") or "").split(",") if t)
    kind = str(session.flags.get("kind") or "detect")
    written = scaffold.create(root, scaffold.Wish(alias, kind, tags, **text))
    schema = os.path.join(root, META_SCHEMA)
    if not os.path.exists(schema):
        _write({schema: meta_schema_text()})
        written.append(schema)
    bench = Workbench(cmind, {"path": os.path.dirname(written[0])})
    _write(
        {os.path.join(s.path, "README.md"): docs.readme(s, bench.index) for s in bench.scripts()}
    )
    if i.get("out") == "con":
        print("\n".join(f"{_shown(path)}: written" for path in written))
        print(f"next: cm test script {alias}; cm lint script {alias}; cm run script {alias}")
    return {"return": 0, "path": os.path.dirname(written[0]), "files": written}
