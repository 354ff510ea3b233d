"""Wan 2.2 on prompts of VBench: video from text."""

from ..benchmark import BenchmarkSpec, Outputs, Period, Target
from ..metrics import VBENCH
from ..periods import STREAM, test
from ..reasons import IMAGES

SHOWN = {
    "6.0": (130, 106, 84, 59, 12, 31, 86, 122, 233, 96),
    "6.1": (130, 106, 84, 59, 12, 123, 43, 22, 238, 32),
}
SPECS = (
    BenchmarkSpec(
        name="wan-2.2-t2v-a14b",
        loaded_samples=50,
        dataset_size=248,
        offline_minimum=50,
        accuracy=(Target(VBENCH, 70.48),),
        datacenter=(Period("6.0", "6.1", STREAM),),
        both=(Period("6.0", "6.1", ()),),
        compliance=(test(4, "6.0", "6.1"),),
        test01_samples=50,
        unavailable=IMAGES,
        outputs=Outputs("videos", SHOWN),
    ),
)
