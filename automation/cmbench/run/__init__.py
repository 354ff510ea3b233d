"""Running the steps of a plan: ``customize.py``, native scripts, order, and parallel steps."""

__all__ = [
    "customize",
    "disk_space",
    "executor",
    "forecast",
    "log",
    "outcome",
    "parallel",
    "prefetch",
    "process",
    "recorder",
    "reporter",
    "run_context",
    "scheduler",
    "step",
    "workers",
]
