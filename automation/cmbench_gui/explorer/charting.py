"""The charts of reports, which lie beside the harness and not beside the engine."""

from __future__ import annotations

from mlperf.pages import charts, scatter

__all__ = ["charts", "scatter"]
