"""Wan 2.2 on prompts of VBench: video from text."""

from ..benchmark import BenchmarkSpec, Period, Target
from ..metrics import VBENCH
from ..periods import STREAM, test
from ..reasons import IMAGES

SPECS = (
    BenchmarkSpec(
        name="wan-2.2-t2v-a14b",
        loaded_samples=50,
        dataset_size=248,
        offline_minimum=50,
        accuracy=(Target(VBENCH, 70.48),),
        datacenter=(Period("6.0", "6.1", STREAM),),
        compliance=(test(4, "6.0", "6.1"),),
        test01_samples=50,
        unavailable=IMAGES,
    ),
)
