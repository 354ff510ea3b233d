"""``make calibrate``: which models are calibrated, on how much, and where the cache goes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from common.problems import Problem
from nvidia_flow_lab import Hands, a_flow
from nvidia_mlperf.make import calibrate, targets

TEXT = "TRT-8501-EntropyCalibration2\nimage: 3c010a14\nlogits: 3d000000\n"


@dataclass
class Builder(Hands):
    """Hands out a cache as generate,engine,nvidia does for int8."""

    cache: Path = Path()

    def cm_json(self, line: Sequence[str]) -> dict[str, Any]:
        self.lines.append(list(line))
        return {"env": {"CM_QUANTIZE_CALIBRATION_CACHE": str(self.cache)}}


@pytest.fixture
def hands(tmp_path: Path) -> Builder:
    cache = tmp_path / "model_int8.cache"
    cache.write_text(TEXT)
    return Builder(cache=cache)


def test_each_benchmark_is_calibrated_once(tmp_path: Path, hands: Builder) -> None:
    line = "--benchmarks=resnet50,bert --config_ver=default,high_accuracy"
    targets.find("calibrate", targets.NVIDIA).function()(a_flow(tmp_path, line, hands=hands))
    tags = "--tags=generate,engine,nvidia,_stand-in,_tiny"
    models = sorted(line[3] for line in hands.lines)
    assert models == ["--model=bert-99", "--model=resnet50"]
    assert all({tags, "--precision=int8"} <= set(line) for line in hands.lines)
    place = "build/calibrator/resnet50/calibrator.cache"
    by = "a stand-in: by ONNX Runtime in place of TensorRT's calibrator, of the tiny form"
    assert f"resnet50: {place}: 2 scales, TRT-8501-EntropyCalibration2, {by}" in hands.shown
    assert (tmp_path / place).read_text() == TEXT
    beside = json.loads((tmp_path / f"{place}.json").read_text())
    assert (beside["kind"], beside["form"], beside["here"]) == ("stand-in", "tiny", "resnet50")


def test_its_fields_count(tmp_path: Path, hands: Builder) -> None:
    line = "--benchmarks=resnet50 --calib_batch_size=2 --calib_max_batches=5 --cache_file=my.cache"
    calibrate.calibrate(a_flow(tmp_path, f"{line} --force_calibration", hands=hands))
    assert {"--samples=10", "--new"} <= set(hands.lines[0])
    assert (tmp_path / "my.cache").read_text() == TEXT
    assert (tmp_path / "my.cache.json").is_file()


def test_what_cannot_be_calibrated_is_said(tmp_path: Path, hands: Builder) -> None:
    with pytest.raises(Problem, match="rnnt has no int8 model: nearly all of its work"):
        calibrate.calibrate(a_flow(tmp_path, "--benchmarks=rnnt", hands=hands))
    with pytest.raises(Problem, match="--cache_file is one file"):
        calibrate.calibrate(a_flow(tmp_path, "--cache_file=x", hands=hands))
    calibrate.calibrate(a_flow(tmp_path, hands=hands))
    assert len(hands.lines) == 6
    assert any("rnnt stays float" in told for told in hands.told)
    hands.cache.unlink()
    with pytest.raises(Problem, match="resnet50 has no calibration cache"):
        calibrate.calibrate(a_flow(tmp_path, "--benchmarks=resnet50", hands=hands))
    assert not list(tmp_path.rglob("*.new")), "nothing half-made"
