"""The verbs: cmind's dictionary in, the engine's parts wired up, a CM return dictionary out."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from typing import Any

from cmbench import request as requests_in
from cmbench.cache import Entry, Store, disk_error
from cmbench.errors import Error, did_you_mean
from cmbench.index import Index, Repository
from cmbench.model import Request, RunOptions, Script
from cmbench.record import Recorder, new_run_directory
from cmbench.report import Silent, choose_reporter
from cmbench.resolve import Resolver
from cmbench.run import StepRunner
from cmbench.runlog import RunLog
from cmbench.schedule import FactTeller, Scheduler
from cmbench.select import choose, parse_tags

OWN_ALIAS = "cmbench"
Answer = dict[str, Any]


class Session:
    """One call of one verb: the registered repositories, the index and the store of this user."""

    def __init__(self, cmind: Any, i: Mapping[str, Any], write: bool) -> None:
        self.cmind = cmind
        self.i = i
        self.flags = requests_in.flags_of(i)
        self.options = requests_in.options_of(self.flags, i.get("cmd") or ())
        self.root = os.path.join(cmind.repos_path, "cmbench")
        self.repositories = [
            Repository(
                alias=str(repo.meta.get("alias", repo.path_with_prefix)),
                path=repo.path_with_prefix,
                own=repo.meta.get("alias") == OWN_ALIAS,
            )
            for repo in cmind.repos.lst
        ]
        self.index = Index(self.repositories, os.path.join(self.root, "index.db"), write)
        self.store = Store(self.root)

    def words(self, path: str) -> tuple[str, ...]:
        """Env words of a script's native programs."""
        return self.index.content(path).words

    def script(self) -> tuple[Request, Script]:
        """The requested script and the checked request."""
        tags, uid = requests_in.tags_of(self.i)
        script = self.index.script(choose(self.index, tags, uid).path)
        return requests_in.request_of(self.flags, tags, uid, script), script


def handle(thing: str, verb: str, cmind: Any, i: dict[str, Any]) -> Answer:
    """Do ``cm <verb> <thing>``; failures are printed here and returned with their exit code."""
    console = i.get("out") == "con"
    try:
        return _VERBS[thing, verb](cmind, i)
    except Error as error:
        return _failure(error, console)
    except OSError as problem:
        return _failure(disk_error(problem, str(problem.filename or "")), console)


def _failure(error: Error, console: bool) -> Answer:
    if console:
        print(error.render(), file=sys.stderr)
    answer: Answer = {"return": error.exit_code, "error": error.message, "code": error.code}
    for key in ("hint", "chain", "context", "doing", "log", "record"):
        if getattr(error, key):
            answer[key] = getattr(error, key)
    return answer


def run_script(cmind: Any, i: dict[str, Any]) -> Answer:
    """``cm run script``."""
    session = Session(cmind, i, write=True)
    request, script = session.script()
    if session.flags.get("help"):
        return _show_help(script, i)
    session.store.sweep()
    return _Run(session, request, script).go()


class _Run:
    """One run from plan to record."""

    def __init__(self, session: Session, request: Request, script: Script) -> None:
        self._session = session
        self._request = request
        self._script = script
        self._options: RunOptions = session.options
        self._directory = new_run_directory(session.root)
        self._log = RunLog(os.path.join(self._directory, "log.txt"))
        self._recorder = Recorder(self._directory, self._log, _command(session))
        out = "json" if self._options.out == "json" else str(session.i.get("out") or "")
        options = self._options
        self._reporter = choose_reporter(out, options.quiet, options.silent, options.verbose)

    def go(self) -> Answer:
        error: Error | None = None
        try:
            with _interruptible(), self._session.store.running(self._directory):
                return self._answer(*self._execute())
        except Error as problem:
            error = problem
            raise
        except KeyboardInterrupt:
            error = Error("interrupted", "stopped by the user; what was finished is kept")
            raise error from None
        except Exception as problem:
            if self._options.debug:
                raise
            error = _internal(problem)
            raise error from problem
        finally:
            self._reporter.end()
            self._log.close()
            self._recorder.write(self._session.repositories, error)
            if error is not None:
                error.log = self._log.path
                error.record = self._recorder.path

    def _execute(self) -> tuple[Any, Any]:
        session = self._session
        runner = StepRunner(
            self._reporter,
            self._log,
            self._options.quiet,
            self._options.verbose,
            session.cmind,
            session.words,
            self._options.offline,
        )
        facts = FactTeller(runner, self._directory)
        self._reporter.begin(self._foresee(facts))
        facts.resolver = resolver = Resolver(session.index, session.store, facts)
        reporters = [self._reporter, self._recorder]
        return Scheduler(resolver, runner, facts, reporters, self._directory).run(self._request)

    def _foresee(self, facts: FactTeller) -> int:
        """The number of steps; refuses before anything runs what cannot be resolved."""
        script = self._script
        blocks = [script.settings, *(v.settings for v in script.variations.values())]
        if not any(block.deps for block in blocks):
            return 1
        steps: int = _plan(self._session, self._request, facts).steps
        return steps

    def _answer(self, frame: Any, outcome: Any) -> Answer:
        self._reporter.end()
        answer: Answer = {
            "return": 0,
            "env": dict(outcome.new_env),
            "new_env": dict(outcome.new_env),
            "state": dict(outcome.new_state),
            "new_state": dict(outcome.new_state),
            "deps": [step["step"] for step in self._recorder.steps[:-1]],
            "version": outcome.version,
            "entry": outcome.entry,
            "cached": outcome.cached,
            "record": self._recorder.path,
        }
        if self._session.i.get("out") == "con":
            self._print_end(frame, outcome, answer)
        return answer

    def _print_end(self, frame: Any, outcome: Any, answer: Answer) -> None:
        from cmbench.text import closing_text

        if self._session.flags.get("json"):
            print(json.dumps(answer, indent=2, default=str))
        if self._options.silent:
            return
        if self._script.host_facts:
            print("\n".join(f"{key}={value}" for key, value in outcome.new_env.items()))
            return
        if not self._options.quiet:
            for key, title in self._script.print_env_at_the_end.items():
                if key in outcome.new_env:
                    print(f"{title}: {outcome.new_env[key]}")
        if not self._options.quiet or len(self._recorder.steps) > 1:
            print(closing_text(self._recorder.steps, self._recorder.path))


def _command(session: Session) -> Sequence[str]:
    words = session.i.get("cmd")
    if words:
        return ["cm", *map(str, words)] if isinstance(words, list) else [str(words)]
    plain = {k: v for k, v in session.flags.items() if isinstance(v, str | int | float | bool)}
    return ["cm", "run", "script", *(f"--{k}={v}" for k, v in plain.items())]


def _internal(problem: Exception) -> Error:
    import traceback

    last = traceback.extract_tb(problem.__traceback__)[-1]
    return Error(
        "internal",
        f"{type(problem).__name__}: {problem}",
        context=(f"{os.path.basename(last.filename)}:{last.lineno} in {last.name}",),
        hint="this is a fault of cmbench: repeat with --debug and report what it prints",
    )


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end a run the way Ctrl-C does."""

    def stop(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    before = {}
    with suppress(ValueError):
        before = {s: signal.signal(s, stop) for s in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _plan(session: Session, request: Request, facts: FactTeller) -> Any:
    from cmbench.plan import PlanEnv, Planner

    facts.resolver = resolver = Resolver(session.index, session.store, facts, PlanEnv)
    return Planner(resolver, facts).plan(request)


def plan_script(cmind: Any, i: dict[str, Any]) -> Answer:
    """``cm plan script``: the tree of steps; runs nothing and writes nothing."""
    session = Session(cmind, i, write=False)
    request, _ = session.script()
    runner = StepRunner(Silent(None), None, True, False, cmind, session.words)
    plan = _plan(session, request, FactTeller(runner, os.devnull))
    if i.get("out") == "con":
        from cmbench.text import plan_text

        print(json.dumps(asdict(plan), indent=1) if session.flags.get("json") else plan_text(plan))
    return {"return": 0, "plan": asdict(plan)}


def find_script(cmind: Any, i: dict[str, Any]) -> Answer:
    """``cm find script``."""
    session = Session(cmind, i, write=False)
    tags, uid = requests_in.tags_of(i)
    rows = session.index.by_uid(uid) if uid else session.index.find(tags)
    rows = [row for row in rows if all(row.accepts(v) for v in tags.variations)]
    if not rows:
        choose(session.index, tags, uid)
    found = [
        {"alias": r.alias, "uid": r.uid, "path": r.path, "repo": r.repo, "tags": sorted(r.tags)}
        for r in rows
    ]
    if i.get("out") == "con":
        from cmbench.text import scripts_text

        print(scripts_text(rows, [_title(session, row.path) for row in rows]))
    return {"return": 0, "list": found}


def _title(session: Session, path: str) -> str:
    try:
        return session.index.script(path).title
    except Error as error:
        return error.message


def show_script(cmind: Any, i: dict[str, Any]) -> Answer:
    """``cm show script``: what one script is for, its inputs and variations."""
    session = Session(cmind, i, write=False)
    tags, uid = requests_in.tags_of(i)
    return _show_help(session.index.script(choose(session.index, tags, uid).path), i)


def _show_help(script: Script, i: Mapping[str, Any]) -> Answer:
    if i.get("out") == "con":
        from cmbench.text import help_text

        print(help_text(script))
    return {"return": 0, "meta": dict(script.meta), "path": script.path}


def help_script(cmind: Any, i: dict[str, Any]) -> Answer:
    """``cm help script``: the verbs."""
    return _show_verbs("script", i)


def help_cache(cmind: Any, i: dict[str, Any]) -> Answer:
    """``cm help cache``: the verbs."""
    return _show_verbs("cache", i)


def _show_verbs(thing: str, i: Mapping[str, Any]) -> Answer:
    if i.get("out") == "con":
        print("\n".join(f"  {usage:<38}{meaning}" for usage, meaning in _USAGE[thing]))
    return {"return": 0, "verbs": [name for of, name in _VERBS if of == thing]}


def show_cache(cmind: Any, i: dict[str, Any]) -> Answer:
    """``cm show cache`` (also ``find``): the complete entries that carry the tags."""
    session = Session(cmind, i, write=False)
    entries = _entries(session)
    used = [session.store.last_used(entry) for entry in entries]
    if i.get("out") == "con":
        from cmbench.text import entries_text

        if session.flags.get("json"):
            print(json.dumps([asdict(e) for e in entries], indent=1))
        else:
            print(entries_text(entries, used))
    return {"return": 0, "list": [asdict(entry) for entry in entries]}


def _entries(session: Session) -> list[Entry]:
    known = {"tags", "out", "json", "quiet", "force", "all", "verbose", "silent"}
    for name in session.flags:
        if name not in known:
            hint = did_you_mean(name, known)
            raise Error("unknown-flag", f"the cache knows no flag --{name}", hint=hint)
    tags, uid = requests_in.tags_of(session.i)
    wanted = {*tags.wanted, *("_" + v for v in tags.variations)}
    unwanted = {*tags.unwanted, *("_" + v for v in tags.unwanted_variations)}
    return [
        entry
        for entry in session.store.entries()
        if wanted <= set(entry.tags)
        and not unwanted & set(entry.tags)
        and (not uid or uid in (entry.key, entry.uid, entry.script))
    ]


def remove_cache(cmind: Any, i: dict[str, Any]) -> Answer:
    """``cm rm cache``: remove entries by tags; asks first unless -f is given."""
    session = Session(cmind, i, write=False)
    tags, uid = requests_in.tags_of(i)
    if not (uid or tags != parse_tags("") or session.flags.get("all")):
        raise Error(
            "bad-value",
            "which entries should be removed is not said",
            hint="name them: cm rm cache --tags=get,python3 -f, or all of them: --all -f",
        )
    entries = _entries(session)
    if entries and not session.flags.get("force"):
        _confirm(entries)
    for entry in entries:
        session.store.remove(entry)
    if i.get("out") == "con":
        print(f"{len(entries)} entries removed")
    return {"return": 0, "removed": [entry.uid for entry in entries]}


def _confirm(entries: Sequence[Entry]) -> None:
    from cmbench.text import entries_text

    print(entries_text(entries, [e.created for e in entries]))
    if not sys.stdin.isatty():
        raise Error("bad-value", "nothing was removed", hint="add -f to remove without a question")
    if input("Remove these? [y/N] ").strip().lower() not in ("y", "yes"):
        raise Error("interrupted", "nothing was removed")


_USAGE: Mapping[str, Sequence[tuple[str, str]]] = {
    "script": (
        ("cm run script --tags=detect,os", "run a script and all it needs"),
        ('cm run script "detect os"', "the same, shorter"),
        ("cm run script --tags=detect,os --help", "its inputs, variations and flags"),
        ("cm plan script --tags=detect,os", "what a run would do; runs nothing"),
        ("cm find script --tags=get", "the scripts with these tags"),
        ("cm show script --tags=detect,os", "what a script is for"),
    ),
    "cache": (
        ("cm show cache [--tags=get,python3]", "what is kept, its size and last use"),
        ("cm rm cache --tags=get,python3 [-f]", "remove entries; -f does not ask"),
    ),
}
_VERBS: Mapping[tuple[str, str], Callable[[Any, dict[str, Any]], Answer]] = {
    ("script", "run"): run_script,
    ("script", "plan"): plan_script,
    ("script", "search"): find_script,
    ("script", "show"): show_script,
    ("script", "help"): help_script,
    ("cache", "show"): show_cache,
    ("cache", "search"): show_cache,
    ("cache", "delete"): remove_cache,
    ("cache", "help"): help_cache,
}
