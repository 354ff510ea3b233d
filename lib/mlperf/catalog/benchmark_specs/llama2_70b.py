"""Llama 2 70B chat on OpenOrca."""

from dataclasses import replace

from ..benchmark import (
    Assets,
    BenchmarkSpec,
    Limit,
    ModelSize,
    Need,
    Period,
    Target,
    strict,
    tokens,
)
from ..metrics import ROUGE1, ROUGE2, ROUGE_L, TOKENS_PER_SAMPLE
from ..periods import QUERIES, choice, test
from ..scenario import INTERACTIVE, SERVER
from ..text_enums import Answers

LLAMA = BenchmarkSpec(
    name="llama2-70b-99",
    loadgen_key="llama2-70b",
    dataset_size=24576,
    accuracy=(
        Target(ROUGE1, 44.4312),
        Target(ROUGE2, 22.0352),
        Target(ROUGE_L, 28.6162),
        tokens(TOKENS_PER_SAMPLE, 294.45),
    ),
    datacenter=(Period("4.0", "5.0", QUERIES), *choice("5.1", "6.0")),
    limits={
        SERVER: Limit(20000, 2000, 200),
        INTERACTIVE: Limit(ttft_ms=450, tpot_ms=40),
    },
    compliance=(test(6, "4.0", "6.1"),),
    equal_issue=True,
    token_rates=True,
    size=ModelSize(parameters=68_977, token_operations=1.36e11),
    answers=Answers.TOKENS,
    generates=True,
    module="text_generation:TextGeneration",
    assets=Assets(
        model="get,ml-model,llama2,_70b",
        data="get,dataset,openorca",
        model_name="llama2",
        data_name="openorca",
        calibration="",
        packages=("rouge-score",),
        base="llama2-70b_",
        gated="LLAMA2_CHECKPOINT_PATH",
        repository="meta-llama/Llama-2-70b-chat-hf",
    ),
    # 138 GB of weights as float16, and the cache of some requests.
    memory={
        "full": Need(141_000_000_000, "run its synthetic form with fewer layers, or the tiny one")
    },
)
# In round 5.0 Interactive was a benchmark of its own, whose scenario was Server.
EARLY = replace(
    LLAMA,
    name="llama2-70b-interactive-99",
    checker_name="llama2-70b-interactive-99",
    loadgen_key="llama2-70b-interactive",
    datacenter=(Period("5.0", "5.0", QUERIES),),
    limits={SERVER: Limit(20000, 450, 40)},
    module="",
    unavailable="it is of round 5.0; since then it is the scenario Interactive of llama2-70b-99",
    assets=None,
    memory={},
)
SPECS = (
    LLAMA,
    strict(LLAMA, datacenter=(Period("4.0", "5.0", QUERIES), *choice("5.1", "6.1"))),
    EARLY,
    strict(EARLY),
)
