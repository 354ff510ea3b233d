"""Makes what lies in ``src`` of scripts importable before the test modules are."""

import benchmark_lab  # noqa: F401
import nvidia_flow_lab  # noqa: F401
import triton_client_lab  # noqa: F401
import triton_lab  # noqa: F401
