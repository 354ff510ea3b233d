"""What planning and running share: a resolver, the lock that it obeys, the plan of a request."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from cmbench.api.events import EventPublisher
from cmbench.errors import Error
from cmbench.format.model import Request, Tags
from cmbench.lib.secrecy import Secrets
from cmbench.plan.cache_lookup import NOTHING, CacheLookup, Renewal
from cmbench.plan.resolve import PlanContext, Resolver
from cmbench.run.outcome import FactReader
from cmbench.run.reporter import StepOutput
from cmbench.run.step import RunnerSettings, StepRunner
from cmbench.session.call import RunRequest
from cmbench.session.workspace import Workspace

if TYPE_CHECKING:
    from cmbench.plan.planned_step import Plan
    from cmbench.plan.tree import Watcher
    from cmbench.repeat.lockfile import Lock


def silent_facts(workspace: Workspace) -> FactReader:
    """Facts of this machine for commands that run nothing."""
    settings = RunnerSettings(
        workspace.cmind, workspace.words, workspace.library_files, Secrets(os.environ)
    )
    return FactReader(StepRunner(settings, StepOutput(EventPublisher(None))), os.devnull)


def open_lock(request: RunRequest) -> Lock | None:
    """Return the lock that a run must obey; ``None`` where there is none, or none yet.

    Raises ``bad-value`` for no file name, or a folder that does not exist.
    """
    path = request.flags.get("lock")
    if not path:
        return None
    if path is True:
        raise Error("bad-value", "--lock needs a file", hint="write --lock=FILE")
    if not os.path.isdir(os.path.dirname(os.path.abspath(str(path)))):
        raise Error("bad-value", f"--lock={path}: there is no such folder", hint="make it first")
    if not os.path.exists(str(path)):
        return None
    from cmbench.repeat.lockfile import check_lock, read_lock

    lock = read_lock(str(path))
    check_lock(lock, request.workspace.index, request.workspace.repositories)
    return lock


def check_sources(request: RunRequest) -> None:
    """Refuse a run whose wheels or prepared files are not there; raises as ``require_sources``."""
    options = request.options
    if options.package_files:
        from cmbench.lib.local_sources import require_sources

        require_sources(options.prepared, options.package_files)


def renewal_of(request: RunRequest) -> Renewal:
    """Return the value of ``--renew_from``, as of now; raises ``script-not-found``."""
    names, index = request.options.renew_from, request.workspace.index
    if not names:
        return NOTHING
    from cmbench.index.select import candidates

    matches = (candidates(index, Tags(), name) for name in names)
    return Renewal(frozenset(row.path for rows in matches for row in rows), time.time())


def make_context(
    workspace: Workspace,
    facts: FactReader,
    lock: Lock | None = None,
    renewal: Renewal = NOTHING,
    planned: PlanContext | None = None,
) -> PlanContext:
    """Return the context of a plan, of the cache as it is now, that obeys ``lock`` if there is one.

    With ``planned``, that of a plan, it is the one of its run, which looks at the cache anew.
    ``facts`` resolve with it from now on.
    """
    index = workspace.index
    store = workspace.store if planned else workspace.store.as_it_is_now()
    lookup = CacheLookup(index, store, facts, renewal)
    memory = planned.resolver.memory if planned else None
    if lock is None:
        facts.resolver = Resolver(index, memory)
    else:
        from cmbench.repeat.lockfile import LockedResolver

        facts.resolver = LockedResolver(index, lookup, lock, memory)
    return PlanContext(facts.resolver, lookup, facts)


def make_plan(
    workspace: Workspace,
    request: Request,
    context: PlanContext,
    watcher: Watcher | None = None,
) -> Plan:
    """Return the plan of ``request``; may run the scripts that describe this machine."""
    from cmbench.plan.tree import Planner

    try:
        return Planner(context, watcher).plan(request)
    finally:
        # By now the files of every script that is known to run have been read.
        workspace.index.contents.save()
