"""What an NVIDIA GPU does with our lanes beside the bare loop: ``python benchmarks/gpu.py``.

Without a GPU it prints "not run: no GPU" and ends with 0. It installs nothing: ``--python`` names
an environment with PyTorch for CUDA. Two layers are computed in float16, once by a lane and once by
PyTorch's own calls, turn by turn. Nobody has run it on hardware yet.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
HARNESS = ROOT / "script/app-mlperf-inference/src"
TURNS, CALLS, BATCH, WIDTH = 9, 200, 64, 2048
LIMIT_S = 600
# To reach: so much of the bare loop's samples/s.
SHARE = 0.95


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare; 0 where it was reached or there is no GPU, 1 otherwise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default=sys.executable, help="a Python with PyTorch for CUDA")
    parser.add_argument("--here", action="store_true", help="measure in this process")
    options = parser.parse_args(arguments)
    if options.here:
        return measure()
    if not list(Path("/dev").glob("nvidia[0-9]*")) and not Path("/dev/dxg").exists():
        print("not run: no GPU")
        return 0
    words = [options.python, __file__, "--here"]
    paths = {**os.environ, "PYTHONPATH": str(HARNESS)}
    return subprocess.run(words, env=paths, timeout=LIMIT_S, check=False).returncode


def measure() -> int:
    """Lanes and the bare loop, turn by turn."""
    try:
        import torch
    except ImportError:
        print("not run: this Python has no PyTorch; name one with --python=PATH")
        return 0
    if not torch.cuda.is_available():
        print(f"not run: PyTorch {torch.__version__} sees no GPU")
        return 0
    major, minor = torch.cuda.get_device_capability()
    print(f"{torch.cuda.get_device_name()}, compute capability {major}.{minor}")
    if (major, minor) == (9, 0):
        print("TensorRT-RTX has no target for compute capability 9.0: its engines cannot run here")
    bare, lane = _ways(torch)
    shares = [_rate(lane) / _rate(bare) for _ in range(TURNS)]
    share = statistics.median(shares)
    print(f"lanes do {100 * share:.1f} % of the bare loop's samples/s (to reach: {100 * SHARE:g})")
    return 0 if share >= SHARE else 1


def _ways(torch: Any) -> tuple[Callable[[], object], Callable[[], object]]:
    import numpy as np
    from mlperf_harness.backends.lanes import Lane
    from mlperf_harness.backends.torch_device import TorchDevice

    module = torch.nn.Sequential(
        torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU(), torch.nn.Linear(WIDTH, WIDTH)
    )
    module = module.cuda().half().eval()

    class Work:
        def outputs(self, shapes: Any) -> Any:
            return {"y": (np.float16, shapes["x"])}

        def enqueue(self, inputs: Any, outputs: Any, stream: Any) -> None:
            x, y = inputs["x"], outputs["y"]
            size = 2 * BATCH * WIDTH
            with torch.inference_mode(), torch.cuda.stream(stream):
                found = module(x.memory[:size].view(torch.float16).view(x.shape))
                y.memory[:size].view(torch.float16).view(y.shape).copy_(found)

    lane = Lane(TorchDevice(), Work(), ["y"])
    held = lane.buffer((BATCH, WIDTH), np.float16)
    held[...] = 0.5
    pinned = torch.full((BATCH, WIDTH), 0.5, dtype=torch.float16).pin_memory()

    def bare() -> object:
        with torch.inference_mode():
            return module(pinned.cuda(non_blocking=True)).cpu()

    return bare, lambda: lane.predict({"x": held})


def _rate(call: Callable[[], object]) -> float:
    for _ in range(10):
        call()
    began = time.perf_counter()
    for _ in range(CALLS):
        call()
    return BATCH * CALLS / (time.perf_counter() - began)


if __name__ == "__main__":
    sys.exit(main())
