"""Fetch and check a part of LibriSpeech, or make the tiny set of tones."""

from __future__ import annotations

import os
from typing import Any

from cmbench.errors import Error
from cmbench.lib.programs import run_program

HOME = "https://www.openslr.org/resources/12/"
# Speakers and utterances of the parts, as LibriSpeech's own README counts them.
UTTERANCES = {"dev-clean": 2703, "dev-other": 2864, "test-clean": 2620, "test-other": 2939}


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Say where the archive is; the tiny form is made by a program."""
    env = i["env"]
    if env.get("CM_DATASET_FORM") == "tiny":
        return run_program(i, "make")
    env["CM_LIBRISPEECH_URL"] = env["CM_LIBRISPEECH_URL"] or HOME + env["CM_DATASET_ARCHIVE"]
    return {"return": 0}


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Find the part in what was unpacked, and count its utterances."""
    env = i["env"]
    tiny = env.get("CM_DATASET_FORM") == "tiny"
    part = "dev-clean" if tiny else env["CM_DATASET_ARCHIVE"].removesuffix(".tar.gz")
    folder = find_part(os.getcwd(), part)
    count = count_utterances(folder)
    if not tiny and count != UTTERANCES.get(part, count):
        raise Error(
            "data-incomplete",
            f"{folder} has {count} utterances, LibriSpeech's {part} has {UTTERANCES[part]}",
            hint="remove the archive and run again, it was not unpacked whole",
        )
    env["CM_DATASET_PATH"] = folder
    env[f"CM_DATASET_LIBRISPEECH_{part.upper().replace('-', '_')}_PATH"] = folder
    env["CM_DATASET_SIZE"] = str(count)
    return {"return": 0, "version": "1.0" if tiny else part}


def find_part(root: str, part: str) -> str:
    """The folder of a part somewhere below ``root``; Error when it is not there."""
    for folder, folders, _ in os.walk(root):
        if part in folders:
            return os.path.join(folder, part)
    raise Error(
        "data-wrong",
        f"what was unpacked has no folder {part}",
        hint="give LibriSpeech's own archive, as it comes from " + HOME,
    )


def count_utterances(folder: str) -> int:
    """The lines of all lists of texts below ``folder``."""
    count = 0
    for place, _, names in os.walk(folder):
        for name in names:
            if name.endswith(".trans.txt"):
                with open(os.path.join(place, name), encoding="utf-8") as file:
                    count += sum(1 for line in file if line.strip())
    return count
