"""Turn LibriSpeech into pieces of up to half a minute, as MLPerf measures Whisper with them.

    python -m modelzoo.preprocessing.librispeech.repack --parts DIR DIR --name NAME --out DIR
    python -m modelzoo.preprocessing.librispeech.repack --manifest FILE --name NAME --out DIR

The utterances of a chapter are joined in their order, with half a second of silence between them,
as long as a piece stays within 30 s; longer utterances are left out. A manifest names pieces that
are joined already, as files of WAV below its folder. Written are the files of ``preprocess``.
Source: speech2text/utils/repackage_librispeech.py of MLPerf's reference implementation.
"""

from __future__ import annotations

import argparse
import json
import sys
import wave
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

import numpy as np

from modelzoo import files, program
from modelzoo.preprocessing.librispeech.preprocess import (
    RATE,
    Samples,
    facts,
    read,
    utterances,
    write_arrays,
)
from modelzoo.program import ProgramError

LONGEST = 30 * RATE
SILENCE = RATE // 2
Sound = tuple[Samples, str]


@dataclass(slots=True)
class SpeechPiece:
    """Utterances that are joined."""

    sounds: list[Samples] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    @property
    def length(self) -> int:
        """Return the samples of all, with the silence between them."""
        return sum(map(len, self.sounds)) + SILENCE * max(0, len(self.sounds) - 1)

    def add(self, sound: Samples, text: str) -> None:
        """Append an utterance."""
        self.sounds.append(sound)
        self.texts.append(text)

    def joined(self) -> Sound:
        """Return the sound and the text of the whole piece."""
        parts = [self.sounds[0]]
        for sound in self.sounds[1:]:
            parts += [np.zeros(SILENCE, np.int16), sound]
        return np.concatenate(parts), " ".join(self.texts)


def pieces(chapter: Iterable[Sound]) -> Iterator[Sound]:
    """Join the utterances of a chapter to pieces that are as long as they may be."""
    piece = SpeechPiece()
    for sound, text in chapter:
        if len(sound) > LONGEST:
            continue
        if piece.sounds and piece.length + SILENCE + len(sound) > LONGEST:
            yield piece.joined()
            piece = SpeechPiece()
        piece.add(sound, text)
    if piece.sounds:
        yield piece.joined()


def of_parts(parts: Sequence[Path]) -> Iterator[Sound]:
    """Read parts of LibriSpeech, chapter by chapter."""
    for part in parts:
        for _, chapter in groupby(utterances(part), key=lambda entry: entry.path.parent):
            yield from pieces((read(entry.path), entry.text) for entry in chapter)


def of_manifest(manifest: Path) -> Iterator[Sound]:
    """Read pieces that are joined already; raise ProgramError for a file that is no manifest."""
    try:
        entries = json.loads(manifest.read_text(encoding="utf-8"))
        listed = [(str(entry["files"][0]["fname"]), entry["transcript"]) for entry in entries]
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise ProgramError(f"{manifest} lists no pieces of speech: {error!r}") from error
    for name, text in listed:
        path = _below(manifest.parent, Path(name))
        yield read(path), text.strip().lower()


def _below(folder: Path, name: Path) -> Path:
    """Return the file of this name below ``folder``; raise ProgramError where there is none."""
    for path in (folder / name, folder / name.parent.name / name.name, folder / name.name):
        if path.is_file():
            return path
    raise ProgramError(f"{folder} has no {name}, which its manifest names")


def make(options: argparse.Namespace) -> str:
    """Write everything; return a line about it, or raise ProgramError for other pieces."""
    source = of_manifest(options.manifest) if options.manifest else of_parts(options.parts)
    try:
        write_arrays(list(source), options.out)
    except wave.Error as error:
        raise ProgramError(str(error)) from error
    facts_ = {**facts(options.name, 0, 0, options.out), "normalize": "english"}
    if options.expect not in (0, facts_["count"]):
        raise ProgramError(f"there are {facts_['count']} pieces, expected {options.expect}")
    files.write_facts(options.out, facts_)
    return f"{facts_['count']} pieces of {facts_['seconds']} s in all written"


def main(arguments: list[str] | None = None) -> int:
    """Write the arrays and, last of all, dataset.json."""
    parser = program.parser(__doc__)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--parts", type=Path, nargs="+", help="folders of parts, as dev-clean")
    source.add_argument("--manifest", type=Path, help="MLCommons's dev-all-repack.json")
    parser.add_argument("--name", required=True, help="name of the data set, for its facts")
    parser.add_argument("--expect", type=int, default=0, help="pieces that there must be")
    options = parser.parse_args(arguments)
    return program.run("repack", lambda: make(options))


if __name__ == "__main__":
    sys.exit(main())
