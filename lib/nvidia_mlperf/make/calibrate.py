"""``calibrate``: ranges of values on the rules' lists, as a cache in TensorRT's text format."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from common.files import replace_text, sha256
from common.problems import Problem
from nvidia_mlperf.make.flow import STAND_IN, Flow
from nvidia_mlperf.make.work import PlannedRun, plan

FLOAT: Mapping[str, str] = {
    "rnnt": "nearly all of its work is in LSTM layers, which are not quantized here"
}
"""What has no int8 model, by NVIDIA's word, and why."""
NAME = "calibrator.cache"
MADE_BY = "by ONNX Runtime in place of TensorRT's calibrator"


def calibrate(flow: Flow) -> None:
    """A cache per benchmark of the line: its values do not depend on scenario or version.

    ``cache_file`` says where it goes, ``calib_batch_size`` times ``calib_max_batches`` from how
    many samples it is made. Raises Problem.
    """
    work = plan(flow)
    flow.report(work.lines())
    items = {item.config.benchmark: item for item in reversed(work.items)}
    _check(items, work.arguments.benchmarks)
    for word, item in reversed(items.items()):
        if word in FLOAT:
            flow.report([f"note: {word} stays float: {FLOAT[word]}"])
            continue
        source = calibration_cache(flow, item)
        place = put(flow, item, source)
        lines = source.read_text(encoding="utf-8").splitlines()
        form = "" if flow.settings.form == "full" else f", of the {flow.settings.form} form"
        scales = f"{len(lines) - 1} scales, {lines[0]}"
        flow.runner.show(f"{word}: {place}: {scales}, a {STAND_IN}: {MADE_BY}{form}")


def _check(items: Mapping[str, PlannedRun], named: tuple[str, ...]) -> None:
    """Raise Problem where nothing can be calibrated, or two caches would be one file."""
    if named and all(word in FLOAT for word in named):
        raise Problem("not-available", f"{named[0]} has no int8 model: {FLOAT[named[0]]}")
    ready = [item for item in items.values() if item.overrides.get("cache_file")]
    if len([word for word in items if word not in FLOAT]) > 1 and ready:
        text = "--cache_file is one file, and there are several benchmarks"
        raise Problem("bad-value", text, "add --benchmarks with one of them")


def calibration_cache(flow: Flow, item: PlannedRun) -> Path:
    """Return the cache of a benchmark, next to the int8 model calibrated with it.

    Raises Problem when the quantizer leaves none.
    """
    form = "" if flow.settings.form == "full" else f",_{flow.settings.form}"
    line = ["run", "script", f"--tags=generate,engine,nvidia,_{STAND_IN}{form}"]
    line += [f"--model={item.ours}", "--precision=int8"]
    overrides = item.overrides
    if "calib_max_batches" in overrides:
        batch = overrides.get("calib_batch_size", 1)
        line += [f"--samples={overrides['calib_max_batches'] * batch}"]
    line += ["--new"] if overrides.get("force_calibration") else []
    env = flow.runner.cm_json([*line, *flow.python(), "--quiet"])["env"]
    cache = Path(str(env.get("CM_QUANTIZE_CALIBRATION_CACHE") or ""))
    if not cache.is_file():
        raise Problem("script-failed", f"{item.ours} has no calibration cache", "its log is above")
    return cache


def put(flow: Flow, item: PlannedRun, source: Path) -> Path:
    """Put a cache where it is wanted, whole or not at all; the path as it is shown.

    What it is lies beside it, as beside an engine: its first line is that of TensorRT.
    """
    usual = flow.build / "calibrator" / item.config.benchmark / NAME
    place = flow.folder / str(item.overrides.get("cache_file") or usual)
    place.parent.mkdir(parents=True, exist_ok=True)
    facts = {
        "kind": STAND_IN,
        "what": f"scales {MADE_BY}",
        "benchmark": item.config.benchmark,
        "here": item.ours,
        "form": flow.settings.form,
        "sha256": sha256(source),
    }
    place.unlink(missing_ok=True)
    replace_text(place.with_name(f"{place.name}.json"), json.dumps(facts, indent=2) + "\n")
    replace_text(place, source.read_text(encoding="utf-8"))
    return place.relative_to(flow.folder) if place.is_relative_to(flow.folder) else place
