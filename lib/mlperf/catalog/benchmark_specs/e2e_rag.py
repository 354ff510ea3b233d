"""Retrieval-augmented generation from end to end, and its database alone."""

from dataclasses import replace

from ..benchmark import BenchmarkSpec, Period, Target
from ..metrics import END_TO_END
from ..periods import test
from ..reasons import LANGUAGE
from ..scenario import OFFLINE
from ..text_enums import Answers

ANSWERS = BenchmarkSpec(
    name="e2e-rag-qna",
    known_to_loadgen=False,
    dataset_size=824,
    minimum_duration_ms=0,
    accuracy=(Target(END_TO_END, 33.95, 1.0),),
    datacenter=(Period("6.1", "6.1", (OFFLINE,)),),
    both=(Period("6.1", "6.1", ()),),
    compliance=(test(9, "6.1", "6.1"),),
    answers=Answers.TOKENS,
    unavailable=LANGUAGE,
)
SPECS = (
    ANSWERS,
    replace(
        ANSWERS,
        name="e2e-rag-db",
        checker_name="e2e-rag-db",
        loadgen_key="e2e-rag-db",
        loaded_samples=2515,
        dataset_size=2515,
        offline_minimum=2515,
        accuracy=(Target(END_TO_END, 98.0, 1.0),),
        compliance=(),
    ),
)
