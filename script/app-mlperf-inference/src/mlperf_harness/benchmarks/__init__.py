"""The registered benchmarks; a new one is one module and one line here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ..errors import HarnessError
from ..records import read_json
from ..settings import ModelSpec
from .base import Benchmark, Rules, rules_of
from .detection import ObjectDetection
from .image_classification import RESNET50, ImageClassification
from .question_answering import QuestionAnswering
from .recommendation import Recommendation
from .repeated import Repeated
from .segmentation import Segmentation
from .speech import SpeechRecognition
from .summarization import Summarization

BENCHMARKS: dict[str, tuple[Callable[[Path, ModelSpec, Rules], Benchmark], Rules]] = {
    "resnet50": (ImageClassification, RESNET50),
    "bert-99": (QuestionAnswering, rules_of("bert-99")),
    "bert-99.9": (QuestionAnswering, rules_of("bert-99.9")),
    "retinanet": (ObjectDetection, rules_of("retinanet")),
    "ssd-mobilenet": (ObjectDetection, rules_of("ssd-mobilenet")),
    "ssd-resnet34": (ObjectDetection, rules_of("ssd-resnet34")),
    "dlrm-99": (Recommendation, rules_of("dlrm-99")),
    "dlrm-99.9": (Recommendation, rules_of("dlrm-99.9")),
    "dlrm-v2-99": (Recommendation, rules_of("dlrm-v2-99")),
    "dlrm-v2-99.9": (Recommendation, rules_of("dlrm-v2-99.9")),
    "rnnt": (SpeechRecognition, rules_of("rnnt")),
    "gptj-99": (Summarization, rules_of("gptj-99")),
    "gptj-99.9": (Summarization, rules_of("gptj-99.9")),
    "3d-unet-99": (Segmentation, rules_of("3d-unet-99")),
    "3d-unet-99.9": (Segmentation, rules_of("3d-unet-99.9")),
    "3d-unet-brats-99": (Segmentation, rules_of("3d-unet-brats-99")),
    "3d-unet-brats-99.9": (Segmentation, rules_of("3d-unet-brats-99.9")),
}


def create(name: str, dataset: Path, model: ModelSpec) -> Benchmark:
    """The benchmark ``name`` on preprocessed ``dataset``; raises HarnessError when they do not fit.

    A data set whose facts name a ``qsl_count`` is repeated until it has that many samples.
    """
    if name not in BENCHMARKS:
        raise HarnessError(f"no benchmark {name}; there are: {', '.join(BENCHMARKS)}")
    make, rules = BENCHMARKS[name]
    benchmark = make(dataset, model, rules)
    count = read_json(dataset / "dataset.json").get("qsl_count", benchmark.sample_count)
    if count == benchmark.sample_count:
        return benchmark
    return Repeated(benchmark, count)
