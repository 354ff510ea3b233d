"""Turn questions in the layout of SQuAD v1.1 into the arrays that the BERT benchmark reads.

The steps are those of the MLPerf reference: word pieces, at most 64 of the question, the context in
windows of the rest of ``--length`` tokens that start 128 tokens apart. A feature is one window.
Arrays, one row per feature: input_ids, input_mask and segment_ids int64 [n, length], lengths
int32 [n], examples int32 [n] (the question it belongs to), starts and ends int32 [n, length] (the
characters of the context behind a token, -1 for tokens that are not of the context) and central
bool [n, length] (of all windows that hold this token, this one shows most around it).

Features come in the order of the questions in their file, and of their windows, so that a
list of the rules finds by its numbers what the reference finds. With ``--list`` only those that it
names are written, in its order.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from modelzoo import files, program
from modelzoo.preprocessing.squad import wordpiece
from modelzoo.program import ProgramError

LONGEST_QUESTION = 64
STRIDE = 128
TOKENIZED = ("input_ids", "input_mask", "segment_ids")
ARRAYS = (
    "input_ids",
    "input_mask",
    "segment_ids",
    "lengths",
    "examples",
    "starts",
    "ends",
    "central",
)

LISTED = ("features", "questions")
ADVICE = "take the list of MLCommons' inference repository together with SQuAD's dev-v1.1.json"

Array = npt.NDArray[Any]
Row = dict[str, Any]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SquadQuestion:
    """A question, the text that holds its answer, and all answers that count as right."""

    id: str
    question: str
    context: str
    answers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TokenWindow:
    """Tokens ``start`` to ``start + count`` of a context."""

    start: int
    count: int


def read_examples(path: Path) -> list[SquadQuestion]:
    """All questions of a SQuAD file; raises ProgramError when it is another kind of file."""
    try:
        articles = json.loads(path.read_text(encoding="utf-8"))["data"]
        return [
            SquadQuestion(
                str(question["id"]),
                question["question"],
                paragraph["context"],
                tuple(answer["text"] for answer in question["answers"]),
            )
            for article in articles
            for paragraph in article["paragraphs"]
            for question in paragraph["qas"]
        ]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ProgramError(f"{path} is not a SQuAD v1.1 file: {error!r}") from error


def windows(tokens: int, room: int) -> Iterator[TokenWindow]:
    """Return windows of at most ``room`` tokens, ``STRIDE`` tokens apart."""
    start = 0
    while True:
        count = min(room, tokens - start)
        yield TokenWindow(start, count)
        if start + count >= tokens:
            return
        start += min(count, STRIDE)


def most_central(all_windows: Sequence[TokenWindow], place: int) -> TokenWindow:
    """The window that shows most of the text around a token; the first of equals.

    What counts is the smaller of the tokens to its left and right, and a hundredth of the window's
    length, as in BERT's published code.
    """

    def score(window: TokenWindow) -> float:
        last = window.start + window.count - 1
        if not window.start <= place <= last:
            return -1.0
        return min(place - window.start, last - place) + 0.01 * window.count

    return max(all_windows, key=score)


def features(
    number: int, example: SquadQuestion, vocabulary: Mapping[str, int], length: int
) -> Iterator[Row]:
    """Yield a row of all arrays per window of a question."""
    question = wordpiece.tokenize(example.question, vocabulary)[:LONGEST_QUESTION]
    context = wordpiece.tokenize(example.context, vocabulary)
    first, separator = vocabulary["[CLS]"], vocabulary["[SEP]"]
    begin = len(question) + 2
    all_windows = list(windows(len(context), length - begin - 1))
    for window in all_windows:
        shown = context[window.start : window.start + window.count]
        ids = [first, *(vocabulary[token.text] for token in question), separator]
        ids += [*(vocabulary[token.text] for token in shown), separator]
        row = {name: np.zeros(length, dtype=np.int64) for name in ARRAYS[:3]}
        row["input_ids"][: len(ids)] = ids
        row["input_mask"][: len(ids)] = 1
        row["segment_ids"][begin : len(ids)] = 1
        starts = np.full(length, -1, dtype=np.int32)
        ends = np.full(length, -1, dtype=np.int32)
        central = np.zeros(length, dtype=np.bool_)
        for index, token in enumerate(shown):
            starts[begin + index], ends[begin + index] = token.start, token.end
            place = window.start + index
            central[begin + index] = most_central(all_windows, place) is window
        yield {
            **row,
            "lengths": np.int32(len(ids)),
            "examples": np.int32(number),
            "starts": starts,
            "ends": ends,
            "central": central,
        }


def all_features(
    examples: Sequence[SquadQuestion], vocabulary: Mapping[str, int], length: int
) -> Iterator[Row]:
    """Return the rows of all questions; a row has the index of its question in ``examples``."""
    for number, example in enumerate(examples):
        yield from features(number, example, vocabulary, length)


def listed_features(rows: Iterable[Row], listing: Path, questions: Path) -> list[Row]:
    """Those of the rows that the list names by their numbers, in its order."""
    words = listed_words(listing)
    wanted = set(words)
    known: dict[str, Row] = {}
    count = 0
    for row in rows:
        if str(count) in wanted:
            known[str(count)] = row
        count += 1
    return picked(words, known, listing, f"{questions} has {count} features, counted from 0")


def listed_examples(
    examples: Sequence[SquadQuestion], listing: Path, questions: Path
) -> list[SquadQuestion]:
    """Those of the examples that the list names by their ids, in its order."""
    known = {example.id: example for example in examples}
    return picked(listed_words(listing), known, listing, f"{questions} has no such question")


def listed_words(listing: Path) -> list[str]:
    """Return the first words of the lines, without repetitions."""
    lines = listing.read_text(encoding="utf-8").splitlines()
    return list(dict.fromkeys(line.split()[0] for line in lines if line.strip()))


def picked(words: Sequence[str], known: Mapping[str, T], listing: Path, why_not: str) -> list[T]:
    """What the words of a list name; ProgramError for the first one that is not known."""
    strange = next((word for word in words if word not in known), None)
    if strange is not None:
        raise ProgramError(f"{listing} names {strange}, but {why_not}", ADVICE)
    return [known[word] for word in words]


def cut(options: argparse.Namespace) -> tuple[list[Row], list[SquadQuestion]]:
    """Return the requested features, and the questions that they belong to."""
    examples = read_examples(options.questions)
    vocabulary = wordpiece.read_vocabulary(options.vocab)
    if options.list and options.listed == "questions":
        examples = listed_examples(examples, options.list, options.questions)
    rows = all_features(examples, vocabulary, options.length)
    if not options.list or options.listed == "questions":
        return list(rows), examples
    chosen = listed_features(rows, options.list, options.questions)
    numbers = sorted({int(row["examples"]) for row in chosen})
    for row in chosen:
        row["examples"] = np.int32(numbers.index(row["examples"]))
    return chosen, [examples[number] for number in numbers]


def write_arrays(rows: Sequence[Row], examples: Sequence[SquadQuestion], out: Path) -> None:
    """Write all arrays and examples.json."""
    for name in ARRAYS:
        np.save(out / f"{name}.npy", np.stack([row[name] for row in rows]))
    entries = [{"id": e.id, "context": e.context, "answers": e.answers} for e in examples]
    (out / "examples.json").write_text(json.dumps(entries) + "\n", encoding="utf-8")


def write_tokenized(rows: Sequence[Row], out: Path) -> None:
    """The three inputs as int32 [n, length], where NVIDIA's harnesses look for them."""
    out.mkdir(parents=True, exist_ok=True)
    for name in TOKENIZED:
        unfinished = out / f".{name}.{os.getpid()}.part"
        with unfinished.open("wb") as file:
            np.save(file, np.stack([row[name] for row in rows]).astype(np.int32))
        unfinished.replace(out / f"{name}.npy")


def facts(options: argparse.Namespace, count: int, questions: int) -> dict[str, Any]:
    """What dataset.json says of the arrays."""
    names = [*(f"{name}.npy" for name in ARRAYS), "examples.json"]
    common = {
        "name": options.name,
        "count": count,
        "questions": questions,
        "length": options.length,
        "files": files.facts_of_files(options.out, names),
        "made_with": {"numpy": np.__version__},
    }
    return {**common, "qsl_count": options.qsl_count} if options.qsl_count else common


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = program.parser(__doc__)
    parser.add_argument("--questions", type=Path, required=True, help="file in SQuAD v1.1 layout")
    parser.add_argument("--vocab", type=Path, required=True, help="vocabulary, one token a line")
    parser.add_argument("--length", type=int, default=384, help="tokens of a feature")
    parser.add_argument("--list", type=Path, help="file that names what is to be written")
    parser.add_argument(
        "--listed", choices=LISTED, default=LISTED[0], help="what its lines name, by number or id"
    )
    parser.add_argument("--tokenized", type=Path, help="write the inputs as int32 there too")
    parser.add_argument("--qsl_count", type=int, help="how many samples runs are to have")
    parser.add_argument("--name", required=True, help="name of the data set, for its facts")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the arrays and, last of all, dataset.json."""
    options = parse(arguments)

    def work() -> str:
        rows, examples = cut(options)
        write_arrays(rows, examples, options.out)
        if options.tokenized is not None:
            write_tokenized(rows, options.tokenized)
        files.write_facts(options.out, facts(options, len(rows), len(examples)))
        return f"{len(rows)} features of {len(examples)} questions written"

    return program.run("preprocess", work)


if __name__ == "__main__":
    sys.exit(main())
