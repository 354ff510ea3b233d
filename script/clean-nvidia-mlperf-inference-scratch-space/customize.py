"""Show, and on demand remove, what lies in the scratch space of NVIDIA's flow."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cmbench.errors import Error
from cmbench.lib.yes_no import is_yes


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Show the selected files; remove them with ``--apply``. Raises Error."""
    env = i["env"]
    root = chosen(env)
    paths = paths_to_remove(root, env)
    if not paths:
        print(f"{root}: nothing of this is there")
    for path in paths:
        if is_yes(env.get("CM_NVIDIA_APPLY")):
            remove(path)
            print(f"removed: {path}")
        else:
            print(f"would remove: {path}")
    if paths and not is_yes(env.get("CM_NVIDIA_APPLY")):
        print("nothing is removed without --apply")
    return {"return": 0}


def chosen(env: Mapping[str, Any]) -> Path:
    """Return the scratch space; raise Error where there is none, or it does not look like one."""
    from nvidia_mlperf.flow import space

    scratch = space.scratch_path(env.get("CM_NVIDIA_SCRATCH_PATH"), os.environ)
    root = Path(os.path.abspath(os.path.expanduser(scratch)))
    if not root.is_dir():
        raise Error("file-not-found", f"{root} is not there")
    if not any((root / name).is_dir() for name in space.FOLDERS):
        raise Error(
            "bad-value",
            f"{root} has none of {', '.join(space.FOLDERS)}: it is not a scratch space",
            hint="--scratch_path=DIR names another one",
        )
    return root


def paths_to_remove(root: Path, env: Mapping[str, Any]) -> list[Path]:
    """Return the existing paths of a benchmark, of a folder, or of all three folders.

    Raises Error for a benchmark that is not known.
    """
    from nvidia_mlperf.flow import space
    from nvidia_mlperf.flow.errors import nearest

    part = str(env.get("CM_NVIDIA_SCRATCH_PART") or "")
    benchmark = str(env.get("CM_NVIDIA_BENCHMARK") or "")
    if benchmark and benchmark not in space.places():
        hint = nearest(benchmark, space.places())
        raise Error("bad-value", f"there is no benchmark {benchmark}", hint=hint)
    if benchmark:
        return space.of_benchmark(root, benchmark, part)
    folders = [root / name for name in ([part] if part else space.FOLDERS)]
    return [path for folder in folders if folder.is_dir() for path in sorted(folder.iterdir())]


def remove(path: Path) -> None:
    """Remove a file or folder; a link, and not its target.

    Raises Error where it cannot be removed.
    """
    try:
        if path.is_symlink() or not path.is_dir():
            path.unlink()
        else:
            shutil.rmtree(path)
    except OSError as problem:
        hint = f"see whose it is: `ls -ld {path}`"
        raise Error("not-writable", f"{path} stays: {problem}", hint=hint) from problem
