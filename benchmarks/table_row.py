"""A line of the table of ``harness.py``."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table.

    ``ratio`` is that of the two figures beside it; None where this machine cannot measure it.
    """

    name: str
    ours: str
    against: str
    ratio: float | None
    limit: float
    higher_is_better: bool

    @property
    def good(self) -> bool:
        """Whether the limit is kept; what cannot be measured breaks none."""
        if self.ratio is None:
            return True
        return self.ratio >= self.limit if self.higher_is_better else self.ratio <= self.limit

    @property
    def verdict(self) -> str:
        """Ratio, limit and what they say."""
        if self.ratio is None:
            return f"{'':17}  not measurable here"
        return f"{self.ratio:9.3f}{self.limit:8.2f}  {'PASS' if self.good else 'FAIL'}"
