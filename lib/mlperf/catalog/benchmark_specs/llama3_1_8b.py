"""Llama 3.1 8B on the articles of CNN/DailyMail, and its edge form on 5000 of them."""

from dataclasses import replace

from ..benchmark import Alias, Assets, BenchmarkSpec, Limit, ModelSize, Need, Period, Target, tokens
from ..forms import SMALL, USUAL
from ..metrics import GEN_LEN, ROUGE1, ROUGE2, ROUGE_L, ROUGE_LSUM
from ..periods import STREAM, choice, test
from ..scenario import INTERACTIVE, SERVER
from ..text_enums import Answers

ASSETS = Assets(
    model="get,ml-model,llama3,_8b",
    data="get,dataset,cnndm,_llama3",
    model_name="llama3",
    data_name="cnndm",
    calibration="",
    packages=("rouge-score",),
    gated="LLAMA3_CHECKPOINT_PATH",
    repository="meta-llama/Llama-3.1-8B-Instruct",
    forms=(*USUAL, SMALL.name),
)
LLAMA = BenchmarkSpec(
    name="llama3.1-8b",
    loadgen_key="llama3_1-8b",
    dataset_size=13368,
    accuracy=(
        Target(ROUGE1, 38.7792),
        Target(ROUGE2, 15.9075),
        Target(ROUGE_L, 24.4957),
        Target(ROUGE_LSUM, 35.793),
        tokens(GEN_LEN, 8167644),
    ),
    datacenter=choice("5.1", "6.1"),
    limits={
        SERVER: Limit(20000, 2000, 100),
        INTERACTIVE: Limit(ttft_ms=500, tpot_ms=30),
    },
    compliance=(test(6, "5.1", "6.1"),),
    equal_issue=True,
    token_rates=True,
    answers=Answers.TOKENS,
    aliases=(Alias("llama3_1-8b"),),
    generates=True,
    module="text_generation:TextGeneration",
    assets=ASSETS,
    # 16 GB of weights as float16, and the cache of some requests.
    memory={
        "full": Need(18_000_000_000, "run its synthetic form with fewer layers, or the tiny one")
    },
    size=ModelSize(parameters=8030, token_operations=1.5e10),
)
SPECS = (
    LLAMA,
    replace(
        LLAMA,
        name="llama3.1-8b-edge",
        checker_name="llama3.1-8b-edge",
        loadgen_key="llama3_1-8b-edge",
        loaded_samples=5000,
        dataset_size=5000,
        offline_minimum=5000,
        accuracy=(
            Target(ROUGE1, 39.06),
            Target(ROUGE2, 16.1147),
            Target(ROUGE_L, 24.6375),
            Target(ROUGE_LSUM, 36.124),
            tokens(GEN_LEN, 3051113),
        ),
        edge=(Period("5.1", "6.1", STREAM),),
        datacenter=(),
        limits={},
        compliance=(),
        aliases=(Alias("llama3_1-8b-edge"),),
        assets=replace(ASSETS, data="get,dataset,cnndm,_llama3,_edge"),
    ),
)
