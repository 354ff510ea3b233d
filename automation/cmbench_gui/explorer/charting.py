"""The charts of reports, which lie beside the harness and not beside the engine."""

from __future__ import annotations

from cmbench_results.shared import importable

importable()

from mlperf_pages import charts, scatter  # noqa: E402

__all__ = ["charts", "scatter"]
