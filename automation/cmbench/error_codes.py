"""Every error code: what it means, what to do about it, and the exit code that comes with it.

Programs match on codes: one never changes its meaning or its exit code. ``cm doc script`` writes
``docs/reference/errors.md`` from this table; a test holds that the sources raise these codes and no
others. Scripts of other repositories may raise codes of their own, which exit with 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cmbench.exit_codes import (
    EXIT_BAD_REQUEST,
    EXIT_ERROR,
    EXIT_INTERRUPTED,
    EXIT_NOT_FOUND,
    EXIT_SCRIPT_FAILED,
)


@dataclass(frozen=True, slots=True)
class Code:
    """One kind of failure.

    ``exit_code`` is the usual one: a place that raises the error may name another, such as the
    status of the program that failed.
    """

    name: str
    meaning: str
    remedy: str
    exit_code: int = EXIT_ERROR


AREAS: Mapping[str, tuple[Code, ...]] = {
    "The request": (
        Code(
            "ambiguous",
            "Several scripts have the tags that were asked for, and no rule prefers one.",
            "Add tags until one script is left.",
            EXIT_BAD_REQUEST,
        ),
        Code(
            "bad-value",
            "A value is missing, cannot be understood, is out of bounds, contradicts another one,"
            " or names a file of the wrong kind.",
            "Correct the value that the message names; `--help` lists the possible ones.",
            EXIT_BAD_REQUEST,
        ),
        Code(
            "entry-not-found",
            "No cache entry, run or step of a run has this name.",
            "List what there is with `cm show cache` or `cm log script`.",
            EXIT_NOT_FOUND,
        ),
        Code(
            "missing-input",
            "A script lacks an input that an earlier step of a larger run gives it.",
            "Run the script that the message names instead.",
        ),
        Code(
            "needs-input",
            "An input without a default was not given, and nobody can be asked.",
            "Give the input that the message names.",
        ),
        Code(
            "not-confirmed",
            "A question whether to delete something was not answered with yes.",
            "Answer `y`, or add `-f` to be asked nothing.",
        ),
        Code(
            "not-registered",
            "No Python, tool or other result is registered under the name that was asked for.",
            "Use the name that the message suggests, or register a new one first.",
            EXIT_NOT_FOUND,
        ),
        Code(
            "script-not-found",
            "No script has all of these tags, or this name.",
            "Compare with the nearest scripts in the message, or search with `cm find script`.",
            EXIT_NOT_FOUND,
        ),
        Code(
            "unknown-flag",
            "The command or the script has no flag of this name.",
            "Use the name that the message suggests; `--help` lists all of them.",
            EXIT_BAD_REQUEST,
        ),
        Code(
            "unknown-verb",
            "There is no such command.",
            "See `cm help script` and `cm help cache`.",
            EXIT_BAD_REQUEST,
        ),
        Code(
            "variation-not-found",
            "The script has no variation of this name.",
            "Use the name that the message suggests; `--help` lists all of them.",
            EXIT_NOT_FOUND,
        ),
        Code(
            "version-not-found",
            "What was found has no version within the bounds that were asked for.",
            "Install one that fits, name its place with `--path`, or ask for other bounds.",
            EXIT_NOT_FOUND,
        ),
    ),
    "Scripts": (
        Code(
            "bad-customize",
            "`customize.py` returned no dictionary, or relies on a file that does not exist.",
            "Correct the script.",
        ),
        Code(
            "bad-meta",
            "The metadata of a script cannot be read.",
            "Correct it; `cm lint script` names file, line and column.",
            EXIT_BAD_REQUEST,
        ),
        Code(
            "customize-crashed",
            "`customize.py` raised an exception.",
            "Correct the script; `--debug` shows the traceback.",
        ),
        Code(
            "customize-failed",
            "`customize.py` returned a failure. The exit code is the one it returned.",
            "Its own message says why.",
        ),
        Code(
            "dependency-cycle",
            "A script depends on itself.",
            "Remove one of the dependencies in the chain.",
            EXIT_BAD_REQUEST,
        ),
        Code(
            "script-failed",
            "The native part of a script (`run.sh`) ended with another status than 0.",
            "Read its last lines below `cause`, or the whole log with `cm log script last`.",
            EXIT_SCRIPT_FAILED,
        ),
    ),
    "The engine": (
        Code(
            "cannot-print",
            "The work is done, but the result could not be written to standard output.",
            "Send the output elsewhere.",
        ),
        Code(
            "cannot-repeat",
            "The record does not hold all that a replay needs.",
            "Give again what the message names, such as a secret.",
        ),
        Code(
            "cannot-start",
            "A program could not be started.",
            "Check that it exists and may be executed.",
        ),
        Code(
            "internal",
            "A fault of cmbench itself.",
            "Repeat with `--debug` and report what it prints.",
        ),
        Code(
            "interrupted",
            "Stopped with Ctrl-C. What was finished is kept.",
            "Repeat the same command to go on from there.",
            EXIT_INTERRUPTED,
        ),
        Code(
            "lock-broken",
            "The plan or the run differs from what the lock file pins.",
            "Restore what is locked, or remove the lock file and run again to renew it.",
        ),
    ),
    "The cache": (
        Code(
            "cache-damaged",
            "Cache entries are not as they were published, or what they were made with is gone.",
            "Remove the damaged entries; they are made again when they are needed.",
        ),
        Code(
            "cannot-import",
            "No entry of the archive can be used on this machine.",
            "Import it where `CM_REPOS` is the same path, or make the entries here.",
        ),
    ),
    "Files and archives": (
        Code(
            "archive-corrupt",
            "An archive is damaged or cut off.",
            "Remove it and get it again.",
        ),
        Code(
            "archive-encrypted",
            "An archive is encrypted.",
            "Unpack it yourself and give the folder instead.",
        ),
        Code(
            "archive-unknown",
            "A file is no archive of a known format.",
            "Give a tar, zip, gz, bz2, xz or zst file.",
        ),
        Code(
            "archive-unsafe",
            "An archive would write outside its folder, or make special files.",
            "Do not use it; get it again from where it is published.",
        ),
        Code(
            "checksum-mismatch",
            "A file differs from its checksum: it is damaged, or was replaced.",
            "Get it again, or correct the checksum.",
        ),
        Code(
            "file-error",
            "The operating system refused to read or write a file.",
            "Look at the file or its disk.",
        ),
        Code("file-not-found", "A file does not exist.", "Check the path."),
        Code("no-space", "The disk is full.", "Make room, or choose a place on another disk."),
        Code(
            "not-writable",
            "A file or folder cannot be written.",
            "Check who owns it, or choose another place.",
        ),
        Code(
            "size-mismatch",
            "A file has another size than expected.",
            "Check the URL and the size.",
        ),
    ),
    "The network": (
        Code(
            "download-failed",
            "A file could not be downloaded from any of its sources.",
            "Check the network and the proxy, then repeat the command: it goes on from there.",
        ),
        Code(
            "network",
            "`git` could not reach a repository.",
            "Check the network, or give a checkout or a mirror.",
        ),
        Code(
            "offline",
            "Something has to be downloaded, and `--offline` forbids it.",
            "Run once without `--offline`, or give a local file.",
        ),
        Code(
            "push",
            "`git` failed while results were pushed.",
            "Check `--repo_url`, your rights and the network, then push again.",
        ),
    ),
    "The machine": (
        Code(
            "needs-root",
            "Packages of the system have to be installed, which needs root.",
            "Allow sudo with `--sudo`, or run the printed command yourself.",
        ),
        Code("no-device", "No device of the kind asked for was found.", "Use `--device=cpu`."),
        Code("no-tool", "`git` is not installed.", "Install it."),
        Code(
            "not-detected",
            "A tool that has to be there was not found, or its version does not fit.",
            "Install it, or name its folder with `--path`.",
            EXIT_NOT_FOUND,
        ),
        Code(
            "too-little-disk",
            "The disk has too little room for a step.",
            "Remove cache entries that are not needed, or move the cache with `CM_REPOS`.",
        ),
        Code(
            "too-little-memory",
            "The machine has too little memory for a model or a data set.",
            "Choose a smaller form; the message names the switch that tries all the same.",
        ),
        Code(
            "tool-missing",
            "A program of the system is missing.",
            "Install it with the printed command.",
        ),
    ),
    "Python": (
        Code(
            "externally-managed",
            "This Python belongs to the system, which does not allow pip to install there.",
            "Make an environment with `cm run script install,python-venv`.",
        ),
        Code(
            "import-failed",
            "A package is installed but cannot be imported.",
            "Install it again with `--force_install`.",
        ),
        Code(
            "install-failed",
            "An installer reported success, but the package is not there; or the package manager"
            " of the system failed, which exits with 2.",
            "Run the printed command to see why.",
        ),
        Code(
            "pip-failed",
            "pip could not install a package.",
            "Read the last lines of pip below `cause`.",
            EXIT_SCRIPT_FAILED,
        ),
        Code(
            "pip-missing",
            "This Python has no pip.",
            "Make an environment with `cm run script install,python-venv`.",
        ),
        Code(
            "venv-broken",
            "A new environment does not work.",
            "Run the printed command to see why.",
        ),
        Code(
            "venv-missing",
            "This Python cannot make environments: `venv` or `ensurepip` is missing.",
            "Install them with the printed command, or choose another Python.",
        ),
    ),
    "Containers": (
        Code(
            "container-failed",
            "The command in the container failed, with its exit code; or the container could not"
            " be started.",
            "Its own message says why; `--docker_it` opens a shell in the container.",
        ),
        Code(
            "image-failed",
            "The image could not be built.",
            "Look into the log; a build goes on where it failed.",
        ),
        Code(
            "no-engine",
            "No container engine can be used.",
            "Install docker, podman, apptainer or buildah, or start its service.",
        ),
    ),
    "Data and models": (
        Code(
            "data-incomplete",
            "A data set lacks files.",
            "Fetch the missing ones, or leave the path out to download all.",
        ),
        Code(
            "data-missing",
            "A file of a data set does not exist at the given path.",
            "Check the path.",
        ),
        Code(
            "data-needed",
            "A data set is given only to registered users and has to be fetched by you.",
            "Fetch it and give its path, or use `_tiny`.",
        ),
        Code(
            "data-not-free",
            "A data set has a licence that a person must accept.",
            "Accept it, fetch the data and give its path, or use `_tiny`.",
        ),
        Code(
            "data-wrong",
            "A file of a data set is not what it should be.",
            "Fetch it again.",
        ),
        Code(
            "model-facts",
            "The description of a model that comes with a script cannot be read.",
            "Restore the script's folder from its repository.",
        ),
        Code(
            "model-file",
            "The file of a model cannot be read, or is not what it should be.",
            "Fetch it again, or give another one.",
        ),
    ),
    "Benchmarks and submissions": (
        Code(
            "checker",
            "An official submission checker could not be run.",
            "Run it by hand to see why.",
        ),
        Code(
            "loadgen-unsuitable",
            "The installed LoadGen is not the one that the benchmarks need.",
            "Uninstall the package that is in its place.",
        ),
        Code(
            "loadgen-wrong-round",
            "The installed LoadGen does not have the seeds of the round.",
            "Leave its version out, or choose the round that it belongs to.",
        ),
        Code(
            "no-checker",
            "A folder holds no checkout of mlcommons/inference.",
            "Give one with `--inference_src`.",
        ),
        Code(
            "no-results",
            "A folder holds no results of benchmark runs.",
            "Name the folder of a run with `--results_dir`.",
        ),
        Code(
            "not-available",
            "The backend or the model cannot compute as asked for.",
            "Choose one of the combinations in the message.",
        ),
        Code(
            "not-submittable",
            "The submission breaks rules.",
            "Mend the first finding; the report lists all of them.",
        ),
        Code(
            "result-not-accepted",
            "A result breaks rules of MLPerf.",
            "Follow the advice for the rule that is named first.",
        ),
    ),
}

CODES: Mapping[str, Code] = {code.name: code for area in AREAS.values() for code in area}


def exit_code_of(name: str) -> int:
    """The exit code of ``name``; 1 for a code that only another repository knows."""
    return CODES[name].exit_code if name in CODES else EXIT_ERROR
