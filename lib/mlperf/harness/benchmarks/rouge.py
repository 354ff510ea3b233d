"""ROUGE-1, ROUGE-2, ROUGE-L and ROUGE-Lsum of two texts, with stems, as F1.

The figures are those of the package rouge-score, which the reference implementation uses.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import Any

METRICS = ("rouge1", "rouge2", "rougeL")
# With the best matches of sentences too. The reference splits with NLTK's trained model, which
# knows abbreviations as well; the other figures do not depend on sentences.
WITH_SENTENCES = (*METRICS, "rougeLsum")
SENTENCE_END = re.compile(r"(?<=[.!?])\s+")


def scores(reference: str, answer: str, metrics: tuple[str, ...] = METRICS) -> tuple[float, ...]:
    """Return these figures, in their order, from 0 to 1."""
    if metrics == WITH_SENTENCES:
        reference, answer = _in_lines(reference), _in_lines(answer)
    by_metric = _scorer(metrics).score(reference, answer)
    return tuple(float(by_metric[metric].fmeasure) for metric in metrics)


def _in_lines(text: str) -> str:
    return SENTENCE_END.sub("\n", text)


@cache
def _scorer(metrics: tuple[str, ...]) -> Any:
    from nltk.stem.porter import PorterStemmer
    from rouge_score import rouge_scorer, tokenizers

    stemmer = PorterStemmer()
    # Summaries share most of their words: with words stemmed once the score takes half the time.
    stemmer.stem = lru_cache(maxsize=100_000)(stemmer.stem)
    return rouge_scorer.RougeScorer(metrics, tokenizer=tokenizers.DefaultTokenizer(stemmer))
