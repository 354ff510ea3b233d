"""How figures, times and sizes are written for people."""

from __future__ import annotations


def figures(value: float) -> str:
    """Return a number with four significant digits, and never with an exponent."""
    if value >= 1000:
        return f"{value:.0f}"
    return f"{value:.4g}" if value >= 0.001 else f"{value:.6f}"


def duration(seconds: float) -> str:
    """Return a length of time in words: ``45 s``, ``12 min``, ``3 h 20 min``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def megabytes(count: int) -> str:
    """Bytes in words."""
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"


def cores_in_words(cores: int) -> str:
    """So many cores, as a person says it."""
    return f"{cores} core{'' if cores == 1 else 's'}"
