"""The commands about sweeps, implemented in a separate package."""

from __future__ import annotations

from typing import Any

from cmbench.cli.verb import JSON, OUTPUT, Flags, Verb

_SWEEP = {
    "sweep=FILE": "the sweep: a request, axes, and what else docs/how-to/sweeps.md tells",
    "name=NAME": "its name; by default that in the file",
}

_REFERENCE = {
    "reference=FILE": "compare with reference values: out of their bounds is an error",
    "write-reference=FILE": "write what was measured as reference values of this site; with"
    " --tolerance=5%",
}

_SLURM = {
    "on=slurm": "on a cluster; --partition, --account, --qos, --constraint, --gres, --time, --mem,"
    " --cpus-per-task, --reservation, --nodelist and --exclude go to sbatch, and all words of"
    " --sbatch='--licenses=a --nice=10'; --throttle=N tasks run at once; --modules=A,B and"
    " --setup=LINE come before the worker; --share-nodes leaves room for others beside a point;"
    " --scratch=DIR is a folder of the nodes in which runs write; --apptainer, --pyxis or --enroot"
    "=IMAGE",
    "site=NAME": "at a site of `cm show site`, or of a file: what its description says in place of"
    " flags; SITE:PARTITION",
}


def _experiment(word: str, usage: Flags, flags: Flags, **more: Any) -> Verb:
    """A verb about sweeps, which another package answers."""
    does = f"cmbench_sweep.verbs:{word}_experiment"
    return Verb("experiment", word, does, usage, {**flags, **JSON}, writes=True, **more)


VERBS: tuple[Verb, ...] = (
    Verb("experiment", "help", "help:show_usage"),
    _experiment(
        "run",
        {
            "cm run experiment --sweep=FILE": "measure every point once; resumes where it stopped",
            "cm run experiment --tags=T -- LINE": "LINE with {{VAR{[1,2]}}}, as CM does",
        },
        {
            **_SWEEP,
            "retry-failed": "measure the points again that have failed",
            "complete": "measure the points again that have fewer figures or runs than are asked",
            "new": "measure all points again",
            **_REFERENCE,
            **_SLURM,
            "on=ssh": "on --hosts=A,B=gpu+big, with their labels; --folder=DIR there, --keep what"
            " was brought, --wheels=DIR for machines without a package index, --patience=SECONDS;"
            " --modules and --setup as with Slurm",
            "on=ray": "on the Ray cluster at --ray=http://HOST:8265; labels are resources of nodes",
            "labels=NAMES": "labels that this machine has, for points that need them",
            "explore.VAR=LIST": "the values of {{VAR}} in LINE; --env.KEY=value is for all runs",
            "tags=TAGS": "of LINE: the experiment with these tags; its name does as well",
            "dir=NAME": "of LINE: the folder in the experiment; --rerun is the last one",
        },
    ),
    _experiment(
        "replay",
        {"cm replay experiment --tags=TAGS": "run a LINE again as it was recorded"},
        {
            "tags=TAGS": "the experiment with these tags; its name does as well",
            "dir=NAME": "the folder in it, instead of the last one",
            "uid=UID": "the folder that has this result",
        },
    ),
    _experiment(
        "plan",
        {"cm plan experiment --sweep=FILE": "its points, what is measured, what is prepared"},
        {**_SWEEP, **_SLURM},
    ),
    _experiment(
        "show",
        {
            "cm show experiment NAME": "its points, the best first",
            "cm show experiment": "all sweeps",
        },
        {
            "frontier=X,Y": "the points that no other one beats in two figures",
            "best=FIGURE": "the command line of the best point",
            "effects=FIGURE": "what each value of each axis does, with its spread",
            **_REFERENCE,
        },
        takes=(*OUTPUT, "tolerance"),
    ),
    _experiment(
        "export",
        {"cm export experiment NAME --csv": "its points as a file, a row each"},
        {
            "csv": "for a spreadsheet; the default",
            "parquet": "for DuckDB or pandas",
            "output=FILE": "output file; by default NAME.csv",
            "force": "replace a file that exists",
        },
        takes=OUTPUT,
    ),
)
