"""Whether what a manifest claims fits its logs, and how it is shown: form, data, time, command.

Who sends a result writes its manifest by any program: what the honest client keeps to is looked at
again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from datetime import date, datetime, timezone
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from cmbench.errors import Error
from cmbench_crowd import manifest as m
from cmbench_crowd_server import hardware
from cmbench_results.values import ACCURACY

if TYPE_CHECKING:
    from mlperf.catalog.backend import BackendSpec
    from mlperf.catalog.benchmark import BenchmarkSpec, Target

_GENERATED = "/mlperf_conf.h"
DAYS = 2
"""Days that a log and its manifest may be apart: the log has the machine's own time."""
_LOADGEN = re.compile(r"v?(\d{1,3})\.(\d{1,3})\b")
_SETTINGS = {"workers": "num_workers", "threads": "threads", "batch": "batch_size"}
_TARGETS = ("target_qps", "target_latency_ms")
_NUMBER = re.compile(r"\d{1,20}(\.\d{1,20})?(e[+-]?\d{1,3})?")
_LARGEST_SETTING = 1e9
_MOST_OF_SHAPE = 100_000
"""Workers, threads or samples of a batch, some times what any run has."""
_BETTER = 1.01
"""How much more than the reference's an accuracy of its own weights may be."""
_STRICT = "-99.9"
_RETRAINED = re.compile(r"prun|sparse|distil|mobile|lite|mini|qat|finetun")
_EXACT = 1e-3
SKEW_S = 3600.0
"""How far the clock of a machine may be ahead."""
_TRUST = re.compile(
    r"official|verif|certif|approv|endors|genuine|trusted|mlcommons|mlperf", re.IGNORECASE
)
"""What no name of a part, model or package says: that somebody has looked."""
_OTHER_DATA = {"whisper": ("librispeech",), "dlrm": ("terabyte",), "dlrm-v2": ("terabyte",)}


def form_of(manifest: m.Manifest) -> str:
    """Return the form that was measured, by its model or data set; empty for the real one."""
    from mlperf.catalog.forms import FORMS

    names = (manifest.workload.model, manifest.workload.dataset)
    words = {word for name in names for word in re.split(r"[_.+-]", name.lower())}
    return next((form for form in FORMS if form in words), "")


def stands_in_closed(manifest: m.Manifest) -> bool:
    """Return whether a stand-in is said to be of the closed division, whose models are fixed."""
    from mlperf.catalog import Division

    return bool(form_of(manifest)) and manifest.workload.division == Division.CLOSED


def refuse(manifest: m.Manifest) -> None:
    """Raise ``bad-manifest`` for what no client sends: names that no maker writes, other settings.

    A result is only told apart from others by its model and its data set.
    """
    work, system = manifest.workload, manifest.system
    for name in ("model", "dataset"):
        if not getattr(work, name):
            raise _bad(f"workload.{name} is empty: it says what was measured")
    if stands_in_closed(manifest):
        raise _bad(f"{work.model} stands in for {work.benchmark}, which is not of division closed")
    for name in ("cpu", "accelerator"):
        if not m.is_name_of_part(getattr(system, name)):
            raise _bad(f"system.{name} is not the name of a part as its maker writes it")
    for where, name in _names(manifest):
        if _TRUST.search(name):
            raise _bad(f"{where} says {name!r:.60}: a name is not the place to say who has checked")
    for name, value in manifest.config.settings.items():
        if name not in (*_SETTINGS, *_TARGETS) or not _is_setting(value):
            raise _bad(f"config.settings.{name:.60} is not a setting with a number")
    _refuse_accuracy(accuracy_of(manifest))
    _refuse_software(manifest.software or m.ManifestSoftware())


def _names(manifest: m.Manifest) -> Iterator[tuple[str, str]]:
    """Yield the texts of a manifest that pages show, with their fields."""
    for part in ("system", "workload", "config", "software"):
        for field, value in asdict(getattr(manifest, part) or m.ManifestSoftware()).items():
            if isinstance(value, str) and field not in ("suite", "command"):
                yield f"{part}.{field}", value


def _is_setting(value: str) -> bool:
    return bool(_NUMBER.fullmatch(value)) and float(value) <= _LARGEST_SETTING


def _refuse_accuracy(accuracy: tuple[float, str] | None) -> None:
    if accuracy and accuracy[1] == "%" and not 0 <= accuracy[0] <= 100:
        raise _bad(f"metrics.accuracy is {accuracy[0]:g} %, which is no share")


def _refuse_software(software: m.ManifestSoftware) -> None:
    if software.os and not m.OPERATING_SYSTEM.fullmatch(software.os):
        raise _bad("software.os is not the name of an operating system with its version")
    if others := sorted(software.versions.keys() - {*m.PACKAGES}):
        raise _bad(f"software.versions.{others[0]} is not a package whose version is sent")


def _bad(why: str) -> Error:
    hint = "make it with `cm bundle crowd ID --output=FILE`; `cm show crowd ID` names its fields"
    return Error("bad-manifest", f"the manifest is refused: {why}", hint=hint)


def unusual(manifest: m.Manifest) -> Iterator[str]:
    """Yield what no check can judge and a person has to: names that nobody knows, large numbers."""
    yield from hardware.unusual(manifest)
    yield from _unusual_work(manifest)
    yield from _unusual_names(manifest)


def _unusual_work(manifest: m.Manifest) -> Iterator[str]:
    from mlperf import catalog

    work = manifest.workload
    spec = catalog.benchmarks("").get(work.benchmark)
    # What this collection cannot run has names of others.
    if spec is None or spec.assets is None:
        return
    is_form = bool(form_of(manifest))
    # A form has a model and data of its own.
    if not is_form:
        yield from _unusual_assets(work, spec)
    is_closed = work.division == catalog.Division.CLOSED
    if is_closed and _RETRAINED.search(work.model.lower().replace(_family(spec), "")):
        yield f"its model {work.model!r} is called as one that was trained anew"
    # The name of a stricter benchmark promises its accuracy in the open division too.
    if is_closed or (work.benchmark.endswith(_STRICT) and not is_form):
        yield from _unusual_accuracy(accuracy_of(manifest), spec.accuracy[0], work.benchmark)
    if is_closed and "accuracy-detail" not in {file.role for file in manifest.files}:
        yield "no log of its accuracy run was sent"


def _unusual_assets(work: m.ManifestWorkload, spec: BenchmarkSpec) -> Iterator[str]:
    """Yield that a model or data set is not called as that of its benchmark."""
    if _letters(_family(spec)) not in _letters(work.model):
        yield f"its model {work.model!r} is not called as one of {work.benchmark}"
    assert spec.assets is not None
    data = {word.lstrip("_") for word in spec.assets.data.split(",")} - {"get", "dataset"}
    known = {*map(_letters, data), *_OTHER_DATA.get(spec.family, ())}
    if not any(name in _letters(work.dataset) for name in known):
        yield f"its data set {work.dataset!r} is not called as that of {work.benchmark}"


def _family(spec: BenchmarkSpec) -> str:
    return re.sub(r"-(edge|interactive)$", "", spec.family)


def _unusual_accuracy(
    accuracy: tuple[float, str] | None, aim: Target, benchmark: str
) -> Iterator[str]:
    """Yield that a result reports no accuracy, or one that its benchmark cannot have."""
    if accuracy is None:
        yield f"it reports no accuracy, which the rules ask of {benchmark}"
        return
    value = f"{accuracy[0]:g} {accuracy[1]}".rstrip()
    if accuracy[1] != aim.unit or not aim.holds(accuracy[0]):
        yield f"it reports an accuracy of {value}, the rules ask {aim.text} of {benchmark}"
    elif aim.most is None and accuracy[0] > aim.reference * _BETTER:
        yield f"it reports an accuracy of {value}, its reference has {aim.reference:g}"


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _unusual_names(manifest: m.Manifest) -> Iterator[str]:
    from mlperf import catalog

    config, system, precision = manifest.config, manifest.system, manifest.workload.precision
    backends = catalog.backends("")
    devices = {device for spec in backends.values() for device in spec.devices}
    formats = {form for spec in backends.values() for form in spec.precisions}
    for title, name, known in (
        ("backend", config.backend, backends),
        ("device", config.device, devices),
        ("precision", precision, formats),
    ):
        if name and name not in known:
            yield f"nobody knows its {title} {name!r}"
    # An unknown name is reported once.
    device, form = config.device * (config.device in devices), precision * (precision in formats)
    yield from _unusual_backend(backends.get(config.backend), device, form)
    if config.device == "cpu" and (system.accelerator or system.accelerators):
        yield f"it was computed by cpu, on a machine described by {system.accelerator or 'GPUs'}"
    has_none = not system.accelerator and system.accelerators == 0
    if config.device not in ("", "cpu") and has_none:
        yield f"it was computed by {config.device}, on a machine without accelerators"


def _unusual_backend(spec: BackendSpec | None, device: str, precision: str) -> Iterator[str]:
    """Yield that a known backend has no such device or precision."""
    if spec and device and device not in spec.devices:
        yield f"the backend {spec.name} does not compute on {device}"
    if spec and precision and precision not in spec.precisions:
        yield f"the backend {spec.name} does not compute in {precision}"


def accuracy_of(manifest: m.Manifest) -> tuple[float, str] | None:
    """Return the accuracy that a manifest reports, with its unit; None where it reports none."""
    reported = (item for item in manifest.metrics if item.name == ACCURACY)
    return next(((item.value, item.unit) for item in reported), None)


def command_of(manifest: m.Manifest) -> str:
    """Return the command that measures such a result, made from the fields of its manifest."""
    work, config, form = manifest.workload, manifest.config, form_of(manifest)
    inputs = {
        "model": work.benchmark,
        "scenario": work.scenario,
        "backend": config.backend,
        "device": config.device,
        "precision": work.precision,
        "execution_mode": config.style,
    }
    inputs |= {flag: config.settings.get(name, "") for name, flag in _SETTINGS.items()}
    words = [f"--{name}={value}" for name, value in inputs.items() if value]
    tags = f"run-mlperf,inference{f',_{form}' * bool(form)}"
    return " ".join(("cm run script", f"--tags={tags}", *words))


def of_data(values: Mapping[str, Any], sizes: tuple[int | None, ...]) -> Iterator[str]:
    """Yield that a log is of another data set than the benchmark's, by its number of samples."""
    samples = values.get("qsl_reported_total_count")
    if samples is not None and samples not in sizes:
        yield f"its data set has {samples} samples, that of the benchmark {sizes[0]}"
    loaded, used = "qsl_reported_performance_count", "effective_performance_sample_count"
    requested = values.get("requested_performance_sample_count_override")
    if not requested and values.get(loaded, 0) != values.get(used, values.get(loaded, 0)):
        yield f"{values[loaded]} samples were loaded, {values[used]} used"


def of_loadgen(values: Mapping[str, Any], newest: str, of: str = "") -> Iterator[str]:
    """Yield that a log names no LoadGen, one after round ``newest``, or one long before ``of``."""
    version = str(values.get("loadgen_version", ""))
    match = _LOADGEN.match(version)
    if match is None:
        yield "it names no version of LoadGen"
    elif int(match[1]) > int(newest.partition(".")[0]) + 1:
        yield f"there is no LoadGen {version}"
    elif int(match[1]) + 1 < int(of.partition(".")[0] or 0):
        yield f"LoadGen {version} is older than round {of} permits"


def unknown_sources(values: Mapping[str, Any]) -> str:
    """Return that a log's LoadGen was built from sources that were never published, else nothing.

    The digests of files do not say what was changed in them: a person has to ask.
    """
    sources = values.get("loadgen_file_sha1")
    if not isinstance(sources, Mapping):
        return "its log does not name the sources of its LoadGen"
    known = files(__package__).joinpath("loadgen_sources.txt").read_text("utf-8")
    is_known = digest_of_sources(sources) in known.split()
    return "" if is_known else "its LoadGen was built from sources of no release"


def digest_of_sources(sources: Mapping[str, Any]) -> str:
    """Return 16 digits of the files that LoadGen is compiled from, by their SHA-1 in a log."""
    compiled = sorted(
        name
        for name in sources
        if name.count("/") == 1 and name.endswith((".cc", ".h")) and name != _GENERATED
    )
    return m.digest("\n".join(f"{name} {sources[name]}" for name in compiled).encode())[:16]


def of_day(values: Mapping[str, Any], created: str) -> Iterator[str]:
    """Yield that a log is of another day than its manifest says, or older than its LoadGen."""
    day = day_of(values)
    if day is None:
        return
    if abs((day - date.fromisoformat(created)).days) > DAYS:
        yield f"its log is of {day}, its manifest says {created}"
    built = _parsed(str(values.get("loadgen_build_date_utc"))[:10], "%Y-%m-%d")
    if built is not None and (built - day).days > DAYS:
        yield f"its log is of {day}, its LoadGen was built on {built}"


def of_the_future(days: Iterable[str], received: float) -> Iterator[str]:
    """Yield that a result of these days was received, at this time by Unix, before it was made."""
    latest = datetime.fromtimestamp(received + SKEW_S, timezone.utc).date().isoformat()
    yield from (
        f"it is of {day}, which was to come when it was sent" for day in days if day > latest
    )


def of_settings(values: Mapping[str, Any], settings: Mapping[str, str]) -> Iterator[str]:
    """Yield settings that are others than those of the log, or that no run has."""
    target, logged = settings.get("target_qps"), values.get("effective_target_qps")
    if target and isinstance(logged, int | float) and not _is_near(float(target), logged):
        yield f"its target is {logged:g} queries/s by its log, {target} by its manifest"
    for name in _SETTINGS:
        if float(settings.get(name, 0)) > _MOST_OF_SHAPE:
            yield f"{settings[name]} {name} are more than any run has"


def of_versions(values: Mapping[str, Any], versions: Mapping[str, str]) -> Iterator[str]:
    """Yield that a manifest names another LoadGen than its log."""
    logged = _LOADGEN.match(str(values.get("loadgen_version", "")))
    for name in ("loadgen", "mlcommons-loadgen"):
        said = _LOADGEN.match(versions.get(name, ""))
        if said and logged and said.groups() != logged.groups():
            yield f"LoadGen is {logged[0]} by its log, {said[0]} by its manifest"


def _is_near(one: float, other: float) -> bool:
    return abs(one - other) <= _EXACT * max(abs(one), abs(other))


def day_of(values: Mapping[str, Any]) -> date | None:
    """Return the day of a log, None where it does not say one."""
    forms = (("test_datetime", "%Y-%m-%d"), ("power_begin", "%m-%d-%Y"))
    days = (_parsed(str(values.get(key))[:10], form) for key, form in forms)
    return next(filter(None, days), None)


def _parsed(text: str, form: str) -> date | None:
    try:
        return datetime.strptime(text, form).date()
    except ValueError:
        return None
