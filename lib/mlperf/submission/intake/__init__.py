"""Runs that other programs made: results of upstream CM and MLC, and bare logs of LoadGen."""

from __future__ import annotations

from .collect import Handed, MissingInputError, collect

__all__ = ["Handed", "MissingInputError", "collect"]
