"""The scratch space of NVIDIA's flow: its folders, what of them is a benchmark's, and how large."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from common.problems import Problem
from mlperf import catalog
from mlperf.catalog import Scratch
from nvidia_mlperf.flow import vocabulary

FOLDERS = ("data", "models", "preprocessed_data")
STAND_INS = ("tiny", "synthetic")
"""The forms of models and data that stand in for the real ones."""
FALLBACK = "/home/mlperf_inference_data"
"""Where Azure's guide expects it."""


def places() -> dict[str, list[Scratch]]:
    """Return the scratch folders by NVIDIA's names: one may have differed in earlier rounds."""
    scratches: dict[str, dict[Scratch, None]] = {}
    for spec in catalog.benchmarks("").values():
        if spec.scratch:
            scratches.setdefault(spec.family, {})[spec.scratch] = None
    return {word: list(each) for word, each in sorted(scratches.items())}


def scratch_of(vendor_round: str, word: str) -> Scratch:
    """What is a benchmark's in a round; raises Problem where the round has no such word."""
    name = vocabulary.benchmark(vendor_round, word)
    scratch = vocabulary.rounds(vendor_round)[name].scratch
    assert scratch is not None
    return scratch


def of_form(scratch: Scratch, form: str) -> Scratch:
    """Return the folders of a form; stand-ins for real data have folders of their own.

    Where it lay at theirs, nothing could distinguish them.
    """
    if form not in STAND_INS:
        return scratch

    def own(path: str) -> str:
        first, *below = path.split("/")
        return "/".join([f"{first}_{form}", *below])

    return replace(
        scratch,
        data=own(scratch.data),
        models=own(scratch.models),
        preprocessed_data=own(scratch.preprocessed_data),
    )


def too_large(free: int) -> list[str]:
    """Return the benchmarks whose files do not fit into ``free`` bytes, with what each takes."""
    sizes = {word: sum(each.gigabytes for each in own) for word, own in places().items()}
    return [f"{word} ({size} GB)" for word, size in sizes.items() if size * 10**9 > free]


def of_benchmark(root: Path, name: str, folder: str = "") -> list[Path]:
    """What is there of a benchmark, in one of the folders or in all."""
    wanted = [folder] if folder else list(FOLDERS)
    of_forms = [of_form(own, form) for own in places()[name] for form in ("full", *STAND_INS)]
    paths = [root / part / getattr(own, part) for part in wanted for own in of_forms]
    return [path for path in paths if path.exists() or path.is_symlink()]


def scratch_path(path: object, environ: Mapping[str, str]) -> str:
    """The path that counts: what is given, MLPERF_SCRATCH_PATH, the fixed one where it exists.

    Raises Problem where there is none of them.
    """
    folder = str(path or "") or environ.get("MLPERF_SCRATCH_PATH", "")
    if not folder and Path(FALLBACK).is_dir():
        folder = FALLBACK
    choose = "`export MLPERF_SCRATCH_PATH=DIR`, a folder of a large disk: 3 TB for everything"
    if not folder:
        raise Problem("needs-input", "the scratch space is not named", choose)
    if vocabulary.placeholders(folder):
        raise Problem(
            "bad-value", f"the scratch space {folder} is a placeholder of the guide", choose
        )
    return folder
