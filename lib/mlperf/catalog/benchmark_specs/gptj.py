"""GPT-J 6B on the articles of CNN/DailyMail; in round 3.1 GPT-3 too, with the same bounds."""

from dataclasses import replace

from ..benchmark import (
    Assets,
    BenchmarkSpec,
    Change,
    Limit,
    ModelSize,
    Need,
    Period,
    Scratch,
    Target,
    strict,
    tokens,
)
from ..metrics import GEN_LEN, ROUGE1, ROUGE2, ROUGE_L
from ..periods import QUERIES, STREAM
from ..scenario import SERVER
from ..text_enums import Answers

GPTJ = BenchmarkSpec(
    name="gptj-99",
    loadgen_key="gptj",
    dataset_size=13368,
    accuracy=(
        Target(ROUGE1, 42.9865),
        Target(ROUGE2, 20.1235),
        Target(ROUGE_L, 29.9881),
        tokens(GEN_LEN, 4016878, most=None),
    ),
    edge=(Period("3.1", "5.0", STREAM),),
    datacenter=(Period("3.1", "5.0", QUERIES),),
    limits={SERVER: Limit(20000)},
    equal_issue=True,
    # Source: the fields of results by benchmark in the official checkers of these rounds.
    changes=(Change("4.1", "5.0", {"inferred_tokens": True}),),
    answers=Answers.TOKENS,
    module="summarization:Summarization",
    assets=Assets(
        model="get,ml-model,gptj",
        data="get,dataset,cnndm",
        model_name="gptj",
        data_name="cnndm",
        calibration="_calibration",
        base="gptj_",
        packages=("rouge-score",),
    ),
    # 24 GB of weights, and 24 GB for the cache of four beams of the longest prompt in its three
    # copies.
    memory={
        "full": Need(48_000_000_000, "run its synthetic form with fewer layers, or the tiny one")
    },
    size=ModelSize(parameters=6051, sample_operations=6e12, token_operations=1.2e10),
    scratch=Scratch(
        gigabytes=60,
        data="cnn-daily-mail",
        models="GPTJ-6B",
        preprocessed_data="cnn_dailymail_tokenized_gptj",
    ),
)
GPT3 = replace(
    GPTJ,
    name="gpt3-99",
    checker_name="gpt3-99",
    loadgen_key="gpt3",
    known_to_loadgen=False,
    edge=(),
    datacenter=(Period("3.1", "3.1", QUERIES),),
    module="",
    unavailable="its weights were for submitters only, and no round asks for it any more",
    assets=None,
    memory={},
    size=replace(GPTJ.size, parameters=175_000),
    scratch=None,
)
SPECS = (GPTJ, strict(GPTJ), GPT3, strict(GPT3))
