"""``build``: links, LoadGen, and the stand-ins for NVIDIA's parts."""

from __future__ import annotations

from nvidia_mlperf.make.flow import Flow
from nvidia_mlperf.make.scratch import link_dirs

IN_PLACE = (
    "NVIDIA's C++ harnesses: the harness of app-mlperf-inference, with the LoadGen of its round",
    "NVIDIA's TensorRT plugins: none; ONNX Runtime computes the model as it was published",
    "Triton in NVIDIA's process: a Triton server over a socket (config_ver=triton)",
)


def build(flow: Flow) -> None:
    """Make links and LoadGen; then list the parts not built, and their replacements."""
    link_dirs(flow)
    flow.cm(
        "run",
        "script",
        f"--tags=get,mlperf,inference,loadgen,_r{flow.settings.round}",
        *flow.python(),
        "--quiet",
    )
    flow.report(f"in place of {line}" for line in IN_PLACE)
