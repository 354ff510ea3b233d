"""RNN-T on LibriSpeech."""

from ..benchmark import Assets, BenchmarkSpec, Limit, ModelSize, Period, Scratch, Target
from ..metrics import WORD_ACCURACY
from ..periods import STREAM, queries, test
from ..scenario import SERVER
from ..text_enums import Answers

SPECS = (
    BenchmarkSpec(
        name="rnnt",
        dataset_size=2513,
        accuracy=(Target(WORD_ACCURACY, 92.548),),
        edge=(Period("0.7", "4.0", STREAM),),
        datacenter=queries("0.7", "4.0"),
        limits={SERVER: Limit(1000)},
        compliance=(test(1, "0.7", "4.0"), test(5, "0.7", "4.0")),
        answers=Answers.VARIABLE,
        module="speech:SpeechRecognition",
        assets=Assets(
            model="get,ml-model,rnnt",
            data="get,preprocessed,dataset,librispeech,speech-recognition",
            model_name="rnnt",
            data_name="librispeech",
            calibration="",
        ),
        fastest="bfloat16",
        size=ModelSize(parameters=45),
        scratch=Scratch(
            gigabytes=3,
            data="LibriSpeech",
            models="rnn-t",
            preprocessed_data="rnnt_dev_clean_512",
            whole=(("data/LibriSpeech/dev-clean", ".flac", 2703),),
        ),
        refuses={
            "int8": "nearly all of its work is in recurrent layers (LSTM), which calibration "
            "cannot turn into int8"
        },
    ),
)
