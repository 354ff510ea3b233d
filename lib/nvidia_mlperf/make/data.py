"""``download_model``, ``download_data``, ``preprocess_data``: by the scripts of the runs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from aws_neuron import artifact
from common.problems import Problem
from mlperf.catalog import Scratch
from nvidia_mlperf.flow import vocabulary
from nvidia_mlperf.flow.space import FOLDERS, of_form, scratch_of
from nvidia_mlperf.make import neuron, scratch, shown, steps
from nvidia_mlperf.make.flow import Flow
from nvidia_mlperf.make.run_arguments import ALL

BY_HAND: Mapping[str, tuple[str, str, str]] = {
    "resnet50": ("imagenet_path", "imagenet_path", "imagenet"),
    "3d-unet-brats-99": (
        "adr.original-dataset.brats_path",
        "adr.original-dataset.brats_path",
        "BraTS/MICCAI_BraTS_2019_Data_Training",
    ),
    "dlrm-99": ("adr.criteo-preprocessed.dir", "dir", "criteo"),
    "dlrm-v2-99": ("adr.criteo-preprocessed.dir", "dir", "criteo"),
}
"""Data not for download: input of a run, input of the data script, folder below data."""

SQUAD = "CM_DATASET_SQUAD_VAL_PATH"
"""Of SQuAD there is one file, and no folder."""
OF_DATA = ("data-needed", "data-incomplete", "file-not-found")
"""The kinds of errors that the user's own data mend."""


def benchmarks(flow: Flow) -> list[tuple[str, str]]:
    """NVIDIA's words and our benchmarks that BENCHMARKS names; all of the round without it.

    Raises Problem for one that the accelerator cannot run.
    """
    vendor_round = flow.settings.vendor_round
    named = flow.variables.get("BENCHMARKS", "").replace(",", " ").split()
    known = vocabulary.rounds(vendor_round)
    if flow.vendor == neuron.ACCELERATOR:
        known = {word: known[word] for word in artifact.benchmarks()}
    chosen = [vocabulary.benchmark(vendor_round, word) for word in named if word.lower() != ALL]
    if foreign := [word for word in chosen if word not in known]:
        text = f"no model of {', '.join(foreign)} is compiled for Inferentia"
        raise Problem("not-available", text, f"BENCHMARKS of: {' '.join(known)}")
    return [(word, known[word].name) for word in dict.fromkeys(chosen or known)]


def place(flow: Flow, word: str) -> Scratch:
    """What is a benchmark's below the scratch space in the round and the form of the folder."""
    return of_form(scratch_of(flow.settings.vendor_round, word), flow.settings.form)


def own_folder(flow: Flow, benchmark: str) -> Path | None:
    """The folder in which the user's own data of a benchmark belong; None where it has none."""
    source = BY_HAND.get(benchmark.removesuffix(".9")) if flow.settings.form == "full" else None
    return flow.build / "data" / source[2] if source else None


def by_hand(flow: Flow, benchmark: str, alone: bool = False) -> list[str]:
    """Return the option for data that the user has put into the scratch space; none in other forms.

    ``alone`` is for the data script itself, else it is for a run. A link into the cache there, as
    earlier versions have made it, is nothing of the user's.
    """
    folder = own_folder(flow, benchmark)
    if folder is None or not folder.is_dir() or flow.runner.in_cache(folder):
        return []
    option = BY_HAND[benchmark.removesuffix(".9")][1 if alone else 0]
    return [f"--{option}={folder.resolve()}"]


def with_folder(flow: Flow, benchmark: str, problem: Problem) -> Problem:
    """Return a failure for want of the user's own data, with the folder in which they belong.

    A link into the cache there is removed: what is put there now must not be written into it.
    """
    folder = own_folder(flow, benchmark)
    if folder is None or problem.code not in OF_DATA:
        return problem
    if folder.is_symlink() and flow.runner.in_cache(folder):
        folder.unlink()
    problem.hint = f"put the data into {os.path.realpath(folder)}"
    return problem


def download_model(flow: Flow) -> None:
    """Get every model, and show it where NVIDIA's layout has it."""
    linked(flow)
    for word, ours in benchmarks(flow):
        env = steps.model(flow, ours)
        source = Path(env["CM_ML_MODEL_FILE_WITH_PATH"])
        show(flow, flow.build / "models" / place(flow, word).models / source.name, source)


def download_data(flow: Flow) -> None:
    """Get every data set, or say which folder it is waited for in."""
    linked(flow)
    for word, ours in benchmarks(flow):
        lines = list(originals(flow, ours))
        if not lines:
            flow.report([f"{word}: its data come with its preprocessing"])
        for tags in lines:
            env, target = (
                run_data_script(flow, ours, tags),
                flow.build / "data" / place(flow, word).data,
            )
            if env.get("CM_DATASET_PATH"):
                show(flow, target, Path(env["CM_DATASET_PATH"]))
            elif env.get(SQUAD):
                show(flow, target / Path(env[SQUAD]).name, Path(env[SQUAD]))


def preprocess_data(flow: Flow) -> None:
    """Make the arrays that runs read, and show them where NVIDIA's layout has them."""
    linked(flow)
    for word, ours in benchmarks(flow):
        tags = steps.step_of(flow, ours, "preprocessed")
        # The guide for Inferentia has files of its own, which the script writes there.
        files = files_of_guide(flow)
        env = run_data_script(flow, ours, tags, *([f"--scratch_path={files}"] if files else []))
        source = env.get("CM_DATASET_PREPROCESSED_PATH")
        if source and not files:
            target = flow.build / "preprocessed_data" / place(flow, word).preprocessed_data
            show(flow, target, Path(source))


def files_of_guide(flow: Flow) -> str:
    """The scratch space in which the guide for Inferentia has files of its own; else empty."""
    return neuron.scratch(flow) if flow.settings.form == "full" else ""


def of_run(flow: Flow, word: str, benchmark: str) -> list[str]:
    """Return the words of a run for the data that are there: without them it would make others."""
    files = files_of_guide(flow)
    written = Path(files, "preprocessed_data", place(flow, word).preprocessed_data)
    scratch = [f"--adr.dataset-preprocessed.scratch_path={files}"]
    return [*by_hand(flow, benchmark), *(scratch if files and written.is_dir() else [])]


def run_data_script(flow: Flow, benchmark: str, tags: str, *words: str) -> Mapping[str, Any]:
    """What the script of a benchmark's data gives back; raises Problem."""
    line = ["run", "script", f"--tags={tags}", *by_hand(flow, benchmark, True), *words]
    try:
        env: Mapping[str, Any] = flow.runner.cm_json([*line, *flow.python(), "--quiet"])["env"]
    except Problem as problem:
        raise with_folder(flow, benchmark, problem) from None
    return env


def originals(flow: Flow, benchmark: str) -> Iterator[str]:
    """Yield the tags of the data sets that a run's preprocessing starts from."""
    preprocessed = steps.step_of(flow, benchmark, "preprocessed")
    # A plan shows nothing below what is in the cache already.
    line = ["plan", "script", f"--tags={preprocessed}", "--new", "--json"]
    for child in flow.runner.cm_json(line)["root"]["children"]:
        tags = str(child["tags"])
        if {"get", "dataset", "original"} <= set(tags.split(",")):
            yield tags


def linked(flow: Flow) -> None:
    """Make the links of ``make link_dirs`` where one of them lacks."""
    if not all((flow.build / name).exists() for name in FOLDERS):
        scratch.link_dirs(flow)


def show(flow: Flow, place: Path, source: Path) -> None:
    """Show what a script has in its cache; what the user has put there stays."""
    flow.report([f"{place.relative_to(flow.folder)}: {shown.show(flow.runner, place, source)}"])
