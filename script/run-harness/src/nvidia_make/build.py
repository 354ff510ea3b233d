"""``prebuild`` and ``build``: the machine, the links, and what stands in for NVIDIA's parts."""

from __future__ import annotations

from nvidia_make import checks, neuron
from nvidia_make.flow import Flow
from nvidia_make.scratch import link_dirs

NIGHTLY = "USE_NIGHTLY has no effect: nothing nightly is taken here"
OF_CONTAINERS = ("DOCKER_ARGS", "DOCKER_COMMAND", "DOCKER_DETACH", "NO_BUILD")
IN_PLACE = (
    "NVIDIA's C++ harnesses: the harness of app-mlperf-inference, with the LoadGen of its round",
    "NVIDIA's TensorRT plugins: none; ONNX Runtime computes the model as it was published",
    "Triton in NVIDIA's process: a Triton server over a socket (config_ver=triton)",
)


def prebuild(flow: Flow) -> None:
    """Check the machine; without a container the words run on it as it is."""
    checks.report(flow)
    given = [name for name in OF_CONTAINERS if flow.variables.get(name)]
    flow.tell(f"{name} has no effect: it is for a container" for name in given)
    if flow.variables.get("USE_NIGHTLY", "0") not in ("", "0"):
        flow.tell([NIGHTLY])
    following = "build_inferentia" if flow.vendor == neuron.ACCELERATOR else "link_dirs"
    flow.tell([f"no container is needed: go on with make {following} here"])


def build(flow: Flow) -> None:
    """Links and LoadGen; then what is not built, and what is there instead."""
    link_dirs(flow)
    flow.cm(
        "run",
        "script",
        f"--tags=get,mlperf,inference,loadgen,_r{flow.settings.round}",
        "--quiet",
    )
    flow.tell(f"in place of {line}" for line in IN_PLACE)
