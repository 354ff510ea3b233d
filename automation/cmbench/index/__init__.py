"""Which scripts there are, and which of them a request means."""

__all__ = ["scripts", "select"]
