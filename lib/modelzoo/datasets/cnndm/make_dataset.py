"""Write the articles of the summarization benchmark as prompts of tokens.

    python -m modelzoo.datasets.cnndm.make_dataset --out DIR OPTIONS

    --tiny                              generated articles, see news.py
    --synthetic                         random tokens, for speed
    --articles FILE --tokenizer PATH    CNN/DailyMail, GPT-J's tokenizer

The last form takes a list of objects with ``instruction``, ``input`` and ``output``, as
MLCommons gives it out (cnn_eval.json), and the tokenizer.json of the model, or a folder with its
vocab.json, merges.txt and, where there is one, added_tokens.json. With ``--list FILE`` the articles
are those of a split of the data set (see articles.py) whose ids this file names. ``--calibration``
makes other articles or tokens than those that are judged.

Written are ``cnn_eval.json`` (``cnn_dailymail_calibration.json`` of articles for calibration),
``prompts.npy`` int32 [tokens], ``offsets.npy`` int64 [prompts + 1], ``references.json``,
``pieces.json`` (the bytes of the tokens as Latin-1) and ``dataset.json``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from modelzoo import files, program, tokenizer_files
from modelzoo.byte_pairs import piece_of
from modelzoo.datasets.cnndm import articles, news
from modelzoo.program import ProgramError

# For calibration there are so many articles, or prompts of noise.
HELD_OUT_SEED, CALIBRATION_SEED = 4, 5
HELD_OUT, CALIBRATION = 400, 128
QSL_COUNT = 13368
LARGEST_PROMPT = 1919
# Tokens that GPT-J scores, and lengths about as those of the articles.
REAL_TOKENS = 50401
SYNTHETIC, SYNTHETIC_SEED, SYNTHETIC_CALIBRATION_SEED = 256, 7, 8
SYNTHETIC_LENGTH, SYNTHETIC_SPREAD, SHORTEST_PROMPT = 800, 0.45, 80
INSTRUCTION = "Summarize the following news article:"
ENTRIES, CALIBRATION_ENTRIES = "cnn_eval.json", "cnn_dailymail_calibration.json"
FILES = ("prompts.npy", "offsets.npy", "references.json", "pieces.json")
PROMPT = (
    "Below is an instruction that describes a task, paired with an input that provides further "
    "context. Write a response that appropriately completes the request.\n\n"
    "### Instruction:\n{instruction}\n\n### Input:\n{input}\n\n### Response:"
)


@dataclass(frozen=True, slots=True)
class Prompts:
    """Tokens of the prompts, their references, and the bytes of the tokens as Latin-1.

    ``tokenizer`` is the digest of what made or spells them, empty where no tokenizer did.
    """

    tokens: list[list[int]]
    references: list[str]
    pieces: list[str]
    tokenizer: str = ""


def tiny_tokens(text: str) -> list[int]:
    """Return the tokens of a text of the tiny world: one per word, 2 for an unknown word."""
    number = {word: place for place, word in enumerate(news.vocabulary())}
    return [number.get(word, news.SPECIAL.index("<unk>")) for word in text.split()]


def tiny(count: int, seed: int = HELD_OUT_SEED) -> tuple[Prompts, list[dict[str, str]]]:
    """The generated articles, as prompts and as MLCommons lays CNN/DailyMail out."""
    stories = news.stories(count, seed)
    ending = " ".join(news.PROMPT_END)
    prompts = Prompts(
        tokens=[tiny_tokens(f"{story.article} {ending}") for story in stories],
        references=[story.summary for story in stories],
        pieces=["" if word in news.SPECIAL else f" {word}" for word in news.vocabulary()],
    )
    entries = [
        {"instruction": INSTRUCTION, "input": story.article, "output": story.summary}
        for story in stories
    ]
    return prompts, entries


def synthetic(
    count: int = SYNTHETIC, seed: int = SYNTHETIC_SEED
) -> tuple[Prompts, list[dict[str, str]]]:
    """Random tokens; the longest prompts are cut where the rules cut them."""
    random = np.random.default_rng(seed)
    lengths = random.lognormal(np.log(SYNTHETIC_LENGTH), SYNTHETIC_SPREAD, count)
    lengths = lengths.round().clip(SHORTEST_PROMPT, LARGEST_PROMPT)
    tokens = [random.integers(0, REAL_TOKENS, int(many)).tolist() for many in lengths]
    pieces = [f" {number}" for number in range(REAL_TOKENS)]
    return Prompts(tokens, ["nothing"] * count, pieces), []


def load_tokenizer(path: Path) -> Any:
    """Return the tokenizer of tokenizer.json or, for a folder, of the files of its older form.

    Raises ProgramError when they cannot be read.
    """
    from tokenizers import AddedToken, ByteLevelBPETokenizer, Tokenizer

    if not path.is_dir():
        tokenizer_files.read_document(path)
    try:
        if not path.is_dir():
            return Tokenizer.from_file(str(path))
        vocabulary, merges = path / "vocab.json", path / "merges.txt"
        coder = ByteLevelBPETokenizer(str(vocabulary), str(merges))
        added = path / "added_tokens.json"
        if added.is_file():
            more = json.loads(added.read_text(encoding="utf-8"))
            names = sorted(more, key=lambda name: more[name])
            coder.add_tokens([AddedToken(name, normalized=False) for name in names])
    except Exception as error:  # the library raises plain exceptions
        raise ProgramError(f"{path} holds no tokenizer: {error}") from error
    return coder


def entries_of(path: Path) -> list[dict[str, str]]:
    """The articles of a file that MLCommons's reference has written.

    Raises ProgramError for another file.
    """
    try:
        entries: list[dict[str, str]] = json.loads(path.read_text(encoding="utf-8"))
        for entry in entries:
            PROMPT.format(**entry), str(entry["output"])
    except (ValueError, KeyError, TypeError) as error:
        raise ProgramError(
            f"{path} is not a list of instruction, input, output: {error}"
        ) from error
    return entries


def listed(split: Path, listing: Path) -> list[dict[str, str]]:
    """The articles of a split that a list names, as MLCommons's reference would write them."""
    chosen = articles.articles_by_id(split, listing.read_text(encoding="utf-8").split())
    return [
        {"instruction": INSTRUCTION, "input": article.text, "output": article.highlights}
        for article in chosen
    ]


def full(entries: list[dict[str, str]], tokenizer: Path) -> Prompts:
    """CNN/DailyMail with the model's tokenizer; prompts are cut at 1919 tokens."""
    prompts = [PROMPT.format(**entry) for entry in entries]
    coder = load_tokenizer(tokenizer)
    coder.no_padding()
    coder.enable_truncation(LARGEST_PROMPT)
    vocabulary = coder.get_vocab()
    names = sorted(vocabulary, key=lambda name: vocabulary[name])
    return Prompts(
        tokens=[coded.ids for coded in coder.encode_batch(prompts)],
        references=[str(entry["output"]) for entry in entries],
        pieces=[piece_of(name) for name in names],
    )


def write(prompts: Prompts, entries: Sequence[dict[str, str]], name: str, out: Path) -> None:
    """Write everything but dataset.json; ``name`` is that of the file of the articles.

    Raises ProgramError for prompts of tokens that their tokenizer does not have.
    """
    lengths = [len(tokens) for tokens in prompts.tokens]
    flat = np.concatenate([np.asarray(tokens, dtype=np.int64) for tokens in prompts.tokens])
    known = len(prompts.pieces)
    if flat.size and not 0 <= flat.min() <= flat.max() < known:
        raise ProgramError(
            f"the prompts have tokens from {flat.min()} to {flat.max()}, the tokenizer has "
            f"{known}: it is that of another model; give --tokenizer=FILE of the right one"
        )
    np.save(out / "prompts.npy", flat.astype(np.int32))
    np.save(out / "offsets.npy", np.cumsum([0, *lengths]).astype(np.int64))
    for file, value in (
        ("references.json", prompts.references),
        ("pieces.json", prompts.pieces),
        (name, list(entries)),
    ):
        (out / file).write_text(json.dumps(value, indent=0) + "\n", encoding="utf-8")


def facts(name: str, prompts: Prompts, repeated: bool, out: Path) -> dict[str, Any]:
    """What dataset.json says."""
    return {
        "name": name,
        "count": len(prompts.tokens),
        **({"qsl_count": QSL_COUNT} if repeated else {}),
        "largest_prompt": max(len(tokens) for tokens in prompts.tokens),
        "vocabulary": len(prompts.pieces),
        **({"tokenizer": prompts.tokenizer} if prompts.tokenizer else {}),
        "files": files.facts_of_files(out, FILES),
        "made_with": {"numpy": np.__version__},
    }


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = program.parser(__doc__)
    parser.add_argument("--tiny", action="store_true", help="generated articles")
    parser.add_argument("--synthetic", action="store_true", help="random tokens")
    parser.add_argument("--calibration", action="store_true", help="others than are judged")
    parser.add_argument("--articles", type=Path, help="cnn_eval.json, or a split for --list")
    parser.add_argument("--list", type=Path, help="ids of the articles to take out of a split")
    parser.add_argument("--tokenizer", type=Path, help="tokenizer.json, or its folder")
    parser.add_argument("--count", type=int, default=HELD_OUT, help="generated articles")
    options = parser.parse_args(arguments)
    options.calibration = options.calibration or bool(options.list)
    generated = options.tiny or options.synthetic
    if not generated and not (options.articles and options.tokenizer):
        parser.error("--tiny, --synthetic, or --articles and --tokenizer")
    return options


def load_dataset(options: argparse.Namespace) -> tuple[str, Prompts, list[dict[str, str]]]:
    """Return the name of the requested data set, its prompts and its articles."""
    if options.tiny and options.calibration:
        return "news-tiny", *tiny(CALIBRATION, CALIBRATION_SEED)
    if options.tiny:
        return "news-tiny", *tiny(options.count)
    if options.synthetic and options.calibration:
        return "cnndm-synthetic", *synthetic(CALIBRATION, SYNTHETIC_CALIBRATION_SEED)
    if options.synthetic:
        return "cnndm-synthetic", *synthetic()
    split = options.articles
    entries = listed(split, options.list) if options.list else entries_of(split)
    return "cnn-dailymail", full(entries, options.tokenizer), entries


def make(options: argparse.Namespace) -> str:
    """Write the prompts and, last of all, dataset.json; returns a line about them."""
    name, prompts, entries = load_dataset(options)
    write(prompts, entries, CALIBRATION_ENTRIES if options.calibration else ENTRIES, options.out)
    repeated = options.synthetic or (options.tiny and options.count == HELD_OUT)
    facts_ = facts(name, prompts, repeated and not options.calibration, options.out)
    files.write_facts(options.out, facts_)
    return f"{facts_['count']} prompts of at most {facts_['largest_prompt']} tokens written"


def main(arguments: list[str] | None = None) -> int:
    """Run the command line."""
    options = parse(arguments)
    return program.run("make_dataset", lambda: make(options))


if __name__ == "__main__":
    sys.exit(main())
