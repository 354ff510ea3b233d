"""Python files whose compiled form is taken only if it was written after their last change."""

from __future__ import annotations

import os
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location


class FreshSource(SourceFileLoader):
    """Python itself compares size and time alone, which rsync and ``cp -p`` put back."""

    def get_data(self, path: str) -> bytes:
        """The bytes of a file; raises OSError for a compiled form that may be of another source."""
        if path != self.path and os.stat(path).st_mtime_ns <= os.stat(self.path).st_ctime_ns:
            raise OSError(f"{path} is older than its source")
        return super().get_data(path)


def spec_of(name: str, path: str, places: list[str] | None = None) -> ModuleSpec:
    """Return the spec that imports the file at ``path`` as ``name``; a package has ``places``."""
    loader = FreshSource(name, path) if path.endswith(".py") else None
    spec = spec_from_file_location(name, path, loader=loader, submodule_search_locations=places)
    assert spec is not None
    return spec
