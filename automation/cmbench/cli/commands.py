"""The commands, declared once.

Dispatch, ``cm help``, ``--help``, the shell's completion and cmind's adapter read it from here. A
new verb is a ``Verb`` in ``VERBS`` and a function that takes a ``Command`` and returns a ``Reply``.
"""

from __future__ import annotations

from typing import Any

from cmbench.cli.crowd import CROWD
from cmbench.cli.of_results import DATABASE, RESULTS
from cmbench.cli.verb import Flags, Verb
from cmbench.session.request import FLAGS


def _new_script() -> Flags:
    from cmbench.author.scaffold import KINDS

    return {
        "kind=KIND": "; ".join(f"{kind}: {meaning}" for kind, meaning in KINDS.items()),
        "name=TEXT": "what it is for, in one line",
        "tags=TAGS": "its tags, if its name does not give them",
        "repo=NAME": "the repository to add it to; by default the one you are in",
        "template=NAME": "the same by CM's names: python or pytorch, a program of its own",
        "template-tags=TAGS": "a copy of the script with these tags",
        "url=URL": "of what it downloads",
        "sha256=HEX": "of that file",
    }


_OUTPUT = ("out", "json", "quiet", "silent", "verbose")
_LOOK = ("tags", *_OUTPUT, "debug", "help")
_OF_AUTHORS = ("tags", "path", *_OUTPUT, "help")
OF_ENTRIES = ("tags", *_OUTPUT, "force", "all", "debug")
"""Flags of every command about cache entries."""

_JSON = {"json": "print the result as JSON"}
_WHICH = {
    "tags=TAGS": "only those with these tags; plain words work too",
    **_JSON,
}
_ENTRIES = {"tags=TAGS": "entries with these tags; or an id, or a script's name"}
_NAMED = {**_ENTRIES, "all": "all entries", **_JSON}
_AUTHOR = {
    "tags=TAGS": "the script with these tags; or its name",
    "path=DIR": "a script, or all of a repository; by default the one you are in",
    **_JSON,
}
_ARCHIVE = {
    **_ENTRIES,
    "all": "all entries",
    "output=FILE": "the archive: .tar.gz, or .tar, which is faster",
    **_JSON,
}


_RELOCATED = {"tags=TAGS": "the script with these tags; or its name", **_JSON}


def _run(word: str, does: str, usage: Flags, flags: Flags = FLAGS, **more: Any) -> Verb:
    """A verb with the flags of runs."""
    return Verb("script", word, does, usage, flags, of_scripts=True, writes=True, **more)


def _cache(word: str, does: str, usage: Flags, flags: Flags, *takes: str, **more: Any) -> Verb:
    """A verb about cache entries."""
    return Verb("cache", word, does, usage, flags, (*OF_ENTRIES, *takes), **more)


def _gui(thing: str, usage: Flags, flags: Flags) -> Verb:
    """A verb that serves pages, which another package does."""
    shared = {
        "port=N": "8501, or the next free one; 0 takes any",
        "address=HOST": "127.0.0.1 by default: only this machine can reach it",
        "title=TEXT": "title of the pages",
        "no_browser": "open no browser; only print the address",
        "no_run": "compose and show, but run nothing",
        **DATABASE,
    }
    return Verb(thing, "gui", f"cmbench_gui.verbs:gui_{thing}", usage, {**flags, **shared})


def _experiment(word: str, usage: Flags, flags: Flags, **more: Any) -> Verb:
    """A verb about sweeps, which another package answers."""
    does = f"cmbench_sweep.verbs:{word}_experiment"
    return Verb("experiment", word, does, usage, {**flags, **_JSON}, writes=True, **more)


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

VERBS: tuple[Verb, ...] = (
    Verb("script", "help", "help:show_usage"),
    Verb(
        "script",
        "version",
        "help:show_version",
        {"cm version script": "versions of cmbench, of the command cm and of Python"},
        _JSON,
    ),
    _run(
        "run",
        "run:run_script",
        {
            "cm run script --tags=detect,os": "run a script and all it needs",
            'cm run script "detect os"': "the same, shorter",
            "cm run script --tags=detect,os --help": "its inputs, variations and flags",
        },
        own_help="named",
        at_site="cmbench_sweep.remote:run_at_site",
    ),
    _run(
        "plan",
        "plan:plan_script",
        {"cm plan script --tags=detect,os": "what a run would do; runs nothing"},
        own_help="named",
        at_site="cmbench_sweep.remote:plan_at_site",
    ),
    _run(
        "docker",
        "container:docker_script",
        {"cm docker script --tags=detect,os": "the same run in a container (--print)"},
        own_help="always",
        only_looks="print",
    ),
    _run(
        "prepare",
        "run:prepare_script",
        {"cm prepare script --output=DIR ...": "fetch all that a run needs, for another machine"},
        {**FLAGS, "output=DIR": "the folder", "for=cp312,linux_x86_64": "its interpreter"},
    ),
    _run(
        "dockerfile",
        "container:dockerfile_script",
        {"cm dockerfile script --tags=detect,os": "the file of that container's image"},
        only_looks="print",
    ),
    Verb(
        "script",
        "doctor",
        "doctor:doctor_script",
        {
            "cm doctor script": "look at the machine before you start",
            "cm doctor script --tags=get,tool": "what a script and its dependencies need of it",
            "cm doctor script --for=nvidia": "problems for NVIDIA's benchmark flow",
        },
        {
            "tags=TAGS": "that script; or its name and inputs",
            "for=VENDOR": "the checks before a vendor's flow: nvidia",
            "path=DIR": "with --for: the folder of the flow",
            "vendor_round=ROUND": "with --for: the round of the vendor's submission, such as v0.7",
            "scratch_path=DIR": "with --for: the scratch space, else MLPERF_SCRATCH_PATH",
            **_JSON,
        },
    ),
    Verb(
        "script",
        "remote-run",
        "cmbench_sweep.remote:remote_run",
        {"cm remote-run script --tags=detect,os --remote_host=HOST": "the same run elsewhere"},
        {
            "remote_host=HOST": "the machine, as ssh knows it; --remote_user, --remote_port,"
            " --remote_ssh_key_file where its configuration does not say",
            "remote_site=NAME": "a site with hosts: folder, modules, setup and environment are its",
            "remote_pre_run_cmds=LINE": "a command there before; --remote_post_run_cmds after",
        },
        cmind=("remote_run",),
        writes=True,
    ),
    _run("replay", "replay:replay_script", {"cm replay script last": "repeat a recorded run"}),
    Verb(
        "script",
        "log",
        "log:log_script",
        {"cm log script last [--errors]": "what a run printed, or only its errors"},
        {
            "errors": "only the lines that look like errors, with their numbers",
            "step=TEXT": "only of the steps with this text in their name",
        },
        takes=("out", "quiet", "verbose", "silent"),
    ),
    Verb(
        "script",
        "diff",
        "replay:diff_script",
        {"cm diff script last~1 last": "what differs between two runs, figures first"},
        _JSON,
    ),
    Verb(
        "script",
        "find",
        "find:find_script",
        {"cm find script --tags=get": "the scripts with these tags"},
        {**_WHICH, "p": "only their folders", "path-only": "the same"},
        takes=_LOOK,
        cmind=("search",),
        writes=True,
    ),
    Verb(
        "script",
        "show",
        "find:show_script",
        {"cm show script --tags=detect,os": "what a script is for"},
        {"tags=TAGS": "the script with these tags; or its name", **_JSON},
        takes=_LOOK,
        own_help="named",
        writes=True,
    ),
    Verb(
        "script",
        "add",
        "author:add_script",
        {"cm add script get-cmake --kind=detect": "start a new script"},
        _new_script,
        takes=("out", "json"),
    ),
    Verb(
        "script",
        "copy",
        "author:copy_script",
        {"cm copy script get-cmake mine:get-my-cmake": "a copy of it in a repository"},
        _RELOCATED,
        takes=_LOOK,
        writes=True,
    ),
    Verb(
        "script",
        "move",
        "author:move_script",
        {"cm move script get-cmake mine:get-cmake": "another name, or another repository"},
        _RELOCATED,
        takes=_LOOK,
        writes=True,
    ),
    Verb(
        "script",
        "native-run",
        "author:native_run_script",
        {'cm native-run script --command="make all" --env.CC=gcc': "a command with an env"},
        {"command=TEXT": "the command line", "env": "--env.KEY=value sets a variable of it"},
        takes=("tags", *_OUTPUT),
        cmind=("native_run",),
    ),
    Verb(
        "script",
        "rm",
        "author:remove_script",
        {"cm rm script get-cmake [-f]": "remove a script; -f does not ask"},
        {"tags=TAGS": "the script with these tags; or its name", "force": "do not ask"},
        takes=_LOOK,
        cmind=("delete",),
    ),
    Verb(
        "script",
        "load",
        "find:show_script",
        {"cm load script get-cmake --json": "the meta of a script and where it is"},
        {"tags=TAGS": "the script with these tags; or its name", **_JSON},
        takes=_LOOK,
    ),
    Verb(
        "script",
        "lint",
        "author:lint_script",
        {"cm lint script get-python3 [--fix]": "its faults; without a name, of all"},
        {
            "all": "all scripts of all registered repositories",
            "fix": "correct what is safe to correct",
            "only=CMB101,...": "only these checks",
            "skip=CMB101,...": "all but these checks",
            "strict": "hold scripts of other dialects to all checks too",
            **_AUTHOR,
        },
        takes=_OF_AUTHORS,
    ),
    Verb(
        "script",
        "test",
        "author:test_script",
        {"cm test script get-python3": "plan and try what it detects"},
        _AUTHOR,
        takes=_OF_AUTHORS,
    ),
    Verb(
        "script",
        "complete",
        "complete:complete_script",
        {"cm complete script --shell=bash": "completion, for eval in ~/.bashrc"},
        {"shell=SHELL": "bash or zsh"},
        writes=True,
    ),
    Verb(
        "script",
        "doc",
        "author:doc_script",
        {"cm doc script get-python3 [--check]": "write what comes from its meta"},
        {"check": "write nothing; fail if a page is out of date", **_AUTHOR},
        takes=_OF_AUTHORS,
    ),
    _gui(
        "script",
        {"cm gui script [--tags=...]": "compose a command in a browser, run it, watch it"},
        {"tags=TAGS": "start with this script; its inputs are set as in a command"},
    ),
    Verb("cache", "help", "help:show_usage"),
    _cache(
        "show",
        "cache:show_cache",
        {"cm show cache [--tags=get,python3]": "what is kept, its size and last use"},
        {
            **_ENTRIES,
            "env": "what each gives to its users",
            "p": "only their folders",
            "path-only": "the same",
            **_JSON,
        },
        cmind=("show", "search"),
    ),
    _cache(
        "rm",
        "cache:remove_cache",
        {"cm rm cache --tags=get,python3 [-f]": "remove entries; -f does not ask"},
        {**_ENTRIES, "all": "all entries", "force": "do not ask (-f)", **_JSON},
        cmind=("delete",),
    ),
    Verb(
        "cache",
        "why",
        "cache:why_cache",
        {"cm why cache --tags=get,python3": "what made it, what it read, is it valid"},
        {
            **_ENTRIES,
            "all": "all entries",
            "INPUT=VALUE": "an input of the script: for a call that was not made yet",
            **_JSON,
        },
    ),
    _cache(
        "verify",
        "upkeep:verify_cache",
        {"cm verify cache [--tags=...]": "are its files as published?"},
        {**_ENTRIES, **_JSON},
    ),
    _cache(
        "prune",
        "upkeep:prune_cache",
        {"cm prune cache [--tags=...]": "remove what has expired"},
        {**_ENTRIES, **_JSON},
    ),
    _cache(
        "mark-tmp",
        "upkeep:mark_tmp_cache",
        {"cm mark-tmp cache --tags=...": "stop using these entries"},
        _NAMED,
        cmind=("mark_tmp",),
    ),
    _cache("pin", "cache:pin_cache", {"cm pin cache <id>": "never remove an entry"}, _NAMED),
    _cache(
        "unpin",
        "cache:unpin_cache",
        {"cm unpin cache <id>": "let gc and rm remove it again"},
        _NAMED,
    ),
    _cache("du", "upkeep:du_cache", {"cm du cache": "what uses the disk, by script"}, _JSON),
    _cache(
        "gc",
        "upkeep:gc_cache",
        {
            "cm gc cache --max-size=20GB [--yes]": "make room; without --yes only shows",
            "cm gc cache --older-than=30d [--yes]": "what was not used for this long",
        },
        {
            "max-size=20GB": "remove the least recently used until this much is left",
            "older-than=30d": "remove what was not used for this long",
            "keep-runs=7d": "keep what runs within this time used; 7d by default",
            "dry-run": "only show what would be removed, as without --yes",
            "yes": "remove it",
            **_JSON,
        },
        "y",
    ),
    _cache(
        "export",
        "bundle:export_cache",
        {"cm export cache --tags=... --output=F": "entries and their needs, in a file"},
        _ARCHIVE,
    ),
    _cache("bundle", "bundle:export_cache", {"cm bundle cache ...": "the same"}, _ARCHIVE),
    _cache(
        "import",
        "bundle:import_cache",
        {"cm import cache --input=F": "verify them and add them to this cache"},
        {"input=FILE": "the archive", **_JSON},
    ),
    *RESULTS,
    _gui("results", {"cm gui results": "explore results in a browser"}, {}),
    Verb(
        "results",
        "serve",
        "cmbench_crowd_server.verbs:serve_results",
        {"cm serve results": "receive results of volunteers, check them, show them"},
        {
            "port=N": "8502, or the next free one; 0 takes any",
            "address=HOST": "127.0.0.1 by default; another one needs --token-file",
            "token-file=FILE": "one token per line; uploads need one of them",
            "publish=checked": "show what passes all checks before a person has reviewed it",
            "proxied": "a TLS proxy on this machine tells the client's address",
            "title=TEXT": "title of the pages",
            "home=DIR": "where uploads are kept, instead of this CM home",
            **DATABASE,
        },
        _OUTPUT,
        extra="crowd-server",
    ),
    Verb(
        "results",
        "review",
        "cmbench_crowd_server.verbs:review_results",
        {"cm review results [ID]": "what volunteers have sent, to be reviewed"},
        {
            "accept=IDS": "publish these",
            "reject=IDS": "do not, or no longer; --why=TEXT is stored",
            "why=TEXT": "the reason of --reject",
            "block=CONTRIBUTOR": "accept nothing more from a key",
            "want=FILE": "put work on the list: a JSON list of benchmark, scenario, ...",
            "home=DIR": "where the server keeps uploads, instead of this CM home",
            **DATABASE,
            **_JSON,
        },
        _OUTPUT,
        extra="crowd-server",
    ),
    Verb("runs", "help", "help:show_usage"),
    Verb(
        "runs",
        "show",
        "runs:show_runs",
        {
            "cm show runs": "the newest runs: id, time, state, command, result, folder",
            "cm show runs resnet50 failed": "those with these words in id, state or command",
        },
        {"limit=N": "look through this many, the newest ones; 20 by default", **_JSON},
        takes=_OUTPUT,
    ),
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
        takes=(*_OUTPUT, "tolerance"),
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
        takes=_OUTPUT,
    ),
    Verb("site", "help", "help:show_usage"),
    Verb(
        "site",
        "show",
        "cmbench_sweep.site_verbs:show_site",
        {
            "cm show site": "the sites that --site=NAME of a sweep can name",
            "cm show site NAME": "what its systems are; a file that is checked, too",
        },
        _JSON,
        takes=_OUTPUT,
    ),
    *CROWD,
)


def verb_of(thing: str, word: str) -> Verb | None:
    """The verb that users or cmind call ``word``."""
    known = [verb for verb in VERBS if verb.thing == thing]
    by_cmind = (verb for verb in known if word in verb.words)
    return next(by_cmind, None) or next((v for v in known if v.word == word), None)


def words_of(thing: str) -> list[str]:
    """Return the words that cmind uses for the verbs of ``thing``."""
    return [word for verb in VERBS if verb.thing == thing for word in verb.words]


def verbs() -> dict[str, list[str]]:
    """Return the verbs by their things, as users write them."""
    words: dict[str, list[str]] = {}
    for verb in VERBS:
        words.setdefault(verb.thing, []).append(verb.word)
    return words


def usage_of(thing: str) -> list[tuple[str, str]]:
    """The command lines of ``thing`` with what they are for."""
    return [line for verb in VERBS if verb.thing == thing for line in verb.usage.items()]


def flags_of_verb(thing: str, word: str) -> Flags:
    """What the flags of one verb do; a flag that takes a value is written ``name=VALUE``."""
    verb = verb_of(thing, word)
    return verb.flag_meanings if verb is not None else {}
