"""Making a recorded run again: replay, comparison of records, lock files."""

__all__ = ["figures", "lockfile", "replay"]
