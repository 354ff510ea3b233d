"""Find the scratch space of NVIDIA's flow, make its folders, and say what there is room for."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cmbench.errors import Error
from cmbench.lib import siblings
from cmbench.lib.yes_no import is_yes

siblings.importable(__file__, "run-harness", "app-mlperf-inference")


@siblings.told
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
    print("\n".join(lines(folder)))
    for key in ("CM_NVIDIA_MLPERF_SCRATCH_PATH", "CM_MLPERF_SCRATCH_PATH", "MLPERF_SCRATCH_PATH"):
        env[key] = str(folder)
    env["CM_NVIDIA_SCRATCH_PATH"] = str(folder)
    return {"return": 0}


def chosen(env: Mapping[str, Any]) -> Path:
    """The folder that is meant."""
    from nvidia_flow import space

    told = env.get("CM_NVIDIA_SCRATCH_PATH") or env.get("MLPERF_SCRATCH_PATH")
    return Path(os.path.abspath(os.path.expanduser(space.named(told, os.environ))))


def make(folder: Path) -> None:
    """Make the three folders; raises Error where this user cannot write them."""
    from nvidia_flow import space

    for name in space.FOLDERS:
        try:
            (folder / name).mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise Error(
                "not-writable",
                f"{folder / name} cannot be made: {problem.strerror}",
                hint=f"who may write there: ls -ld {folder}; a network file system: /etc/fstab",
            ) from problem
        if not os.access(folder / name, os.W_OK | os.X_OK):
            raise Error(
                "not-writable",
                f"{folder / name} belongs to another user",
                hint=f"sudo chown -R {os.geteuid()} {folder}",
            )


def lines(folder: Path) -> list[str]:
    """What there is room for, in words."""
    from nvidia_flow import space

    free = shutil.disk_usage(folder).free
    told = [f"{folder}: {free / 10**9:.0f} GB free"]
    large = space.too_large(free)
    if large:
        told.append(f"no room for {', '.join(large)}; for everything: 3 TB")
    return told
