"""DeepSeek-R1 on mathematics, code and questions."""

from ..benchmark import BenchmarkSpec, Limit, Period, Target, tokens
from ..metrics import EXACT_MATCH, TOKENS_PER_SAMPLE
from ..periods import QUERIES, choice, test
from ..reasons import LANGUAGE
from ..scenario import INTERACTIVE, SERVER, SINGLE_STREAM
from ..text_enums import Answers

SPECS = (
    BenchmarkSpec(
        name="deepseek-r1",
        dataset_size=4388,
        accuracy=(Target(EXACT_MATCH, 81.3582), tokens(TOKENS_PER_SAMPLE, 3886.2274)),
        datacenter=(Period("5.1", "5.1", QUERIES), *choice("6.0", "6.1")),
        both=(Period("5.1", "5.1", (SINGLE_STREAM, *QUERIES)),),
        limits={
            SERVER: Limit(60000, 2000, 80),
            INTERACTIVE: Limit(ttft_ms=1500, tpot_ms=15),
        },
        compliance=(test(6, "5.1", "6.1"),),
        equal_issue=True,
        token_rates=True,
        answers=Answers.TOKENS,
        unavailable=LANGUAGE,
    ),
)
