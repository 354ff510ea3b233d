"""What an NVIDIA GPU does with our lanes beside the bare loop: ``python benchmarks/gpu.py``.

Without a GPU it prints "not run: no GPU" and ends with 0. It installs nothing: ``--python`` names
an environment with PyTorch for CUDA, numpy, onnx and onnx2torch. ResNet-50 and BERT with synthetic
weights, which ``cm`` makes (``--facts=model.json`` names others), are computed by PyTorch in
float16, in our lanes and by its own calls, turn by turn: samples/s of whole batches (Offline), and
the time of one sample at a time (SingleStream). Both must answer the same. It ends within ten
minutes. Nobody has run it on hardware yet.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TURNS, SECONDS, LANES, LENGTH = 5, 2.0, 2, 384
BATCHES = {"resnet50": 64, "bert": 16}
MODELS = {
    "resnet50": "get,ml-model,resnet50,raw,_synthetic,_onnx,_fp32",
    "bert": "get,ml-model,language-processing,bert-large,_synthetic,_onnx,_fp32",
}
LIMIT_S = 600
SHARE = 0.95
"""To reach in Offline: so much of the bare loop's samples/s."""
EXCESS, EXCESS_S = 0.03, 30e-6
"""In SingleStream, over the time of the bare call: the larger of a share and of seconds."""
CLOSE = 0.02
"""Answers in float16 may differ by so much of their greatest value."""
Feeds = Mapping[str, Any]
Call = Callable[[Feeds], Sequence[Any]]


@dataclass(frozen=True)
class Ways:
    """The same module in lanes and bare: each answers a batch, which lies where it wants it."""

    lanes: Sequence[Any]
    bare: Call
    gate: Any


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare; 0 where all was reached or there is no GPU, 1 otherwise."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition(":")[0])
    parser.add_argument("--python", default=sys.executable, help="a Python with PyTorch for CUDA")
    parser.add_argument("--facts", type=Path, nargs="*", help="model.json of ONNX models")
    parser.add_argument("--here", action="store_true", help="measure in this process")
    options = parser.parse_args(arguments)
    if options.here:
        return measure(options.facts or [])
    if not list(Path("/dev").glob("nvidia[0-9]*")) and not Path("/dev/dxg").exists():
        print("not run: no GPU")
        return 0
    # Not at the top: the Python that measures need not have the engine.
    from library_env import library_env

    began = time.monotonic()
    found = options.facts or [made(name, tags) for name, tags in MODELS.items()]
    words = [options.python, __file__, "--here", "--facts", *map(str, found)]
    left = LIMIT_S - (time.monotonic() - began)
    try:
        return subprocess.run(words, env=library_env(), timeout=left, check=False).returncode
    except subprocess.TimeoutExpired:
        print(f"stopped after {LIMIT_S} s")
        return 1


def made(name: str, tags: str) -> Path:
    """The facts of a model that ``cm`` makes; ends the program where it cannot."""
    words = [sys.executable, "-m", "cmind", "run", "script", f"--tags={tags}", "--quiet"]
    done = subprocess.run([*words, "--out=json"], capture_output=True, text=True, check=False)
    try:
        return Path(json.loads(done.stdout)["env"]["CM_ML_MODEL_FACTS_FILE_WITH_PATH"])
    except (ValueError, KeyError):
        sys.exit(f"{name} cannot be made: {done.stdout[-500:]}{done.stderr[-500:]}")


def measure(found: Sequence[Path]) -> int:
    """Each model in its turn, on the GPU."""
    try:
        import torch

        from mlperf.harness.backends import torch_device
    except ImportError as missing:
        print(f"not run: {missing}; name a Python that has it with --python=PATH")
        return 0
    if not torch.cuda.is_available():
        print(f"not run: PyTorch {torch.__version__} sees no GPU")
        return 0
    major, minor = torch.cuda.get_device_capability()
    print(f"{torch.cuda.get_device_name()}, compute capability {major}.{minor}")
    print(f"PyTorch {torch.__version__}, {torch_device.facts()}")
    if (major, minor) == (9, 0):
        print("TensorRT-RTX has no target for compute capability 9.0: its engines cannot run here")
    reached = [on_gpu(facts) for facts in found]
    return 0 if all(reached) else 1


def on_gpu(facts: Path) -> bool:
    """Compare both ways of one model on the GPU, and print what came of it."""
    import torch

    from mlperf.harness.backends.torch_device import TorchDevice

    name = str(json.loads(facts.read_text(encoding="utf-8"))["name"])
    size = next((size for word, size in BATCHES.items() if word in name.lower()), 8)
    ways = ways_of(facts, TorchDevice, "cuda", torch.cuda.stream)
    lines, reached = compared(ways, inputs_of(facts, size), inputs_of(facts, 1))
    print("\n".join(f"{name}: {line}" for line in lines), flush=True)
    return reached


def ways_of(facts: Path, device: Callable[[], Any], where: str, current: Any) -> Ways:
    """A model opened once, for both ways; ``where`` is PyTorch's word for the device."""
    import torch

    from mlperf.harness.backends import py_torch, torch_lanes
    from mlperf.harness.backends.lanes import CaptureGate, Lane
    from mlperf.harness.settings import GraphSpec

    told = json.loads(facts.read_text(encoding="utf-8"))
    path = str(facts.parent / told["file"])
    graph = GraphSpec(
        "main", path, told["sha256"], tensors(told["inputs"]), tensors(told["outputs"])
    )
    names = [tensor.name for tensor in graph.outputs]
    opened = py_torch.from_onnx(graph, names)
    opened.module.eval().to(where)
    gate = CaptureGate()

    def casting() -> Any:
        return torch.autocast(where, dtype=torch.float16)

    def lane() -> Any:
        work = torch_lanes.ModuleWork(opened, graph.inputs, names, casting, where, current)
        can = torch_lanes.capturable(opened.operators)
        return Lane(device(), work, names, gate if can else None)

    def bare(feeds: Feeds) -> Sequence[Any]:
        with torch.inference_mode(), casting():
            given = [feeds[name].to(where, non_blocking=True) for name in opened.inputs]
            found = opened.module(*given)
        answers = found if isinstance(found, (tuple, list)) else (found,)
        return [answers[opened.outputs.index(name)].cpu().numpy() for name in names]

    return Ways([lane() for _ in range(LANES)], bare, gate)


def tensors(told: Sequence[Mapping[str, Any]]) -> Any:
    """The inputs or outputs of a model's facts, as the harness has them."""
    from mlperf.harness.settings import TensorSpec

    return tuple(TensorSpec(t["name"], t["dtype"], tuple(t["shape"])) for t in told)


def inputs_of(facts: Path, size: int) -> Feeds:
    """A batch for each input: random numbers, and ones where numbers of words are wanted."""
    import numpy as np

    random, made = np.random.default_rng(1), {}
    for told in tensors(json.loads(facts.read_text(encoding="utf-8"))["inputs"]):
        shape = (size, *(LENGTH if one == -1 else one for one in told.shape))
        whole = np.issubdtype(np.dtype(told.dtype), np.integer)
        values = np.ones(shape) if whole else random.random(shape)
        made[told.name] = values.astype(told.dtype)
    return made


def compared(ways: Ways, batch: Feeds, sample: Feeds) -> tuple[list[str], bool]:
    """What to print of both ways, and whether all was reached; answers are compared first."""
    for feeds in (batch, sample):
        if problem := differing(ways, feeds):
            return [problem], False
    rates = [(rate(ways.lanes, batch), rate_bare(ways.bare, batch)) for _ in range(TURNS)]
    times = [
        (call_s(*in_lane(ways.lanes[0], sample)), call_s(*alone(ways.bare, sample)))
        for _ in range(TURNS)
    ]
    offline, stream = middle(rates), middle(times)
    return verdicts(offline, stream)


def middle(rows: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The medians of the lanes' and of the bare loop's figures."""
    return statistics.median(row[0] for row in rows), statistics.median(row[1] for row in rows)


def verdicts(offline: tuple[float, float], stream: tuple[float, float]) -> tuple[list[str], bool]:
    """The lines of both scenarios, lanes first in each pair, and whether both were reached."""
    share, most = offline[0] / offline[1], stream[1] + max(EXCESS * stream[1], EXCESS_S)
    reached = share >= SHARE, stream[0] <= most
    words = ["reached" if each else "MISSED" for each in reached]
    return [
        (
            f"Offline {offline[0]:.1f} samples/s in {LANES} lanes, {offline[1]:.1f} bare: "
            f"{100 * share:.1f} % (to reach {100 * SHARE:g}): {words[0]}"
        ),
        (
            f"SingleStream {1e6 * stream[0]:.0f} us in a lane, {1e6 * stream[1]:.0f} bare "
            f"(at most {1e6 * most:.0f}): {words[1]}"
        ),
    ], all(reached)


def differing(ways: Ways, feeds: Feeds) -> str:
    """How the answers of both ways differ; empty where they are as close as float16 is."""
    import numpy as np

    call, given = alone(ways.bare, feeds)
    wanted = [np.array(each, copy=True) for each in call(given)]
    for number, lane in enumerate(ways.lanes):
        call, given = in_lane(lane, feeds)
        with ways.gate.opened():
            found = call(given)
        for one, other in zip(found, wanted, strict=True):
            near = CLOSE * float(np.abs(other.astype(np.float64)).max() or 1)
            far = float(np.abs(one.astype(np.float64) - other.astype(np.float64)).max())
            if one.shape != other.shape or not far <= near:
                return f"lane {number} answers otherwise than the bare loop, by {far:g}"
    return ""


def in_lane(lane: Any, feeds: Feeds) -> tuple[Call, Feeds]:
    """A lane's call, and the batch in its own page-locked memory."""
    held = {name: lane.buffer(array.shape, array.dtype) for name, array in feeds.items()}
    for name, array in feeds.items():
        held[name][...] = array
    return lane.predict, held


def alone(bare: Call, feeds: Feeds) -> tuple[Call, Feeds]:
    """The bare call, and the batch as tensors, page-locked where there is a GPU."""
    import torch

    made = {name: torch.from_numpy(array) for name, array in feeds.items()}
    locked = torch.cuda.is_available()
    return bare, {name: each.pin_memory() if locked else each for name, each in made.items()}


def rate(lanes: Sequence[Any], feeds: Feeds) -> float:
    """Samples/s of all lanes at once, each on a thread of its own."""
    calls = [in_lane(lane, feeds) for lane in lanes]
    with ThreadPoolExecutor(len(calls)) as pool:
        return sum(pool.map(lambda each: per_second(*each), calls))


def rate_bare(bare: Call, feeds: Feeds) -> float:
    """Samples/s of the bare loop."""
    return per_second(*alone(bare, feeds))


def per_second(call: Call, feeds: Feeds) -> float:
    """Samples/s of one caller."""
    return len(next(iter(feeds.values()))) / call_s(call, feeds, statistics.mean)


def call_s(
    call: Call, feeds: Feeds, of: Callable[[list[float]], float] = statistics.median
) -> float:
    """Seconds of a call, their median by default, after a warm-up."""
    for _ in range(5):
        call(feeds)
    times: list[float] = []
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end or not times:
        began = time.perf_counter()
        call(feeds)
        times.append(time.perf_counter() - began)
    return of(times)


if __name__ == "__main__":
    sys.exit(main())
