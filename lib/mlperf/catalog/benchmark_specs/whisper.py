"""Whisper large v3 on LibriSpeech."""

from ..benchmark import Assets, BenchmarkSpec, ModelSize, Need, Period, Target
from ..forms import SMALL, USUAL
from ..metrics import WORD_ACCURACY
from ..periods import test
from ..scenario import OFFLINE
from ..text_enums import Answers

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
        module="transcription:Transcription",
        assets=Assets(
            model="get,ml-model,whisper",
            data="get,dataset,whisper",
            model_name="whisper",
            data_name="whisper",
            calibration="",
            forms=(*USUAL, SMALL.name),
        ),
        # 6 GB of weights as float32, and 1 GB of keys and values for a sound.
        memory={"full": Need(10_000_000_000, "run its tiny form")},
        # The encoder's 640 million weights at 1500 places, whatever the text.
        size=ModelSize(parameters=1543, sample_operations=1.8e12),
        refuses={
            "int8": "the sounds for a calibration are not a part of its data set",
            "synthetic": "no model of its size is made here; run _tiny or _small, or the full form",
        },
    ),
)
