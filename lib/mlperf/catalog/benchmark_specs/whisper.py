"""Whisper large v3 on LibriSpeech."""

from ..benchmark import BenchmarkSpec, Period, Target
from ..metrics import WORD_ACCURACY
from ..periods import test
from ..reasons import LANGUAGE
from ..scenario import OFFLINE
from ..words import Answers

SPECS = (
    BenchmarkSpec(
        name="whisper",
        dataset_size=1633,
        accuracy=(Target(WORD_ACCURACY, 97.9329),),
        edge=(Period("5.1", "6.1", (OFFLINE,)),),
        datacenter=(Period("5.1", "6.1", (OFFLINE,)),),
        compliance=(test(1, "5.1", "6.1"),),
        equal_issue=True,
        token_rates=True,
        answers=Answers.TOKENS,
        unavailable=LANGUAGE,
    ),
)
