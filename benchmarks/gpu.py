"""What a GPU does with the benchmarks here, beside the bare loop: ``python benchmarks/gpu.py``.

One command for whoever has an NVIDIA GPU for some minutes. It detects the machine, measures
ResNet-50 and BERT-large with synthetic weights in float16 through the harness, beside the module of
the library at its best (compiled, convolutions in channels_last, attention by SDPA, CUDA graphs),
and then runs every tiny benchmark. A line is printed as soon as it is known. After ``--limit``
seconds it stops; a table, ``gpu.json`` and ``gpu.svg`` are in ``--out``. It uses a CM home of its
own there, so it waits for no other benchmark; ``--home`` names one that has models and packages.

``--python`` names a Python with PyTorch for CUDA, ``--find_links`` a folder of wheels to install
from instead of the network. Without a GPU it says what it would do and ends with 0.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LIMIT_S = 350
# No step begins that has less time than this, and none has more.
LEAST_S, MOST_S = 8.0, 120.0
# A measurement of the bare loop takes so many seconds, in so many parts of which the best counts.
BARE_S, PARTS = 1.5, 3
BATCHES = (64, 256)
TINY = (
    *("resnet50", "gptj-99", "bert-99", "rnnt", "retinanet", "ssd-mobilenet", "ssd-resnet34"),
    *("3d-unet-99", "3d-unet-brats-99", "dlrm-99", "dlrm-v2-99"),
)
NO_STREAM = ("dlrm-99", "dlrm-v2-99")
DETECTION = {
    "driver": "get,nvidia,driver",
    "toolkit": "get,cuda",
    "devices": "get,cuda-devices",
}


@dataclass(frozen=True)
class Step:
    """One line of the table: a command, and what is measured by it; ``unit`` is of its value."""

    name: str
    scenario: str
    words: tuple[str, ...]
    unit: str = ""
    bare: bool = False


@dataclass(frozen=True)
class Line:
    """The outcome of a step: ``share`` is that of the bare loop, in percent."""

    name: str
    scenario: str
    state: str
    value: float | None = None
    unit: str = ""
    seconds: float = 0.0
    note: str = ""
    share: float | None = None


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure; 0 where every step that was begun has a figure, or there is no GPU."""
    options = _options(arguments)
    if options.bare:
        print(json.dumps(bare(options.bare, options.scenario)))
        return 0
    plan = list(steps(options.python))
    if not has_gpu():
        print("not run: no GPU. With one, this would be done, in this order:")
        for step in plan:
            print(f"  {step.name} {step.scenario}: {' '.join(step.words)}".replace(" :", ":"))
        return 0
    options.out.mkdir(parents=True, exist_ok=True)
    lines = measured(plan, options)
    return 0 if all(line.state in ("ok", "not run") for line in lines) else 1


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--python", help="a Python with PyTorch for CUDA; else one is installed")
    parser.add_argument("--find_links", type=Path, help="install from this folder, not the network")
    parser.add_argument("--out", type=Path, default=Path.cwd() / "gpu-results", help="results")
    parser.add_argument("--home", type=Path, help="a CM home; by default a new one in --out")
    parser.add_argument("--limit", type=float, default=LIMIT_S, help="seconds in all")
    # The bare loop, in a Python that has PyTorch.
    parser.add_argument("--bare", choices=("resnet50", "bert-99"), help=argparse.SUPPRESS)
    parser.add_argument("--scenario", default="Offline", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def has_gpu() -> bool:
    """Return whether the kernel has a device of an NVIDIA GPU."""
    return bool(list(Path("/dev").glob("nvidia[0-9]*"))) or Path("/dev/dxg").exists()


def steps(python: str | None) -> Iterator[Step]:
    """Yield all steps, the most telling first."""
    for name, tags in DETECTION.items():
        yield Step(name, "", ("run", "script", f"--tags={tags}", "--out=json"))
    for model in ("resnet50", "bert-99"):
        for scenario in ("Offline", "SingleStream"):
            yield _run(model, "_synthetic", scenario, python, "float16", min_duration=3000)
            yield Step(model, scenario, ("--bare", model, "--scenario", scenario), bare=True)
    for model in TINY:
        for scenario in ("Offline", "SingleStream"):
            if scenario == "Offline" or model not in NO_STREAM:
                mode = "all" if scenario == "Offline" else "performance"
                yield _run(model, "_tiny", scenario, python, "float32", 1000, mode)


def _run(
    model: str,
    form: str,
    scenario: str,
    python: str | None,
    precision: str,
    min_duration: int,
    mode: str = "performance",
) -> Step:
    words = [
        "run",
        "script",
        f"--tags=run-mlperf,inference,{form}",
        f"--model={model}",
        "--backend=pytorch",
        "--device=cuda",
        f"--precision={precision}",
        f"--scenario={scenario}",
        f"--mode={mode}",
        f"--min_duration={min_duration}",
        "--max_wait=0",
        "--max_attempts=2",
        "--register=no",
        "--quiet",
    ]
    if python:
        words.append(f"--python={python}")
    unit = "samples/s" if scenario == "Offline" else "ms"
    return Step(f"{model}{form}", scenario, tuple(words), unit)


def measured(plan: Sequence[Step], options: argparse.Namespace) -> list[Line]:
    """Do the steps one after the other while there is time; what is known is written at once."""
    end = time.monotonic() + options.limit
    environment = _environment(options)
    lines: list[Line] = []
    _registered(environment, end)
    for step in plan:
        left = end - time.monotonic()
        if left < LEAST_S:
            lines.append(Line(step.name, step.scenario, "not run", note="no time was left"))
        else:
            words = _words(step, options, environment)
            folder = results_of(step, options.out)
            lines.append(done(step, words, environment, min(left, MOST_S), folder))
        if step.bare and len(lines) > 1:
            lines[-2] = shared(lines[-2], lines[-1])
        print(in_words(lines[-1]), flush=True)
        _written(options.out, lines)
    print("\n".join(["", *map(in_words, lines), "", f"{options.out}/gpu.json, gpu.svg"]))
    return lines


def _environment(options: argparse.Namespace) -> dict[str, str]:
    from library_env import library_env

    environment = library_env()
    environment["CM_REPOS"] = str(options.home or options.out / "home")
    if options.find_links:
        environment |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(options.find_links.resolve())}
    return environment


def _registered(environment: dict[str, str], end: float) -> None:
    """Register this checkout in the home."""
    words = [sys.executable, "-m", "cmind", "init", "repo"]
    ended(words, environment, max(1.0, min(MOST_S, end - time.monotonic())))


def _words(step: Step, options: argparse.Namespace, environment: dict[str, str]) -> list[str]:
    if not step.bare:
        words = [sys.executable, "-m", "cmind", *step.words]
        if step.unit:
            folders = results_of(step, options.out), options.out / "targets"
            words += [f"--results_dir={folders[0]}", f"--sut_dir={folders[1]}"]
        return words
    python = options.python
    if not python:
        # The newest environment that the harness has made.
        found = Path(environment["CM_REPOS"]).rglob("venv/bin/python")
        python = str(max(found, key=lambda path: path.lstat().st_mtime, default=sys.executable))
    return [python, str(Path(__file__).resolve()), *step.words]


def ended(words: Sequence[str], environment: dict[str, str], seconds: float) -> tuple[int, str]:
    """Run a command for so long at most, and end all that it has started; its status and output."""
    process = subprocess.Popen(
        words,
        env=environment,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            output, _ = process.communicate(timeout=5)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
        return 124, output
    return process.returncode, output


def results_of(step: Step, out: Path) -> Path:
    """Return the folder of the results of a benchmark."""
    return out.resolve() / "results" / step.name


def done(
    step: Step, words: Sequence[str], environment: dict[str, str], seconds: float, folder: Path
) -> Line:
    """Return the line of a step that is done now."""
    began = time.monotonic()
    status, output = ended(words, environment, seconds)
    took = time.monotonic() - began
    line = Line(step.name, step.scenario, "ok", seconds=round(took, 1))
    if status == 124:
        return replace(line, state="stopped", note=f"after {took:.0f} s: {last(output)}")
    answer = parsed(output) if not step.unit else {}
    if step.bare:
        if status or "value" not in answer:
            return replace(line, name=f"{step.name} bare", state="failed", note=last(output))
        return replace(line, name=f"{step.name} bare", **answer)
    if not step.unit:
        return replace(line, state="failed" if status else "ok", note=detected(answer, output))
    value, note = figure(folder, step.scenario)
    if value is None or status:
        note = f"{note} {last(output)}".strip()
    state = "failed" if value is None or status else "ok"
    return replace(line, state=state, value=value, unit=step.unit, note=note)


def parsed(output: str) -> dict[str, Any]:
    """Return the JSON object that a command has printed, with or without lines before it."""
    starts = [0, *(place + 1 for place, sign in enumerate(output) if sign == "\n")]
    for start in starts:
        if output[start : start + 1] == "{":
            try:
                answer, _ = json.JSONDecoder().raw_decode(output[start:])
            except ValueError:
                continue
            return answer if isinstance(answer, dict) else {}
    return {}


def figure(folder: Path, scenario: str) -> tuple[float | None, str]:
    """Return the value of a scenario in the results of ``folder``, and how it was computed."""
    files = sorted(folder.rglob("results.json"), key=lambda path: path.stat().st_mtime)
    if not files:
        return None, ""
    document = json.loads(files[-1].read_text(encoding="utf-8"))
    for result in document["results"]:
        run = result.get("performance_run")
        if result["scenario"] == scenario and run:
            how = run["circumstances"].get("computed_by", {})
            notes = [result.get("validity") or "", *map(": ".join, how.items())]
            return result["value"], ", ".join(filter(None, notes))
    return None, ""


def detected(answer: dict[str, Any], output: str) -> str:
    """Return a few of the values that a detection gave, or the last line that it printed."""
    env = answer.get("new_env") or answer.get("env") or {}
    words = [f"{key}={value}" for key, value in env.items() if isinstance(value, str)]
    return ", ".join(word for word in words if len(word) < 60)[:200] or last(output)


def last(output: str) -> str:
    """Return the last line that says something."""
    lines = [line.strip() for line in output.splitlines() if line.strip() not in ("", "{", "}")]
    return lines[-1][:200] if lines else "it printed nothing"


def shared(line: Line, other: Line) -> Line:
    """Return the line of the harness with its share of the bare loop's speed."""
    if not line.value or not other.value:
        return line
    share = line.value / other.value if line.unit == "samples/s" else other.value / line.value
    return replace(line, share=round(100 * share, 1))


def in_words(line: Line) -> str:
    """Return a line of the table."""
    value = "" if line.value is None else f"{line.value:,.2f} {line.unit}"
    share = "" if line.share is None else f"{line.share:.1f} % of bare"
    name = f"{line.name} {line.scenario}".strip()
    return f"{name:<34} {line.state:<8} {value:>20} {share:>16} {line.seconds:6.1f} s  {line.note}"


def _written(out: Path, lines: Sequence[Line]) -> None:
    document = {"lines": [asdict(line) for line in lines]}
    (out / "gpu.json").write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    (out / "gpu.svg").write_text(picture(lines), encoding="utf-8")


def picture(lines: Sequence[Line]) -> str:
    """Return bars of all lines with a share: the harness as a part of the bare loop."""
    rows = [line for line in lines if line.share is not None]
    height = 30 * len(rows) + 40
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="640" height="{height}" '
            'font-family="sans-serif" font-size="13">'
        ),
        '<text x="10" y="20">Share of the bare loop of the library (100 % is the line)</text>',
        f'<line x1="500" y1="28" x2="500" y2="{height}" stroke="#888"/>',
    ]
    for number, line in enumerate(rows):
        top = 35 + 30 * number
        width = min(340.0, 2.8 * (line.share or 0.0))
        parts.append(f'<text x="10" y="{top + 15}">{line.name} {line.scenario}</text>')
        parts.append(f'<rect x="220" y="{top}" width="{width:.0f}" height="20" fill="#4a78b5"/>')
        parts.append(f'<text x="{225 + width:.0f}" y="{top + 15}">{line.share:.0f} %</text>')
    return "\n".join([*parts, "</svg>", ""])


# The bare loop, in a process of its own: nothing of the harness is imported.


def bare(model: str, scenario: str) -> dict[str, Any]:
    """Return the value, unit and note of the library's module with nothing around it."""
    import torch

    network, inputs = resnet50() if model == "resnet50" else bert()
    sizes = BATCHES if scenario == "Offline" else (1,)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    network = network.eval().to(device)
    figures = {}
    for size in sizes:
        for kind, call in calls(network, inputs(size, device), device):
            figures[f"{kind}, batch {size}"] = seconds_of(call, device) / size
    best = min(figures, key=lambda name: figures[name])
    if scenario == "Offline":
        return {"value": 1 / figures[best], "unit": "samples/s", "note": best}
    return {"value": 1e3 * figures[best], "unit": "ms", "note": best}


def resnet50() -> tuple[Any, Callable[..., Any]]:
    """Return torchvision's module in float16 and channels_last, and its batches."""
    import torch
    import torchvision

    network = torchvision.models.resnet50(weights=None, num_classes=1001)
    network = network.half().to(memory_format=torch.channels_last)

    def inputs(size: int, device: str) -> tuple[Any, ...]:
        images = torch.randn(size, 3, 224, 224, device=device, dtype=torch.float16)
        return (images.to(memory_format=torch.channels_last),)

    return network, inputs


def bert() -> tuple[Any, Callable[..., Any]]:
    """Return transformers' module in float16 with SDPA, and batches of the harness's mean length.

    The harness sorts 1024 texts of 178 tokens in the mean by their lengths.
    """
    import torch
    import transformers

    config = transformers.BertConfig(
        hidden_size=1024,
        num_hidden_layers=24,
        num_attention_heads=16,
        intermediate_size=4096,
        attn_implementation="sdpa",
    )
    network = transformers.BertForQuestionAnswering(config).half()

    def inputs(size: int, device: str) -> tuple[Any, ...]:
        ids = torch.randint(1000, 30000, (size, 184), device=device)
        return ids, torch.ones_like(ids), torch.zeros_like(ids)

    return network, inputs


def calls(network: Any, inputs: Sequence[Any], device: str) -> Iterator[tuple[str, Any]]:
    """Yield the ways to compute a batch: plain, compiled, and both as CUDA graphs."""
    import torch

    ways = {"eager": network}
    if device == "cuda":
        ways["compiled"] = torch.compile(network)
    for name, way in ways.items():
        call = caller(way, inputs)
        try:
            call()
            yield name, call
            if device == "cuda":
                yield f"{name}, graph", captured(call)
        except Exception as error:  # a compiler that fails leaves the other ways
            print(f"{name}: {error}"[:200], file=sys.stderr)


def caller(way: Any, inputs: Sequence[Any]) -> Callable[[], Any]:
    """Return a call of a module with these inputs."""
    import torch

    def call() -> Any:
        with torch.inference_mode():
            return way(*inputs)

    return call


def captured(call: Callable[[], Any]) -> Callable[[], None]:
    """Return the launch of a graph of what ``call`` computes."""
    import torch

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        call()
    launch: Callable[[], None] = graph.replay
    return launch


def seconds_of(call: Callable[[], Any], device: str) -> float:
    """Return the seconds of a call: the best mean of several parts."""
    import torch

    def wait() -> None:
        if device == "cuda":
            torch.cuda.synchronize()

    call()
    wait()
    means = []
    for _ in range(PARTS):
        began, count = time.perf_counter(), 0
        while time.perf_counter() - began < BARE_S / PARTS:
            call()
            wait()
            count += 1
        means.append((time.perf_counter() - began) / count)
    return statistics.fmean(sorted(means)[:1])


if __name__ == "__main__":
    sys.exit(main())
