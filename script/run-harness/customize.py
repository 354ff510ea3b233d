"""A word of NVIDIA's guides, from the make line to the runs; or a folder in which they work."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cmbench.errors import Error
from cmbench.lib import caller, named_paths, neuron, nvidia, nvidia_machine
from cmbench.lib.probe import probe
from cmbench.lib.yes_no import is_yes
from common.problems import Problem

# Variables that make sets for its own children only.
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
    "builder": "CM_NVIDIA_FLOW_BUILDER",
    "allow_nearest": "CM_NVIDIA_ALLOW_NEAREST",
    "python": "CM_PYTHON_LAYER_BASE",
}
_VARIABLES = {
    "RUN_ARGS": "CM_NVIDIA_RUN_ARGS",
    "PRINT": "CM_NVIDIA_FLOW_PRINT",
    "APPLY": "CM_NVIDIA_FLOW_APPLY",
}
"""Variables that are inputs too."""
_PATIENCE_S = 30.0
"""How long a line may take to end what it has started, once it is interrupted."""
_ECHO_S = 1.0


class FlowEngine:
    """Runs the ``cm`` lines of a target: they are shown, and can be typed by themselves."""

    def __init__(self, env: Mapping[str, str], results_fd: int = 0, home: str = "") -> None:
        self._results_fd = results_fd
        self._home = home
        self._env = {name: value for name, value in env.items() if name not in _OF_MAKE}
        # The output of every step, where the make line requests it.
        self._more = ["--verbose"] if env.get("VERBOSE", "0") not in ("", "0") else []
        self._failed: dict[str, Any] = {}

    def cm(self, line: Sequence[str]) -> int:
        """Run a line with its output on stderr; its error is stored."""
        self.report_line(f"cm {shlex.join(line)}")
        call = caller.CallerChannel()
        words = _command([*line, *self._more])
        status, _ = _run(words, call.env(self._env), sys.__stderr__, call.fds())
        self._failed = call.error() if status else {}
        return status

    def failure(self) -> Problem | None:
        """The error of the last line; None without one."""
        return _error_of(self._failed) if self._failed.get("error") else None

    def cm_json(self, line: Sequence[str]) -> dict[str, Any]:
        """Run a line; its answer. Raises Error with that of the line."""
        self.report_line(f"cm {shlex.join(line)}")
        words = [*line] if "--json" in line else [*line, "--out=json"]
        env = {**self._env, caller.ENDS_WITH: str(os.getpid())}
        status, printed = _run(_command(words), env, subprocess.PIPE)
        try:
            answer: dict[str, Any] = json.loads(printed)
        except ValueError:
            answer = {}
        if status or not answer:
            from nvidia_mlperf.make.flow import describe_exit

            how, hint = describe_exit(status)
            failure = {"error": f"cm {' '.join(line[:3])} {how}", "hint": hint}
            raise _error_of(answer if answer.get("error") else failure)
        return answer

    def machine(self) -> Any:
        """The GPUs of this machine; None without one."""
        return nvidia_machine.machine()

    def neuron(self) -> Any:
        """The Neuron devices of this machine."""
        from nvidia_mlperf.flow.systems import NeuronDevices

        devices = neuron.read()
        # Without a device, and without a sign of one, nothing is wrong.
        problem = devices.problem if devices.devices or devices.says else ""
        return NeuronDevices(
            devices.target, devices.instance_type, devices.cores, problem, devices.remedy
        )

    def cards(self) -> list[dict[str, Any]]:
        """Return the GPUs of the driver, with their processes."""
        driver, busy = nvidia.read(), nvidia.processes()
        return [
            {
                "index": gpu.index,
                "uuid": gpu.uuid,
                "name": gpu.name,
                "clock": _number(gpu.kind.get("clocks.max.sm", "")),
                "mig": {"Enabled": "on", "Disabled": "off"}.get(
                    gpu.kind.get("mig.mode.current", ""), ""
                ),
                "parts": [{"profile": part.profile, "uuid": part.uuid} for part in gpu.mig],
                "processes": [
                    {"pid": pid, "name": name} for on, pid, name in busy if on == gpu.uuid
                ],
            }
            for gpu in driver.gpus
        ]

    def capture_output(self, command: Sequence[str]) -> tuple[int, str]:
        """Run a short program of the machine; return its exit status and output."""
        done = probe(command, timeout=120)
        return (0 if done.ok else done.status or 1), done.output or done.problem

    def findings(self, vendor: str, subject: Mapping[str, Any]) -> list[Mapping[str, str]]:
        """What the doctor finds for a vendor's flow."""
        from cmbench.doctor.finding import MachineProbe
        from cmbench.doctor.vendors import examine_for, subject_of

        machine = MachineProbe(os.path.join(self._home, "cmbench"))
        return [asdict(found) for found in examine_for(vendor, machine, subject_of(subject))]

    def container_engine(self, name_: str) -> str:
        """The container engine that is used; empty where none answers."""
        import flow_containers

        name: str = flow_containers.engine_name(name_)
        return name

    def container(
        self, what: str, settings: Mapping[str, Any], command: Sequence[str], only_print: bool
    ) -> int:
        """Make an image, start a container, or run a command in one; its exit status."""
        import flow_containers

        status: int = flow_containers.run_step(self._home, what, settings, command, only_print)
        return status

    def python(self, base: str) -> list[str]:
        """Return the words that pass the Python of runs to a script; raise Problem.

        run-mlperf-inference-app passes them to its steps.
        """
        chosen = f"--over={base}" if base else "--name=mlperf"
        line = ["run", "script", "--tags=install,python-venv", chosen]
        answer = self.cm_json([*line, "--version_min=3.10", "--quiet"])
        return [f"--env.CM_PYTHON_BIN_WITH_PATH={answer['env']['CM_PYTHON_BIN_WITH_PATH']}"]

    def in_cache(self, path: Path) -> bool:
        """Return whether a path lies in an entry of a cache, by its name or by links."""
        return named_paths.is_cached(str(path))

    def report_line(self, line: str) -> None:
        """Show a line on stderr, and put it into the log of this run."""
        print(line, file=sys.__stderr__, flush=True)
        print(line, file=sys.stderr)

    def show(self, line: str) -> None:
        """Show a line of results: on their own file descriptor where there is one."""
        if self._results_fd:
            # The reader of the results may have closed the pipe, as ``head`` does.
            with suppress(BrokenPipeError):
                os.write(self._results_fd, f"{line}\n".encode())
            print(line, file=sys.stderr)
        else:
            print(line)


def _number(text: str) -> int:
    return int(text) if text.isdigit() else 0


def _error_of(answer: Mapping[str, Any]) -> Problem:
    """The error of a line's answer; where its own log is, is a line of its detail."""
    log = [f"its log: {answer['log']}"] if answer.get("log") else []
    return Problem(
        str(answer.get("code", "script-failed")),
        str(answer["error"]),
        str(answer.get("hint", "")),
        [*answer.get("context", ()), *log],
        answer.get("chain", ()),
        str(answer.get("doing", "")),
    )


def _run(
    command: Sequence[str], env: Mapping[str, str], stdout: Any, fds: Sequence[int] = ()
) -> tuple[int, str]:
    """Run a ``cm`` line to its end; return its exit status and its output to a pipe.

    It has its own session: Ctrl-C reaches it once, from here, and then it has the time to end its
    children and to remove partial files.
    """
    child = subprocess.Popen(
        command, env=env, stdout=stdout, text=True, start_new_session=True, pass_fds=fds
    )
    try:
        printed, _ = child.communicate()
    except KeyboardInterrupt:
        _end(child)
        raise
    return child.returncode, printed or ""


def _end(child: subprocess.Popen[str]) -> None:
    """Interrupt a child and wait for its end; kill it after a while or a second Ctrl-C."""
    child.send_signal(signal.SIGINT)
    signalled_at = time.monotonic()
    while child.poll() is None:
        if not _may_go_on(child, signalled_at):
            child.kill()


def _may_go_on(child: subprocess.Popen[str], signalled_at: float) -> bool:
    """Wait for a child that was interrupted; return false to kill it."""
    try:
        child.wait(_PATIENCE_S)
    except subprocess.TimeoutExpired:
        return False
    except KeyboardInterrupt:
        # make repeats the signal that the terminal, or a kill of the group, has sent to us too.
        return time.monotonic() - signalled_at < _ECHO_S
    return True


def _command(line: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "cmind", *line]


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Make the folder, or do the word in it."""
    from nvidia_mlperf.make import flow

    env = i["env"]
    folder = Path(os.path.abspath(os.path.expanduser(env.get("CM_NVIDIA_FLOW_PATH") or ".")))
    if "workdir" in i["variation_tags"]:
        settings = {name: env[key] for name, key in _SETTINGS.items() if env.get(key)}
        settings["allow_root"] = is_yes(env.get("CM_NVIDIA_ALLOW_ROOT"))
        flow.write(folder, flow.checked(settings, "the folder's settings"))
        print(f"{folder}: make info")
    else:
        do(env, folder, os.path.abspath(str(i["automation"].cmind.repos_path)))
    env["CM_NVIDIA_FLOW_PATH"] = str(folder)
    return {"return": 0}


def do(env: Mapping[str, Any], folder: Path, home: str) -> None:
    """Run the target in its folder; raises Error when none is given."""
    from nvidia_mlperf.make import flow, targets

    if not env.get("CM_NVIDIA_FLOW_TARGET"):
        raise Error("needs-input", "no word is given", hint="--target=info shows all")
    overlooked = flow.unread(os.environ.get("MAKEFLAGS", ""))
    variables = {name: os.environ.get(name, "") for name in flow.VARIABLES}
    for name, key in _VARIABLES.items():
        if env.get(key):
            variables[name] = str(env[key])
    vendor = targets.vendor_of(variables)
    target = targets.find(str(env["CM_NVIDIA_FLOW_TARGET"]), vendor)
    settings = targets.settings(flow.read(folder), vendor)
    if variables["SUBMITTER"]:
        values = {**asdict(settings), "submitter": variables["SUBMITTER"]}
        settings = flow.checked(values, "SUBMITTER")
    flow.check_chosen(variables)
    engine = FlowEngine(os.environ, int(env.get("CM_NVIDIA_RESULTS_FD") or 0), home)
    for note in overlooked:
        engine.report_line(f"note: {note}")
    try:
        target.function()(flow.Flow(folder, settings, variables, vendor, engine))
    except Problem as problem:
        raise flow.with_folder(problem, folder, settings) from None
