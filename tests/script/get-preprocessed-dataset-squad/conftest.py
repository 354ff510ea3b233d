"""Makes the harness importable before the test modules are."""

import benchmark_lab  # noqa: F401
