"""The tiny form of LibriSpeech: words spelled in tones, with noise, a speaker and a tempo.

Every letter is a chord of a low and a high tone out of a few, as on a telephone's
keypad. A speaker shifts all pitches and has a loudness and a tempo; letters vary in length; noise
lies over everything. Words come from a fixed list of made-up words.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

RATE = 16_000
LETTERS = "abdeghiklmnoprstu"
CONSONANTS = "bdghklmnprst"
VOWELS = "aeiou"
LOW = (400.0, 520.0, 660.0, 830.0, 1040.0)
HIGH = (1500.0, 1850.0, 2280.0, 2800.0)
WORD_SEED = 12
WORDS = 120
LETTER_S = (0.055, 0.095)
GAP_S = (0.06, 0.11)
NOISE = (0.04, 0.22)

Samples = npt.NDArray[np.int16]


@dataclass(frozen=True, slots=True)
class SpokenTones:
    """What was said, and the samples [n] of it at ``RATE``."""

    text: str
    samples: Samples


def lexicon() -> tuple[str, ...]:
    """Return all words: one or two syllables, some closed by a consonant."""
    random = np.random.default_rng(WORD_SEED)
    words: dict[str, None] = {}
    while len(words) < WORDS:
        word = ""
        for _ in range(int(random.integers(1, 3))):
            word += str(random.choice(list(CONSONANTS))) + str(random.choice(list(VOWELS)))
        if random.random() < 0.4:
            word += str(random.choice(list(CONSONANTS)))
        words[word] = None
    return tuple(words)


def _chord(letter: str) -> tuple[float, float]:
    number = LETTERS.index(letter)
    return LOW[number % len(LOW)], HIGH[number // len(LOW)]


def _sound(letter: str, seconds: float, pitch: float) -> npt.NDArray[np.float64]:
    time = np.arange(int(seconds * RATE)) / RATE
    low, high = _chord(letter)
    fade = np.minimum(1.0, np.minimum(time, time[::-1]) / 0.008)
    wave: npt.NDArray[np.float64] = fade * (
        np.sin(2 * np.pi * low * pitch * time) + 0.8 * np.sin(2 * np.pi * high * pitch * time)
    )
    return wave


def utter(text: str, random: np.random.Generator) -> Samples:
    """``text`` spoken by a random speaker."""
    pitch, loudness = random.uniform(0.96, 1.04), random.uniform(0.1, 0.3)
    pieces = [np.zeros(int(random.uniform(*GAP_S) * RATE))]
    for letter in text:
        if letter == " ":
            pieces.append(np.zeros(int(random.uniform(*GAP_S) * RATE)))
        else:
            pieces.append(_sound(letter, random.uniform(*LETTER_S), pitch))
    pieces.append(np.zeros(int(random.uniform(*GAP_S) * RATE)))
    wave = loudness * np.concatenate(pieces)
    wave += loudness * random.uniform(*NOISE) * random.normal(0, 1, len(wave)) * 4
    scaled: Samples = np.clip(np.rint(wave * 32767), -32768, 32767).astype(np.int16)
    return scaled


def utterances(count: int, seed: int) -> list[SpokenTones]:
    """Return ``count`` utterances of two to four words; the same seed gives the same ones."""
    random = np.random.default_rng(seed)
    words = np.asarray(lexicon())
    spoken = []
    for _ in range(count):
        text = " ".join(random.choice(words, int(random.integers(2, 5))))
        spoken.append(SpokenTones(text, utter(text, random)))
    return spoken
