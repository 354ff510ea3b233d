"""Measure what LoadGen and the harness cost a model that generates tokens.

    python benchmarks/tokens.py                      a model that computes nothing: CPU per sample
    python benchmarks/tokens.py --facts MODEL.json --dataset FOLDER
                                                     llama.cpp too: beside its slots in a plain
                                                     loop, and beside its own batch bench

The batch bench (llama-batched-bench, on the PATH or as --batch-bench PROGRAM) is a program of
llama.cpp. A build of its sources has it, after some minutes: cmake -B build -DGGML_NATIVE=OFF
-DGGML_AVX2=ON -DGGML_FMA=ON -DGGML_F16C=ON -DGGML_BMI2=ON, then cmake --build build --target
llama-batched-bench. With these words it computes as the wheel xllamacpp does. It decodes random
tokens in one batch: nothing is chosen, spelled, sent or received, prompts are equally long, and so
are answers. So it is the most that an engine could reach around the same kernels.

The cost per sample is the difference of two Offline runs of many and of few samples, each in a
process of its own: what starts and ends a process falls out.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import resource
import shutil
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
BATCH_BENCH = "llama-batched-bench"
REPEATS = 8
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


@dataclass(frozen=True, slots=True)
class BatchBench:
    """llama.cpp's batch bench, for prompts and answers of the mean lengths of a data set."""

    program: str
    model: Path
    prompt: int
    answer: int

    def measured(self, together: int, threads: int) -> tuple[float, float]:
        """Return the tokens/s of answers, prompts included, and the ms of a prompt; medians."""
        context = together * -(-(self.prompt + self.answer) // 256) * 256
        numbers = {"-c": context, "-t": threads, "-tb": threads, "-b": 2048, "-ub": 512}
        lengths = {"-npp": self.prompt, "-ntg": self.answer}
        words = [str(word) for pair in (numbers | lengths).items() for word in pair]
        counts = ",".join([str(together)] * REPEATS)
        command = [self.program, "-m", str(self.model), *words, "-npl", counts]
        done = subprocess.run(
            [*command, "--output-format", "jsonl"], capture_output=True, text=True, check=False
        )
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        if not lines:
            sys.exit(f"{self.program} failed: {done.stdout[-400:]}{done.stderr[-400:]}")
        tokens = together * self.answer
        rate = statistics.median(tokens / line["t"] for line in lines)
        return rate, 1000 * statistics.median(line["t_pp"] for line in lines)


def batch_rows(
    folder: Path, facts: Mapping[str, Any], data: Path, count: int, program: str
) -> list[Row]:
    """Tokens per second and the time to the first token, beside the batch bench in every turn."""
    cores = host.usable_cores()
    prompts = PromptSet(data)
    rates, firsts = [], []
    for _ in range(TURNS):
        log = measured(folder, run_settings("llamacpp", facts, data, (16, cores, 1), count)).log
        ours = log.number("result_tokens_per_second") or 0.0
        seconds = (log.number("result_samples_per_second") or 1.0) ** -1
        lengths = (round(float(prompts.lengths.mean())), max(2, round(ours * seconds)))
        bench = BatchBench(program, Path(facts["path"]), *lengths)
        rates.append((ours, bench.measured(16, cores)[0]))
        single = measured(folder, single_stream(facts, data, cores)).log
        firsts.append((single.token_latencies()[TTFT]["50.00"], bench.measured(1, cores)[1]))
    ours, theirs = sorted(rates, key=lambda pair: pair[0] / pair[1])[TURNS // 2]
    first, prompt = sorted(firsts, key=lambda pair: pair[0] - pair[1])[TURNS // 2]
    over = (first - prompt) / TTFT_MS
    return [
        Row(
            "beside its batch bench, 16", f"{ours:.0f}", f"{theirs:.0f}", ours / theirs, SHARE, True
        ),
        Row("TTFT beside its prompt", f"{first:.2f} ms", f"{prompt:.2f} ms", over, 1.0, False),
    ]


def single_stream(facts: Mapping[str, Any], data: Path, cores: int) -> dict[str, Any]:
    """Return the settings of a hundred queries, one after the other."""
    stream = {"benchmark": EDGE, "scenario": "SingleStream", "targets": {"latency_ms": 1.0}}
    few = {"overrides": {"min_query_count": 100, "max_query_count": 100}}
    return {**run_settings("llamacpp", facts, data, (1, cores, 1), 1), **stream, **few}


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
        single = measured(folder, single_stream(facts, data, cores)).log
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
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=plain)
    parser.add_argument("--facts", type=Path, help="model.json of a Llama as a GGUF file")
    parser.add_argument("--dataset", type=Path, help="folder of the prompts for it")
    parser.add_argument("--samples", type=int, default=400, help="how many it answers")
    program = shutil.which(BATCH_BENCH)
    parser.add_argument("--batch-bench", default=program, help=f"{BATCH_BENCH} of llama.cpp")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tokens-") as name:
        rows = [null_row(Path(name))]
        if options.facts and options.dataset:
            facts = described(options.facts)
            data = (Path(name), facts, options.dataset.resolve(), options.samples)
            rows += llama_rows(*data)
            if options.batch_bench:
                rows += batch_rows(*data, options.batch_bench)
            else:
                print(f"{BATCH_BENCH} is not on the PATH; how to get it: --help")
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
