"""The words that ``make`` knows in a folder of the flow: a row for each, for all vendors."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from common.problems import Problem
from nvidia_mlperf.flow.errors import nearest
from nvidia_mlperf.make.flow import Flow, FlowSettings
from nvidia_mlperf.make.neuron import ACCELERATOR, ROUND

NVIDIA, INFERENTIA = "nvidia", ACCELERATOR
SWITCHES = {INFERENTIA: "USE_INFERENTIA"}
"""The variable that turns the words of a vendor's systems on; NVIDIA's need none."""
ROUNDS = {INFERENTIA: ROUND}
"""The round of a vendor's systems, where there is only one."""


@dataclass(frozen=True, slots=True)
class MakeTarget:
    """A word: its function as ``module:name``, one line of help, other spellings of it.

    ``vendor`` is empty for a word that is the same on all systems.
    """

    word: str
    does: str
    help: str
    aliases: tuple[str, ...] = ()
    vendor: str = ""

    def function(self) -> Callable[[Flow], None]:
        """Return the function, imported on first use."""
        module, _, name = self.does.partition(":")
        handler: Callable[[Flow], None] = getattr(importlib.import_module(module), name)
        return handler


_M = "nvidia_mlperf.make."
_AUDITS = ("01", "04", "05", "06")
TARGETS: tuple[MakeTarget, ...] = (
    MakeTarget("info", f"{_M}info:info", "what this folder is, what the machine is, all words"),
    MakeTarget(
        "prebuild", f"{_M}docker:prebuild", "check the machine; a container where it can be"
    ),
    MakeTarget(
        "build_docker", f"{_M}docker:build_docker", "the image mlperf-inference:USER-latest"
    ),
    MakeTarget("docker_add_user", f"{_M}docker:docker_add_user", "your name in that image"),
    MakeTarget(
        "launch_docker",
        f"{_M}docker:launch_docker",
        "DOCKER_COMMAND in a container, or a shell; DOCKER_DETACH=1 keeps one running",
        ("launch_inferentia_docker",),
    ),
    MakeTarget("attach_docker", f"{_M}docker:attach_docker", "a shell in the container"),
    MakeTarget("link_dirs", f"{_M}scratch:link_dirs", "the scratch space, and its links in build/"),
    MakeTarget(
        "build",
        f"{_M}build:build",
        "links, sources, and what the harness needs",
        (
            "build_harness",
            "build_loadgen",
            "build_plugins",
            "build_triton",
            "clone_loadgen",
            "clone_triton",
        ),
        vendor=NVIDIA,
    ),
    MakeTarget(
        "generate_engines",
        f"{_M}generate:generate_engines",
        "one engine for each benchmark, scenario and config_ver",
        vendor=NVIDIA,
    ),
    MakeTarget(
        "run_harness",
        f"{_M}harness:run_harness",
        "measure with the engines that are there; results on stdout",
        vendor=NVIDIA,
    ),
    MakeTarget("run", f"{_M}harness:run", "generate_engines, then run_harness", vendor=NVIDIA),
    MakeTarget(
        "build_inferentia",
        f"{_M}inferentia:build_inferentia",
        "links, LoadGen, and every compiled model that the system's configurations name",
        ("build", "build_triton_inferentia", "build_harness_inferentia"),
        vendor=INFERENTIA,
    ),
    MakeTarget(
        "run_inferentia_harness",
        f"{_M}inferentia:run_inferentia_harness",
        "measure with the compiled models that are there; results on stdout",
        vendor=INFERENTIA,
    ),
    MakeTarget(
        "generate_engines",
        f"{_M}inferentia:no_engines",
        "not here: says what there is",
        ("run",),
        vendor=INFERENTIA,
    ),
    MakeTarget(
        "run_harness",
        f"{_M}inferentia:other_word",
        "not here: says what there is",
        vendor=INFERENTIA,
    ),
    MakeTarget("download_model", f"{_M}data:download_model", "models, linked in build/models"),
    MakeTarget(
        "download_data",
        f"{_M}data:download_data",
        "data sets, linked in build/data",
        ("download_dataset",),
    ),
    MakeTarget(
        "preprocess_data",
        f"{_M}data:preprocess_data",
        "arrays of the data, linked in build/preprocessed_data",
        ("preprocessed_data",),
    ),
    MakeTarget(
        "update_results",
        f"{_M}results:update_results",
        "the submission tree from all runs, and results/",
        ("stage_results", "stage_compliance", "update_compliance"),
    ),
    MakeTarget(
        "run_audit_harness",
        f"{_M}results:run_audit_harness",
        "the compliance tests that the round asks for",
        (
            *(f"run_audit_test{number}" for number in _AUDITS),
            *(f"run_audit_test{number}_once" for number in _AUDITS),
        ),
    ),
    MakeTarget("truncate_results", f"{_M}results:truncate_results", "shorten accuracy logs"),
    MakeTarget("summarize_results", f"{_M}results:summarize_results", "a table of the tree"),
    MakeTarget(
        "check_submission",
        f"{_M}results:check_submission",
        "whether it can be submitted",
        ("check_submission_staging",),
    ),
    MakeTarget(
        "pack_submission", f"{_M}results:pack_submission", "the tree as an archive, its SHA-1"
    ),
    MakeTarget("lock_clocks", f"{_M}clocks:lock_clocks", "lock clocks at GPUCLK (shown; APPLY=1)"),
    MakeTarget("free_clocks", f"{_M}clocks:free_clocks", "let clocks go (shown; APPLY=1)"),
    MakeTarget(
        "configure_mig", f"{_M}mig:configure_mig", "cut a GPU in parts, MIG_CONF (shown; APPLY=1)"
    ),
    MakeTarget("teardown_mig", f"{_M}mig:teardown_mig", "undo configure_mig (shown; APPLY=1)"),
    MakeTarget(
        "autotune",
        f"{_M}tune:autotune",
        "the best fields in at most twelve short runs of each item",
        vendor=NVIDIA,
    ),
    MakeTarget(
        "calibrate",
        f"{_M}calibrate:calibrate",
        "ranges of values on the rules' lists, as a cache for TensorRT",
        vendor=NVIDIA,
    ),
    MakeTarget("clean", f"{_M}scratch:clean", "remove build/, not what its links show"),
)


_TREE = (
    "make update_results makes the tree with all that belongs to it, make pack_submission packs it"
)
_POWER = ("power runs are not made here", "leave the power out: make run_harness")
ABSENT: Mapping[str, tuple[str, str]] = {
    "run_cpu_harness build_cpu build_*_cpu build_*_cpu_*": (
        "the path by OpenVINO in a Triton server of rounds v1.0 to v2.1 is not here",
        "make run_harness computes on the processor where there is no GPU",
    ),
    "run_harness_power check_submission_power clone_power_dev power_* bios_*": _POWER,
    "clean_shallow clean_triton": (
        "nothing is compiled here, so nothing of it can be removed",
        "make clean removes build/, engines and logs too",
    ),
    "generate_conf_files copy_results_artifacts export_submission": ("it is a part here", _TREE),
    "push_* pull_* purge_*": ("it is for NVIDIA's own storage", _TREE),
    "run_audit_verification": (
        "compliance tests are verified where they are made",
        "make run_audit_harness",
    ),
    "shell": ("the words need no environment of their own", "make attach_docker: a container's"),
    "docker_sanity": ("it is a part of another word here", "make prebuild"),
    "run_harness_correlation copy_profiles": (
        "profiles are not taken here",
        "start the profiler around the cm line that make run_harness shows",
    ),
    "set_virtual_memory_overcommit apply_jetson_oc_limit": (
        "the harness needs no such setting of the machine",
        "make prebuild shows what it looks at",
    ),
}
"""Words of NVIDIA's Makefiles, as patterns, that are not here: why, and what to type."""


def vendor_of(variables: Mapping[str, str]) -> str:
    """Return whose systems the variables of ``make`` choose: NVIDIA's, if none is switched on."""
    on = [name for name, key in SWITCHES.items() if variables.get(key, "0") not in ("", "0")]
    return on[0] if on else NVIDIA


def settings(configured: FlowSettings, vendor: str) -> FlowSettings:
    """Return the settings with the round of ``vendor``, where its systems are of one round only."""
    only = ROUNDS.get(vendor)
    return replace(configured, vendor_round=only) if only else configured


def find(word: str, vendor: str, targets: Iterable[MakeTarget] = TARGETS) -> MakeTarget:
    """Return the target that a word or alias names on the systems of ``vendor``.

    Raises Problem with what to type instead.
    """
    named = [target for target in targets if word in (target.word, *target.aliases)]
    fitting = [target for target in named if target.vendor in ("", vendor)]
    if fitting:
        return fitting[0]
    if named:
        other = named[0].vendor
        switch = SWITCHES.get(other)
        hint = f"export {switch}=1" if switch else f"unset {SWITCHES.get(vendor, '')}"
        raise Problem("not-available", f"make {word} is for systems of {other}", hint)
    _refuse_absent(word)
    known = [name for target in targets for name in (target.word, *target.aliases)]
    raise Problem("bad-value", f"make knows no {word}", nearest(word, known, "make info"))


def _refuse_absent(word: str) -> None:
    """Raise Problem for a word of NVIDIA's that is not here, with its reason."""
    for patterns, (why, instead) in ABSENT.items():
        if any(fnmatchcase(word, each) for each in patterns.split()):
            raise Problem("not-available", f"there is no make {word}: {why}", instead)
