"""The figures of an upload out of its raw logs, in a process of its own with little to spend.

``python -m cmbench_crowd_server.recompute FOLDER`` reads untrusted files. It has a limit on
its time and memory, writes small files only, and prints one JSON object: the findings of the
submission checks over the performance run, the result as the readers of trees compute it, and the
titles of the rules that were kept. Nothing of the manifest but names gets into it.
"""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from datetime import date
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cmbench.errors import Error
from cmbench.lib.text_files import read_or_empty
from cmbench_crowd import manifest as m
from cmbench_crowd_server import accuracy_runs, claims, traces
from cmbench_crowd_server.ledger import plain
from cmbench_results import shared
from cmbench_results.values import BenchmarkResult, to_json
from common.python_path import child_env

if TYPE_CHECKING:
    from mlperf.submission.checks.base import SubmitterSite

Finding = tuple[str, str, str]
"""A rule, how severe it is that it is broken, and how it is."""
CPU_S, WALL_S, MEMORY = 60, 120, 2 << 30
MOST = 100
"""Findings that are told of one log."""
PLACES: Mapping[str, str] = {
    "performance-summary": "performance/run_1/mlperf_log_summary.txt",
    "performance-detail": "performance/run_1/mlperf_log_detail.txt",
    "accuracy-summary": "accuracy/mlperf_log_summary.txt",
    "accuracy-detail": "accuracy/mlperf_log_detail.txt",
    "accuracy-log": "accuracy/mlperf_log_accuracy.json",
}
_TOO_MUCH = f"could not be read within {CPU_S} s and {MEMORY >> 30} GiB"
_SENDER, _SYSTEM = "volunteer", "machine"
_TIMES, _SEEDS, _LATENCIES = "crowd.times", "crowd.seeds", "crowd.latencies"
_LATENCY = re.compile(
    r"(?:(Min|Max|Mean)|([\d.]{1,6}) percentile) latency \(ns\)\s*: (\d{1,20})\s*"
)
_KEY = re.compile(r':::MLLOG \{"key": "([a-z_]{1,80})"')
_BEFORE = ("loadgen_", "test_datetime", "requested_", "effective_")
_SEED = "seed"
_ROUNDING_MS = 1.0


def recomputed(manifest: m.Manifest, files: Mapping[str, Path], seed: str = "") -> dict[str, Any]:
    """Return what the process finds of a manifest and its files by role.

    Raises ``check-failed``, and ``OSError`` where this machine has no means to look at them now.
    ``seed`` is that of a work unit, which LoadGen's seeds follow from instead of the round's.
    """
    with tempfile.TemporaryDirectory(prefix="cmbench-check-") as folder:
        root = Path(folder)
        (root / "manifest.json").write_bytes(m.encode(manifest))
        (root / _SEED).write_text(seed)
        for role, path in files.items():
            (root / role).symlink_to(path)
        command = [sys.executable, "-m", __spec__.name, folder]
        env = child_env(base={"PATH": os.defpath, "HOME": folder})
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                timeout=WALL_S,
                env=env,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise _failed(_TOO_MUCH) from None
    # A signal is the kernel's answer to who takes too much; memory that is not given is an error.
    if done.returncode < 0 or "MemoryError" in done.stderr:
        raise _failed(_TOO_MUCH)
    if done.returncode:
        raise _failed("are not logs of LoadGen, or no round has such a result")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def _failed(why: str) -> Error:
    hint = "send the logs as LoadGen wrote them"
    return Error("check-failed", f"the logs {why}", hint=hint)


def main(folder: Path) -> dict[str, Any]:
    """Return the answer to print; ``folder`` holds ``manifest.json`` and files by role."""
    from mlperf.submission import layouts
    from mlperf.submission.checks.base import SubmitterSite

    manifest = m.parse((folder / "manifest.json").read_bytes())
    division = manifest.workload.division or "open"
    tree = layouts.SubmissionTree(
        _tree(folder, manifest, division), layouts.of_round(manifest.workload.round)
    )
    site = SubmitterSite(tree, division, _SENDER, tree.root / division / _SENDER)
    findings, rules = _judged(site, folder, manifest)
    broken = {rule for rule, severity, _ in findings if severity in ("error", "nature")}
    held = {rule: title for rule, title in sorted(rules.items()) if rule not in broken}
    result = _result(tree.root, manifest.workload.round)
    listed = [(rule, severity, plain(words)) for rule, severity, words in findings[:MOST]]
    return {
        "findings": listed,
        "kept": [title for rule, title in held.items() if not _idle(rule, site, manifest)],
        "idle": [title for rule, title in held.items() if _idle(rule, site, manifest)],
        "known": bool(site.known_cells),
        "short": any(severity == "nature" for _, severity, _ in findings),
        "result": to_json(result) if result else "",
        "value": result.value if result else None,
        "held": list(_doubts(site, folder, manifest)),
        "days": [str(day) for day in _days(folder)],
        "measured": traces.of_log(folder / "performance-detail", _values),
    }


def _idle(rule: str, site: SubmitterSite, manifest: m.Manifest) -> bool:
    """Return whether a rule that is not broken is about another kind of result than this one."""
    spec = site.rules(manifest.workload.benchmark)
    if rule in ("performance.tokens", "performance.token-latency"):
        return spec is None or not spec.token_rates
    if rule == "performance.network":
        return manifest.workload.division != "network"
    # A run of the scenario itself has nothing that is inferred.
    return rule == "performance.inferred"


def _judged(
    site: SubmitterSite, folder: Path, manifest: m.Manifest
) -> tuple[list[Finding], dict[str, str]]:
    """Return the faults of the run, and the titles of all rules that were checked."""
    from mlperf.submission.checks import figures, performance, settings, tokens
    from mlperf.submission.checks.base import Rule

    broken = (*performance.runs(site), *accuracy_runs.findings(site))
    findings = [(f.rule, f.severity, f.found) for f in broken]
    modules = (performance, figures, settings, tokens)
    rules = {r.id: r.title for mod in modules for r in vars(mod).values() if isinstance(r, Rule)}
    rules[_TIMES] = "the log's own clock has room for the run"
    findings += [(_TIMES, "error", words) for words in _times(folder / "performance-detail")]
    rules[_LATENCIES] = "its latencies are in order, and those of its summary"
    findings += [(_LATENCIES, "error", words) for words in _latencies(folder)]
    for rule, title, faults in _claims(site, folder, manifest):
        rules[rule] = title
        findings += [(rule, "error", words) for words in faults]
    seed = (folder / _SEED).read_text()
    return _judged_by_unit(folder, int(seed), findings, rules) if seed else (findings, rules)


def _judged_by_unit(
    folder: Path, seed: int, findings: list[Finding], rules: Mapping[str, str]
) -> tuple[list[Finding], dict[str, str]]:
    """Return findings and rules with the seeds of a work unit in place of those of the round."""
    from mlperf.submission.checks import accuracy, performance

    of_round = (performance.SEEDS.id, accuracy.SEEDS.id)
    others = [finding for finding in findings if finding[0] not in of_round]
    others += [(_SEEDS, "error", words) for words in _seeds(folder, seed)]
    titles = {id_: title for id_, title in rules.items() if id_ not in of_round}
    return others, {**titles, _SEEDS: "the seeds are those of its work unit"}


def _claims(
    site: SubmitterSite, folder: Path, manifest: m.Manifest
) -> Iterator[tuple[str, str, Iterator[str]]]:
    """Yield rules about what the manifest says of its log, with their titles and faults."""
    from mlperf.catalog import rounds

    values = _values(folder / "performance-detail")
    spec = site.rules(manifest.workload.benchmark)
    if spec is not None:
        sizes = (spec.dataset_size, spec.accuracy_samples)
        title = "the log is of a data set of this size"
        yield "crowd.data-set", title, claims.of_data(values, sizes)
    title = "the log names a LoadGen that there is"
    yield "crowd.loadgen", title, claims.of_loadgen(values, rounds.LATEST, manifest.workload.round)
    title = "the log is of the day that the manifest names"
    yield "crowd.day", title, claims.of_day(values, manifest.created)
    versions = manifest.software.versions if manifest.software else {}
    title = "the manifest names the LoadGen of the log"
    yield "crowd.versions", title, claims.of_versions(values, versions)
    if (folder / "accuracy-log").is_file() or (folder / "accuracy-detail").is_file():
        yield accuracy_runs.RULE, accuracy_runs.TITLE, accuracy_runs.faults(site)


def _doubts(site: SubmitterSite, folder: Path, manifest: m.Manifest) -> Iterator[str]:
    """Yield what only a person can judge of the logs."""
    values = _values(folder / "performance-detail")
    yield from filter(None, (claims.unknown_sources(values),))
    yield from claims.of_settings(values, manifest.config.settings)
    yield from accuracy_runs.doubts(site)
    work = manifest.workload
    spec = site.rules(work.benchmark)
    if spec is not None and not spec.allowed(work.round, work.category or "edge"):
        yield f"{work.benchmark} of round {work.round} is not measured in {work.category or 'edge'}"


def _days(folder: Path) -> Iterator[date]:
    """Yield the days of the logs that say one."""
    logs = (folder / role for role in ("performance-detail", "accuracy-detail"))
    days = (claims.day_of(_values(log)) for log in logs if log.is_file())
    yield from filter(None, days)


def _tree(folder: Path, manifest: m.Manifest, division: str) -> Path:
    """Return a submission tree of this one result: what the checks and readers of trees look at."""
    root = folder / "tree"
    sender = root / division / _SENDER
    name = re.sub(r"[^A-Za-z0-9._-]", "", manifest.workload.benchmark)
    cell = sender / "results" / _SYSTEM / name / manifest.workload.scenario
    for role, path in PLACES.items():
        if (folder / role).is_file():
            (cell / path).parent.mkdir(parents=True, exist_ok=True)
            (cell / path).symlink_to((folder / role).resolve())
    system = {"system_type": manifest.workload.category or "edge", "system_name": _SYSTEM}
    (sender / "systems").mkdir(parents=True, exist_ok=True)
    (sender / "systems" / f"{_SYSTEM}.json").write_text(json.dumps(system), encoding="utf-8")
    return root


def _result(root: Path, benchmark_round: str) -> BenchmarkResult | None:
    from cmbench_results.readers import tree

    results = (
        item for item in tree.read(root, benchmark_round) if isinstance(item, BenchmarkResult)
    )
    return next(results, None)


@cache
def _values(log: Path) -> Mapping[str, object]:
    """Return the values of a detailed log, by key."""
    from mlperf.harness.measuring import detail_log

    values: Mapping[str, object] = detail_log.read(log).values
    return values


def _seeds(folder: Path, seed: int) -> Iterator[str]:
    """Seeds of the logs that do not follow from that of the work unit."""
    from mlperf.catalog import rounds

    values = _values(folder / "performance-detail")
    for name, expected in rounds.own_seeds(seed).items():
        used = values.get(f"effective_{name}_rng_seed")
        if used != expected:
            yield f"{name}_rng_seed is {used}, its work unit has {expected}"


def _times(log: Path) -> Iterator[str]:
    """Contradictions of the log's clock, which LoadGen starts with the run, and its figures."""
    values = _values(log)
    last, results = 0.0, ""
    with open(log, encoding="utf-8", errors="replace") as stream:
        for line in stream:
            match = re.search(r'"time_ms": ([\d.]{1,20})\b', line)
            now = float(match[1]) if match and match[1].count(".") <= 1 else last
            if now < last - _ROUNDING_MS:
                yield f"its lines are not in the order of time: {now:g} ms after {last:g} ms"
                return
            last = max(last, now)
            if key := _KEY.match(line):
                results = results or (key[1] if key[1].startswith("result_") else "")
                if results and key[1].startswith(_BEFORE):
                    yield f"{key[1]}, which LoadGen logs before a run, follows {results}"
                    return
    longest = values.get("result_max_latency_ns", 0)
    if isinstance(longest, int | float) and longest / 1e6 > last + _ROUNDING_MS:
        yield f"a query took {longest / 1e6:g} ms, the whole log only {last:g} ms"


def _latencies(folder: Path) -> Iterator[str]:
    """Yield latencies of the detailed log that contradict each other, or its summary."""
    values = _values(folder / "performance-detail")
    latencies = {name: values.get(f"result_{name}_latency_ns") for name in ("min", "mean", "max")}
    latencies |= {f"{p}_percentile": v for p, v in _percentiles(values)}
    numbers = {k: v for k, v in latencies.items() if isinstance(v, int | float)}
    percentiles = sorted((name for name in numbers if name[0].isdigit()), key=_share)
    # LoadGen's sum of many long latencies, as fast machines have them Offline, overflows.
    scenario = shared.scenario_of(str(values.get("effective_scenario")))
    mean = [] if scenario and scenario.batched else ["mean"]
    for between in (percentiles, mean):
        ordered = [numbers[name] for name in ("min", *between, "max") if name in numbers]
        if ordered != sorted(ordered):
            yield "its latencies are not in order from min to max"
    # The summary of the others has latencies of queries, the detailed log those of samples.
    if scenario and scenario.samples_per_query == 1:
        yield from _beside(numbers, folder / "performance-summary")


def _beside(numbers: Mapping[str, float], summary: Path) -> Iterator[str]:
    """Latencies of a summary that are others than those of the detailed log."""
    for match in map(_LATENCY.fullmatch, read_or_empty(summary).splitlines()):
        if match is None:
            continue
        name = match[1].lower() if match[1] else f"{match[2]}_percentile"
        if numbers.get(name, int(match[3])) != int(match[3]):
            yield f"its summary has {match[3]} ns as {name} latency, not {numbers[name]:g}"


def _percentiles(values: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    for key, value in values.items():
        if match := re.fullmatch(r"result_(\d{1,2}(?:\.\d{1,4})?)_percentile_latency_ns", key):
            yield match[1], value


def _share(name: str) -> float:
    return float(name.partition("_")[0])


def _bounded() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    _bounded()
    print(json.dumps(main(Path(sys.argv[1])), allow_nan=False))
