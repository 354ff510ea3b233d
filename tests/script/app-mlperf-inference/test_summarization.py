"""Summarization: ROUGE as rouge-score has it, beam search against a full search, short runs."""

from __future__ import annotations

import ast
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from rouge_score import rouge_scorer

import benchmark_forms as forms
from mlperf.harness import records
from mlperf.harness.backends import registry as backends
from mlperf.harness.benchmarks import beams, rouge
from mlperf.harness.benchmarks import registry as benchmarks
from mlperf.harness.errors import HarnessError
from mlperf.harness.pipeline.inference import solvers
from mlperf.harness.reporting import report
from mlperf.harness.session import session as sessions
from mlperf.harness.settings import Bound, ModelSpec, SessionSettings, WorkerShape

MODEL = forms.SCRIPT / "get-ml-model-gptj" / "tiny"
ROOTS = [
    "oper",
    "hop",
    "relat",
    "happ",
    "tr",
    "agree",
    "sk",
    "fill",
    "analog",
    "revit",
    "y",
    "feed",
]
ENDINGS = [
    "", "s", "ed", "ing", "ies", "ied", "y", "ational", "iveness", "fulli", "alli", "ization",
    "ement", "sion", "ll", "e", "eed", "ical", "biliti", "logi", "ion", "sses", "ousness", "ful",
]  # fmt: skip
TEXT = some.lists(
    some.tuples(some.sampled_from(ROOTS), some.sampled_from(ENDINGS)).map("".join), max_size=14
).map(" ".join)


def created(count: int) -> tuple[Any, Any, ModelSpec]:
    model = records.decode(ModelSpec, forms.model(MODEL))
    benchmark = benchmarks.create("gptj-99", forms.articles(count), model)
    backend = backends.create("onnxruntime", "cpu", "float32")
    (solver,) = solvers(backend, model, benchmark, WorkerShape(1, 1, 32))
    return benchmark, solver, model


@settings(max_examples=60, deadline=None)
@given(TEXT, TEXT)
def test_rouge_is_that_of_rouge_score(reference: str, answer: str) -> None:
    theirs = rouge_scorer.RougeScorer(rouge.METRICS, use_stemmer=True).score(reference, answer)
    assert rouge.scores(reference, answer) == tuple(theirs[m].fmeasure for m in rouge.METRICS)


@pytest.mark.parametrize(
    ("reference", "answer", "expected"),
    [
        (
            "The police said on Monday that the three men were arrested.",
            "Three men have been arrested, police said Monday.",
            (12 / 19, 4 / 17, 6 / 19),
        ),
        (
            "skies dying innings proceed generalizations oscillators",
            "the sky died in an inning; generalization oscillates",
            (5 / 7, 1 / 3, 5 / 7),
        ),
        (
            "The U.S. won't re-open 3 cafés!",
            "3 cafes won't be re-opened in the US",
            (3 / 5, 2 / 9, 2 / 5),
        ),
        ("a b c d e f g", "g f e d c b a", (1, 0, 1 / 7)),
        ("", "nothing", (0, 0, 0)),
    ],
)
def test_rouge_counts_stems_of_letters_and_digits(
    reference: str, answer: str, expected: tuple[float, ...]
) -> None:
    assert rouge.scores(reference, answer) == pytest.approx(expected, abs=1e-15)


def table(seed: int, vocabulary: int) -> dict[tuple[int, ...], np.ndarray]:
    random = np.random.default_rng(seed)
    texts = (
        text for size in range(4) for text in itertools.product(range(vocabulary), repeat=size)
    )
    return {text: random.normal(0, 2, vocabulary) for text in texts}


@pytest.mark.parametrize("seed", range(8))
def test_a_wide_beam_finds_the_best_of_all_texts(seed: int) -> None:
    scores, end = table(seed, 3), 0
    search = beams.BeamSearch(1, beams.BeamOptions(width=12, least=1, most=3, end=end))
    logits = scores[()][None, None].repeat(12, axis=1)
    while not search.done:
        search.advance(logits)
        rows = [scores[tuple(text)] for text in search.tokens[0].tolist()]
        logits = np.stack(rows)[None]

    def mean(text: tuple[int, ...], ended: bool) -> float:
        whole = (*text, end) if ended else text
        total = sum(
            float(beams.log_softmax(scores[whole[:at]])[token]) for at, token in enumerate(whole)
        )
        return total / (len(text) + 1)

    ended = [t for n in (1, 2) for t in itertools.product((1, 2), repeat=n)]
    cut = list(itertools.product((1, 2), repeat=3))
    candidates = [(mean(t, True), t) for t in ended] + [(mean(t, False), t) for t in cut]
    assert tuple(search.best()[0]) == max(candidates)[1]


@pytest.mark.parametrize("seed", range(4))
def test_a_prompt_is_let_go_when_it_is_done_and_changes_no_other(seed: int) -> None:
    options = beams.BeamOptions(width=2, least=1, most=5, end=0)
    tables = [table(10 * seed + number, 4) for number in range(5)]

    def searched(wanted: list[dict[tuple[int, ...], np.ndarray]]) -> tuple[list[list[int]], int]:
        search = beams.BeamSearch(len(wanted), options)
        # What stands for the model's cache: whose beam it is, and its tokens.
        cache = [(which, ()) for which in range(len(wanted)) for _ in range(2)]
        calls = 0
        while not search.done:
            calls += len(cache)
            scores = [wanted[which][text[-3:]] for which, text in cache]
            rows = search.advance(np.asarray(scores).reshape(-1, 2, 4))
            last = search.tokens[:, :, -1].reshape(-1).tolist()
            cache = [
                (cache[row][0], (*cache[row][1], token))
                for row, token in zip(rows, last, strict=True)
            ]
            texts = search.tokens.reshape(-1, search.tokens.shape[2]).tolist()
            assert [list(text) for _, text in cache] == texts
        return search.best(), calls

    alone = [searched([each]) for each in tables]
    together, calls = searched(tables)
    assert together == [texts[0] for texts, _ in alone]
    assert calls == sum(count for _, count in alone)


def test_the_least_length_is_kept() -> None:
    options = beams.BeamOptions(width=2, least=3, most=6, end=0)
    search = beams.BeamSearch(2, options)
    logits = np.broadcast_to(np.asarray([9.0, 1.0, 0.5, 0.0]), (2, 2, 4)).copy()
    while not search.done:
        search.advance(logits)
    assert search.best() == [[1, 1, 1], [1, 1, 1]]


def test_held_out_figures_are_the_stated_ones() -> None:
    benchmark, solver, model = created(400)
    own = 400
    rows = list(range(own))
    benchmark.load(rows)
    answers: list[bytes] = []
    for begin in range(0, own, 32):
        part = rows[begin : begin + 32]
        results, sizes = benchmark.result.rows(len(part)), np.zeros(len(part), np.int64)
        solver.solve(part, results, sizes)
        answers += [row.tobytes()[:size] for row, size in zip(results, sizes, strict=True)]
    everything = np.arange(benchmark.sample_count)
    assert len(everything) == 13368
    figure = benchmark.accuracy([answers[k % own] for k in everything.tolist()], everything)
    stated = [model.accuracy, *model.accuracy.further]
    for each in stated:
        assert figure.further[each.metric] == pytest.approx(each.reference, rel=0.002)
    line = ast.literal_eval(figure.line)
    assert list(line) == ["rouge1", "rouge2", "rougeL", "gen_len", "gen_num"]
    assert line["gen_num"] == 13368
    row, size = benchmark.result.rows(1), np.zeros(1, dtype=np.int64)
    alone = 0
    for sample in range(5):
        solver.solve([sample], row, size)
        alone += row[0].tobytes()[: size[0]] == answers[sample]
    assert alone == 5, "a text does not depend on its neighbours"


def test_bad_answers_are_refused() -> None:
    benchmark, _, _ = created(8)
    for answer, message in ((b"abc", "3 bytes, no tokens"), (b"\xff\xff\xff\x7f", "there are not")):
        with pytest.raises(HarnessError, match=message):
            benchmark.accuracy([answer], np.arange(1))


@pytest.mark.parametrize(
    ("value", "most", "reached"), [(9.0, None, False), (10.0, None, True), (12.0, 11.0, False)]
)
def test_further_figures_have_bounds_of_their_own(
    value: float, most: float | None, reached: bool
) -> None:
    bound = Bound("gen_len", "tokens", 11.0, 10.0, most)
    assert report.further_figure(bound, {"gen_len": value}).reached is reached
    assert not report.further_figure(bound, {}).reached


def test_single_stream_and_offline_reach_all_targets_of_their_articles(tmp_path: Path) -> None:
    wanted = forms.settings(
        tmp_path,
        "gptj-99",
        MODEL,
        forms.articles(24),
        "SingleStream",
        "Offline",
        attempts=10,
        overrides={"batch_size": 8},
    )
    # gen_len counts all tokens; these are 24 articles in the place of 13368.
    share = 24 / 13368
    for bound in wanted["model"]["accuracy"]["further"]:
        bound["target"] *= share if bound["unit"] == "tokens" else 0.9
    wanted["model"]["accuracy"]["target"] *= 0.9
    results = sessions.MeasurementSession(records.decode(SessionSettings, wanted)).run()
    for result in results.results:
        assert result.validity == "VALID"
        assert result.accuracy_reached, result
        run = result.accuracy_run
        assert run is not None
        assert [each.metric for each in run.further] == ["ROUGE-2", "ROUGE-L", "gen_len"]
    wanted["model"]["accuracy"]["further"][2]["target"] *= 2
    again = sessions.MeasurementSession(
        records.decode(SessionSettings, {**wanted, "scenarios": ["Offline"]})
    )
    (problem,) = again.run().problems
    assert "gen_len" in problem.fault.text
    assert "below its target" in problem.fault.text
