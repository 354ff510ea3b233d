"""Facts about the operating system, as env keys."""

from __future__ import annotations

from typing import Any

from cmbench.lib.host.packages import MANAGERS
from cmbench.lib.host.system import os_facts

# Fields of the facts, as keys of the environment.
KEYS = {
    "CM_HOST_OS_TYPE": "kind",
    "CM_HOST_OS_FLAVOR": "flavor",
    "CM_HOST_OS_FLAVOR_LIKE": "flavor_like",
    "CM_HOST_OS_VERSION": "version",
    "CM_HOST_OS_KERNEL_VERSION": "kernel",
    "CM_HOST_OS_MACHINE": "machine",
    "CM_HOST_OS_BITS": "bits",
    "CM_HOST_OS_GLIBC_VERSION": "glibc",
    "CM_HOST_OS_PACKAGE_MANAGER": "package_manager",
    "CM_HOST_PLATFORM_FLAVOR": "machine",
    "CM_HOST_PYTHON_BITS": "python_bits",
    "CM_HOST_SYSTEM_NAME": "node",
}


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    env, state = i["env"], i["state"]
    facts = os_facts()
    keys = {key: str(getattr(facts, name)) for key, name in KEYS.items()}
    keys["CM_RUN_INSIDE_DOCKER"] = "yes" if facts.in_container else ""
    manager = MANAGERS.get(facts.package_manager)
    if manager is not None:
        keys["CM_HOST_OS_PACKAGE_MANAGER_INSTALL_CMD"] = manager.install
        keys["CM_HOST_OS_PACKAGE_MANAGER_UPDATE_CMD"] = manager.update
    env.update({key: value for key, value in keys.items() if value})
    env["+CM_HOST_OS_DEFAULT_LIBRARY_PATH"] = list(facts.library_folders)
    state["os_uname_machine"] = facts.machine
    state["os_uname_all"] = facts.uname
    return {"return": 0}
