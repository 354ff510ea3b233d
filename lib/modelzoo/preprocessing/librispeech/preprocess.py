"""Turn a part of LibriSpeech into arrays that a benchmark loads at once.

    python -m modelzoo.preprocessing.librispeech.preprocess --part DIR --name NAME --out DIR

Utterances of up to 15 s are kept, the longest first, as MLPerf's list has them. Written are
``samples.npy`` int16 [samples], ``offsets.npy`` int64 [utterances + 1], ``texts.json`` (in lower
case) and ``dataset.json``. FLAC files need the package soundfile; WAV files nothing.
"""

from __future__ import annotations

import argparse
import json
import sys
import wave
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from modelzoo import files, program
from modelzoo.program import ProgramError

RATE = 16_000
LONGEST_S = 15.0
KINDS = (".flac", ".wav")
FILES = ("samples.npy", "offsets.npy", "texts.json")

Samples = npt.NDArray[np.int16]


@dataclass(frozen=True, slots=True)
class Transcript:
    """A sound file and its text."""

    path: Path
    text: str


def utterances(part: Path) -> Iterator[Transcript]:
    """All that the lists below ``part`` name; raises ProgramError for a missing file."""
    lists = sorted(part.rglob("*.trans.txt"))
    if not lists:
        raise ProgramError(f"{part} has no *.trans.txt: is it a part of LibriSpeech?")
    for listing in lists:
        for line in listing.read_text(encoding="utf-8").splitlines():
            name, _, text = line.partition(" ")
            path = next(
                (
                    listing.parent / (name + kind)
                    for kind in KINDS
                    if (listing.parent / (name + kind)).is_file()
                ),
                None,
            )
            if path is None:
                raise ProgramError(f"{listing} names {name}, but there is no such sound file")
            yield Transcript(path, text.strip().lower())


def read(path: Path) -> Samples:
    """The samples of a file with one channel of 16 bits at 16 kHz.

    Raises ProgramError for another format.
    """
    if path.suffix == ".flac":
        import soundfile

        samples: Samples
        samples, rate = soundfile.read(str(path), dtype="int16")
    else:
        with wave.open(str(path), "rb") as file:
            rate = file.getframerate()
            if (file.getnchannels(), file.getsampwidth()) != (1, 2):
                raise ProgramError(f"{path} is not one channel of 16 bits")
            samples = np.frombuffer(file.readframes(file.getnframes()), dtype="<i2")
    if rate != RATE or samples.ndim != 1:
        raise ProgramError(f"{path} has {rate} samples a second, expected {RATE}")
    return samples


def write(part: Path, out: Path) -> int:
    """Write the arrays; returns how many utterances were left out because they are too long.

    Raises ProgramError when none is left.
    """
    kept = []
    everything = list(utterances(part))
    for utterance in everything:
        samples = read(utterance.path)
        if len(samples) <= LONGEST_S * RATE:
            kept.append((samples, utterance.text))
    kept.sort(key=lambda pair: -len(pair[0]))
    if not kept:
        raise ProgramError(f"{part} has no utterance of up to {LONGEST_S:g} s")
    write_arrays(kept, out)
    return len(everything) - len(kept)


def write_arrays(sounds: Sequence[tuple[Samples, str]], out: Path) -> None:
    """Write sounds and their texts."""
    np.save(out / "samples.npy", np.concatenate([samples for samples, _ in sounds]))
    ends = np.cumsum([0, *(len(samples) for samples, _ in sounds)])
    np.save(out / "offsets.npy", ends.astype(np.int64))
    texts = json.dumps([text for _, text in sounds], indent=0) + "\n"
    (out / "texts.json").write_text(texts, encoding="utf-8")


def facts(name: str, qsl_count: int, left_out: int, out: Path) -> dict[str, Any]:
    """What dataset.json says."""
    lengths = np.diff(np.load(out / "offsets.npy"))
    repeated = {"qsl_count": qsl_count} if qsl_count else {}
    return {
        "name": name,
        "count": len(lengths),
        **repeated,
        "rate": RATE,
        "seconds": round(float(lengths.sum()) / RATE, 1),
        "left_out": left_out,
        "files": files.facts_of_files(out, FILES),
        "made_with": {"numpy": np.__version__},
    }


def main(arguments: list[str] | None = None) -> int:
    """Write the arrays and, last of all, dataset.json."""
    parser = program.parser(__doc__)
    parser.add_argument("--part", type=Path, required=True, help="folder of a part, as dev-clean")
    parser.add_argument("--name", required=True, help="name of the data set, for its facts")
    parser.add_argument("--qsl-count", type=int, default=0, help="samples that the rules want")
    parser.add_argument("--expect", type=int, default=0, help="utterances that there must be")
    options = parser.parse_args(arguments)
    return program.run("preprocess", lambda: make(options))


def make(options: argparse.Namespace) -> str:
    """Write everything; return a line about it. Raise ProgramError unless there are --expect."""
    try:
        left_out = write(options.part, options.out)
    except wave.Error as error:
        raise ProgramError(str(error)) from error
    facts_ = facts(options.name, options.qsl_count, left_out, options.out)
    if options.expect not in (0, facts_["count"]):
        raise ProgramError(
            f"{options.part} has {facts_['count']} utterances of up to {LONGEST_S:g} s, "
            f"expected {options.expect}"
        )
    files.write_facts(options.out, facts_)
    return f"{facts_['count']} utterances of {facts_['seconds']} s in all written"


if __name__ == "__main__":
    sys.exit(main())
