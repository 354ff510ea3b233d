"""Find NVIDIA's container toolkit; report how GPUs get into containers, and what is missing."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from cmbench.errors import Error
from cmbench.lib.host.packages import install_command
from cmbench.lib.host.system import os_facts
from cmbench.lib.probe import probe
from cmbench.lib.tools import bounds_of, find_tool, search_folders
from cmbench.lib.versions import compare

OLDEST = "1.4.0"
"""Of libnvidia-container: what NVIDIA's and Azure's guides ask for."""
CDI_FOLDERS = ("/etc/cdi", "/var/run/cdi")
PACKAGE = "nvidia-container-toolkit"
CONFIGURE = {
    "docker": "sudo nvidia-ctk runtime configure --runtime=docker && sudo systemctl restart docker",
    "podman": "sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml",
}


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """The library's version, and the way GPUs take; raises Error where there is none."""
    env = i["env"]
    library = library_version(i)
    toolkit = find_tool("nvidia-ctk", search_folders(i), bounds_of({}))
    print("\n".join([f"libnvidia-container {library}", *toolkit.lines]))
    engine = str(env.get("CM_DOCKER_ENGINE") or "docker")
    way = handed_over(env, engine)
    if not way:
        raise Error(
            "not-detected",
            f"{engine} does not know NVIDIA's container toolkit yet",
            hint=f"`{CONFIGURE[engine]}`",
            context=[f"looked for: the runtime nvidia in {engine} info, {', '.join(CDI_FOLDERS)}"],
        )
    print(f"{engine} hands GPUs over by {way}")
    env["CM_NVIDIA_CONTAINER_LIBRARY_VERSION"] = library
    env["CM_NVIDIA_CONTAINER_TOOLKIT_VERSION"] = toolkit.tool.version if toolkit.tool else ""
    env["CM_NVIDIA_DOCKER_GPUS"] = way
    return {"return": 0, "version": library}


def library_version(i: dict[str, Any]) -> str:
    """The version of libnvidia-container; raises Error where it is missing or too old."""
    search = find_tool(
        "nvidia-container-cli",
        search_folders(i),
        bounds_of(i["env"]),
        pattern=r"lib-version: (\d[\d.]*)",
    )
    if search.tool is None or compare(search.tool.version, OLDEST) < 0:
        command = install_command(os_facts().package_manager, [PACKAGE], as_root=os.geteuid() == 0)
        seen = f"{search.tool.version} is there" if search.tool else "it is missing"
        raise Error(
            "not-detected",
            f"libnvidia-container {OLDEST} or newer is needed, and {seen}",
            hint="add NVIDIA's repository of packages, which the install guide of its container "
            f"toolkit names, then: {f'`{command}`' if command else 'install ' + PACKAGE}",
            context=search.lines or ["there is no nvidia-container-cli on PATH"],
        )
    return search.tool.version


def handed_over(env: dict[str, Any], engine: str) -> str:
    """``runtime`` or ``CDI``; empty where the engine would not find the GPUs."""
    if engine == "docker":
        docker = env.get("CM_DOCKER_BIN_WITH_PATH") or "docker"
        info = probe([docker, "info", "--format", "{{json .Runtimes}}"])
        if info.ok and re.search(r'"nvidia(-cdi)?"', info.stdout):
            return "the runtime nvidia"
    listed = probe(["nvidia-ctk", "cdi", "list"])
    if listed.ok and "nvidia.com/gpu=" in listed.output:
        return "CDI"
    return "CDI" if any(any(Path(folder).glob("*nvidia*")) for folder in CDI_FOLDERS) else ""
