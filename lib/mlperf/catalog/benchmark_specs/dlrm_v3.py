"""DLRM v3: generative recommendation on a synthetic stream of histories."""

from ..benchmark import STRICT_SHARE, BenchmarkSpec, Limit, Target
from ..metrics import GAUC, NE, RATING_ACCURACY
from ..periods import queries, test
from ..reasons import IMAGES
from ..scenario import SERVER
from ..text_enums import Answers

SPECS = (
    BenchmarkSpec(
        name="dlrm-v3",
        dataset_size=349823,
        accuracy=(
            Target(NE, 0.86687, STRICT_SHARE),
            Target(RATING_ACCURACY, 0.69651, STRICT_SHARE),
            Target(GAUC, 0.78663, STRICT_SHARE),
        ),
        datacenter=queries("6.0", "6.1"),
        limits={SERVER: Limit(80)},
        compliance=(test(8, "6.0", "6.1"),),
        answers=Answers.VARIABLE,
        unavailable=IMAGES,
    ),
)
