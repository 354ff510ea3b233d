"""Qwen3-VL on a catalogue of goods, and Qwen3.6 on calls of functions."""

from ..benchmark import BenchmarkSpec, Change, Limit, Period, Target
from ..metrics import HIERARCHICAL_F1, MAP
from ..periods import QUERIES, TOKEN_QUERIES, choice
from ..reasons import LANGUAGE
from ..scenario import INTERACTIVE, OFFLINE, SERVER, SINGLE_STREAM
from ..text_enums import Answers

SPECS = (
    BenchmarkSpec(
        name="qwen3-vl-235b-a22b",
        dataset_size=48289,
        accuracy=(Target(HIERARCHICAL_F1, 0.7903),),
        datacenter=(Period("6.0", "6.0", QUERIES), *choice("6.1", "6.1")),
        both=(Period("6.0", "6.1", (OFFLINE,), TOKEN_QUERIES),),
        # Its answers are short: the whole one is limited, and no single token.
        limits={SERVER: Limit(12000), INTERACTIVE: Limit(1500)},
        equal_issue=True,
        answers=Answers.TOKENS,
        in_scenario={
            INTERACTIVE: {"accuracy": (Target(HIERARCHICAL_F1, 0.7878),), "accuracy_samples": 8000}
        },
        changes=(Change("6.0", "6.0", {"in_scenario": {}}),),
        unavailable=LANGUAGE,
    ),
    BenchmarkSpec(
        name="qwen3.6-27b",
        known_to_loadgen=False,
        dataset_size=995,
        # The checker keeps the score of BFCL v4 under the name mAP.
        accuracy=(Target(MAP, 86.23),),
        edge=(Period("6.1", "6.1", (SINGLE_STREAM,)),),
        answers=Answers.TOKENS,
        unavailable=LANGUAGE,
    ),
)
