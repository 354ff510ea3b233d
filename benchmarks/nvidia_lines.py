"""What NVIDIA's flow costs beside the device's work: ``python benchmarks/nvidia_lines.py``.

Before the runs, in CPU seconds of a fresh process, imports counted, the least of ``--times`` runs:
the registry, a plan of all benchmarks, the checks; an engine from the cache, over ``cm version``,
in a home of its own; with ``--python=PATH``, a Python with TensorRT-RTX, numpy and onnx, our build
of an engine beside the builder alone, turn by turn (``--facts`` names another model). In a run:
the CPU time of a lane for each batch, with a device that does nothing, and how many queries a
second the queue hands out that lets batches wait. Published Server rates above that are out of
reach where queries are issued in Python.
``--check`` fails where a limit is passed.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from library_env import library_env

ROOT = Path(__file__).resolve().parents[1]
BATCH, LEAST_RATE, LANE_LIMIT_S = 128, 1_000_000, 100e-6
"""A batch of a lane, the samples/s that it hands over at least, its CPU seconds at most."""
QUEUE_LEAST, WINDOW_US = 100_000, 500
"""Queries/s through the waiting queue at least, with batches that wait so long."""
LIMITS = {"registry": 0.3, "plan": 0.5, "checks": 2.0}
"""CPU seconds; the registry's is for reading and checking all of it."""
CACHED_S = 0.5
"""CPU seconds of an engine from the cache, over those of ``cm version``."""
BUILD_SHARE, BUILD_S = 1.05, 1.0
"""So many times the bare builder's CPU seconds, and so many on top, our build may take."""
CAPABILITY, BATCHES = "8.6", (1, 8, 16)
TINY = ROOT / "script/get-ml-model-resnet50/tiny/model.json"
ENGINE = ("--tags=generate,engine,nvidia,_stand-in,_tiny", "--model=resnet50", "--quiet")
_BARE = """
import sys
import tensorrt_rtx as trt
source, target = sys.argv[1:]
builder = trt.Builder(trt.Logger(trt.Logger.ERROR))
network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
parser = trt.OnnxParser(network, trt.Logger(trt.Logger.ERROR))
assert parser.parse_from_file(source)
config = builder.create_builder_config()
config.num_compute_capabilities = 1
config.set_compute_capability(trt.ComputeCapability.SM{capability}, 0)
profile = builder.create_optimization_profile()
for n in range(network.num_inputs):
    tensor = network.get_input(n)
    if -1 in tensor.shape:
        rest = tuple(tensor.shape)[1:]
        profile.set_shape(tensor.name, *((size, *rest) for size in {batches}))
config.add_optimization_profile(profile)
open(target, "wb").write(builder.build_serialized_network(network, config))
"""
"""The builder alone, as its own samples call it; models whose batch alone is open."""
IN_PROCESS = {
    "registry": "from nvidia_mlperf.flow import registry; registry.load()",
    "plan": (
        "from nvidia_mlperf.make import flow, work;"
        "from pathlib import Path;"
        "work.plan(flow.Flow(Path('.'), flow.FlowSettings('Me', form='tiny'), {}, 'nvidia', No()))"
    ),
    "checks": (
        "from cmbench.doctor import vendors\n"
        "vendors.examine_for('nvidia', vendors.MachineProbe('.'))"
    ),
}
"""What each measures in a process that has imported nothing of it before."""
_HEAD = (
    "import time, yaml\n"
    "class No:\n"
    "    def machine(self): return None\n"
    "begun = time.process_time()\n"
)


def seconds(code: str) -> float:
    """CPU seconds of the code in a fresh process, its imports counted."""
    text = _HEAD + code + "\nprint(time.process_time() - begun)"
    done = subprocess.run(
        [sys.executable, "-c", text],
        env=library_env(),
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return float(done.stdout)


def best(code: str, times: int) -> float:
    """The least of several measurements."""
    return min(seconds(code) for _ in range(times))


class Idle:
    """The calls of CUDA that a lane makes, of a device that does nothing and is done at once."""

    def stream(self) -> int:
        """See ``lanes.CudaDevice``."""
        return 0

    event = timer = stream

    def elapsed(self, began: int, ended: int) -> float:
        """See ``lanes.CudaDevice``."""
        return 0.0

    def pinned(self, size: int) -> Any:
        """See ``lanes.CudaDevice``: bytes [size]."""
        import numpy as np

        return np.zeros(size, np.uint8)

    memory = pinned

    def nothing(self, *given: Any) -> None:
        """All that would be put into a stream, and the wait for it."""

    copy_in = copy_out = record = wait = synchronize = capture = launch = nothing


class IdleWork:
    """The work of a module with one input and one answer for each sample."""

    def outputs(self, shapes: Mapping[str, tuple[int, ...]]) -> Any:
        """See ``lanes.LaneWork``."""
        return {"y": ("int64", shapes["x"][:1])}

    def enqueue(self, *given: Any) -> None:
        """See ``lanes.LaneWork``."""


def lane_seconds() -> float:
    """CPU seconds of a lane for a batch that was gathered in its own buffer."""
    from mlperf.harness.backends.lanes import Lane

    lane = Lane(Idle(), IdleWork(), ["y"])
    held = lane.buffer((BATCH, 3, 224, 224), "float32")
    count = 2000
    begun = time.process_time()
    for _ in range(count):
        lane.predict({"x": held})
    return (time.process_time() - begun) / count


def queue_rate() -> float:
    """Queries a second of CPU that come in and go out in batches which may wait."""
    from mlperf.harness.pipeline.batcher import DeadlinePolicy
    from mlperf.harness.pipeline.queue import DynamicBatcher

    policy = DeadlinePolicy(0.015, BATCH, dict.fromkeys(range(1, BATCH + 1), 0.001))
    queue, count = DynamicBatcher(policy, WINDOW_US / 1e6), 200_000
    done = 0
    begun = time.process_time()
    for first in range(0, count, BATCH):
        for number in range(first, first + BATCH):
            queue.put([number], [number])
        while done < first + BATCH:
            batch = queue.next()
            assert batch is not None
            done += len(batch.ids)
    return count / (time.process_time() - begun)


def in_a_run() -> list[tuple[str, str, bool]]:
    """Name, figure and whether it is reached, of what a run does for each batch and query."""
    lane, rate = min(lane_seconds() for _ in range(3)), max(queue_rate() for _ in range(3))
    samples = BATCH / lane
    return [
        ("lane", f"{1e6 * lane:8.1f} us of CPU a batch  (limit 100)", lane <= LANE_LIMIT_S),
        ("samples", f"{samples:10,.0f} a second at batch {BATCH}", samples >= LEAST_RATE),
        ("queue", f"{rate:10,.0f} queries/s of CPU  (least 100,000)", rate >= QUEUE_LEAST),
    ]


def cpu_of(command: Sequence[str], env: Mapping[str, str] | None = None) -> float:
    """CPU seconds of a program and of all that it starts; raises CalledProcessError."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise subprocess.CalledProcessError(done.returncode, command, done.stdout, done.stderr)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def from_cache(folder: Path, times: int) -> float:
    """CPU seconds of an engine that the cache holds, over those of ``cm version``.

    Raises CalledProcessError where it cannot be made the first time.
    """
    local = folder / "CM/repos/local"
    local.mkdir(parents=True)
    (local / "cmr.yaml").write_text("alias: local\nuid: 9a3280b14a4285c9\n", encoding="utf-8")
    (folder / "CM/repos.json").write_text(json.dumps([str(ROOT)]), encoding="utf-8")
    env = {**os.environ, "CM_REPOS": str(folder / "CM"), "CM_CORE_SKIP_INTERNAL_REPOS": "yes"}
    cm = [sys.executable, "-m", "cmind"]
    cpu_of([*cm, "run", "script", *ENGINE], env)
    cached = min(cpu_of([*cm, "run", "script", *ENGINE], env) for _ in range(times))
    return cached - min(cpu_of([*cm, "version"], env) for _ in range(times))


def build_seconds(python: str, facts: Path, folder: Path, times: int) -> tuple[float, float]:
    """CPU seconds of our build and of the builder alone, turn by turn, the least of each.

    Raises CalledProcessError where one of them fails.
    """
    told = {
        "product": "tensorrt-rtx",
        "facts": str(facts),
        "folder": str(folder),
        "benchmark": "resnet50",
        "precision": "float32",
        "batch": ":".join(map(str, BATCHES)),
        "compute_capabilities": [CAPABILITY],
    }
    config = folder / "engine.json"
    config.write_text(json.dumps(told), encoding="utf-8")
    model = facts.parent / json.loads(facts.read_text(encoding="utf-8"))["file"]
    bare = _BARE.format(capability=CAPABILITY.replace(".", ""), batches=BATCHES)
    ours = [python, "-m", "mlperf.harness.engines", str(config)]
    env = library_env()
    rows = [
        (cpu_of(ours, env), cpu_of([python, "-c", bare, str(model), str(folder / "bare")]))
        for _ in range(times)
    ]
    return min(row[0] for row in rows), min(row[1] for row in rows)


def of_engines(python: str, facts: Path, times: int) -> list[tuple[str, str, bool]]:
    """Name, figure and whether it is reached, of engines; what cannot be measured says why."""
    rows = []
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        try:
            took = from_cache(folder, times)
            told = f"{took:8.3f} s of CPU over cm version  (limit {CACHED_S:g})"
            rows.append(("cached", told, took <= CACHED_S))
        except subprocess.CalledProcessError as problem:
            rows.append(("cached", f"not measured: {_last(problem)}", True))
        if not python:
            rows.append(("build", "not measured: --python=PATH names no TensorRT-RTX", True))
            return rows
        try:
            ours, bare = build_seconds(python, facts, folder, times)
            most = bare * BUILD_SHARE + BUILD_S
            told = f"{ours:8.3f} s of CPU, the builder alone {bare:.3f}  (limit {most:.3f})"
            rows.append(("build", told, ours <= most))
        except subprocess.CalledProcessError as problem:
            rows.append(("build", f"not measured: {_last(problem)}", False))
    return rows


def _last(problem: subprocess.CalledProcessError) -> str:
    lines = str(problem.stderr or problem.stdout or "").strip().splitlines()
    return next((line for line in lines if line.startswith("error")), lines[-1] if lines else "")


def main(words: Sequence[str]) -> int:
    """Print the table; 1 where ``--check`` is given and a limit is passed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition(":")[0])
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--python", default="", help="a Python with TensorRT-RTX")
    parser.add_argument("--facts", type=Path, default=TINY, help="model.json of the built model")
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args(words)
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        here = Path.cwd()
        os.chdir(folder)
        begun = time.perf_counter()
        for name, code in IN_PROCESS.items():
            found[name] = best(code, given.times)
            print(f"{name:10}{found[name]:8.3f} s of CPU  (limit {LIMITS[name]:g})")
        os.chdir(here)
    runs = [*of_engines(given.python, given.facts, given.times), *in_a_run()]
    for name, figure, _ in runs:
        print(f"{name:10}{figure}")
    print(f"measured in {time.perf_counter() - begun:.0f} s")
    missed = any(found[name] > LIMITS[name] for name in LIMITS)
    return int(given.check and (missed or not all(reached for *_, reached in runs)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
