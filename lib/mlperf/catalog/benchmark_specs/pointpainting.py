"""PointPainting on the Waymo open data set: bounding boxes from camera and lidar."""

from ..benchmark import STRICT_SHARE, BenchmarkSpec, Period, Target
from ..metrics import MAP
from ..periods import test
from ..reasons import IMAGES
from ..scenario import SINGLE_STREAM
from ..text_enums import Answers

SPECS = (
    BenchmarkSpec(
        name="pointpainting",
        loaded_samples=1024,
        dataset_size=39987,
        offline_minimum=24576,
        accuracy=(Target(MAP, 0.5425, STRICT_SHARE),),
        edge=(Period("5.0", "6.0", (SINGLE_STREAM,)),),
        compliance=(test(1, "5.0", "6.0"), test(4, "5.0", "6.0")),
        test01_samples=256,
        percentiles={SINGLE_STREAM: 0.999},
        answers=Answers.VARIABLE,
        unavailable=IMAGES,
    ),
)
