"""The program is there, and made by this nvcc: an entry is no longer good when nvcc changes."""

from __future__ import annotations

import os
from typing import Any

from cmbench.errors import Error
from cmbench.lib.host.packages import install_command
from cmbench.lib.host.system import os_facts
from cmbench.lib.probe import which

COMPILERS = {"apt": "g++", "dnf": "gcc-c++", "yum": "gcc-c++", "zypper": "gcc-c++"}


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Raise Error without a compiler for the host: nvcc only says that it cannot start one."""
    if not (which("g++") or which("clang++") or which("c++")):
        manager = os_facts().package_manager
        package = COMPILERS.get(manager, "gcc")
        command = install_command(manager, [package], as_root=os.geteuid() == 0)
        raise Error(
            "tool-missing",
            "nvcc needs a C++ compiler, and there is none",
            hint=f"`{command}`" if command else "install g++",
        )
    return {"return": 0}


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Export its path, and the compiler that it was made with."""
    i["env"]["CM_CUDA_DEVICE_QUERY"] = os.path.join(os.getcwd(), "device_query")
    return {"return": 0, "relies_on": [os.path.realpath(i["env"]["CM_NVCC_BIN_WITH_PATH"])]}
