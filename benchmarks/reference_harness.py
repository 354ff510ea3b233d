"""The reference implementation of MLPerf's vision benchmarks, run unchanged beside ours.

It lives in a checkout of mlcommons/inference, which is not a part of this project. Its ResNet-50
reads JPEG files, so a folder of random ones stands in for ImageNet; speed does not depend on them.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np

PROGRAM = Path("vision") / "classification_and_detection" / "python"
SIDE = 256


class NotRunnableError(Exception):
    """It could not be run; the text says why."""


def fake_imagenet(folder: Path, count: int) -> None:
    """``count`` random JPEG files and the list that ImageNet comes with."""
    from PIL import Image

    generator = np.random.default_rng(0)
    lines = []
    for number in range(count):
        name = f"{number:08d}.jpg"
        pixels = generator.integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / name, quality=85)
        lines.append(f"{name} {number % 1000}\n")
    (folder / "val_map.txt").write_text("".join(lines), encoding="utf-8")


def offline_rate(
    checkout: Path, model: Path, images: Path, work: Path, rate: float, seconds: float
) -> float:
    """Samples/s of its Offline run with its defaults, for at least ``seconds``.

    ``rate`` is about the rate to expect. Raises NotRunnableError when it does not run here.
    """
    program = checkout / PROGRAM
    if not (program / "main.py").exists():
        raise NotRunnableError(f"{checkout} is no checkout of mlcommons/inference")
    conf = work / "user.conf"
    conf.write_text(
        f"resnet50.Offline.target_qps = {rate:.3f}\n"
        f"resnet50.Offline.min_duration = {int(seconds * 1000)}\n"
        "resnet50.Offline.min_query_count = 1\n",
        encoding="utf-8",
    )
    words = [sys.executable, "main.py", "--profile", "resnet50-onnxruntime"]
    words += ["--model", str(model), "--dataset-path", str(images), "--output", str(work / "out")]
    words += ["--scenario", "Offline", "--user_conf", str(conf), "--cache_dir", str(work / "cache")]
    words += ["--count", str(len(list(images.glob("*.jpg"))))]
    done = subprocess.run(
        words,
        cwd=program,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    summary = work / "out" / "mlperf_log_summary.txt"
    text = summary.read_text(encoding="utf-8") if summary.exists() else ""
    found = re.search(r"Samples per second: ([0-9.e+]+)", text)
    if done.returncode or not found:
        last = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()[-1]
        raise NotRunnableError(f"{last} (it needs opencv-python-headless and pycocotools)")
    return float(found.group(1))
