"""The utterances spelled in tones, and the check of a part that was unpacked."""

from __future__ import annotations

import json
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import benchmark_forms as forms
import benchmark_lab as lab
from cmbench.errors import Error
from modelzoo.datasets.librispeech import tones

SCRIPT = forms.SCRIPT / "get-dataset-librispeech"
customize = lab.module_of(SCRIPT / "customize.py")


def test_the_layout_is_librispeechs() -> None:
    folder = Path(customize.find_part(str(forms.speech()), "dev-clean"))
    facts = json.loads((forms.speech() / "dataset.json").read_text())
    assert customize.count_utterances(str(folder)) == facts["count"] == 400
    listing = folder / "100" / "1000" / "100-1000.trans.txt"
    name, _, text = listing.read_text().splitlines()[0].partition(" ")
    assert set(text.lower().split()) <= set(tones.lexicon())
    with wave.open(str(listing.parent / f"{name}.wav"), "rb") as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (16_000, 1, 2)


def test_another_seed_says_other_things_and_the_same_one_the_same() -> None:
    first, again, other = tones.utterances(3, 1), tones.utterances(3, 1), tones.utterances(3, 2)
    assert [each.text for each in first] == [each.text for each in again]
    np.testing.assert_array_equal(first[2].samples, again[2].samples)
    assert [each.text for each in first] != [each.text for each in other]


def test_a_part_with_utterances_missing_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chapter = tmp_path / "LibriSpeech" / "dev-clean" / "1" / "2"
    chapter.mkdir(parents=True)
    (chapter / "1-2.trans.txt").write_text("1-2-0000 HELLO\n1-2-0001 WORLD\n")
    monkeypatch.chdir(tmp_path)
    env: dict[str, Any] = {"CM_DATASET_ARCHIVE": "dev-clean.tar.gz"}
    with pytest.raises(Error, match="has 2 utterances, LibriSpeech's dev-clean has 2703"):
        customize.postprocess({"env": env})
    with pytest.raises(Error, match="no folder test-clean"):
        customize.postprocess({"env": {"CM_DATASET_ARCHIVE": "test-clean.tar.gz"}})


def test_the_archive_comes_from_its_home_unless_another_place_is_given() -> None:
    env = {"CM_DATASET_ARCHIVE": "dev-clean.tar.gz", "CM_LIBRISPEECH_URL": ""}
    customize.preprocess({"env": env})
    assert env["CM_LIBRISPEECH_URL"] == "https://www.openslr.org/resources/12/dev-clean.tar.gz"
    env["CM_LIBRISPEECH_URL"] = "http://localhost/mirror.tar.gz"
    customize.preprocess({"env": env})
    assert env["CM_LIBRISPEECH_URL"] == "http://localhost/mirror.tar.gz"
