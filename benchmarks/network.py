"""What a network costs beside the same model in process: ``python benchmarks/network.py``.

A real node on this machine's loopback serves the tiny ResNet-50; it is asked turn by turn with the
same model in this process, on one thread each. Samples one by one show what a query pays, requests
of 64 what Offline pays. A cable adds its own latency to the first.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from cmbench import LIBRARIES
from common.python_path import add_folder

add_folder(Path(LIBRARIES).parent / "tests")

TURNS, SECONDS, COUNT = 5, 1.0, 64


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 0."""
    argparse.ArgumentParser(description=__doc__).parse_args(arguments)
    # The tests' own way to the tiny model, which finds the harness too, and to a node.
    lab, network_lab = import_module("benchmark_lab"), import_module("network_lab")
    from mlperf.harness import records
    from mlperf.harness.backends import registry as backends
    from mlperf.harness.benchmarks import registry as benchmarks
    from mlperf.harness.pipeline.inference import solvers
    from mlperf.harness.settings import ModelSpec, WorkerShape

    model = records.decode(ModelSpec, lab.model())
    benchmark = benchmarks.create("resnet50", lab.arrays(), model)
    benchmark.load(range(COUNT))
    one = {"num_workers": 1, "threads": 1, "batch_size": COUNT}
    with (
        tempfile.TemporaryDirectory() as folder,
        network_lab.node(Path(folder) / "node", {"overrides": one}) as (address, _),
    ):
        ways = {
            "in process": backends.create("onnxruntime", "cpu", "float32"),
            "over loopback": backends.create("network", "cpu", "float32", {"servers": address}),
        }
        team = {
            name: solvers(backend, model, benchmark, WorkerShape(1, 1, COUNT))[0]
            for name, backend in ways.items()
        }
        for size in (1, COUNT):
            _compare(team, benchmark, size)
    return 0


def _compare(team: dict[str, Any], benchmark: Any, size: int) -> None:
    """Microseconds of a request of ``size`` samples, each way, and how they stand to each other."""
    times: dict[str, list[float]] = {name: [] for name in team}
    for _ in range(TURNS):
        for name, solver in team.items():
            times[name].append(_request_s(solver, benchmark, size))
    near, far = (1e6 * statistics.median(each) for each in times.values())
    print(
        f"{size:3} samples a request: in process {near:.0f} us, over loopback {far:.0f} us "
        f"({far - near:+.0f} us, {(far - near) / size:+.1f} us a sample, ratio {near / far:.2f})"
    )


def _request_s(solver: Any, benchmark: Any, size: int) -> float:
    import numpy as np

    results, sizes = benchmark.result.rows(size), np.zeros(size, np.int64)
    indices = np.arange(size)
    began, count = time.perf_counter(), 0
    while time.perf_counter() - began < SECONDS:
        solver.solve(indices, results, sizes)
        count += 1
    return (time.perf_counter() - began) / count


if __name__ == "__main__":
    sys.exit(main())
