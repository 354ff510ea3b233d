"""Makes the harness, the workshop and the Triton client importable before the test modules are."""

import benchmark_lab  # noqa: F401
import triton_client_lab  # noqa: F401
import triton_lab  # noqa: F401
