"""R-GAT on the IGB heterogeneous graph."""

from ..benchmark import BenchmarkSpec, Period, Target
from ..metrics import NODE_ACCURACY
from ..periods import test
from ..reasons import IMAGES
from ..scenario import OFFLINE

SPECS = (
    BenchmarkSpec(
        name="rgat",
        dataset_size=788379,
        accuracy=(Target(NODE_ACCURACY, 0.7286),),
        datacenter=(Period("5.0", "6.1", (OFFLINE,)),),
        compliance=(test(1, "5.0", "6.1"),),
        equal_issue=True,
        unavailable=IMAGES,
    ),
)
