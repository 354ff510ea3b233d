"""Pages in a browser: compose a command, run it and watch it, explore results.

A server for one user and one CM home. It stands on ``cmbench.api`` and ``cmbench_results``; nothing
imports it, and what it needs beyond them comes with ``pip install cmbench[gui]``.
``composer``, ``jobs`` and ``explorer`` each give ``routes()`` and have templates of their own.
"""

__all__ = ["access", "explorer", "packages", "pages", "server", "site", "verbs"]
