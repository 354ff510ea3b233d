"""The charts of reports, which belong to the harness and not to the engine."""

from __future__ import annotations

from mlperf.pages import charts, scatter

__all__ = ["charts", "scatter"]
