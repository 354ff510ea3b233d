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
        frame: StepRun,
        staging: Staging,
        outcome: StepOutcome,
        report: HookReport,
        started: float,
    ) -> CacheEntry:
        """Return the entry of a step whose work began at ``started``."""
        from cmbench.cache.inventory import outputs_of, survey, without_hidden

        frame.note(paths_given_back(outcome.new_env, os.path.dirname(self._store.root)))
        new_env, secrets = without_secrets(outcome.new_env, self._secrets)
        new_state, more_secrets = without_secrets(outcome.new_state, self._secrets)
        version = [f"version-{outcome.version}"] if outcome.version else []
        labels = [*frame.labels(), *version, *report.tags]
        outputs = outputs_of(staging.path, outcome.new_env)
        size, files = survey(staging.path, outputs)
        reads = self._hidden_reads(frame)
        frame.trace.add_facts(frame.env.fact_reads)
        outputs, files = without_hidden(staging.path, outputs, files, self._secrets)
        if files:
            self._store.keep_files(staging.uid, files)
        return CacheEntry(
            uid=staging.uid,
            identity=frame.step.identity,
            script=frame.script.alias,
            script_uid=frame.script.uid,
            tags=tuple(dict.fromkeys(map(str, labels))),
            variations=frame.step.choice.variations,
            version=outcome.version,
            path=staging.path,
            reads=reads,
            facts=frame.trace.facts,
            scripts=dict(frame.trace.scripts),
            deps=tuple(frame.trace.entries),
            relies_on=reliances(frame, report.relies_on),
            new_env=new_env,
            new_state=new_state,
            secrets={k: self._store.keyed(v) for k, v in {**secrets, **more_secrets}.items()},
            name=frame.request.name,
            created=time.time(),
            seconds=time.time() - started,
            size=size,
            run=self._run,
            outputs=outputs,
            expires=time.time() if frame.ignored else expires(frame, time.time()),
            doubts=tuple(frame.trace.doubts),
            chosen=frame.trace.chosen,
            libraries=frame.trace.libraries,
        )

    def _hidden_reads(self, frame: StepRun) -> dict[str, str]:
        """Return what was read, as metadata that others can read may hold it."""
        reads, secrets = frame.reads(), self._secrets
        shown = secrets.values(reads)
        for key, text in frame.updates_read().items():
            shown[key] = secrets.text(text) == text and shown[key]
        return {k: v if shown[k] == v else self._store.keyed(v) for k, v in reads.items()}

    def replaced_by(self, entry: CacheEntry) -> list[CacheEntry]:
        """Return the entries that answered the same calls before."""
        same = self._store.candidates(entry.identity)
        return [old for old in same if old.reads == entry.reads]
