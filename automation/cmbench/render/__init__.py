"""Plans, records, scripts and runs as text for a terminal of 80 columns."""

__all__ = [
    "cache",
    "container",
    "diffs",
    "doctor",
    "listing",
    "plans",
    "preparation",
    "progress",
    "runs",
]
