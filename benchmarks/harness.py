"""Measure the share of the bare runtime's speed that is left under LoadGen and the harness.

On one machine, in one run, turn by turn: the runtime called in a plain loop on the same model and
samples (the best layout and batch of a small grid: the roofline), the same model through our whole
harness, and the harness with a model that computes nothing. With --reference the reference
implementation in a checkout of mlcommons/inference runs ResNet-50 on the same model too.

    python benchmarks/harness.py                             synthetic ResNet-50, ONNX Runtime
    python benchmarks/harness.py --model bert-99 --seconds 60
    python benchmarks/harness.py --backend openvino --precision bfloat16
    python benchmarks/harness.py --server                    the highest Server rate too
    python benchmarks/harness.py --paths                     every backend and precision here
    python benchmarks/harness.py --peer benchmark_app        beside the runtime's own best tool

Models and samples are made by this project's own scripts through ``cm``. ``make bench ARGS=...``
makes the environment; a Python with the packages of the ``test`` extra does too. The load of the
machine is printed next to the table.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

# It names the command that brings numpy, so it comes first.
from plain_loop import ROOT, Case, batches_of, measure_bare, roofline_shape  # isort: skip

import benchmark_app
import numpy as np
import queue_limit
import reference_harness
import yaml
from library_env import library_env
from table_row import Row

from mlperf import catalog
from mlperf import rate_search as search
from mlperf.catalog import OFFLINE, SERVER, SINGLE_STREAM, Scenario
from mlperf.harness import host, records
from mlperf.harness.benchmarks import registry as benchmarks
from mlperf.harness.jobs import ProbeRequest
from mlperf.harness.measuring import detail_log
from mlperf.harness.session import find
from mlperf.harness.settings import (
    PERFORMANCE,
    ModelSpec,
    Overrides,
    RunSettings,
    Targets,
    WorkerShape,
)
from mlperf.harness.tuning import targets
from mlperf.harness.tuning.layout_probe import batch_sizes
from mlperf.harness.tuning.profile import SpeedProfile

# The figures to reach; see --check.
OFFLINE_SHARE = 0.97
SERVER_SHARE = 0.85
STREAM_OVER = 1.03
STREAM_OVER_US = 30
NULL_OFFLINE = 1_000_000
NULL_STREAM = 100_000
MEMORY_MB = 300

# Models of one graph that int8 makes fastest; this machine can hold their synthetic form.
BENCHMARKS = tuple(name for name, spec in catalog.benchmarks().items() if spec.fastest == "int8")
META = ROOT / "script/app-mlperf-inference/meta.yaml"
# Where a call of the whole model leaves no room in the limit, Server is measured with one as deep
# and an eighth as wide.
LIGHT = "get,ml-model,resnet50,raw,_width.8"
PEAK_MEMORY = Path(__file__).with_name("peak_memory.py")
# Small samples: with pictures of 0.6 MB the rate would be that of the memory.
TINY = (
    "get,ml-model,resnet50,raw,_tiny",
    "get,preprocessed,dataset,imagenet,image-classification,_tiny",
)
PATHS = (
    ("onnxruntime", "float32"),
    ("onnxruntime", "int8"),
    ("openvino", "float32"),
    ("openvino", "bfloat16"),
    ("openvino", "int8"),
    ("pytorch", "float32"),
    ("pytorch", "bfloat16"),
)


@dataclass(frozen=True, slots=True)
class Ours:
    """One LoadGen run: samples/s or ms, and the most memory its process had."""

    value: float
    queries_per_s: float
    memory_bytes: int


# ---------------------------------------------------------------- models and samples


def case_of(args: argparse.Namespace) -> Case:
    """The model and the samples that were named, or those that the scripts make."""
    if args.facts:
        facts, dataset = Path(args.facts).resolve(), str(Path(args.dataset).resolve())
    else:
        facts, dataset = by_scripts(*synthetic_tags(args.model))
    case = Case(args.model, described(facts), dataset, args.backend, args.precision, args.samples)
    return with_weights(case)


def with_weights(case: Case) -> Case:
    """The case with the model file of its precision: int8 needs one of its own."""
    if case.precision != "int8" or case.model.precision == "int8":
        return case
    return replace(case, model=quantized(case))


def synthetic_tags(benchmark: str) -> tuple[str, str]:
    """Tags of the model and of the samples, as app-mlperf-inference asks for them."""
    variations = yaml.safe_load(META.read_text(encoding="utf-8"))["variations"]
    names = (*variations[benchmark].get("base", ()), benchmark)
    deps = [dep for name in names for dep in variations[name].get("deps", ())]
    by_name = {name: dep["tags"] for dep in deps for name in dep.get("names", ())}
    return f"{by_name['ml-model']},_synthetic", f"{by_name['dataset-preprocessed']},_synthetic"


def by_scripts(model_tags: str, dataset_tags: str) -> tuple[Path, str]:
    """model.json and the samples that our scripts of these tags give back."""
    return facts_of(model_tags), made(dataset_tags)["CM_DATASET_PREPROCESSED_PATH"]


def facts_of(model_tags: str) -> Path:
    """model.json of the model that our script of these tags gives back."""
    return Path(made(model_tags)["CM_ML_MODEL_FACTS_FILE_WITH_PATH"])


def described(facts: Path) -> ModelSpec:
    """The model that a model.json describes."""
    told = json.loads(facts.read_text(encoding="utf-8"))
    keys = ("name", "sha256", "precision", "inputs", "outputs", "accuracy")
    spec = {key: told[key] for key in keys}
    spec["options"] = told.get("options", {})
    spec["path"] = str(facts.parent / told["file"])
    model: ModelSpec = records.decode(ModelSpec, spec)
    return model


def made(tags: str) -> dict[str, str]:
    """What a script of ours gives back; it is made, or taken from the cache."""
    cm = Path(sys.executable).with_name("cm")
    words = [str(cm), "run", "script", f"--tags={tags}", "--quiet", "--out=json"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(words)} failed:\n{done.stderr}")
    env: dict[str, str] = json.loads(done.stdout)["new_env"]
    return env


# ---------------------------------------------------------------- our harness


def program(name: str, folder: Path, request: object) -> int:
    """Run a program of the harness; returns the most memory that it had, in bytes."""
    config, peak = folder / "run.json", folder / "peak"
    records.write(config, request)
    words = [sys.executable, "-m", "mlperf.harness", name, str(config)]
    with (folder / "console.txt").open("wb") as console:
        done = subprocess.run(
            [sys.executable, str(PEAK_MEMORY), str(peak), *words],
            stdin=subprocess.DEVNULL,
            stdout=console,
            stderr=subprocess.STDOUT,
            env=library_env(),
            cwd=folder,
            check=False,
        )
    if done.returncode:
        text = (folder / "console.txt").read_text(encoding="utf-8", errors="replace")
        sys.exit(f"mlperf.harness {name} failed:\n{text}")
    return int(peak.read_text(encoding="ascii"))


def calibrated(case: Case) -> SpeedProfile:
    """What our harness finds out about this machine by itself."""
    with tempfile.TemporaryDirectory() as folder:
        asked = ProbeRequest(
            case.benchmark,
            case.backend,
            "cpu",
            case.model,
            case.dataset,
            Overrides(),
            case.precision,
        )
        program("tune", Path(folder), asked)
        found: SpeedProfile = records.read(SpeedProfile, Path(folder) / "outcome.json")
        return found


def measure_ours(
    case: Case, scenario: Scenario, shape: WorkerShape, targets: Targets, seconds: float
) -> Ours:
    """One LoadGen run of at least ``seconds`` through the whole pipeline."""
    aim = replace(targets, min_duration_ms=int(1000 * seconds))
    log, taken = loadgen_run(case, scenario, shape, aim)
    offline = scenario == OFFLINE
    value = log.result(OFFLINE) if offline else log.latencies().get("90.00")
    return Ours(value or 0.0, log.number("result_qps_with_loadgen_overhead") or 0.0, taken)


def loadgen_run(
    case: Case,
    scenario: Scenario,
    shape: WorkerShape,
    targets: Targets,
    service_times: dict[str, float] | None = None,
) -> tuple[detail_log.DetailLog, int]:
    """LoadGen's log of one run through the whole pipeline, and its memory in bytes."""
    with tempfile.TemporaryDirectory() as folder:
        run = RunSettings(
            benchmark=case.benchmark,
            backend=case.backend,
            device="cpu",
            model=case.model,
            dataset=case.dataset,
            scenario=scenario,
            mode=PERFORMANCE,
            style="test",
            shape=shape,
            targets=targets,
            overrides=Overrides(performance_sample_count=case.samples, min_query_count=1),
            folder=folder,
            service_times=service_times or {},
            precision=case.precision,
        )
        taken = program("run", Path(folder), run)
        return detail_log.read(Path(folder) / "run_1" / "mlperf_log_detail.txt"), taken


def highest_server_rate(case: Case, found: SpeedProfile) -> search.RateSearchResult:
    """The search of find-performance."""
    limit_ms = 1000 * found.server_limit_s

    def attempt(qps: float, purpose: str) -> search.RateTrial:
        shortest_ms = find.first_try_ms(qps, limit_ms, search.THOROUGH)
        aim = Targets(qps=qps, min_duration_ms=shortest_ms * search.THOROUGH.longer[purpose])
        began = time.monotonic()
        log, _ = loadgen_run(case, SERVER, found.server.shape, aim, found.service_times)
        return find.judge(log, qps, purpose, time.monotonic() - began)

    start = found.server.samples_per_s
    return search.search(0.8 * start, attempt, least=start / 1000)


# ---------------------------------------------------------------- the table


Turn = tuple[Ours, float]


def middle(turns: Sequence[Turn]) -> Turn:
    """The turn, ours and theirs one after the other, whose ratio is the median of all."""
    return sorted(turns, key=lambda turn: turn[0].value / turn[1])[len(turns) // 2]


def offline_row(case: Case, found: SpeedProfile, repeat: int, seconds: float) -> tuple[Row, Ours]:
    """Our Offline throughput as a share of the roofline, in the middle turn."""
    shape = roofline_shape(case, min(seconds, 3.0))
    turns = []
    for _ in range(repeat):
        limit = measure_bare(case, shape, seconds, latency=False).value
        # LoadGen makes 1.1 times as many samples as this rate asks for.
        aim = Targets(qps=limit)
        turns.append((measure_ours(case, OFFLINE, found.offline.shape, aim, seconds), limit))
    ours, theirs = middle(turns)
    row = Row(
        "Offline",
        f"{ours.value:.4g}/s {text_of(found.offline.shape)}",
        f"{theirs:.4g}/s {text_of(shape)}",
        ours.value / theirs,
        OFFLINE_SHARE,
        higher_is_better=True,
    )
    return row, replace(ours, memory_bytes=max(each.memory_bytes for each, _ in turns))


def stream_row(case: Case, found: SpeedProfile, repeat: int, seconds: float) -> Row:
    """SingleStream p90 over the p90 of the bare call."""
    shape = found.streams[SINGLE_STREAM].shape
    turns = []
    for _ in range(repeat):
        limit = measure_bare(case, shape, seconds, latency=True).value
        aim = Targets(latency_ms=limit * 0.9)
        turns.append((measure_ours(case, SINGLE_STREAM, shape, aim, seconds), limit))
    ours, theirs = middle(turns)
    texts = (f"{ours.value:.4g} ms", f"{theirs:.4g} ms")
    ratio = ours.value / theirs
    return Row("SingleStream p90", *texts, ratio, STREAM_OVER, higher_is_better=False)


def server_rows(case: Case, found: SpeedProfile, offline: float, name: str) -> Iterator[Row]:
    """The highest rate in time as a share of Offline, and of what a queue of these calls keeps."""
    limit_ms = 1000 * found.server_limit_s
    call_ms = 1000 * found.streams[SINGLE_STREAM].median_s
    if targets.hopeless(found, SERVER):
        texts = (f"limit {limit_ms:g} ms", f"a call {1000 * found.server.batch_s:.3g} ms")
        yield Row(name, *texts, None, SERVER_SHARE, higher_is_better=True)
        return
    rate_found = highest_server_rate(case, found).qps or 0.0
    told = f"{rate_found:.4g}/s in {limit_ms:g} ms" if rate_found else "no rate in time"
    against = f"{offline:.4g}/s, a call {call_ms:.3g} ms"
    yield Row(name, told, against, rate_found / offline, SERVER_SHARE, higher_is_better=True)
    calls = {int(size): seconds for size, seconds in found.service_times.items()}
    possible = queue_limit.highest_rate(calls, found.server.shape.workers, found.server_limit_s)
    if possible:
        share = rate_found / possible
        yield Row("  of a queue's limit", told, f"{possible:.4g}/s", share, SERVER_SHARE, True)


def light_server_rows(case: Case, repeat: int, seconds: float) -> Iterator[Row]:
    """The same of a ResNet-50 whose calls are short beside the limit."""
    light = replace(case, model=described(facts_of(LIGHT)), precision="float32")
    found = calibrated(light)
    aim = Targets(qps=found.offline.samples_per_s)
    offline = statistics.median(
        measure_ours(light, OFFLINE, found.offline.shape, aim, seconds).value for _ in range(repeat)
    )
    yield from server_rows(light, found, offline, "Server, light ResNet-50")


def reference_row(case: Case, checkout: Path, ours: Ours, repeat: int, seconds: float) -> Row:
    """Our Offline throughput over that of the reference implementation, with its defaults."""
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        images = work / "images"
        images.mkdir()
        reference_harness.fake_imagenet(images, case.samples)
        path = Path(case.model.path)
        try:
            rates = [
                reference_harness.offline_rate(checkout, path, images, work, ours.value, seconds)
                for _ in range(repeat)
            ]
        except reference_harness.NotRunnableError as problem:
            sys.exit(f"the reference implementation does not run here: {problem}")
    theirs = statistics.median(rates)
    texts = (f"{ours.value:.4g}/s", f"{theirs:.4g}/s reference")
    return Row("Offline, reference", *texts, ours.value / theirs, 1.0, higher_is_better=True)


def peer_rows(case: Case, repeat: int, seconds: float) -> Iterator[Row]:
    """Our Offline throughput as a share of the best that ``benchmark_app`` finds, turn by turn."""
    tuned = calibrated(case)
    with tempfile.TemporaryDirectory() as folder:
        peer = benchmark_app.Peer(Path(case.model.path), case.precision, Path(folder))
        try:
            way = best_way(case, peer, min(seconds, 4.0))
            aim = Targets(qps=tuned.offline.samples_per_s)
            turns = [
                (
                    measure_ours(case, OFFLINE, tuned.offline.shape, aim, seconds),
                    peer.rate(way, seconds),
                )
                for _ in range(repeat)
            ]
        except benchmark_app.NotRunnableError as problem:
            sys.exit(f"benchmark_app does not run here: {problem}")
    ours, theirs = middle(turns)
    texts = (f"{ours.value:.4g}/s {text_of(tuned.offline.shape)}", f"{theirs:.4g}/s {way.label}")
    yield Row("Offline", *texts, ours.value / theirs, OFFLINE_SHARE, higher_is_better=True)


def best_way(case: Case, peer: benchmark_app.Peer, seconds: float) -> benchmark_app.Way:
    """The fastest of its batch sizes and options on the samples of the case."""
    benchmark = benchmarks.create(case.benchmark, Path(case.dataset), case.model)
    benchmark.load(range(case.samples))
    ways: list[tuple[float, benchmark_app.Way]] = []
    for size in batch_sizes(Overrides(batch_size=min(32, case.samples)), 32):
        feeds = batches_of(benchmark, case.model, case.samples, size)
        ways += [(peer.rate(way, seconds), way) for way in peer.prepare(feeds, size)]
    return max(ways, key=lambda pair: pair[0])[1]


def null_rows(repeat: int) -> Iterator[Row]:
    """The whole pipeline with a model that computes nothing, on samples that cost no copying.

    Its latency is what we add to a call, free of the scatter of a model's own time.
    """
    facts, dataset = by_scripts(*TINY)
    nothing = Case("resnet50", described(facts), dataset, "null", "float32", 540)
    cores = min(2, host.usable_cores())
    wide, one = WorkerShape(cores, 1, 1024), WorkerShape(1, 1, 1)
    offline = [
        measure_ours(nothing, OFFLINE, wide, Targets(qps=1_500_000), 1.0).value
        for _ in range(repeat)
    ]
    stream = [
        measure_ours(nothing, SINGLE_STREAM, one, Targets(latency_ms=0.005), 1.0)
        for _ in range(repeat)
    ]
    for name, rates, least in (
        ("null Offline", offline, NULL_OFFLINE),
        ("null SingleStream", [run.queries_per_s for run in stream], NULL_STREAM),
    ):
        rate = statistics.median(rates)
        texts = (f"{rate:,.0f}/s", f"{least:,}/s")
        yield Row(name, *texts, rate / least, 1.0, higher_is_better=True)
    added = 1000 * statistics.median(run.value for run in stream)
    yield Row("  p90, us added", f"{added:.3g} us", "", added, STREAM_OVER_US, False)


def memory_row(case: Case, run: Ours) -> Row:
    """Memory beyond the model's file and the loaded samples."""
    needed = case.model.stored_bytes() + loaded_bytes(case)
    over = (run.memory_bytes - needed) / 1e6
    return Row(
        "Offline memory, MB beyond",
        f"{run.memory_bytes / 1e6:.0f} MB",
        f"{needed / 1e6:.0f} MB of model and samples",
        over,
        MEMORY_MB,
        higher_is_better=False,
    )


def loaded_bytes(case: Case) -> int:
    """The arrays that the benchmark makes when it loads the samples of a run."""
    benchmark = benchmarks.create(case.benchmark, Path(case.dataset), case.model)
    tracemalloc.start()
    try:
        benchmark.load(range(min(case.samples, benchmark.sample_count)))
        arrays = [tracemalloc.DomainFilter(inclusive=True, domain=np.lib.tracemalloc_domain)]
        return sum(each.size for each in tracemalloc.take_snapshot().filter_traces(arrays).traces)
    finally:
        tracemalloc.stop()


def text_of(shape: WorkerShape) -> str:
    """A shape in a few characters: workers x threads, batch."""
    return f"({shape.workers}x{shape.threads}, b{shape.batch})"


def rows(case: Case, args: argparse.Namespace) -> Iterator[Row]:
    """Everything that was asked for, each row when it is measured."""
    if args.peer:
        yield from peer_rows(case, args.repeat, args.seconds)
        return
    tuned = calibrated(case)
    first, run = offline_row(case, tuned, args.repeat, args.seconds)
    yield first
    yield memory_row(case, run)
    yield stream_row(case, tuned, args.repeat, args.seconds)
    yield from null_rows(args.repeat)
    if args.reference:
        checkout = Path(args.reference).resolve()
        yield reference_row(case, checkout, run, args.repeat, args.seconds)
    if args.server:
        yield from server_rows(case, tuned, run.value, "Server")
        if case.benchmark == "resnet50":
            yield from light_server_rows(case, args.repeat, args.seconds)


def shown(found: Iterator[Row]) -> Iterator[Row]:
    """Print each row of the table as it comes."""
    print(f"\n{'':26}{'ours':>22}  {'against':>26}{'ratio':>9}{'limit':>8}")
    for row in found:
        print(f"{row.name:26}{row.ours:>22}  {row.against:>26}{row.verdict}", flush=True)
        yield row


def paths(
    case: Case, named: list[str], repeat: int, seconds: float
) -> list[dict[str, str | float]]:
    """Offline and SingleStream of every way that works here, turn by turn; the first is 1."""
    ways = list(usable(case, [tuple(one.split(":")) for one in named] or PATHS))
    turns = [[measure_both(one, tuned, seconds) for one, tuned in ways] for _ in range(repeat)]
    found: list[dict[str, str | float]] = []
    print(f"\n{'backend':13}{'precision':11}{'Offline':>12}{'times':>7}{'p90':>13}{'times':>7}")
    for number, (one, _) in enumerate(ways):
        offline, p90 = (statistics.median(turn[number][kind] for turn in turns) for kind in (0, 1))
        faster = statistics.median(turn[number][0] / turn[0][0] for turn in turns)
        sooner = statistics.median(turn[0][1] / turn[number][1] for turn in turns)
        figures = f"{offline:10.4g}/s{faster:7.2f}{p90:10.4g} ms{sooner:7.2f}"
        print(f"{one.backend:13}{one.precision:11}{figures}", flush=True)
        way = {"backend": one.backend, "precision": one.precision}
        found.append({**way, "offline": offline, "p90_ms": p90, "times": faster})
    print("figures: median of all turns; times: median of the ratios to the first way in each turn")
    return found


def usable(case: Case, ways: Iterable[tuple[str, ...]]) -> Iterator[tuple[Case, SpeedProfile]]:
    """The ways that work here, each with its layout; those that do not are told."""
    for backend, precision in ways:
        one = with_weights(replace(case, backend=backend, precision=precision))
        try:
            yield one, calibrated(one)
        except SystemExit as problem:
            print(f"{backend:13}{precision:11}  {str(problem).strip().splitlines()[-1][:60]}")


def measure_both(case: Case, tuned: SpeedProfile, seconds: float) -> tuple[float, float]:
    """Offline samples/s and the p90 of SingleStream in ms, one run each."""
    best, stream = tuned.offline, tuned.streams[SINGLE_STREAM]
    aim = Targets(qps=best.samples_per_s)
    offline = measure_ours(case, OFFLINE, best.shape, aim, seconds).value
    hint = Targets(latency_ms=stream.median_s * 900)
    return offline, measure_ours(case, SINGLE_STREAM, stream.shape, hint, seconds).value


def quantized(case: Case) -> ModelSpec:
    """The model in int8, calibrated on the first samples; made once for a model file."""
    modules = sorted((ROOT / "lib/mlperf/harness").rglob("*.py"))
    programs = b"".join(path.read_bytes() for path in modules)
    key = hashlib.sha256(programs + case.model.sha256.encode()).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"cmbench-int8-{key}"
    facts = folder / "model.json"
    if not facts.exists():
        folder.mkdir(exist_ok=True)
        source = {**records.encode(case.model), "file": Path(case.model.path).name}
        (folder / Path(case.model.path).name).unlink(missing_ok=True)
        (folder / Path(case.model.path).name).symlink_to(case.model.path)
        (folder / "float.json").write_text(json.dumps(source), encoding="utf-8")
        asked = {
            "benchmark": case.benchmark,
            "facts": str(folder / "float.json"),
            "dataset": case.dataset,
            "samples": min(32, case.samples),
            "folder": str(folder),
        }
        (folder / "run.json").write_text(json.dumps(asked), encoding="utf-8")
        words = [sys.executable, "-m", "mlperf.harness.quantization", str(folder / "run.json")]
        subprocess.run(words, env=library_env(), check=True)
    written = json.loads(facts.read_text(encoding="utf-8"))
    return replace(
        case.model,
        path=str(folder / written["file"]),
        sha256=written["sha256"],
        precision="int8",
    )


def main() -> int:
    """Parse, measure, print; 1 with --check when a limit is not kept."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=sorted(BENCHMARKS), default="resnet50")
    parser.add_argument("--facts", help="model.json of another model of that benchmark")
    parser.add_argument("--dataset", help="its preprocessed data set, with --facts")
    parser.add_argument("--backend", default="onnxruntime")
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--samples", type=int, default=128, help="samples kept loaded")
    parser.add_argument("--repeat", type=int, default=5, help="turns; the median counts")
    parser.add_argument("--seconds", type=float, default=10.0, help="length of each measurement")
    parser.add_argument(
        "--paths",
        nargs="*",
        choices=[":".join(way) for way in PATHS],
        metavar="BACKEND:PRECISION",
        help="these ways beside each other, or all of them",
    )
    parser.add_argument("--server", action="store_true", help="search the highest Server rate too")
    parser.add_argument("--reference", help="a checkout of mlcommons/inference (resnet50 only)")
    parser.add_argument(
        "--peer",
        choices=["benchmark_app"],
        help="Offline beside the best of OpenVINO's own program, and nothing else",
    )
    parser.add_argument("--json", help="file for the figures")
    parser.add_argument("--check", action="store_true", help="fail when a limit is not kept")
    args = parser.parse_args()
    if args.peer:
        args.backend = "openvino"
    case = case_of(args)
    print(f"{case.model.name} on {host.usable_cores()} cores, {platform.machine()}", end=", ")
    print(f"load before: {', '.join(f'{one:.2f}' for one in os.getloadavg())}", flush=True)
    if args.paths is not None:
        report: Any = paths(case, args.paths, args.repeat, args.seconds)
        good = True
    else:
        table = list(shown(rows(case, args)))
        report, good = [asdict(row) for row in table], all(row.good for row in table)
    print(f"load after: {', '.join(f'{one:.2f}' for one in os.getloadavg())}")
    if args.json:
        Path(args.json).write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return 0 if good or not args.check else 1


if __name__ == "__main__":
    sys.exit(main())
