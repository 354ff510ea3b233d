"""For those who write scripts: scaffold, linter, detection tests, generated pages."""

__all__ = [
    "author_session",
    "checks",
    "detection",
    "docs",
    "lint",
    "meta_parts",
    "relocate",
    "scaffold",
]
