"""Llama 3.1 405B on long texts."""

from ..benchmark import Alias, BenchmarkSpec, Limit, ModelSize, Period, Target, tokens
from ..metrics import EXACT_MATCH, ROUGE_L, TOKENS_PER_SAMPLE
from ..periods import QUERIES, choice, test
from ..reasons import LANGUAGE
from ..scenario import INTERACTIVE, SERVER
from ..text_enums import Answers

SPECS = (
    BenchmarkSpec(
        name="llama3.1-405b",
        loadgen_key="llama3_1-405b",
        dataset_size=8313,
        accuracy=(
            Target(ROUGE_L, 21.6666),
            Target(EXACT_MATCH, 90.1335),
            tokens(TOKENS_PER_SAMPLE, 684.68),
        ),
        datacenter=(Period("5.0", "5.0", QUERIES), *choice("5.1", "6.0")),
        limits={
            SERVER: Limit(60000, 6000, 175),
            INTERACTIVE: Limit(ttft_ms=4500, tpot_ms=80),
        },
        compliance=(test(6, "5.0", "6.0"),),
        equal_issue=True,
        token_rates=True,
        size=ModelSize(token_operations=8e11),
        answers=Answers.TOKENS,
        aliases=(Alias("llama3_1-405b"),),
        open_names=("*llama3_1-405b*",),
        unavailable=LANGUAGE,
    ),
)
