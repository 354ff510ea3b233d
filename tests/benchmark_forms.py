"""The tiny forms of all but image classification for tests: data, models, short runs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

import benchmark_lab as lab
from shared_files import make_once
from support import LIB, run

SCRIPT = lab.SCRIPT


def _program(path: str, *words: object) -> None:
    run([sys.executable, str(LIB / path), *map(str, words)]).ok()


def _made(name: str, path: str, *words: object) -> Path:
    """The folder ``name`` of shared files, as a program writes it."""
    return make_once(name, lambda out: _program(path, *words, "--out", out))


def of_other_sides(model: Any, shape: tuple[int, ...]) -> list[Any]:
    """What a graph of one input says of noise of ``shape``, whatever sizes it states."""
    for tensor in (*model.graph.input, *model.graph.output):
        tensor.type.tensor_type.ClearField("shape")
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    noise = np.random.default_rng(1).standard_normal(shape, dtype=np.float32)
    found: list[Any] = session.run(None, {model.graph.input[0].name: noise})
    return found


def clicks_day(part: str = "validation") -> Path:
    """The tiny day of clicks as its script writes it."""
    return _clicks_day(part)


@cache
def _clicks_day(part: str) -> Path:
    return _made(f"clicks-{part}", "modelzoo/datasets/criteo/make_dataset.py", "--part", part)


@cache
def clicks(version: str, part: str = "validation") -> Path:
    """The preprocessed arrays of DLRM ``v1`` or ``v2``."""
    customize = lab.module_of(SCRIPT / "get-preprocessed-dataset-criteo" / "customize.py")
    day = clicks_day(part)
    rows = json.loads((day / "dataset.json").read_text(encoding="utf-8"))["rows"]
    words: list[object] = ["--day", day / "day_23", "--rows", ",".join(map(str, rows))]
    words += ["--hot", customize.ONE_HOT if version == "v1" else customize.TINY_HOT]
    if part == "calibration":
        words += ["--group-size", customize.TINY_GROUP]
    program = "modelzoo/preprocessing/criteo/preprocess.py"
    return _made(f"clicks-{version}-{part}", program, *words, "--name", "criteo-tiny")


VOCABULARY = SCRIPT / "get-dataset-squad-vocab" / "tiny" / "vocab.txt"


@cache
def questions() -> Path:
    """The tiny SQuAD as its script writes it."""
    return _made("questions", "modelzoo/datasets/squad/make_facts.py")


@cache
def features(part: str = "dev") -> Path:
    """The features of the tiny SQuAD, each once."""
    words = ["--questions", questions() / f"{part}-v1.1.json", "--vocab", VOCABULARY]
    words += ["--name", "squad-tiny"]
    return _made(f"features-{part}", "modelzoo/preprocessing/squad/preprocess.py", *words)


def model(folder: Path) -> dict[str, Any]:
    """A shipped model with all its graphs as the harness's settings describe it."""
    facts = json.loads((folder / "model.json").read_text(encoding="utf-8"))
    keys = ("name", "sha256", "precision", "inputs", "outputs", "accuracy")
    parts = [
        {
            **{key: part[key] for key in ("name", "sha256", "inputs", "outputs")},
            "path": str(folder / part["file"]),
        }
        for part in facts.get("parts", [])
    ]
    return {
        **{key: facts[key] for key in keys},
        "path": str(folder / facts["file"]),
        "options": facts.get("options", {}),
        "parts": parts,
    }


def settings(
    results: Path, benchmark: str, folder: Path, data: Path, *scenarios: str, **changes: Any
) -> dict[str, Any]:
    """Session settings for runs of a third of a second."""
    return lab.settings(
        results,
        benchmark=benchmark,
        model=model(folder),
        dataset=str(data),
        scenarios=list(scenarios),
        **changes,
    )


def answers(benchmark: Any, solver: Any, batch: int) -> list[bytes]:
    """What a solver answers for every sample of a benchmark, as LoadGen would log it."""
    everything = np.arange(benchmark.sample_count)
    benchmark.load(everything.tolist())
    found: list[bytes] = []
    for begin in range(0, len(everything), batch):
        part = everything[begin : begin + batch]
        results = benchmark.result.rows(len(part))
        sizes = np.full(len(part), benchmark.result.row_bytes, dtype=np.int64)
        solver.solve(part, results, sizes)
        found += [row.tobytes()[:size] for row, size in zip(results, sizes, strict=True)]
    return found


@cache
def speech() -> Path:
    """The utterances spelled in tones, as their script lays them out."""
    return _made("speech", "modelzoo/datasets/librispeech/make_dataset.py")


@cache
def speech_arrays() -> Path:
    """The preprocessed utterances, not repeated."""
    part = speech() / "LibriSpeech" / "dev-clean"
    program = "modelzoo/preprocessing/librispeech/preprocess.py"
    return _made("speech-arrays", program, "--part", part, "--name", "tones-tiny")


def articles(count: int = 400) -> Path:
    """The made-up news as prompts; only all 400 are repeated to the rules' number."""
    return _articles(count)


@cache
def _articles(count: int) -> Path:
    words = ("--tiny", "--count", count)
    return _made(f"articles-{count}", "modelzoo/datasets/cnndm/make_dataset.py", *words)


@cache
def llama3_articles(count: int = 400) -> Path:
    """The made-up news as prompts of the tiny Llama."""
    words = ("--tiny", "--count", count)
    return _made(f"llama3-articles-{count}", "modelzoo/datasets/cnndm/make_llama3.py", *words)


@cache
def calibration_articles() -> Path:
    """The made-up news for calibration as prompts."""
    program = "modelzoo/datasets/cnndm/make_dataset.py"
    return _made("calibration-articles", program, "--tiny", "--calibration")


@cache
def shapes(part: str = "val") -> Path:
    """The pictures of coloured shapes as their script draws them."""
    return _made(f"shapes-{part}", "modelzoo/datasets/shapes/make_dataset.py", "--part", part)


DETECTOR_INPUTS = {"retinanet": "shares", "ssd-mobilenet": "bytes", "ssd-resnet34": "normalised"}


def pictures(detector: str, *words: object) -> Path:
    """The preprocessed shapes as a detector is fed them; ``words`` are options of the program."""
    return _pictures(DETECTOR_INPUTS[detector], words)


@cache
def _pictures(kind: str, words: tuple[object, ...]) -> Path:
    name = "pictures" + "".join(f"-{word}" for word in (kind, *words))
    root = shapes()
    given: list[object] = ["--annotations", root / "annotations" / "instances_val2017.json"]
    given += ["--images", root / "val2017", "--input", kind, "--side", 96]
    program = "modelzoo/preprocessing/openimages/preprocess.py"
    return _made(name, program, *given, "--name", "shapes-tiny", *words)


def kidneys(part: str = "validation") -> Path:
    """The made-up cases as their script lays them out."""
    return _kidneys(part)


@cache
def _kidneys(part: str) -> Path:
    words = ("--dataset", "kits19", "--part", part)
    return _made(f"kidneys-{part}", "modelzoo/volumes/made_cases.py", *words)


# Those of one window, which are quickly done.
SMALL_KIDNEYS = ("case_00000", "case_00002", "case_00010", "case_00029", "case_00040")


@cache
def kidney_volumes(*cases: str, part: str = "validation") -> Path:
    """The preprocessed cases: these, or all."""
    listed = (kidneys(part) / "cases.txt").read_text(encoding="utf-8").split()
    name = f"kidney-volumes-{part}-{len(cases)}"
    return _preprocessed(name, "kits19", kidneys(part), cases or listed, "32")


def _preprocessed(name: str, dataset: str, made: Path, cases: Sequence[str], window: str) -> Path:
    def write(out: Path) -> None:
        (out / "cases.txt").write_text("\n".join(cases), encoding="utf-8")
        words = ["--cases", made / "data", "--list", out / "cases.txt", "--window", window]
        names = ["--dataset", dataset, "--name", made.name]
        _program("modelzoo/volumes/preprocess.py", *names, *words, "--out", out)

    return make_once(name, write)


def brains(part: str = "validation") -> Path:
    """The made-up heads as their script lays them out."""
    return _brains(part)


@cache
def _brains(part: str) -> Path:
    words = ("--dataset", "brats", "--part", part)
    return _made(f"brains-{part}", "modelzoo/volumes/made_cases.py", *words)


@cache
def brain_volumes(count: int = 67, part: str = "validation") -> Path:
    """The preprocessed heads: the first ``count`` of them."""
    listed = (brains(part) / "cases.txt").read_text(encoding="utf-8").split()[:count]
    return _preprocessed(f"brain-volumes-{part}-{count}", "brats", brains(part), listed, "40,40,28")


def first(benchmark: Any, solver: Any, count: int) -> list[bytes]:
    """The answers to the first samples, one by one, as LoadGen would log them."""
    benchmark.load(list(range(count)))
    found = []
    for number in range(count):
        results, sizes = benchmark.result.rows(1), np.full(1, benchmark.result.row_bytes)
        solver.solve(np.asarray([number]), results, sizes)
        found.append(results[0].tobytes()[: sizes[0]])
    return found


# Every benchmark, but the same model with a "-99.9": the folder of its tiny model, its data, and
# how many samples to compare.
TINY: dict[str, tuple[str, Callable[[], Path], int]] = {
    "resnet50": ("get-ml-model-resnet50/tiny", lab.arrays, 100),
    "bert-99": ("get-ml-model-bert-large-squad/tiny", features, 100),
    "3d-unet-99": (
        "get-ml-model-3d-unet-kits19/tiny",
        lambda: kidney_volumes(*SMALL_KIDNEYS),
        2,
    ),
    "3d-unet-brats-99": (
        "get-ml-model-3d-unet-brats19/tiny", lambda: brain_volumes(2), 2,
    ),
    "dlrm-99": ("get-ml-model-dlrm-terabyte/tiny/v1", lambda: clicks("v1"), 20),
    "dlrm-v2-99": ("get-ml-model-dlrm-terabyte/tiny/v2", lambda: clicks("v2"), 20),
    "gptj-99": ("get-ml-model-gptj/tiny", lambda: articles(24), 5),
    "rnnt": ("get-ml-model-rnnt/tiny", speech_arrays, 10),
    "whisper": ("get-ml-model-whisper/tiny", speech_arrays, 10),
    "retinanet": ("get-ml-model-retinanet/tiny", lambda: pictures("retinanet"), 20),
    "ssd-mobilenet": (
        "get-ml-model-ssd-mobilenet/tiny", lambda: pictures("ssd-mobilenet"), 20,
    ),
    "ssd-resnet34": (
        "get-ml-model-ssd-resnet34/tiny", lambda: pictures("ssd-resnet34"), 20,
    ),
}  # fmt: skip
