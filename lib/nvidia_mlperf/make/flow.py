"""What a word works on: the folder of the flow, its settings, and who runs the ``cm`` lines."""

from __future__ import annotations

import difflib
import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from signal import Signals
from typing import Any, Protocol

import yaml

from common.problems import Problem, reworded
from nvidia_mlperf.flow import vocabulary
from nvidia_mlperf.flow.errors import nearest
from nvidia_mlperf.flow.systems import GpuMachine, NeuronDevices

SETTINGS = "flow.yaml"
FORMS = ("full", "tiny", "synthetic")
DIVISIONS = ("closed", "open")
CATEGORIES = ("", "edge", "datacenter", "datacenter,edge")
LENGTHS = ("test", "fast", "valid")
STAND_IN = "stand-in"
BUILDERS = ("", STAND_IN, "tensorrt", "tensorrt-rtx")
VARIABLES = (
    "RUN_ARGS",
    "BENCHMARKS",
    "MLPERF_SCRATCH_PATH",
    "DOCKER_ARGS",
    "DOCKER_COMMAND",
    "DOCKER_DETACH",
    "NO_BUILD",
    "CONTAINER_ENGINE",
    "BASE_IMAGE",
    "PRINT",
    "APPLY",
    "NVIDIA_VISIBLE_DEVICES",
    "MIG_CONF",
    "LOG_DIR",
    "SUBMITTER",
    "SKIP_DRIVER_CHECK",
    "GPUCLK",
    "VERBOSE",
    "USE_INFERENTIA",
    "USE_NIGHTLY",
)
"""What may stand on a make line, or in the environment."""
_OF_MAKE = ("CM", "MAKEFLAGS", "SHELL")
"""What the Makefile itself takes."""
_MISSPELT = 0.8


@dataclass(frozen=True, slots=True)
class FlowSettings:
    """What a folder was made for; ``form`` is that of model and data, ``round`` that of LoadGen.

    ``system`` is empty where the one that the machine is counts, ``compiled_models`` where the
    folder of the guide for Inferentia does, ``builder`` where the GPU, or none, decides, ``python``
    where no Python of the user's own is used.
    """

    submitter: str
    vendor_round: str = "v0.7"
    division: str = "closed"
    form: str = "full"
    execution_mode: str = "valid"
    round: str = "6.1"
    category: str = ""
    system: str = ""
    systems_dir: str = ""
    compiled_models: str = ""
    builder: str = ""
    allow_nearest: str = ""
    allow_root: bool = False
    python: str = ""

    def faults(self) -> list[str]:
        """Return all that is wrong with them."""
        problems = []
        for name, value, choices in (
            ("vendor_round", self.vendor_round, vocabulary.VENDOR_ROUNDS),
            ("division", self.division, DIVISIONS),
            ("form", self.form, FORMS),
            ("execution_mode", self.execution_mode, LENGTHS),
            ("builder", self.builder, BUILDERS),
        ):
            if value not in choices:
                problems.append(f"{name} is {value!r}: {nearest(str(value), choices)}")
        if self.category not in CATEGORIES:
            problems.append(f"category is {self.category!r}: edge or datacenter")
        if not self.submitter or "/" in self.submitter:
            problems.append(
                f"submitter is {self.submitter!r}: --submitter=NAME, which becomes a folder"
            )
        return problems


class FlowRunner(Protocol):
    """The calls that need the engine: other scripts, the machine."""

    def cm(self, line: Sequence[str]) -> int:
        """Run ``cm`` with these words, its output on stderr; return its exit status."""

    def failure(self) -> Problem | None:
        """Return the error of the last ``cm`` line; None where it reported none."""

    def cm_json(self, line: Sequence[str]) -> dict[str, Any]:
        """Run ``cm`` with these words and return its answer; raise Problem if it fails."""

    def machine(self) -> GpuMachine | None:
        """Return the GPUs of this machine; None without one."""

    def neuron(self) -> NeuronDevices:
        """Return the Neuron devices of this machine."""

    def cards(self) -> Sequence[Mapping[str, Any]]:
        """Return every GPU: index, uuid, name, MHz, mig (on, off or empty), parts, processes."""

    def capture_output(self, command: Sequence[str]) -> tuple[int, str]:
        """Run a short program of the machine; return its exit status and output."""

    def findings(self, vendor: str, subject: Mapping[str, Any]) -> list[Mapping[str, str]]:
        """Return the doctor's findings for a vendor's flow: id, state, text and remedy."""

    def container_engine(self, name: str) -> str:
        """Return the container engine; empty where none answers."""

    def container(
        self, what: str, settings: Mapping[str, Any], command: Sequence[str], only_print: bool
    ) -> int:
        """Make an image, start a container or run a command in one; return the exit status."""

    def python(self, base: str) -> list[str]:
        """Return the flags that pass a script the Python of runs; ``base`` is a user's own.

        Only with them the cache has for a run what was made before it.
        """

    def in_cache(self, path: Path) -> bool:
        """Return whether a path is in a cache entry of cm, by name or by links."""

    def report_line(self, line: str) -> None:
        """Show a line on stderr."""

    def show(self, line: str) -> None:
        """Show a line of results on stdout."""


@dataclass(frozen=True, slots=True)
class Flow:
    """A word's work: where, for what, and what make was given."""

    folder: Path
    settings: FlowSettings
    variables: Mapping[str, str]
    vendor: str
    runner: FlowRunner

    @property
    def build(self) -> Path:
        """Return the folder ``build`` of the flow."""
        return self.folder / "build"

    @property
    def results(self) -> Path:
        """Return our own result tree, from which a submission is made."""
        return self.build / "results"

    def is_on(self, name: str) -> bool:
        """Return whether a variable that is a switch is on."""
        return self.variables.get(name, "").lower() not in ("", "0", "no", "false", "off")

    @property
    def printing(self) -> bool:
        """Return whether what would be done is only shown."""
        return self.is_on("PRINT")

    def python(self) -> list[str]:
        """Return the flags that pass a script the Python of runs."""
        return self.runner.python(self.settings.python)

    def report(self, lines: Iterable[str]) -> None:
        """Show lines on stderr."""
        for line in lines:
            self.runner.report_line(line)

    def cm(self, *line: str) -> None:
        """Run a ``cm`` line; raises Problem where it fails."""
        status = self.runner.cm(line)
        if status:
            raise self.failed(status, " ".join(line[:3]))

    def failed(self, status: int, line: str = "") -> Problem:
        """Why the last line of ``cm`` has failed: its own error, or how it ended without one."""
        if (error := self.runner.failure()) is not None:
            return error
        how, hint = describe_exit(status)
        return Problem("script-failed", " ".join(filter(None, ("cm", line, how))), hint)


def describe_exit(status: int) -> tuple[str, str]:
    """How a ``cm`` line that failed has ended, and what to look at; below 0 where it was killed."""
    if status >= 0:
        return f"ended with {status}", "its error stands above; the line can be run by itself"
    hint = "if nobody did that, memory ran out: free -h, and dmesg says which process was killed"
    return f"was killed ({Signals(-status).name})", hint


def unread(makeflags: str) -> list[str]:
    """What a make line sets and nothing reads, as notes; ``makeflags`` is make's own MAKEFLAGS.

    Raises Problem for a name that is nearly one of ours: what it says would be left out.
    """
    _, _, typed = f" {makeflags}".partition(" -- ")
    names = [word.partition("=")[0].rstrip(":+?") for word in shlex.split(typed) if "=" in word]
    foreign = [name for name in names if name not in (*VARIABLES, *_OF_MAKE)]
    for name in foreign:
        meant = difflib.get_close_matches(name.upper(), VARIABLES, n=1, cutoff=_MISSPELT)
        if meant:
            raise Problem("bad-value", f"no word reads {name}=", f"did you mean {meant[0]}=?")
    return [f"{name}= has no effect: no word here reads it" for name in foreign]


def check_chosen(variables: Mapping[str, str]) -> None:
    """Raise Problem for placeholders of a guide in variables, with all of them.

    A shell command may have any sign, and RUN_ARGS is looked at where it is read.
    """
    looked = {k: v for k, v in variables.items() if k not in ("DOCKER_COMMAND", "RUN_ARGS")}
    wrong = [f"{name}={text}" for name, text in looked.items() if vocabulary.placeholders(text)]
    if wrong:
        problem = f"{', '.join(wrong)}: a placeholder of the guide"
        raise Problem("bad-value", problem, "write what you want in its place, or leave it out")


def with_folder(problem: Problem, folder: Path, settings: FlowSettings) -> Problem:
    """The failure with the line that makes a folder like this one for the round that it names.

    One that names no other round stays as it is.
    """
    named = re.search(r"--vendor_round=(v[\d.]*\d)", f"{problem} {problem.hint}")
    if not named or named[1] == settings.vendor_round:
        return problem
    own = ("vendor_round", "system", "allow_nearest")
    usual = asdict(FlowSettings(""))
    values = {k: v for k, v in asdict(settings).items() if k not in own and v != usual[k]}
    line = f"cm run script --tags=run-harness,nvidia,_workdir --path={folder}-{named[1]} {named[0]}"
    options = [
        shlex.quote(f"--{name}={str(value).lower() if value is True else value}")
        for name, value in values.items()
    ]
    return reworded(problem, hint=f"a folder for it: `{' '.join([line, *options])}`")


def read(folder: Path) -> FlowSettings:
    """Return the settings of a folder; raise Problem where it has none, or wrong ones."""
    path = folder / SETTINGS
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        hint = "`cm run script --tags=run-harness,nvidia,_workdir --path=DIR --submitter=NAME`"
        raise Problem("needs-input", f"{folder} is not a folder of the flow", hint) from None
    except (OSError, yaml.YAMLError, UnicodeDecodeError) as problem:
        raise Problem("bad-value", f"{path} cannot be read: {problem}") from None
    return checked(content if isinstance(content, dict) else {}, str(path))


def checked(values: Mapping[str, Any], where: str) -> FlowSettings:
    """Return settings from plain values; raise Problem with all faults."""
    known = {field.name for field in fields(FlowSettings)}
    wrong = [f"there is no {name}: {nearest(name, known)}" for name in values if name not in known]
    made = FlowSettings(**{"submitter": "", **{k: v for k, v in values.items() if k in known}})
    wrong += made.faults()
    if wrong:
        raise Problem("bad-value", f"{where}: {'; '.join(wrong)}", "correct them")
    return made


def write(folder: Path, settings: FlowSettings) -> None:
    """Write the settings and the Makefile; what else lies in the folder stays."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {
        SETTINGS: yaml.safe_dump(asdict(settings), sort_keys=False),
        "Makefile": Path(__file__).with_name("Makefile.txt").read_text(encoding="utf-8"),
    }
    for name, text in texts.items():
        draft = folder / f".{name}.{os.getpid()}.new"
        draft.write_text(text, encoding="utf-8")
        draft.replace(folder / name)
