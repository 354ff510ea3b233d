"""What bound a run: where the time of its workers went, in words."""

from __future__ import annotations

from ..jobs import TimeSpent
from ..wording import figures

# By part of the time: what a run is called that spent most on it, and how the share reads. Host is
# the work on samples and answers around the backend's call, idle the wait for queries.
PARTS = {
    "compute": ("compute-bound", "computing"),
    "copy": ("copy-bound", "copying"),
    "launch": ("launch-bound", "launching"),
    "host": ("host-bound", "host"),
    "idle": ("mostly idle", "idle"),
}

# Of parts below this nothing is said.
LEAST = 0.005


def shares(spent: TimeSpent) -> dict[str, float]:
    """Return the parts of the workers' time, as shares of 1, by the names of ``PARTS``."""
    total = max(spent.workers * spent.span_s, spent.worked_s, 1e-9)
    called = min(spent.called_s, spent.worked_s) / total
    parts = {
        "host": spent.worked_s / total - called,
        "idle": max(0.0, 1 - spent.worked_s / total),
    }
    device = spent.device
    if device is None or not device.called_s:
        return {"compute": called, **parts}
    computed = min(1.0, device.computed_s / device.called_s)
    copied = min(1.0 - computed, device.copied_s / device.called_s)
    return {
        "compute": called * computed,
        "copy": called * copied,
        "launch": called * (1 - computed - copied),
        **parts,
    }


def bound(spent: TimeSpent) -> str:
    """Return what bound a run: that on which its workers spent most of their time."""
    parts = shares(spent)
    return PARTS[max(parts, key=parts.__getitem__)][0]


def by_accelerator(spent: TimeSpent) -> str:
    """Return the rates of all accelerators; empty where there is one."""
    seconds = max(spent.span_s, 1e-9)
    rates = (f"{place} {figures(count / seconds)}" for place, count in spent.samples.items())
    return f"{', '.join(rates)} samples/s" if spent.samples else ""


def in_words(spent: TimeSpent) -> str:
    """Return what bound a run, with the shares of the workers' time."""
    parts = sorted(shares(spent).items(), key=lambda part: -part[1])
    named = ((PARTS[name][1], share) for name, share in parts if share >= LEAST)
    words = ", ".join(f"{name} {100 * share:.0f} %" for name, share in named)
    return f"{bound(spent)} ({words})"
