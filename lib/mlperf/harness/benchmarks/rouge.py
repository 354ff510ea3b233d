"""ROUGE-1, ROUGE-2 and ROUGE-L of two texts, with stems, as F1.

The figures are those of the package rouge-score, which the reference implementation uses.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

METRICS = ("rouge1", "rouge2", "rougeL")


def scores(reference: str, answer: str) -> tuple[float, ...]:
    """Return the three figures, in the order of ``METRICS``, from 0 to 1."""
    by_metric = _scorer().score(reference, answer)
    return tuple(float(by_metric[metric].fmeasure) for metric in METRICS)


@cache
def _scorer() -> Any:
    from nltk.stem.porter import PorterStemmer
    from rouge_score import rouge_scorer, tokenizers

    stemmer = PorterStemmer()
    # Summaries share most of their words: with words stemmed once the score takes half the time.
    stemmer.stem = lru_cache(maxsize=100_000)(stemmer.stem)
    return rouge_scorer.RougeScorer(METRICS, tokenizer=tokenizers.DefaultTokenizer(stemmer))
