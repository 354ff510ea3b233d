"""Look for the programs that scripts use; print, or where allowed run, the command for the rest."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import deque
from typing import Any

from cmbench.errors import Error
from cmbench.lib.host.packages import install_command
from cmbench.lib.probe import which
from cmbench.lib.yes_no import is_yes


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    env = i["env"]
    if is_yes(env.get("CM_SKIP_SYS_UTILS")):
        return {"return": 0}
    missing = missing_tools()
    if missing and any(is_yes(env.get(f"CM_SYS_UTILS_{how}")) for how in ("SUDO", "INSTALL")):
        install(env, missing)
        missing = missing_tools()
    command = command_for(env, missing)
    required = [tool for tool in missing if tool.get("required")]
    if required:
        raise Error(
            "tool-missing",
            f"programs are missing: {', '.join(map(name, required))}",
            hint=f"`{command}`" if command else advice(command),
            context=[describe(tool) for tool in missing],
        )
    report(missing, command)
    return {"return": 0}


def missing_tools() -> list[dict[str, Any]]:
    import yaml

    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tools.yaml")
    with open(path, encoding="utf-8") as stream:
        tools: list[dict[str, Any]] = yaml.safe_load(stream)
    return [tool for tool in tools if not any(which(program) for program in tool["any"])]


def name(tool: dict[str, Any]) -> str:
    return " or ".join(tool["any"])


def describe(tool: dict[str, Any]) -> str:
    need = "needed" if tool.get("required") else "wanted"
    return f"{name(tool)}: {need} for {tool['for']}"


def command_for(env: dict[str, Any], missing: list[dict[str, Any]]) -> str:
    """The one command that installs all that is missing; empty where that is not known."""
    manager = str(env.get("CM_HOST_OS_PACKAGE_MANAGER", ""))
    packages: list[str] = []
    for tool in missing:
        packages += tool.get("packages", {}).get(manager, tool["any"][0]).split()
    return install_command(manager, packages, as_root=os.geteuid() == 0)


def advice(command: str) -> str:
    return command or "install them with the package manager of this system"


def report(missing: list[dict[str, Any]], command: str) -> None:
    if not missing:
        print("all programs that scripts use are there")
        return
    print("not there, and not needed by every script:")
    for tool in missing:
        print(f"  {describe(tool)}")
    print(f"to install: {advice(command)}")


def install(env: dict[str, Any], missing: list[dict[str, Any]]) -> None:
    """Run the command; only called when the user has asked for that."""
    command = command_for(env, missing)
    if not command:
        raise Error(
            "tool-missing",
            "the package manager of this system is not known",
            hint="install them yourself",
            context=[describe(tool) for tool in missing],
        )
    if command.startswith("sudo "):
        command = allowed_sudo(env, command)
    print(f"running: {command}")
    status, last_lines = run(command)
    if status != 0:
        raise Error(
            "install-failed",
            "the programs that are missing could not be installed",
            hint=f"run this yourself: `{command}`",
            context=last_lines,
            doing=command,
            exit_code=2,
        )


def run(command: str) -> tuple[int, list[str]]:
    """Run a shell command and show its output; return its status and last lines."""
    last: deque[str] = deque(maxlen=10)
    with subprocess.Popen(
        ["bash", "-c", command],
        cwd="/",
        stdin=None if sys.stdin.isatty() else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        for line in process.stdout or ():
            print(line.rstrip())
            last.append(line.rstrip())
    return process.returncode, list(last)


def allowed_sudo(env: dict[str, Any], command: str) -> str:
    """The command as it is run; raises Error when sudo is not allowed."""
    if not is_yes(env.get("CM_SYS_UTILS_SUDO")):
        raise Error(
            "needs-root",
            "you are not root, so --install cannot install anything",
            hint=f"allow sudo with --sudo, or run this yourself: `{command}`",
        )
    # No user can answer: sudo must fail and not wait for a password.
    unattended = env.get("CM_QUIET") == "yes" or not sys.stdin.isatty()
    return command.replace("sudo ", "sudo --non-interactive ") if unattended else command
