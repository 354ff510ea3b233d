"""Find the scratch space of NVIDIA's flow, make its folders, and say what there is room for."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cmbench.errors import Error
from cmbench.lib import named_paths
from cmbench.lib.yes_no import is_yes


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Give the space back in the env; raises Error where it cannot be used."""
    env = i["env"]
    folder = chosen(env)
    if os.geteuid() == 0 and not is_yes(env.get("CM_NVIDIA_ALLOW_ROOT")):
        raise Error(
            "not-writable",
            f"{folder}: as root, its files would be closed to everybody else",
            hint="call it as another user, or add --allow_root",
        )
    make(folder)
    print("\n".join([*withdraw(folder), *lines(folder, cache_of(i))]))
    for key in ("CM_NVIDIA_MLPERF_SCRATCH_PATH", "CM_MLPERF_SCRATCH_PATH", "MLPERF_SCRATCH_PATH"):
        env[key] = str(folder)
    env["CM_NVIDIA_SCRATCH_PATH"] = str(folder)
    return {"return": 0}


def chosen(env: Mapping[str, Any]) -> Path:
    """Return the requested folder."""
    from nvidia_mlperf.flow import space

    name = env.get("CM_NVIDIA_SCRATCH_PATH") or env.get("MLPERF_SCRATCH_PATH")
    return Path(os.path.abspath(os.path.expanduser(space.scratch_path(name, os.environ))))


def make(folder: Path) -> None:
    """Make the three folders; raises Error where this user cannot write them.

    Raises Error too for one that is a link into a cache.
    """
    from nvidia_mlperf.flow import space

    for name in space.FOLDERS:
        named_paths.require_own(str(folder / name))
        try:
            (folder / name).mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise Error(
                "not-writable",
                f"{folder / name} cannot be made: {problem.strerror}",
                hint=f"who may write there: `ls -ld {folder}`; a network file system: /etc/fstab",
            ) from problem
        if not os.access(folder / name, os.W_OK | os.X_OK):
            raise Error(
                "not-writable",
                f"{folder / name} belongs to another user",
                hint=f"`sudo chown -R {os.geteuid()} {folder}`",
            )


def withdraw(folder: Path) -> list[str]:
    """Remove links to folders of a cache, as earlier versions have made them; print them.

    The user's own data belong to these paths, and would be written into the cache.
    """
    from nvidia_mlperf.flow import space

    removed = []
    for name in space.FOLDERS:
        for path in sorted([*(folder / name).glob("*"), *(folder / name).glob("*/*")]):
            # What leads nowhere any more was a folder as well as a file.
            if path.is_symlink() and not path.is_file() and named_paths.linked_entry(str(path)):
                removed.append(f"{path}: the link to {path.readlink()} in the cache is removed")
                path.unlink()
    return removed


def cache_of(i: Mapping[str, Any]) -> Path:
    """The folder of the cache, in which models and data lie."""
    return Path(os.path.abspath(str(i["automation"].cmind.repos_path)))


def lines(folder: Path, cache: Path) -> list[str]:
    """Return a report on the free space; the models and data lie in the cache."""
    from nvidia_mlperf.flow import space

    free = shutil.disk_usage(cache).free
    report = [f"{folder}: models and data lie in {cache}, with {free / 10**9:.0f} GB free"]
    large = space.too_large(free)
    if large:
        report.append(f"no room for {', '.join(large)}; for everything: 3 TB")
    return report
