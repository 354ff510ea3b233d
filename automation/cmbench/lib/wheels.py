"""Wheels of Python packages, fetched for this machine or for another one."""

from __future__ import annotations

import json
import os
import re
import shlex
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass

from cmbench.errors import Error
from cmbench.lib.probe import ProbeResult, probe
from cmbench.lib.pythons import Bounds, misfit_by_name, pins

TIMEOUT_S = 3600.0
ANYWHERE = {"PIP_REQUIRE_VIRTUALENV": "0"}
"""For a pip that installs nothing: it need not be that of an environment."""
NEWEST_GLIBC = 34
"""Of manylinux_2_N: that of RHEL 9; wheels for a newer one are not fetched for another machine."""
OLDEST_GLIBC = 5
_FOR = re.compile(r"cp(?P<major>3)(?P<minor>\d+)[,-](?P<system>linux)_(?P<machine>x86_64|aarch64)")
_LACKING = re.compile(r"No matching distribution found for ([^\s;(]+)")
_OLD_PIP = "no such option"
_UNREACHABLE = re.compile(r"Retrying \(|NewConnectionError|NameResolutionError")


@dataclass(frozen=True, slots=True)
class WheelTarget:
    """The interpreter and the platform that wheels are for, by the tags of their names."""

    interpreter: str
    platform: str

    @classmethod
    def parse(cls, text: str) -> WheelTarget:
        """Read ``cp312,linux_x86_64``; raises ``bad-value``."""
        match = _FOR.fullmatch(text.strip())
        if match is None:
            raise Error(
                "bad-value",
                f"--for={text} names no interpreter and platform",
                hint="write them as wheels do: --for=cp312,linux_x86_64",
            )
        return cls(f"cp3{match['minor']}", f"{match['system']}_{match['machine']}")

    def require_within(self, bounds: Bounds) -> None:
        """Raise ``bad-value`` where no Python of this release is within ``bounds``."""
        release = f"3.{self.interpreter.removeprefix('cp3')}"
        if misfit_by_name(f"python{release}", bounds):
            raise Error(
                "bad-value",
                f"--for={self.interpreter},{self.platform} is for Python {release}, and this run "
                f"needs {bounds}",
                hint="name the Python of the other machine: --for=cp312,linux_x86_64",
            )

    def options(self) -> list[str]:
        """Return the options of ``pip download`` for it."""
        machine = self.platform.partition("_")[2]
        tags = [f"manylinux_2_{n}_{machine}" for n in range(NEWEST_GLIBC, OLDEST_GLIBC - 1, -1)]
        platforms = [*tags, f"manylinux2014_{machine}", self.platform]
        return [
            *(word for platform in platforms for word in ("--platform", platform)),
            *("--implementation", "cp", "--abi", self.interpreter, "--abi", "abi3"),
            *("--abi", "none", "--python-version", self.interpreter.removeprefix("cp")),
        ]


def lacking(python: str, requirements: Sequence[str], pip_options: Sequence[str]) -> list[str]:
    """Return what pip would install into an environment over ``python``, as ``name==version``.

    Nothing is installed. Packages of ``python`` keep their versions, but for ``requirements``.
    Raises ``pip-failed``.
    """
    command = [python, "-B", "-m", "pip", "--disable-pip-version-check", "--no-input", "install"]
    command += ["--no-user", "--dry-run", "--quiet", "--only-binary", ":all:", "--report", "-"]
    names = [re.split(r"[\[<>=!~; ]", text)[0] for text in requirements]
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as constraints:
        constraints.write("\n".join(pins(python, names)))
        constraints.flush()
        constrained = [*pip_options, "--constraint", constraints.name]
        done = probe([*command, *constrained, *requirements], timeout=TIMEOUT_S, env=ANYWHERE)
    try:
        report = json.loads(done.stdout) if done.ok else {}
        added = [item["metadata"] for item in report["install"]]
    except (ValueError, KeyError):
        raise _failed(requirements, done) from None
    return [f"{package['name']}=={package['version']}" for package in added]


def fetch_wheels(
    python: str, requirements: Sequence[str], folder: str, pip_options: Sequence[str]
) -> list[str]:
    """Let the pip of ``python`` put wheels of ``requirements`` and their needs into ``folder``.

    Returns the names of the wheels in the folder; raises
    ``pip-failed``.
    """
    os.makedirs(folder, exist_ok=True)
    command = [python, "-m", "pip", "--disable-pip-version-check", "--no-input", "download"]
    command += ["--quiet", "--only-binary", ":all:", "--dest", folder, *pip_options, *requirements]
    done = probe(command, timeout=TIMEOUT_S, env=ANYWHERE)
    if not done.ok:
        raise _failed(requirements, done)
    return sorted(name for name in os.listdir(folder) if name.endswith(".whl"))


def _failed(requirements: Sequence[str], done: ProbeResult) -> Error:
    match = _LACKING.search(done.output)
    lack = match[1] if match else ", ".join(requirements)
    other = "choose another interpreter or platform with --for"
    hint = f"{other}, or other versions of these packages"
    if _UNREACHABLE.search(done.output):
        hint = "the package index did not answer: look at the network, or add --find_links=/folder"
    elif _OLD_PIP in done.output:
        hint = (
            f"the pip of {done.command[0]} is older than 22.2: leave --python out, and name its "
            "version with --for"
        )
    elif match:
        hint = (
            f"{other}, or build one on such a machine:\n"
            f"`python3 -m pip wheel --no-deps {shlex.quote(lack)}`\n"
            "and add the folder that it is in: --find_links=/folder"
        )
    return Error(
        "pip-failed",
        f"pip could not fetch {'a wheel' if match else 'wheels'} of {lack}",
        context=done.tail(12),
        hint=hint,
        exit_code=2,
    )
