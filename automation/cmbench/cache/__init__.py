"""Cache entries: their identity, their life on disk, and what may go."""

__all__ = [
    "bundle",
    "cache_entry",
    "disk",
    "inventory",
    "listing",
    "portability",
    "retention",
    "secret_fingerprints",
    "store",
]
