"""GPT-OSS 120B on questions of mathematics, science and code."""

from ..benchmark import BenchmarkSpec, Limit, Target
from ..metrics import EXACT_MATCH
from ..periods import choice, test
from ..reasons import LANGUAGE
from ..scenario import INTERACTIVE, SERVER
from ..text_enums import Answers

SPECS = (
    BenchmarkSpec(
        name="gpt-oss-120b",
        dataset_size=6396,
        accuracy_samples=4395,
        accuracy=(Target(EXACT_MATCH, 83.13),),
        datacenter=choice("6.0", "6.1"),
        limits={
            SERVER: Limit(60000, 3000, 80),
            INTERACTIVE: Limit(ttft_ms=2000, tpot_ms=15),
        },
        compliance=(test(7, "6.0", "6.1"), test(9, "6.0", "6.1")),
        equal_issue=True,
        token_rates=True,
        answers=Answers.TOKENS,
        unavailable=LANGUAGE,
    ),
)
