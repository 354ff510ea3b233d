"""Find docker or podman, its version, and whether its daemon lets this user in."""

from __future__ import annotations

import getpass
import os
from typing import Any

from cmbench.errors import Error
from cmbench.lib.host.packages import install_command
from cmbench.lib.host.system import os_facts
from cmbench.lib.probe import probe
from cmbench.lib.tools import Tool, bounds_of, find_tool, search_folders

PACKAGES = {"apt": "docker.io", "dnf": "podman-docker", "yum": "docker"}
VERSION = r"(?:version|Version)[: ]+(\d+(?:\.\d+)+)"


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Choose the first docker that fits, else podman, whose commands are the same."""
    bounds, where = bounds_of(i["env"]), search_folders(i)
    seen: list[str] = []
    for name in ("docker", "podman"):
        search = find_tool(name, where, bounds, pattern=VERSION)
        seen += search.lines
        if search.tool:
            print("\n".join(seen))
            return take(i, search.tool, name)
    facts = os_facts()
    package = PACKAGES.get(facts.package_manager, "docker")
    command = install_command(facts.package_manager, [package], as_root=os.geteuid() == 0)
    raise Error(
        "not-detected",
        "neither docker nor podman that fits was found",
        hint=f"`{command}`" if command else "install docker or podman",
        context=seen or ["there is none in any folder that was searched"],
    )


def take(i: dict[str, Any], tool: Tool, name: str) -> dict[str, Any]:
    env = i["env"]
    folder = os.path.dirname(tool.path)
    env["CM_DOCKER_BIN_WITH_PATH"] = tool.path
    env["CM_DOCKER_INSTALLED_PATH"] = folder
    env["CM_DOCKER_VERSION"] = tool.version
    env["CM_DOCKER_ENGINE"] = name
    env["CM_DOCKER_CACHE_TAGS"] = f"version-{tool.version}"
    env["CM_DOCKER_ANSWERS"], advice = answers(tool.path, name)
    if advice:
        print(advice)
    if folder not in i["automation"].get_default_path_list(i):
        env["+PATH"] = [folder]
    return {"return": 0, "version": tool.version, "relies_on": [tool.path]}


def answers(path: str, name: str) -> tuple[str, str]:
    """Return whether containers can be started now, and the obstacle, which is no failure."""
    if name == "podman":
        return "yes", ""
    answer = probe([path, "info", "--format", "{{.ServerVersion}}"])
    if answer.ok and answer.stdout.strip()[:1].isdigit():
        return "yes", ""
    if "permission denied" in answer.output:
        user = os.environ.get("USER") or getpass.getuser()
        return "no", f"you may not use docker: sudo usermod -aG docker {user}, then log in anew"
    return "no", "docker's daemon does not answer: sudo systemctl start docker"
