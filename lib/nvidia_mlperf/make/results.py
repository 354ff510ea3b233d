"""From runs to a submission: the tree, its compliance tests, its checks, its archive."""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
from pathlib import Path

from common.problems import Problem, reworded
from nvidia_mlperf.flow.systems import CPU
from nvidia_mlperf.make import harness, neuron
from nvidia_mlperf.make.flow import STAND_IN, Flow
from nvidia_mlperf.make.scratch import link
from nvidia_mlperf.make.work import plan

TREE = "submission-staging"
CATEGORY = {"v3.1": "datacenter"}
"""Where a round's own submission was in one category only: Azure's."""
NOTE = f"{STAND_IN} for NVIDIA's TensorRT engines: ONNX Runtime on the processor"
NEURON_NOTE = f"{STAND_IN} for a Neuron device: TorchScript on the processor"


def tree(flow: Flow, there: bool = True) -> Path:
    """Return the submission tree; raise Problem where it has to be ``there`` and is not."""
    folder = flow.build / TREE
    if there and not folder.is_dir():
        raise Problem("no-results", f"{folder} is not there", "`make update_results`")
    return folder


def update_results(flow: Flow) -> None:
    """The tree from all finished runs; ``results`` shows its results. Its verdict is printed.

    Raises Problem without runs, or when no tree is made of them.
    """
    runs = flow.results / f"{flow.settings.execution_mode}_results"
    again = f"make {measuring(flow)}"
    if not runs.is_dir():
        raise Problem("no-results", f"{runs} is not there: nothing was measured", again)
    settings, folder = flow.settings, tree(flow, there=False)
    only = "datacenter" if flow.vendor == neuron.ACCELERATOR else ""
    category = settings.category or only or CATEGORY.get(settings.vendor_round) or both(runs)
    shutil.rmtree(folder, ignore_errors=True)
    status = flow.runner.cm(
        [
            "run",
            "script",
            "--tags=generate,inference,submission",
            f"--results_dir={runs}",
            f"--submission_dir={folder}",
            f"--submitter={settings.submitter}",
            f"--division={settings.division}",
            *([f"--category={category}"] if category else []),
            *note(flow),
            f"--make_target={measuring(flow)}",
            "--quiet",
        ]
    )
    own = folder / settings.division / settings.submitter
    if not (own / "results").is_dir():
        raise reworded(flow.failed(status), "no tree was made: ")
    # A folder may be moved with all that is in it.
    link(flow.folder / "results", (own / "results").relative_to(flow.folder))
    if status:
        error = flow.failed(status)
        flow.report([f"the tree is made; what still stands against it: {error}"])
    flow.runner.show(f"results -> {(own / 'results').relative_to(flow.folder)}")


def measuring(flow: Flow) -> str:
    """Return the target that makes runs, for the tree's advice."""
    return "run_inferentia_harness" if flow.vendor == neuron.ACCELERATOR else "run_harness"


def both(runs: Path) -> str:
    """Return both categories where one system has scenarios of both; else empty."""
    for system in runs.glob("*"):
        folders = {path.name for path in system.glob("*/*")}
        if "server" in folders and folders & {"singlestream", "multistream"}:
            return "datacenter,edge"
    return ""


def note(flow: Flow) -> list[str]:
    """The option that says in the system's description what stood in; none on a Neuron device."""
    if flow.vendor != neuron.ACCELERATOR:
        runs = flow.results / f"{flow.settings.execution_mode}_results"
        names = [path.name.replace("_", "-") for path in runs.glob("*")]
        return [f"--sw_notes_extra={NOTE}"] if any(STAND_IN in name for name in names) else []
    return [f"--sw_notes_extra={NEURON_NOTE}"] if neuron.target(flow) == CPU else []


def run_audit_harness(flow: Flow) -> None:
    """Run the compliance tests of every item that the round requires.

    A test that is not passed does not keep the others from being made; raises Problem at the end.
    """
    work = plan(flow)
    flow.report(work.lines())
    flow.report([f"round {flow.settings.round} says which tests: they are made together"])
    harness.require(flow, work)
    wrong: list[Problem] = []
    for item in work.items:
        words = harness.line(flow, work, item)
        words[2] = words[2].rpartition(",")[0] + ",_compliance"
        words = [*(word for word in words if word != "--rerun"), "--mode=compliance"]
        if status := flow.runner.cm(words):
            error = flow.failed(status, " ".join(words[:3]))
            if error.code != "result-not-accepted":
                raise error
            wrong.append(reworded(error, f"{item.name}: "))
    flow.report(map(str, wrong))
    if wrong:
        after = f"; {len(wrong)} of {len(work.items)} were not accepted"
        raise reworded(wrong[0], after=after)


def truncate_results(flow: Flow) -> None:
    """Shorten the accuracy logs; the generator has done so already, and this says so."""
    flow.cm("run", "script", "--tags=run,truncate,accuracy-log", *_of_tree(flow))


def summarize_results(flow: Flow) -> None:
    """A table of the tree."""
    flow.cm("run", "script", "--tags=summarize,inference,submission", *_of_tree(flow))


def check_submission(flow: Flow) -> None:
    """Our checks on the tree, without the official checker's; raises Problem where they fail."""
    tags = "--tags=run,mlperf,inference,submission,checker"
    target = f"--make_target={measuring(flow)}"
    flow.cm("run", "script", tags, *_of_tree(flow), "--official=no", target)


def _of_tree(flow: Flow) -> list[str]:
    return [f"--submission_dir={tree(flow)}", "--quiet"]


def pack_submission(flow: Flow) -> None:
    """Write the tree to build/<submitter>.tar.gz, and its SHA-1."""
    folder, name = tree(flow), f"{flow.settings.submitter}.tar.gz"
    place = flow.build / name
    draft = place.with_name(f".{name}.{os.getpid()}.new")
    with tarfile.open(draft, "w:gz") as archive:
        archive.add(folder, arcname=flow.settings.submitter)
    with draft.open("rb") as stream:
        digest = hashlib.sha1(stream.read(), usedforsecurity=False).hexdigest()
    draft.replace(place)
    place.with_name(f"{name}.sha1").write_text(f"{digest}  {name}\n", encoding="utf-8")
    flow.runner.show(f"{place.relative_to(flow.folder)}  {digest}")
