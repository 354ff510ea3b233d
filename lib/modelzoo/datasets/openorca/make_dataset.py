"""Write the samples of OpenOrca as prompts for Llama 2.

    python -m modelzoo.datasets.openorca.make_dataset --out DIR OPTIONS

    --tiny                              the generated news of the tiny Llama
    --synthetic                         random tokens, for speed
    --samples FILE --tokenizer FILE     MLCommons's samples, Llama's tokenizer.json

The last form takes a table of pandas with the columns ``tok_input`` (the tokens of the prompt) and
``output``, pickled, as MLCommons gives it out. Written is what the program of CNN/DailyMail writes.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from modelzoo import program, tokenizer_files
from modelzoo.byte_pairs import sentence_piece_of
from modelzoo.datasets.cnndm import make_dataset, make_llama3
from modelzoo.datasets.cnndm.make_dataset import Prompts
from modelzoo.llama.published import LLAMA2_70B
from modelzoo.program import ProgramError

ENTRIES = "open_orca.json"
COLUMNS = ("tok_input", "output")


def table_of(path: Path) -> Mapping[str, Sequence[Any]]:
    """Return the columns of MLCommons's file; raise ProgramError for another one.

    A pickle runs code of its maker: it is opened only because the user names it.
    """
    pandas: Any = importlib.import_module("pandas")
    try:
        table = pandas.read_pickle(path)
        return {name: table[name].tolist() for name in COLUMNS}
    except Exception as error:  # a damaged pickle raises anything
        raise ProgramError(f"{path} is no table with {' and '.join(COLUMNS)}: {error!r}") from error


def full(table: Mapping[str, Sequence[Any]], tokenizer: Path) -> Prompts:
    """Return OpenOrca as MLCommons has tokenized it; the tokenizer only spells answers."""
    vocabulary = make_dataset.load_tokenizer(tokenizer).get_vocab()
    names = {number: name for name, number in vocabulary.items()}
    return Prompts(
        tokens=[[int(token) for token in tokens] for tokens in table["tok_input"]],
        references=[str(text) for text in table["output"]],
        pieces=[sentence_piece_of(names.get(n, "")) for n in range(max(names) + 1)],
        tokenizer=tokenizer_files.digest_of(tokenizer),
    )


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = program.parser(__doc__)
    parser.add_argument("--tiny", action="store_true", help="generated news")
    parser.add_argument("--synthetic", action="store_true", help="random tokens")
    parser.add_argument("--samples", type=Path, help="the pickled table")
    parser.add_argument("--tokenizer", type=Path, help="tokenizer.json")
    options = parser.parse_args(arguments)
    if not (options.tiny or options.synthetic or (options.samples and options.tokenizer)):
        parser.error("--tiny, --synthetic, or --samples and --tokenizer")
    return options


def made(options: argparse.Namespace) -> tuple[str, Prompts, list[dict[str, Any]]]:
    """Return the name of the requested data set, its prompts and its samples."""
    if options.tiny:
        return "news-tiny", *make_llama3.tiny(make_dataset.HELD_OUT)
    if options.synthetic:
        return "openorca-synthetic", *make_llama3.synthetic(LLAMA2_70B)
    return "openorca", full(table_of(options.samples), options.tokenizer), []


def make(options: argparse.Namespace) -> str:
    """Write the prompts and, last of all, dataset.json; return a line about them."""
    name, prompts, entries = made(options)
    return make_llama3.write(name, prompts, entries, ENTRIES, options.out)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line."""
    options = parse(arguments)
    return program.run("make_dataset", lambda: make(options))


if __name__ == "__main__":
    sys.exit(main())
