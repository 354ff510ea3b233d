"""One call of the user: its request, and the repositories, index and store it works with."""

__all__ = ["call", "request", "workspace"]
