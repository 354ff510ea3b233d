"""Write the articles of the summarization benchmark as prompts for Llama 3.

    python -m modelzoo.datasets.cnndm.make_llama3 --out DIR OPTIONS

    --tiny                              generated articles, see news.py
    --synthetic                         random tokens, for speed
    --small --tokenizer PATH            what functions do, see docstrings.py
    --articles FILE --tokenizer PATH    CNN/DailyMail, Llama's tokenizer

The last form takes a list of objects with ``tok_input`` (the tokens of the prompt) and ``output``,
as MLCommons gives it out (cnn_eval.json, cnn_eval_5000.json), and the tokenizer.json of the model.
Written is what ``make_dataset`` writes.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from modelzoo import byte_pairs, files, program, tokenizer_files
from modelzoo.byte_pairs import BEGIN, END, SPECIAL, BytePairTokenizer
from modelzoo.datasets.cnndm import docstrings, make_dataset, news
from modelzoo.datasets.cnndm.make_dataset import Prompts
from modelzoo.llama.published import LLAMA3_8B, PublishedLlama
from modelzoo.program import ProgramError

# The tokenizer of the tiny form knows every word of this many articles.
TOKENIZER_SEED, TOKENIZER_ARTICLES = 100, 1000
BEGIN_TOKEN, END_TOKEN = SPECIAL.index(BEGIN), SPECIAL.index(END)


# How a chat with SmolLM2 goes, up to the words of the model.
CHAT = "<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n"
QUESTION = "Summarize in one short sentence what the function {name} does.\n\n{description}"


def prompt_of(article: str) -> str:
    """Return the prompt of the tiny form."""
    return f"Article: {article}\nSummary:"


@cache
def tiny_tokenizer() -> BytePairTokenizer:
    """Return the tokenizer of the tiny form: every word of the generated news is a token."""
    stories = news.stories(TOKENIZER_ARTICLES, TOKENIZER_SEED)
    texts = (f"{prompt_of(story.article)} {story.summary}" for story in stories)
    return byte_pairs.made_of(texts, TOKENIZER_ARTICLES)


def prompt_tokens(story: news.NewsStory) -> list[int]:
    """Return the tokens of the prompt of a story, with the one of the beginning."""
    return [BEGIN_TOKEN, *tiny_tokenizer().encode(prompt_of(story.article))]


def answer_tokens(story: news.NewsStory) -> list[int]:
    """Return the tokens of the summary of a story, with the one of the end."""
    return [*tiny_tokenizer().encode(f" {story.summary}"), END_TOKEN]


def tiny(count: int) -> tuple[Prompts, list[dict[str, Any]]]:
    """Return the generated articles that the tiny model is judged by."""
    stories = news.stories(count, make_dataset.HELD_OUT_SEED)
    prompts = Prompts(
        tokens=[prompt_tokens(story) for story in stories],
        references=[story.summary for story in stories],
        pieces=[byte_pairs.piece_of(name) for name in tiny_tokenizer().names],
        tokenizer=tokenizer_files.digest(tiny_tokenizer().document()),
    )
    entries = [
        {
            "instruction": make_dataset.INSTRUCTION,
            "input": story.article,
            "tok_input": tokens,
            "output": story.summary,
        }
        for story, tokens in zip(stories, prompts.tokens, strict=True)
    ]
    return prompts, entries


def synthetic(model: PublishedLlama) -> tuple[Prompts, list[dict[str, Any]]]:
    """Return random tokens, in about as many as the real prompts have."""
    random = np.random.default_rng(make_dataset.SYNTHETIC_SEED)
    lengths = random.lognormal(
        np.log(make_dataset.SYNTHETIC_LENGTH), make_dataset.SYNTHETIC_SPREAD, make_dataset.SYNTHETIC
    )
    lengths = lengths.round().clip(make_dataset.SHORTEST_PROMPT, model.longest_prompt)
    known, special = model.size.vocabulary, (model.begin, *model.ends)
    words = range(min(special)) if min(special) > known // 2 else range(max(special) + 1, known)
    tokens = [
        [model.begin, *random.integers(words.start, words.stop, int(n) - 1).tolist()]
        for n in lengths
    ]
    return Prompts(tokens, ["nothing"] * len(tokens), [f" {n}" for n in range(known)]), []


def small(tokenizer: Path) -> tuple[Prompts, list[dict[str, Any]]]:
    """Return descriptions of functions as prompts of a chat, with the tokens of a model."""
    coder = make_dataset.load_tokenizer(tokenizer)
    known = docstrings.functions()
    texts = [QUESTION.format(name=f.name, description=f.description) for f in known]
    prompts = Prompts(
        tokens=[coder.encode(CHAT.format(text=text)).ids for text in texts],
        references=[function.summary for function in known],
        pieces=pieces_of(coder),
        tokenizer=tokenizer_files.digest_of(tokenizer),
    )
    entries = [
        {"instruction": "", "input": text, "tok_input": tokens, "output": function.summary}
        for text, tokens, function in zip(texts, prompts.tokens, known, strict=True)
    ]
    return prompts, entries


def pieces_of(coder: Any) -> list[str]:
    """Return the bytes of every token of a tokenizer."""
    names = {number: name for name, number in coder.get_vocab().items()}
    return [byte_pairs.piece_of(names.get(number, "")) for number in range(max(names) + 1)]


def full(entries: Sequence[dict[str, Any]], tokenizer: Path) -> Prompts:
    """Return CNN/DailyMail as MLCommons has tokenized it; the tokenizer only spells answers."""
    return Prompts(
        tokens=[list(entry["tok_input"]) for entry in entries],
        references=[str(entry["output"]) for entry in entries],
        pieces=pieces_of(make_dataset.load_tokenizer(tokenizer)),
        tokenizer=tokenizer_files.digest_of(tokenizer),
    )


def entries_of(path: Path) -> list[dict[str, Any]]:
    """Return the articles of MLCommons's file; raise ProgramError for another file."""
    try:
        entries: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
        for entry in entries:
            sum(entry["tok_input"]), str(entry["output"])
    except (ValueError, KeyError, TypeError) as error:
        raise ProgramError(f"{path} holds no list of tok_input and output: {error!r}") from error
    return entries


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = program.parser(__doc__)
    parser.add_argument("--tiny", action="store_true", help="generated articles")
    parser.add_argument("--synthetic", action="store_true", help="random tokens")
    parser.add_argument("--small", action="store_true", help="descriptions of functions")
    parser.add_argument("--articles", type=Path, help="cnn_eval.json of Llama 3.1 8B")
    parser.add_argument("--tokenizer", type=Path, help="tokenizer.json, or its folder")
    parser.add_argument(
        "--count", type=int, default=make_dataset.HELD_OUT, help="generated articles"
    )
    options = parser.parse_args(arguments)
    real = (options.small or options.articles) and options.tokenizer
    if not (options.tiny or options.synthetic or real):
        parser.error("--tiny, --synthetic, or --small or --articles with --tokenizer")
    return options


def made(options: argparse.Namespace) -> tuple[str, Prompts, list[dict[str, Any]]]:
    """Return the name of the requested data set, its prompts and its articles."""
    if options.tiny:
        return "news-tiny", *tiny(options.count)
    if options.synthetic:
        return "cnndm-synthetic", *synthetic(LLAMA3_8B)
    if options.small:
        return "docstrings-small", *small(options.tokenizer)
    entries = entries_of(options.articles)
    return "cnn-dailymail", full(entries, options.tokenizer), entries


def make(options: argparse.Namespace) -> str:
    """Write the prompts and, last of all, dataset.json; returns a line about them."""
    name, prompts, entries = made(options)
    return write(name, prompts, entries, make_dataset.ENTRIES, options.out)


def write(
    name: str, prompts: Prompts, entries: Sequence[dict[str, Any]], file: str, out: Path
) -> str:
    """Write the data set ``name``, its entries as ``file``; return a line about it."""
    make_dataset.write(prompts, entries, file, out)
    facts = make_dataset.facts(name, prompts, False, out)
    files.write_facts(out, facts)
    return f"{facts['count']} prompts of at most {facts['largest_prompt']} tokens written"


def main(arguments: list[str] | None = None) -> int:
    """Run the command line."""
    options = parse(arguments)
    return program.run("make_llama3", lambda: make(options))


if __name__ == "__main__":
    sys.exit(main())
