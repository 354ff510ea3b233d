"""The commands about scripts."""

from __future__ import annotations

from typing import Any

from cmbench.cli.verb import JSON, OUTPUT, Flags, Verb, gui_verb
from cmbench.session.request import FLAGS

_LOOK = ("tags", *OUTPUT, "debug", "help")

_OF_AUTHORS = ("tags", "path", *OUTPUT, "help")

_WHICH = {
    "tags=TAGS": "only those with these tags; plain words work too",
    **JSON,
}

_AUTHOR = {
    "tags=TAGS": "the script with these tags; or its name",
    "path=DIR": "a script, or all of a repository; by default the one you are in",
    **JSON,
}

_RELOCATED = {"tags=TAGS": "the script with these tags; or its name", **JSON}


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


def _run(word: str, does: str, usage: Flags, flags: Flags = FLAGS, **more: Any) -> Verb:
    """A verb with the flags of runs."""
    return Verb("script", word, does, usage, flags, of_scripts=True, writes=True, **more)


VERBS: tuple[Verb, ...] = (
    Verb("script", "help", "help:show_usage"),
    Verb(
        "script",
        "version",
        "help:show_version",
        {"cm version script": "versions of cmbench, of the command cm and of Python"},
        JSON,
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
            **JSON,
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
        JSON,
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
        {"tags=TAGS": "the script with these tags; or its name", **JSON},
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
        takes=("tags", *OUTPUT),
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
        {"tags=TAGS": "the script with these tags; or its name", **JSON},
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
    gui_verb(
        "script",
        {"cm gui script [--tags=...]": "compose a command in a browser, run it, watch it"},
        {"tags=TAGS": "start with this script; its inputs are set as in a command"},
    ),
)
