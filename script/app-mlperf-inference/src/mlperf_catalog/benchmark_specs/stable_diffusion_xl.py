"""Stable Diffusion XL on captions of COCO 2014."""

from ..benchmark import Alias, BenchmarkSpec, Limit, Period, Target
from ..metrics import CLIP, FID
from ..periods import QUERIES, STREAM, test
from ..reasons import IMAGES
from ..scenario import SERVER

SPECS = (
    BenchmarkSpec(
        name="stable-diffusion-xl",
        dataset_size=5000,
        # Both figures must lie in a window: the bounds are its ends.
        accuracy=(
            Target(CLIP, 31.68631873, 1.0, 31.81331801 / 31.68631873),
            Target(FID, 23.01085758, 1.0, 23.95007626 / 23.01085758),
        ),
        edge=(Period("4.0", "6.1", STREAM),),
        datacenter=(Period("4.0", "5.1", QUERIES),),
        both=(Period("4.0", "6.1", (*STREAM, SERVER)),),
        limits={SERVER: Limit(20000)},
        compliance=(test(1, "4.1", "6.1"), test(4, "4.1", "6.1")),
        test01_samples=128,
        aliases=(Alias("sdxl"),),
        unavailable=IMAGES,
    ),
)
