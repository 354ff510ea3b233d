"""Llama 2 70B chat on OpenOrca."""

from dataclasses import replace

from ..benchmark import BenchmarkSpec, Limit, ModelSize, Period, Target, strict, tokens
from ..metrics import ROUGE1, ROUGE2, ROUGE_L, TOKENS_PER_SAMPLE
from ..periods import QUERIES, choice, test
from ..reasons import LANGUAGE
from ..scenario import INTERACTIVE, SERVER
from ..words import Answers

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
    size=ModelSize(token_operations=1.36e11),
    answers=Answers.TOKENS,
    unavailable=LANGUAGE,
)
# In round 5.0 Interactive was a benchmark of its own, whose scenario was Server.
EARLY = replace(
    LLAMA,
    name="llama2-70b-interactive-99",
    checker_name="llama2-70b-interactive-99",
    loadgen_key="llama2-70b-interactive",
    datacenter=(Period("5.0", "5.0", QUERIES),),
    limits={SERVER: Limit(20000, 450, 40)},
)
SPECS = (
    LLAMA,
    strict(LLAMA, datacenter=(Period("4.0", "5.0", QUERIES), *choice("5.1", "6.1"))),
    EARLY,
    strict(EARLY),
)
