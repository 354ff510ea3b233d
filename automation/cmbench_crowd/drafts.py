"""From a kept result to what would leave the machine: a manifest and its files."""

from __future__ import annotations

import json
import platform
import re
import shlex
import uuid
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cmbench.errors import Error, did_you_mean
from cmbench.lib.secrecy import HIDDEN
from cmbench_crowd import manifest as m
from cmbench_crowd.redaction import Redaction
from cmbench_results.readers import ReadFault, run
from cmbench_results.values import LOCAL, BenchmarkResult, BenchmarkWorkload

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_FLAGS = (
    *("tags", "model", "implementation", "backend", "framework", "device", "precision", "category"),
    *("division", "scenario", "mode", "execution_mode", "batch_size", "threads", "num_workers"),
    *("target_qps", "offline_target_qps", "server_target_qps", "target_latency", "min_duration"),
    *("min_query_count", "max_query_count", "test_query_count", "max_attempts", "compliance"),
)
"""Flags of a command that tell how it measured, and nothing of whoever typed it."""
_SETTINGS = ("workers", "threads", "batch", "target_qps", "target_latency_ms")
_VERSION = re.compile(r"\d+(\.\d+)*((a|b|rc|\.post|\.dev)\d+)?")
_NUMBER = re.compile(r"\d{1,20}(\.\d{1,20})?(e[+-]?\d{1,3})?")
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
_VALUE = re.compile(r"[A-Za-z0-9._+,=_-]+")
_TEXT, _DATA = m.MEDIA
_LOGS = {
    "performance-summary": ("performance/run_1", "mlperf_log_summary.txt", _TEXT),
    "performance-detail": ("performance/run_1", "mlperf_log_detail.txt", _TEXT),
    "accuracy-summary": ("accuracy", "mlperf_log_summary.txt", _TEXT),
    "accuracy-detail": ("accuracy", "mlperf_log_detail.txt", _TEXT),
    "accuracy-log": ("accuracy", "mlperf_log_accuracy.json", _DATA),
}
_FIXED = (
    *("format", "id", "created", "consent", "key", "work_unit", "metrics.result"),
    *(f"workload.{name}" for name in ("suite", "benchmark", "model", "dataset")),
    *("workload.scenario", "workload.mode"),
)
"""Fields that say what was measured, and who may withdraw it."""


_NEVER_NONE = frozenset(f"system.{name}" for name in ("sockets", "cores", "memory_gb", "nodes"))
"""Numbers that are never 0: there it says that nothing is known."""


@dataclass(frozen=True, slots=True)
class Draft:
    """What would leave: a manifest and the bytes of its files by their digest.

    ``notes`` say what was left out of logs, and why.
    """

    manifest: m.Manifest
    files: Mapping[str, bytes]
    notes: tuple[str, ...] = ()


def draft(
    result: BenchmarkResult,
    level: int,
    key: Ed25519PrivateKey,
    redaction: Redaction | None = None,
    work_unit: str | None = None,
) -> Draft:
    """Return what a result would send at a level of consent.

    Raises ``not-sendable`` for what cannot be compared by others, or is not the user's own.
    """
    redaction = redaction or Redaction.here()
    _own(result)
    files: dict[str, bytes] = {}
    listed: list[m.ManifestFile] = []
    notes: list[str] = []
    for role, name, data, note in _logs(result, redaction) if level >= m.LOGS else ():
        notes += [note] if note else []
        if data:
            sha256 = m.digest(data)
            files[sha256] = data
            listed.append(m.ManifestFile(role, name, sha256, len(data), _LOGS[role][2]))
    manifest = m.Manifest(
        id=uuid.uuid4().hex,
        created=result.measured_at[:10],
        consent=level,
        key=m.key_text(key.public_key().public_bytes_raw()),
        system=_system(result, redaction),
        software=_software(result, redaction) if level >= m.SOFTWARE else None,
        workload=_workload(result, redaction),
        config=_config(result, redaction),
        metrics=tuple(_metrics(result)),
        files=tuple(listed),
        work_unit=work_unit,
    )
    m.encode(manifest)
    return Draft(manifest, files, tuple(notes))


def _own(result: BenchmarkResult) -> None:
    from mlperf import catalog

    name = result.workload.benchmark
    why = ""
    if result.tier != LOCAL or result.organization or not result.key.startswith("run:"):
        why = "somebody else has published or submitted it"
    elif name not in catalog.benchmarks("") or name.startswith("own"):
        why = f"{name} is a benchmark of your own, which nobody else could compare"
    elif result.value is None and result.accuracy is None:
        why = "it has no result"
    if why:
        raise Error(
            "not-sendable",
            f"result {result.uid[:8]} cannot be sent: {why}",
            hint="choose another one: `cm find results`",
        )


def _system(result: BenchmarkResult, redaction: Redaction) -> m.ManifestSystem:
    system = result.system
    return m.ManifestSystem(
        cpu=_name(system.cpu, redaction),
        architecture=_word(platform.machine(), redaction),
        sockets=system.sockets,
        cores=system.cores,
        memory_gb=float(system.memory_gb),
        accelerator=_name(system.accelerator, redaction),
        accelerators=system.accelerators,
        nodes=system.nodes,
    )


def _software(result: BenchmarkResult, redaction: Redaction) -> m.ManifestSoftware:
    os_name = m.OPERATING_SYSTEM.match(result.system.os)
    versions = {
        name: match.group()
        for name, version in result.software.versions.items()
        if name in m.PACKAGES
        and (match := _VERSION.match(version))
        and not redaction.within(version)
    }
    return m.ManifestSoftware(os_name.group() if os_name else "", versions)


def _workload(result: BenchmarkResult, redaction: Redaction) -> m.ManifestWorkload:
    workload = result.workload
    modes = (result.value is not None, result.accuracy is not None)
    return m.ManifestWorkload(
        suite="mlperf-inference",
        round=workload.round if re.fullmatch(r"\d+\.\d+", workload.round) else "",
        benchmark=workload.benchmark,
        model=_word(workload.model, redaction),
        dataset=_word(workload.dataset, redaction),
        scenario=workload.scenario,
        mode="all" if all(modes) else "performance" if modes[0] else "accuracy",
        # Another model with other data is not a submission to the closed division.
        division=workload.division if not _stands_in(workload) else "open",
        category=",".join(sorted(filter(None, workload.category.split(",")))),
        precision=_word(result.software.precision, redaction),
    )


def _stands_in(workload: BenchmarkWorkload) -> bool:
    from mlperf.catalog.forms import FORMS

    return workload.form.partition(",")[0] in FORMS


def _config(result: BenchmarkResult, redaction: Redaction) -> m.ManifestConfig:
    style = re.search(r"(test|fast) run", result.workload.form)
    settings = {
        name: value
        for name, value in result.settings.items()
        if name in _SETTINGS and _NUMBER.fullmatch(value)
    }
    return m.ManifestConfig(
        backend=_word(result.software.backend, redaction),
        device=_word(result.software.device, redaction),
        style=style[1] if style else "valid",
        settings=settings,
        command=_command(result.command, redaction),
    )


def _command(line: str, redaction: Redaction) -> str:
    """Return a command with only the flags that say how it measured."""
    try:
        words = shlex.split(line)
    except ValueError:
        return ""
    chosen = ["cm", "run", "script"] if words[:3] == ["cm", "run", "script"] else []
    for word in words[3:] if chosen else ():
        name, _, value = word.removeprefix("--").partition("=")
        if (
            name.replace("-", "_") in _FLAGS
            and _VALUE.fullmatch(value)
            and not redaction.within(value)
        ):
            chosen.append(f"--{name}={value}")
    return " ".join(chosen)[:2_000]


def _name(text: str, redaction: Redaction) -> str:
    """The name of a part, in ASCII: makers write no other, and others could look like theirs.

    Of its words those stay that makers write: what holds an address, a path or a number of this one
    piece of hardware does not look like them.
    """
    plain = "".join(sign if sign.isascii() and sign.isprintable() else " " for sign in text)
    words = redaction.text(plain).split()
    return " ".join(word if m.is_word_of_maker(word) else HIDDEN for word in words)[:200]


def _word(text: str, redaction: Redaction) -> str:
    fits = _WORD.fullmatch(text) and len(text) <= 40 and not redaction.within(text)
    return text if fits else ""


def _metrics(result: BenchmarkResult) -> Iterator[m.ManifestMetric]:
    if result.value is not None:
        yield m.ManifestMetric("result", float(result.value), result.unit)
    if result.accuracy is not None:
        yield m.ManifestMetric("accuracy", float(result.accuracy), result.accuracy_unit)
    for metric in result.metrics:
        yield m.ManifestMetric(metric.name, float(metric.value), metric.unit)


def _logs(result: BenchmarkResult, redaction: Redaction) -> Iterator[tuple[str, str, bytes, str]]:
    """Yield role, name, bytes and note of the logs that are of this result and no later one."""
    folder = Path(result.folder)
    now = [item for item in run.read(folder / "results.json") if not isinstance(item, ReadFault)]
    if result.key not in {item.key for item in now}:
        yield "", "", b"", "its logs no longer exist: a later run is in their folder"
        return
    for role, (below, name, _) in _LOGS.items():
        path = folder / result.workload.scenario.lower() / below / name
        yield role, name, *_log(path, role, redaction)


def _log(path: Path, role: str, redaction: Redaction) -> tuple[bytes, str]:
    try:
        if path.stat().st_size > m.LARGEST_FILE:
            return b"", f"{role} is larger than {m.LARGEST_FILE >> 20} MiB and is left out"
        data, changed = redaction.log(role, path.read_bytes())
    except FileNotFoundError:
        return b"", ""
    except OSError as problem:
        return b"", f"{role} cannot be read: {problem.strerror}"
    return data, f"{changed} lines of {role} were changed or left out" if changed else ""


def without(full: Draft, names: Collection[str]) -> Draft:
    """Return a draft without some fields: ``system.cpu``, ``files.accuracy-log``, ``software``.

    Raises ``bad-value`` for a name that is not a field, or one that is needed.
    """
    data = asdict(full.manifest)
    shown = dict(lines(full.manifest))
    for name in names:
        if name in _FIXED or name not in {*shown, "software", "files", "config.settings"}:
            hint = did_you_mean(name, shown) or "`cm show crowd last` names the fields"
            word = "is needed" if name in shown else "is not a field"
            raise Error("bad-value", f"{name} {word} and cannot be left out", hint=hint)
        _drop(data, name)
    manifest = m.parse(m.canonical(data))
    digests = {file.sha256 for file in manifest.files}
    files = {k: full.files[k] for k in digests}
    return replace(full, manifest=manifest, files=files)


def _drop(data: dict[str, Any], name: str) -> None:
    """Make one field empty, or take it out of its list or table."""
    first, _, rest = name.partition(".")
    inner, _, key = rest.partition(".")
    if not rest:
        data[first] = [] if first == "files" else None
    elif isinstance(data[first], list | tuple):
        data[first] = [e for e in data[first] if rest not in (e.get("role"), e["name"])]
    elif key:
        del data[first][inner][key]
    else:
        data[first][inner] = None if name == "system.accelerators" else type(data[first][inner])()


def lines(manifest: m.Manifest) -> Iterator[tuple[str, str]]:
    """Yield the fields with their names and contents, if any, in the order of the bytes."""
    for name, value in json.loads(m.encode(manifest)).items():
        if name == "metrics":
            yield from ((f"metrics.{e['name']}", f"{e['value']:g} {e['unit']}") for e in value)
        elif name == "files":
            yield from ((f"files.{e['role']}", f"{e['bytes']:,} bytes") for e in value)
        elif isinstance(value, dict):
            yield from _inner(name, value)
        else:
            yield name, _text(value)


def _inner(name: str, fields: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, value in fields.items():
        if isinstance(value, dict) and value:
            yield from ((f"{name}.{key}.{k}", _text(v)) for k, v in value.items())
        elif value == 0 and f"{name}.{key}" in _NEVER_NONE:
            yield f"{name}.{key}", ""
        else:
            yield f"{name}.{key}", _text(value)


def _text(value: Any) -> str:
    return "" if value in (None, "", [], {}) else str(value)
