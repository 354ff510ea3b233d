"""Makes the harness and the workshop importable before the test modules are."""

import benchmark_lab  # noqa: F401
