"""A word of NVIDIA's guides, from the make line to the runs; or a folder in which they work."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cmbench.errors import Error
from cmbench.lib import neuron, nvidia, siblings
from cmbench.lib.yes_no import is_yes

siblings.importable(__file__, "run-harness", "compile-neuron-model")

# What make tells its own children only.
_OF_MAKE = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "MAKEOVERRIDES", "MAKE_TERMOUT", "MAKE_TERMERR")
_SETTINGS = {
    "submitter": "CM_MLPERF_SUBMITTER",
    "vendor_round": "CM_NVIDIA_VENDOR_ROUND",
    "division": "CM_MLPERF_SUBMISSION_DIVISION",
    "form": "CM_NVIDIA_FLOW_FORM",
    "execution_mode": "CM_MLPERF_RUN_STYLE",
    "round": "CM_NVIDIA_FLOW_ROUND",
    "category": "CM_MLPERF_SUBMISSION_CATEGORY",
    "system": "CM_NVIDIA_SYSTEM",
    "systems_dir": "CM_NVIDIA_SYSTEMS_DIR",
    "compiled_models": "CM_NEURON_MODELS_PATH",
    "allow_nearest": "CM_NVIDIA_ALLOW_NEAREST",
}


class Engine:
    """Runs the ``cm`` lines of a word: each is shown, and can be typed by itself."""

    def __init__(self, env: Mapping[str, str], results_fd: int = 0) -> None:
        self._results_fd = results_fd
        self._env = {name: value for name, value in env.items() if name not in _OF_MAKE}
        # The output of every step, where the make line asks for it.
        self._more = ["--verbose"] if env.get("VERBOSE", "0") not in ("", "0") else []

    def cm(self, line: Sequence[str]) -> int:
        """Run a line; what it prints goes to stderr."""
        self.tell(f"cm {shlex.join(line)}")
        words = [*line, *self._more]
        done = subprocess.run(_command(words), env=self._env, stdout=sys.__stderr__, check=False)
        return done.returncode

    def cm_json(self, line: Sequence[str]) -> dict[str, Any]:
        """Run a line; its answer. Raises Error with that of the line."""
        self.tell(f"cm {shlex.join(line)}")
        words = [*line] if "--json" in line else [*line, "--out=json"]
        done = subprocess.run(
            _command(words), env=self._env, stdout=subprocess.PIPE, text=True, check=False
        )
        try:
            answer: dict[str, Any] = json.loads(done.stdout)
        except ValueError:
            answer = {}
        if done.returncode or not answer:
            told = answer.get("error", f"cm {line[1]} ended with {done.returncode}")
            hint = "its error stands above; the line can be run by itself"
            raise Error("script-failed", str(told), hint=str(answer.get("hint", hint)))
        return answer

    def machine(self) -> Any:
        """The GPUs of this machine; None without one."""
        from nvidia_flow import systems

        jetson = nvidia.jetson()
        gpus = [
            {**gpu.kind, "profiles": [part.profile for part in gpu.mig]}
            for gpu in nvidia.read().gpus
        ]
        if not gpus and not jetson:
            return None
        return systems.machine_of(gpus, os.uname().machine, jetson.board if jetson else "")

    def neuron(self) -> Any:
        """The Neuron devices of this machine."""
        from nvidia_make.neuron import Device

        found = neuron.read()
        # Without a device, and without a sign of one, nothing is wrong.
        problem = found.problem if found.devices or found.says else ""
        return Device(found.target, found.instance_type, found.cores, problem, found.remedy)

    def tell(self, line: str) -> None:
        """Show a line on stderr, and put it into the log of this run."""
        print(line, file=sys.__stderr__, flush=True)
        print(line, file=sys.stderr)

    def show(self, line: str) -> None:
        """Show a line of results: on their own file descriptor where there is one."""
        if self._results_fd:
            os.write(self._results_fd, f"{line}\n".encode())
            print(line, file=sys.stderr)
        else:
            print(line)


def _command(line: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "cmind", *line]


@siblings.told
def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Make the folder, or do the word in it."""
    from nvidia_make import flow

    env = i["env"]
    folder = Path(os.path.abspath(os.path.expanduser(env.get("CM_NVIDIA_FLOW_PATH") or ".")))
    if "workdir" in i["variation_tags"]:
        told = {name: env[key] for name, key in _SETTINGS.items() if env.get(key)}
        told["allow_root"] = is_yes(env.get("CM_NVIDIA_ALLOW_ROOT"))
        flow.write(folder, flow.checked(told, "the folder's settings"))
        print(f"{folder}: make info")
    else:
        do(env, folder)
    env["CM_NVIDIA_FLOW_PATH"] = str(folder)
    return {"return": 0}


def do(env: Mapping[str, Any], folder: Path) -> None:
    """The word, in its folder."""
    from nvidia_make import flow, targets

    if not env.get("CM_NVIDIA_FLOW_TARGET"):
        raise Error("needs-input", "no word is given", hint="--target=info shows all")
    variables = {name: os.environ.get(name, "") for name in flow.VARIABLES}
    if env.get("CM_NVIDIA_RUN_ARGS"):
        variables["RUN_ARGS"] = str(env["CM_NVIDIA_RUN_ARGS"])
    vendor = targets.vendor(variables)
    target = targets.find(str(env["CM_NVIDIA_FLOW_TARGET"]), vendor)
    settings = targets.settings(flow.read(folder), vendor)
    if variables["SUBMITTER"]:
        given = {**asdict(settings), "submitter": variables["SUBMITTER"]}
        settings = flow.checked(given, "SUBMITTER")
    engine = Engine(os.environ, int(env.get("CM_NVIDIA_RESULTS_FD") or 0))
    target.function()(flow.Flow(folder, settings, variables, vendor, engine))
