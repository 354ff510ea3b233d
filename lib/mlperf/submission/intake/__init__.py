"""Runs that other programs made: results of upstream CM and MLC, and bare logs of LoadGen."""

from __future__ import annotations

from .collect import MissingInputError, RunOverrides, collect

__all__ = ["MissingInputError", "RunOverrides", "collect"]
