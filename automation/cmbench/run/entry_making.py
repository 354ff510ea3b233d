"""The cache entry of a step that has run."""

from __future__ import annotations

import os
import time

from cmbench.cache.store import CacheEntry, CacheStore, Staging
from cmbench.format.env import without_secrets
from cmbench.format.model import StepOutcome
from cmbench.lib.secrecy import Secrets
from cmbench.plan.step_run import StepRun
from cmbench.run.outcome import HookReport, expires, paths_given_back, reliances


class EntryMaker:
    """Makes the entries of the run that is called ``run``; no secret gets into one."""

    def __init__(self, store: CacheStore, secrets: Secrets, run: str) -> None:
        self._store = store
        self._secrets = secrets
        self._run = run

    def make_entry(
        self,
        step_run: StepRun,
        staging: Staging,
        outcome: StepOutcome,
        report: HookReport,
        started: float,
    ) -> CacheEntry:
        """Return the entry of a step whose work began at ``started``."""
        from cmbench.cache.inventory import outputs_of, survey, without_hidden

        step_run.note(paths_given_back(outcome.new_env, os.path.dirname(self._store.root)))
        new_env, secrets = without_secrets(outcome.new_env, self._secrets)
        new_state, more_secrets = without_secrets(outcome.new_state, self._secrets)
        version = [f"version-{outcome.version}"] if outcome.version else []
        labels = [*step_run.labels(), *version, *report.tags]
        outputs = outputs_of(staging.path, outcome.new_env)
        size, files = survey(staging.path, outputs)
        reads = self._hidden_reads(step_run)
        step_run.trace.add_facts(step_run.env.fact_reads)
        outputs, files = without_hidden(staging.path, outputs, files, self._secrets)
        if files:
            self._store.keep_files(staging.uid, files)
        return CacheEntry(
            uid=staging.uid,
            identity=step_run.step.identity,
            script=step_run.script.alias,
            script_uid=step_run.script.uid,
            tags=tuple(dict.fromkeys(map(str, labels))),
            variations=step_run.step.choice.variations,
            version=outcome.version,
            path=staging.path,
            reads=reads,
            facts=step_run.trace.facts,
            scripts=dict(step_run.trace.scripts),
            deps=tuple(step_run.trace.entries),
            relies_on=reliances(step_run, report.relies_on),
            new_env=new_env,
            new_state=new_state,
            secrets={k: self._store.keyed(v) for k, v in {**secrets, **more_secrets}.items()},
            name=step_run.request.name,
            created=time.time(),
            seconds=time.time() - started,
            size=size,
            run=self._run,
            outputs=outputs,
            expires=time.time() if step_run.ignored else expires(step_run, time.time()),
            doubts=tuple(step_run.trace.doubts),
            chosen=step_run.trace.chosen,
            libraries=step_run.trace.libraries,
        )

    def _hidden_reads(self, step_run: StepRun) -> dict[str, str]:
        """Return what was read, as metadata that others can read may hold it."""
        reads, secrets = step_run.reads(), self._secrets
        shown = secrets.values(reads)
        for key, text in step_run.updates_read().items():
            shown[key] = secrets.text(text) == text and shown[key]
        return {k: v if shown[k] == v else self._store.keyed(v) for k, v in reads.items()}

    def replaced_by(self, entry: CacheEntry) -> list[CacheEntry]:
        """Return the entries that answered the same calls before."""
        same = self._store.candidates(entry.identity)
        return [old for old in same if old.reads == entry.reads]
