"""The preparation of a session: probe, build of a model, and tuning."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from mlperf.catalog import SINGLE_STREAM

from .. import records
from ..jobs import Probe, ProbeRequest
from ..reporting.results import remove_stale_folders, staging_folder
from ..settings import ModelSpec, Options, SessionSettings
from ..tuning import stored_profiles
from ..tuning.profile import SpeedProfile
from ..tuning.store import open_store
from ..wording import cores_in_words, figures
from .context import Context
from .launch import Launcher, say

PROBE_S = 1.0
TUNING_S = 4.0
BUILD_S = 60.0
BUILT = "model.json"


def request(settings: SessionSettings, model: ModelSpec, options: Options) -> ProbeRequest:
    """Return the request to the subprocesses about a model."""
    return ProbeRequest(
        benchmark=settings.benchmark,
        backend=settings.backend,
        device=settings.device,
        model=model,
        dataset=settings.dataset,
        overrides=settings.overrides,
        precision=settings.precision,
        backend_options=options,
    )


def probe(launcher: Launcher, settings: SessionSettings, options: Options) -> Probe:
    """Look at libraries, device and data; raises HarnessError when they cannot be used."""
    results_dir = Path(settings.results_dir)
    remove_stale_folders(results_dir.glob(".probe.*"))
    with staging_folder(results_dir, "probe") as folder:
        probe_request = request(settings, settings.model, options)
        launcher.execute("probe", folder, probe_request, "looking", PROBE_S)
        return records.read(Probe, folder / "outcome.json")


def build_once(context: Context, model: ModelSpec) -> ModelSpec:
    """Return the model in the form that the backend opens: built now, or kept from an earlier call.

    Raises HarnessError when it cannot be built.
    """
    settings, store = context.settings, open_store(context.settings)
    home = store.path.with_suffix("").with_name(f"{store.path.stem}-built") if store else None
    facts = {
        **stored_profiles.fingerprint(settings, "", context.probe, model),
        "backend": settings.backend,
    }
    key = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]
    folder = (home or Path(settings.results_dir) / ".built") / key
    if not (settings.reuse and (folder / BUILT).exists()):
        folder.mkdir(parents=True, exist_ok=True)
        build_request = request(settings, model, context.run_options)
        context.launcher.execute("build", folder, build_request, "building the model", BUILD_S)
        # Written last: a folder without it was never finished.
        records.write(folder / BUILT, records.read(ModelSpec, folder / "outcome.json"))
    return records.read(ModelSpec, folder / BUILT)


def load_or_measure_profile(context: Context, model: ModelSpec) -> SpeedProfile:
    """Return the speed profile kept from an earlier call on the same machine, or a new one."""
    settings = context.settings
    path = stored_profiles.path_of(settings, model)
    wanted = stored_profiles.fingerprint(settings, context.dataset["sha256"], context.probe, model)
    earlier = stored_profiles.find(path, wanted) if settings.reuse else None
    if earlier is not None:
        day = earlier.measured_at[:16].replace("T", " ")
        say(f"{_in_words(earlier.calibration)}; kept from {day} UTC (new: --rerun)")
        return earlier.calibration
    idle = context.patience.wait()
    measured = measure_profile(context, model)
    if idle:
        stored_profiles.store(path, wanted, measured)
    say(_in_words(measured) + ("" if idle else "; not kept, the machine was busy"))
    return measured


def measure_profile(context: Context, model: ModelSpec) -> SpeedProfile:
    """Measure how fast the backend is with the model of a session."""
    opened = context.opened(model)
    return measure_profile_of_files(context.launcher, context.settings, opened, context.run_options)


def measure_profile_of_files(
    launcher: Launcher, settings: SessionSettings, model: ModelSpec, options: Options
) -> SpeedProfile:
    """Measure how fast a backend is with the files that it opens, in a process of its own."""
    results_dir = Path(settings.results_dir)
    for name in ("tune", "calibrate"):  # the second is what earlier versions called it
        remove_stale_folders(results_dir.glob(f".{name}.*"))
    with staging_folder(results_dir, "tune") as folder:
        tuning_request = request(settings, model, options)
        launcher.execute("tune", folder, tuning_request, "tuning", TUNING_S)
        return records.read(SpeedProfile, folder / "outcome.json")


def _in_words(speed: SpeedProfile) -> str:
    best, each = speed.offline, speed.streams[SINGLE_STREAM].median_s
    latency = f"{each:.3g} s" if each >= 1 else f"{1000 * each:.3g} ms"
    return (
        f"tuned on {cores_in_words(speed.cores)}: "
        f"{figures(best.samples_per_s)} samples/s "
        f"({best.shape.workers} x {best.shape.threads} threads, batch {best.shape.batch}), "
        f"{latency} a sample"
    )
