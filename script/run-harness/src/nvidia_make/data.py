"""``download_model``, ``download_data``, ``preprocess_data``: by the scripts of the runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import neuron_artefact
from mlperf_catalog import Scratch
from nvidia_flow import words
from nvidia_flow.errors import FlowError
from nvidia_flow.space import of_word

from nvidia_make import asked, neuron, steps
from nvidia_make.flow import Flow

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
"""What nobody can download: the input of a run, that of the data script, the folder below data."""


def benchmarks(flow: Flow) -> list[tuple[str, str]]:
    """NVIDIA's words and our benchmarks that BENCHMARKS names; all of the round without it.

    Raises FlowError for one that the accelerator cannot run.
    """
    vendor_round = flow.settings.vendor_round
    named = flow.variables.get("BENCHMARKS", "").replace(",", " ").split()
    known = words.rounds(vendor_round)
    if flow.vendor == neuron.ACCELERATOR:
        known = {word: known[word] for word in neuron_artefact.benchmarks()}
    chosen = [words.benchmark(vendor_round, word) for word in named if word.lower() != asked.ALL]
    if foreign := [word for word in chosen if word not in known]:
        told = f"no model of {', '.join(foreign)} is compiled for Inferentia"
        raise FlowError("not-available", told, f"BENCHMARKS of: {' '.join(known)}")
    return [(word, known[word].name) for word in dict.fromkeys(chosen or known)]


def place(flow: Flow, word: str) -> Scratch:
    """What is a benchmark's below the scratch space in the round of the folder."""
    return of_word(flow.settings.vendor_round, word)


def by_hand(flow: Flow, benchmark: str, alone: bool = False) -> list[str]:
    """The option for data that the user has put into the scratch space; none in other forms.

    ``alone`` is for the data script itself, else it is for a run.
    """
    found = BY_HAND.get(benchmark.removesuffix(".9"))
    folder = flow.build / "data" / found[2] if found else None
    if flow.settings.form != "full" or found is None or folder is None or not folder.is_dir():
        return []
    return [f"--{found[1 if alone else 0]}={folder.resolve()}"]


def download_model(flow: Flow) -> None:
    """Get every model, and link it where NVIDIA's layout has it."""
    linked(flow, "models")
    for word, ours in benchmarks(flow):
        env = steps.model(flow, ours)
        source = Path(env["CM_ML_MODEL_FILE_WITH_PATH"])
        show(flow, flow.build / "models" / place(flow, word).models / source.name, source)


def download_data(flow: Flow) -> None:
    """Get every data set, or say which folder it is waited for in."""
    linked(flow, "data")
    for word, ours in benchmarks(flow):
        lines = list(originals(flow, ours))
        if not lines:
            flow.tell([f"{word}: its data come with its preprocessing"])
        for tags in lines:
            line = ["run", "script", f"--tags={tags}", "--quiet", *by_hand(flow, ours, True)]
            source = flow.doer.cm_json(line)["env"].get("CM_DATASET_PATH")
            if source:
                show(flow, flow.build / "data" / place(flow, word).data, Path(source))


def preprocess_data(flow: Flow) -> None:
    """Make the arrays that runs read, and link them where NVIDIA's layout has them."""
    linked(flow, "preprocessed_data")
    for word, ours in benchmarks(flow):
        tags = steps.step_of(flow, ours, "preprocessed")
        line = ["run", "script", f"--tags={tags}", "--quiet", *by_hand(flow, ours, True)]
        files = neuron.scratch(flow)
        line += [f"--scratch_path={files}"] if files else []
        source = flow.doer.cm_json(line)["env"].get("CM_DATASET_PREPROCESSED_PATH")
        # The guide for Inferentia has files of its own, which the script has written there.
        if source and not files:
            target = flow.build / "preprocessed_data" / place(flow, word).preprocessed_data
            show(flow, target, Path(source))


def originals(flow: Flow, benchmark: str) -> Iterator[str]:
    """The tags of the data sets that a run's preprocessing starts from."""
    preprocessed = steps.step_of(flow, benchmark, "preprocessed")
    for step in steps.steps(flow, benchmark):
        if step["tags"] == preprocessed:
            for child in step["children"]:
                tags = str(child["tags"])
                if {"get", "dataset", "original"} <= set(tags.split(",")):
                    yield tags


def linked(flow: Flow, name: str) -> None:
    """Raise FlowError before ``make link_dirs``: nothing is fetched that could not be shown."""
    if not (flow.build / name).exists():
        raise FlowError("needs-input", f"{flow.build / name} is not there", "make link_dirs")


def show(flow: Flow, place: Path, source: Path) -> None:
    """A link to what a script has in its cache; what the user has put there stays.

    Raises FlowError before ``make link_dirs``.
    """
    linked(flow, place.relative_to(flow.build).parts[0])
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.is_symlink():
        place.unlink()
    if place.exists():
        flow.tell([f"{place.relative_to(flow.folder)}: there already"])
        return
    place.symlink_to(source)
    flow.tell([f"{place.relative_to(flow.folder)} -> {source}"])
