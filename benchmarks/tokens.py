"""Measure what LoadGen and the harness cost a model that generates tokens.

    python benchmarks/tokens.py                      a model that computes nothing: CPU per sample
    python benchmarks/tokens.py --facts MODEL.json --dataset FOLDER
                                                     llama.cpp too: beside its slots in a plain loop

The cost per sample is the difference of two Offline runs of many and of few samples, each in a
process of its own: what starts and ends a process falls out.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

try:
    import numpy as np
except ImportError:
    sys.exit("numpy is missing here: run `make bench`, or pip install -e '.[test]' before")
from library_env import library_env
from table_row import Row

from mlperf.harness import host, records
from mlperf.harness.backends import registry as backends
from mlperf.harness.backends.generation import AnswerStream, TokenGenerator, Unheard
from mlperf.harness.benchmarks.prompts import PromptSet
from mlperf.harness.measuring import detail_log
from mlperf.harness.measuring.detail_log import TTFT, DetailLog
from mlperf.harness.settings import ModelSpec

# The figures to reach.
NULL_US, SHARE, TTFT_MS = 10.0, 0.97, 1.0
FEW, MANY = 20_000, 220_000
PROMPTS = 256
BENCHMARK, EDGE = "llama3.1-8b", "llama3.1-8b-edge"
TURNS = 3


@dataclass(frozen=True, slots=True)
class Timed:
    """A run of LoadGen: its log, and the CPU seconds of its process."""

    log: DetailLog
    cpu_s: float


def null_data(folder: Path) -> tuple[dict[str, Any], Path]:
    """Write prompts and a model for a backend that reads neither; return facts and data set."""
    np.save(folder / "prompts.npy", np.ones(4 * PROMPTS, np.int32))
    np.save(folder / "offsets.npy", np.arange(0, 4 * PROMPTS + 1, 4))
    texts: Mapping[str, Any] = {
        "dataset.json": {"name": "null", "count": PROMPTS},
        "references.json": ["a"] * PROMPTS,
        "pieces.json": ["a", "b"],
    }
    for name, value in texts.items():
        (folder / name).write_text(json.dumps(value), encoding="utf-8")
    (folder / "model").write_bytes(b"")
    facts = {
        "name": "null",
        "path": str(folder / "model"),
        "sha256": hashlib.sha256(b"").hexdigest(),
        "precision": "fp32",
        "inputs": [],
        "outputs": [{"name": "tokens", "dtype": "int64", "shape": [-1]}],
        "accuracy": {"metric": "ROUGE-1", "unit": "", "reference": 0.0, "target": 0.0},
        "options": {"max_new_tokens": 32, "vocabulary": 2, "context": 64},
    }
    return facts, folder


def measured(folder: Path, settings: Mapping[str, Any]) -> Timed:
    """Make one run of LoadGen in a process of its own; end the program where it fails."""
    config = folder / "run.json"
    config.write_text(json.dumps({**settings, "folder": str(folder)}), encoding="utf-8")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "mlperf.harness", "run", str(config)]
    done = subprocess.run(command, env=library_env(), capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"a run failed: {done.stdout}{done.stderr}")
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Timed(detail_log.read(folder / "run_1" / "mlperf_log_detail.txt"), cpu_s)


def run_settings(
    backend: str, facts: Mapping[str, Any], data: Path, shape: tuple[int, int, int], count: int
) -> dict[str, Any]:
    """Return the settings of an Offline run of ``count`` samples in a shape."""
    workers, threads, batch = shape
    return {
        "benchmark": BENCHMARK,
        "backend": backend,
        "device": "cpu",
        "model": dict(facts),
        "dataset": str(data),
        "scenario": "Offline",
        "mode": "performance",
        "style": "test",
        "shape": {"workers": workers, "threads": threads, "batch": batch},
        "targets": {"qps": 1.0, "min_duration_ms": 1},
        "overrides": {"min_query_count": count},
    }


def null_row(folder: Path) -> Row:
    """The CPU time of a sample that costs nothing to compute."""
    facts, data = null_data(folder)
    costs = []
    for _ in range(TURNS):
        few, many = (
            measured(folder, run_settings("null", facts, data, (1, 1, 64), count)).cpu_s
            for count in (FEW, MANY)
        )
        costs.append(1e6 * (many - few) / (MANY - FEW))
    cost = statistics.median(costs)
    name = "null model, CPU of a sample"
    return Row(name, f"{cost:.1f} us", f"{NULL_US:g} us", cost / NULL_US, 1.0, False)


def plain_loop(
    facts: Mapping[str, Any], data: Path, shape: tuple[int, int, int], count: int, timed: bool
) -> tuple[float, float]:
    """Return tokens/s and the median ms to a first token of the slots alone."""
    workers, threads, _ = shape
    model = records.decode(ModelSpec, dict(facts))
    prompts = PromptSet(data)
    team = backends.create("llamacpp", "cpu", "float32").open(
        model.graphs()[0], ("tokens",), workers, threads
    )
    most = int(model.options["max_new_tokens"])
    tokens, firsts = [0] * workers, []

    class Watch(Unheard):
        def __init__(self) -> None:
            self.began = time.perf_counter()

        def begin(self, rows: Any) -> None:
            firsts.append(time.perf_counter() - self.began)

    def work(number: int) -> None:
        slot = team[number]
        assert isinstance(slot, TokenGenerator)
        for index in range(number, count, workers):
            answer, size = np.zeros((1, most), np.int64), np.zeros(1, np.int64)
            stream = AnswerStream([index], answer, size, Watch(), timed)
            slot.generate([prompts.prompt(index % len(prompts))], stream)
            tokens[number] += int(size[0]) // 8

    began = time.perf_counter()
    threads_ = [threading.Thread(target=work, args=(number,)) for number in range(workers)]
    for thread in threads_:
        thread.start()
    for thread in threads_:
        thread.join()
    return sum(tokens) / (time.perf_counter() - began), 1000 * statistics.median(firsts)


def llama_rows(folder: Path, facts: Mapping[str, Any], data: Path, count: int) -> list[Row]:
    """Tokens per second of 16 slots, and the time to the first token of one."""
    cores = host.usable_cores()
    wide, alone = (16, cores, 1), (1, cores, 1)
    rates, firsts = [], []
    for _ in range(TURNS):
        settings = run_settings("llamacpp", facts, data, wide, count)
        log = measured(folder, settings).log
        ours = log.number("result_tokens_per_second") or 0.0
        rates.append((ours, plain_loop(facts, data, wide, count, False)[0]))
        stream = {"benchmark": EDGE, "scenario": "SingleStream", "targets": {"latency_ms": 1.0}}
        few = {"overrides": {"min_query_count": 100, "max_query_count": 100}}
        settings = {**run_settings("llamacpp", facts, data, alone, 1), **stream, **few}
        single = measured(folder, settings).log
        first = single.token_latencies()[TTFT]["50.00"]
        firsts.append((first, plain_loop(facts, data, alone, 100, True)[1]))
    ours, bare = sorted(rates, key=lambda pair: pair[0] / pair[1])[TURNS // 2]
    first, plain = sorted(firsts, key=lambda pair: pair[0] - pair[1])[TURNS // 2]
    over = (first - plain) / TTFT_MS
    return [
        Row("16 slots, tokens/s", f"{ours:.0f}", f"{bare:.0f}", ours / bare, SHARE, True),
        Row("one slot, TTFT p50", f"{first:.2f} ms", f"{plain:.2f} ms", over, 1.0, False),
    ]


def main() -> int:
    """Print the table; 1 where a figure is not reached."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--facts", type=Path, help="model.json of a Llama as a GGUF file")
    parser.add_argument("--dataset", type=Path, help="folder of the prompts for it")
    parser.add_argument("--samples", type=int, default=400, help="how many it answers")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tokens-") as name:
        rows = [null_row(Path(name))]
        if options.facts and options.dataset:
            facts = described(options.facts)
            rows += llama_rows(Path(name), facts, options.dataset.resolve(), options.samples)
    for row in rows:
        print(f"{row.name:30}{row.ours:>12}{row.against:>12}{row.verdict}")
    return int(not all(row.good for row in rows))


def described(path: Path) -> dict[str, Any]:
    """Return the harness's description of a model, from the facts beside its file."""
    facts = json.loads(path.read_text(encoding="utf-8"))
    keys = ("name", "sha256", "precision", "inputs", "outputs", "accuracy", "options")
    return {**{key: facts[key] for key in keys}, "path": str(path.resolve().parent / facts["file"])}


if __name__ == "__main__":
    sys.exit(main())
