"""YOLO11 on 1525 images of COCO 2017, judged at 95 % or 99 % of its accuracy."""

from dataclasses import replace

from ..benchmark import BenchmarkSpec, Target
from ..metrics import MAP
from ..periods import streams, test
from ..reasons import IMAGES
from ..text_enums import Answers

YOLO = BenchmarkSpec(
    name="yolo-95",
    loadgen_key="yolo",
    loaded_samples=64,
    dataset_size=1525,
    accuracy=(Target(MAP, 53.4, 0.95),),
    edge=streams("6.0", "6.1"),
    compliance=(test(1, "6.0", "6.1"),),
    test01_samples=64,
    answers=Answers.VARIABLE,
    unavailable=IMAGES,
)
SPECS = (
    YOLO,
    replace(YOLO, name="yolo-99", checker_name="yolo-99", accuracy=(Target(MAP, 53.4),)),
)
