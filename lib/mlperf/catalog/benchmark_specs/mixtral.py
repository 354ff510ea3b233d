"""Mixtral 8x7B on OpenOrca, GSM8K and MBXP."""

from ..benchmark import BenchmarkSpec, Change, Limit, ModelSize, Period, Target, tokens
from ..metrics import GSM8K, MBXP, ROUGE1, ROUGE2, ROUGE_L, TOKENS_PER_SAMPLE
from ..periods import QUERIES, test
from ..reasons import LANGUAGE
from ..scenario import SERVER, SINGLE_STREAM
from ..text_enums import Answers


def _targets(*references: float) -> tuple[Target, ...]:
    """Return targets; references are ROUGE-1, -2, -L, gsm8k, mbxp, tokens per sample."""
    *figures, length = references
    # The most is that of the first round, whose reference was 145.9.
    most = 1.1 * 145.9 / length
    metrics = (ROUGE1, ROUGE2, ROUGE_L, GSM8K, MBXP)
    pairs = zip(metrics, figures, strict=True)
    return (*(Target(*pair) for pair in pairs), tokens(TOKENS_PER_SAMPLE, length, most))


SPECS = (
    BenchmarkSpec(
        name="mixtral-8x7b",
        dataset_size=15000,
        accuracy=_targets(45.5989, 23.3526, 30.4608, 73.66, 60.16, 144.84),
        datacenter=(Period("4.1", "6.0", QUERIES),),
        both=(Period("4.1", "4.1", (SINGLE_STREAM, *QUERIES)),),
        limits={SERVER: Limit(20000, 2000, 200)},
        compliance=(test(6, "4.1", "6.0"),),
        equal_issue=True,
        token_rates=True,
        # Of its 8 experts 2 take part in a token.
        size=ModelSize(token_operations=2.4e10),
        answers=Answers.TOKENS,
        changes=(
            Change(
                "4.1",
                "4.1",
                {"accuracy": _targets(45.4911, 23.2829, 30.3615, 73.78, 60.12, 145.9)},
            ),
        ),
        unavailable=LANGUAGE,
    ),
)
