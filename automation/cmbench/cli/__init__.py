"""The command line: verbs, usage, completion, and the adapter that cmind calls."""

__all__ = ["adapter", "reply", "results"]
