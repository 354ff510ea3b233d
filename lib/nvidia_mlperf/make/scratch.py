"""The scratch space and its links: ``link_dirs`` and ``clean``."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from common.problems import Problem
from nvidia_mlperf.flow.space import FOLDERS
from nvidia_mlperf.make import neuron
from nvidia_mlperf.make.flow import Flow


def space(flow: Flow) -> Path:
    """Return the scratch space, made where it is not there; raise Problem."""
    if os.geteuid() == 0 and not flow.settings.allow_root:
        text = "as root, the files of the scratch space would be closed to everybody else"
        hint = f"work as another user, or set allow_root: true in {flow.folder / 'flow.yaml'}"
        raise Problem("not-writable", text, hint)
    line = ["run", "script", "--tags=get,mlperf,inference,nvidia,scratch,space", "--quiet"]
    path = neuron.scratch(flow) or flow.variables.get("MLPERF_SCRATCH_PATH")
    line += [f"--scratch_path={path}"] if path else []
    line += ["--allow_root"] if flow.settings.allow_root else []
    return Path(flow.runner.cm_json(line)["env"]["MLPERF_SCRATCH_PATH"])


def link_dirs(flow: Flow) -> None:
    """Links in build/ to data, models and preprocessed_data of the scratch space."""
    where = space(flow)
    flow.build.mkdir(parents=True, exist_ok=True)
    for name in FOLDERS:
        link(flow.build / name, where / name)
        flow.report([f"build/{name} -> {where / name}"])


def link(place: Path, target: Path) -> None:
    """A link; raises Problem where something else has its name."""
    if place.is_symlink():
        if place.readlink() == target:
            return
    elif place.exists():
        hint = "move it away, or make clean"
        raise Problem("file-error", f"{place} is in the way of a link", hint)
    draft = place.with_name(f".{place.name}.{os.getpid()}.new")
    draft.unlink(missing_ok=True)
    draft.symlink_to(target)
    draft.replace(place)


def clean(flow: Flow) -> None:
    """Remove build/; what its links show stays. Raises Problem where it cannot."""
    if flow.build.is_symlink():
        raise Problem("file-error", f"{flow.build} is a link", "remove it by hand")
    if flow.build.exists():
        try:
            shutil.rmtree(flow.build)
        except OSError as problem:
            hint = "see whose files these are: `ls -l build`"
            raise Problem("not-writable", f"{flow.build} stays: {problem}", hint) from None
    flow.report(["build/ is removed; make link_dirs comes next"])
