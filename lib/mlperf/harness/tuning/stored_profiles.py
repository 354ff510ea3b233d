"""Speed profiles that are kept: one file per model on every system, next to its targets.

A profile holds as long as nothing changes that speed depends on: the machine, the model, the
data, the libraries, and what the user fixed by hand. All that is its fingerprint.
"""

from __future__ import annotations

import datetime
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlperf.catalog import plugins

from .. import host, records
from ..errors import HarnessError
from ..jobs import Probe
from ..settings import ModelSpec, SessionSettings
from .profile import SpeedProfile
from .store import open_store

# What a user may fix that changes how the machine is divided.
SHAPING = ("batch_size", "threads", "num_workers")


@dataclass(frozen=True, slots=True)
class StoredProfile:
    """A profile, when it was made, and the fingerprint under which it holds.

    The file calls the profile ``calibration``, as it did from the start.
    """

    measured_at: str
    fingerprint: dict[str, str]
    calibration: SpeedProfile


def fingerprint(
    settings: SessionSettings, dataset: str, probe: Probe, model: ModelSpec
) -> dict[str, str]:
    """Everything that the speed depends on, in words; ``dataset`` is the hash of its facts."""
    machine = host.facts()
    options: dict[str, Any] = records.encode(settings.overrides)
    return {
        "cpu": machine.cpu_model,
        "cores": str(machine.cores_usable),
        "memory": str(machine.memory_bytes),
        "governor": machine.governor,
        "system": machine.system,
        "python": machine.python,
        "device": settings.device,
        "model": model.digest(),
        "dataset": dataset,
        "versions": json.dumps(probe.versions, sort_keys=True),
        "options": json.dumps({key: options[key] for key in SHAPING}, sort_keys=True),
        **{f"device {name}": fact for name, fact in probe.device_facts.items()},
        **{f"option {name}": str(value) for name, value in settings.backend_options.items()},
        **plugins.facts(settings.benchmark, settings.backend),
    }


def path_of(settings: SessionSettings, model: ModelSpec) -> Path | None:
    """Return the file of this model on this system; None when no folder for such files is given."""
    store = open_store(settings)
    if store is None:
        return None
    folder = store.path.with_suffix("").with_name(f"{store.path.stem}-calibrations")
    own = "" if model == settings.model else f"-{model.digest()[:12]}"
    return folder / f"{store.key}{own}.json"


def find(path: Path | None, fingerprint_fields: dict[str, str]) -> StoredProfile | None:
    """What ``path`` holds, if it was made under the same fingerprint."""
    if path is None:
        return None
    try:
        kept = records.read(StoredProfile, path)
    except (HarnessError, TypeError):
        return None  # not there, cut off, or of another version
    return kept if kept.fingerprint == fingerprint_fields else None


def store(path: Path | None, fingerprint_fields: dict[str, str], profile: SpeedProfile) -> None:
    """Keep a profile that has just been made."""
    if path is None:
        return
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    path.parent.mkdir(parents=True, exist_ok=True)
    records.write(path, StoredProfile(now, fingerprint_fields, profile))


def forget(path: Path | None) -> None:
    """Drop a profile that has turned out to be wrong."""
    if path is not None:
        path.unlink(missing_ok=True)
