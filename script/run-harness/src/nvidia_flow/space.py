"""The scratch space of NVIDIA's flow: its folders, what of them is a benchmark's, and how large."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from nvidia_flow.errors import FlowError

FOLDERS = ("data", "models", "preprocessed_data")
FALLBACK = "/home/mlperf_inference_data"
"""Where Azure's guide expects it."""


@dataclass(frozen=True, slots=True)
class Place:
    """What is a benchmark's below the scratch space, and the GB that all of it takes.

    The sizes are estimates from those of the published data sets and checkpoints. ``memory`` is the
    GB of main memory that NVIDIA's guide asks for, 0 where it names none. ``whole`` are folders
    below the scratch space with the end of their files' names and their least number.
    ``parameters`` is the number of a model's weights, in millions.
    """

    gigabytes: int
    data: tuple[str, ...]
    models: tuple[str, ...]
    preprocessed_data: tuple[str, ...]
    memory: int = 0
    whole: tuple[tuple[str, str, int], ...] = ()
    parameters: int = 0

    @property
    def paths(self) -> dict[str, tuple[str, ...]]:
        """The paths by folder."""
        return {name: getattr(self, name) for name in FOLDERS}


_COCO = (("data/coco/val2017", ".jpg", 5000),)
PLACES: Mapping[str, Place] = {
    "resnet50": Place(
        40,
        ("imagenet",),
        ("ResNet50",),
        ("imagenet",),
        whole=(("data/imagenet", ".JPEG", 50_000),),
        parameters=26,
    ),
    "ssd-mobilenet": Place(
        3, ("coco",), ("SSDMobileNet",), ("coco/val2017/SSDMobileNet",), whole=_COCO, parameters=6
    ),
    "ssd-resnet34": Place(
        25, ("coco",), ("SSDResNet34",), ("coco/val2017/SSDResNet34",), whole=_COCO, parameters=20
    ),
    "retinanet": Place(
        60,
        ("open-images-v6-mlperf",),
        ("retinanet-resnext50-32x4d",),
        ("open-images-v6-mlperf",),
        parameters=38,
    ),
    "bert": Place(
        4,
        ("squad",),
        ("bert",),
        ("squad_tokenized",),
        whole=(("preprocessed_data/squad_tokenized", ".npy", 3),),
        parameters=334,
    ),
    "rnnt": Place(
        3,
        ("LibriSpeech",),
        ("rnn-t",),
        ("rnnt_dev_clean_512",),
        whole=(("data/LibriSpeech/dev-clean", ".flac", 2703),),
        parameters=45,
    ),
    "3d-unet": Place(
        100,
        ("BraTS", "KiTS19"),
        ("3d-unet", "3d-unet-kits19"),
        ("brats", "KiTS19"),
        # 335 cases, each with four pictures and a segmentation.
        whole=(("data/BraTS/MICCAI_BraTS_2019_Data_Training", ".nii.gz", 1675),),
        parameters=19,
    ),
    "dlrm": Place(
        1200,
        ("criteo",),
        ("dlrm",),
        ("criteo",),
        memory=40,
        # day_0 to day_23
        whole=(("data/criteo", "", 24),),
        parameters=24_060,
    ),
    "dlrm-v2": Place(
        6100, ("criteo",), ("dlrm_multihot",), ("criteo_multihot",), parameters=26_120
    ),
    "gptj": Place(
        60,
        ("cnn-daily-mail",),
        ("GPTJ-6B",),
        ("cnn_dailymail_tokenized_gptj",),
        parameters=6051,
    ),
}
"""By NVIDIA's words."""


def too_large(benchmarks: Iterable[str], free: int) -> list[str]:
    """The benchmarks whose files do not fit into ``free`` bytes, with what each takes."""
    named = [(name, PLACES[name].gigabytes) for name in benchmarks if name in PLACES]
    return [f"{name} ({size} GB)" for name, size in named if size * 10**9 > free]


def of_benchmark(root: Path, name: str, folder: str = "") -> list[Path]:
    """What is there of a benchmark, in one of the folders or in all."""
    paths = PLACES[name].paths
    wanted = [folder] if folder else list(FOLDERS)
    found = [root / part / each for part in wanted for each in paths[part]]
    return [path for path in found if path.exists()]


def named(given: object, environ: Mapping[str, str]) -> str:
    """The path that counts: what is given, MLPERF_SCRATCH_PATH, the fixed one where it exists.

    Raises FlowError where there is none of them.
    """
    told = str(given or "") or environ.get("MLPERF_SCRATCH_PATH", "")
    if not told and Path(FALLBACK).is_dir():
        told = FALLBACK
    if not told:
        raise FlowError(
            "needs-input",
            "nobody says where the scratch space is",
            "export MLPERF_SCRATCH_PATH=DIR, or --scratch_path=DIR; 3 TB for everything",
        )
    return told
