"""The dictionary that cmind passes, from the command line or from Python, as a ``Request``."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cmbench.errors import Error, did_you_mean
from cmbench.format.dialect import DIALECTS
from cmbench.format.merge import USER
from cmbench.format.meta import is_true, updates, version_range
from cmbench.format.model import (
    Dependency,
    InputSpec,
    PathArgument,
    Request,
    RunOptions,
    Script,
    Tags,
)
from cmbench.index.select import parse_tags
from cmbench.lib.secrecy import mask_word
from cmbench.lib.text_files import read_or_empty
from cmbench.plan.planned_step import PlannedStep, walk
from cmbench.values import replace

FLAGS: Mapping[str, str] = {
    "tags": "tags of the script, with variations as _name: --tags=get,python3,_x",
    "quiet": "no progress lines: the result, what was made or reused, errors",
    "silent": "nothing but errors (-s)",
    "verbose": "also show the output of every step (-v)",
    "out": "json: print the result as JSON and nothing else",
    "json": "print the result as JSON at the end (-j)",
    "debug": "show Python tracebacks",
    "version": "exact version wanted",
    "version_min": "lowest version accepted",
    "version_max": "highest version accepted",
    "version_max_usable": "version to take when the default one is above version_max",
    "path": "where to look for the tool or file",
    "name": "name to register the result under, or to choose it by",
    "env": "--env.KEY=value sets a key of the env",
    "const": "--const.KEY=value sets a key that nothing overrides",
    "state": "--state.key=value sets a key of the state",
    "adr": "--adr.NAME.KEY=value changes dependencies named NAME at any depth",
    "ad": "--ad.NAME.KEY=value changes this script's own dependencies",
    "new": "make a new cache entry even if one fits",
    "renew": "make the cache entry again",
    "renew_from": "make again what these scripts have made, and all made with it: --renew_from=a,b",
    "skip_cache": "run without the cache",
    "force_cache": "cache scripts that only do so on request",
    "offline": "never use the network",
    "find_links": "folder of wheels for all steps that install Python packages: --find_links=DIR",
    "prepared": "folder that cm prepare script has made on a machine with a network",
    "jobs": "how many independent steps may run at once, 1 by default: --jobs=4 or -j4",
    "no_prefetch": "start no download before its step's turn",
    "extra_cache_tags": "more tags for the cache entry",
    "force_new_env_keys": "more env keys to give back",
    "explain": "plan: --explain=KEY says where the value of an env key comes from",
    "why": "plan: say for every step why it is there and why it is (not) cached",
    "dot": "plan: print the graph for Graphviz",
    "mermaid": "plan: print the graph for Mermaid",
    "lock": "pin repositories, scripts, versions and files; a run writes the file",
    "save_to_json": "write the result to this file",
    "help": "show the inputs and variations of the script",
}
_ALIASES = {
    "v": "verbose",
    "s": "silent",
    "q": "quiet",
    "j": "json",
    "h": "help",
    "f": "force",
    "add_deps": "ad",
    "add_deps_recursive": "adr",
}
_CMIND = frozenset(
    [
        "action",
        "automation",
        "artifact",
        "artifacts",
        "parsed_automation",
        "parsed_artifact",
        "parsed_artifacts",
        "cmd",
        "unparsed_cmd",
        "common",
        "ignore_inheritance",
        "cm_debug",
    ]
)


def flags_of(i: Mapping[str, Any]) -> dict[str, Any]:
    """Return the flags of the caller, short names written out, without what cmind adds."""
    flags: dict[str, Any] = {}
    for key, value in i.items():
        if key not in _CMIND:
            name = key.replace("-", "_")
            if name.startswith("j") and name[1:].isdigit() and value is True:
                # -j4, as other tools write it; -j alone means JSON.
                flags["jobs"] = name[1:]
                continue
            name = _ALIASES.get(name, name)
            # A hook may pass both `adr` and `add_deps_recursive`.
            flags[name] = merge_flags(flags.get(name), value)
    return flags


def merge_flags(value: Any, more: Any) -> Any:
    """Return ``more`` over ``value``; two groups such as ``adr`` are merged, and ``more`` wins."""
    if not isinstance(value, Mapping) or not isinstance(more, Mapping):
        return more
    return {**value, **{key: merge_flags(value.get(key), item) for key, item in more.items()}}


def call_of(i: Mapping[str, Any], everywhere: Mapping[str, Any]) -> dict[str, Any]:
    """Return the call in the form that hooks get: the caller's words, and the flags of every run.

    Where a hook passes its own call as ``input``, the words that were typed are passed too.
    """
    above = i.get("input")
    typed = {"cmd": above["cmd"]} if isinstance(above, Mapping) and above.get("cmd") else {}
    return {
        **typed,
        **i,
        **{key: merge_flags(i.get(key), value) for key, value in everywhere.items()},
    }


def extra_flags(environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the flags of every run: ``CM_SCRIPT_EXTRA_CMD="--adr.python.name=mine"``."""
    flags: dict[str, Any] = {}
    for variable in {d.extra_command for marks in DIALECTS.values() for d in marks.values()}:
        for word in environ.get(variable, "").split():
            name, equals, value = word.lstrip("-").partition("=")
            *groups, key = name.split(".")
            group_flags = flags
            for group in groups:
                group_flags = group_flags.setdefault(_ALIASES.get(group, group), {})
            group_flags[key] = value if equals else True
    return flags


def tags_of(i: Mapping[str, Any]) -> tuple[Tags, str]:
    """Return the tag query and the name of a script or of a cache entry that a call has, if any.

    A name may begin with that of a repository: ``repository:name``.
    Raises ``bad-value`` where words without a flag name several things.
    """
    words_of_flag = i.get("tags") or ""
    tags = [
        str(tag) for tag in (words_of_flag if isinstance(words_of_flag, list) else [words_of_flag])
    ]
    artifacts = (i.get("artifact"), *(() if arguments_of(i) else i.get("artifacts") or ()))
    parts = [str(text or "").split() for text in artifacts]
    tags += [",".join(words) for words in parts if len(words) > 1]
    named = _quoted_names(parts)
    if len(named) > 1:
        raise Error(
            "bad-value",
            f"only one name can be given, not {len(named)}: {', '.join(named)}",
            hint=f'tags are one word: "{" ".join(named)}" or --tags={",".join(named)}\n'
            'a value follows "=": --jobs=4',
        )
    # ``alias,uid`` names by the uid, both a script and the repository before its colon.
    name = named[0] if named else ""
    uid = ":".join(part.rpartition(",")[2] for part in name.split(":", 1))
    return parse_tags(",".join(filter(None, tags))), uid


def _quoted_names(parts: Sequence[Sequence[str]]) -> list[str]:
    """Return the names among words and tags in quotes."""
    names = [words[0] for words in parts if len(words) == 1]
    # Collections write `cmr script "some tags"`, where `cmr` says `script` already.
    has_tags = any(len(words) > 1 for words in parts)
    return [] if has_tags and names == ["script"] else names


def arguments_of(i: Mapping[str, Any]) -> tuple[str, ...]:
    """The single words behind tags in quotes: they are for the script (``"set venv" mine``)."""
    words = [str(word) for word in i.get("artifacts") or ()]
    is_tags = " " in str(i.get("artifact") or "").strip()
    return tuple(words) if is_tags and not any(" " in word for word in words) else ()


def with_arguments(request: Request, words: tuple[str, ...], script: Script) -> Request:
    """``request`` with words for a script of others; raises ``bad-value`` for one of ours.

    No cache knows how it uses them.
    """
    if script.dialect.inputs_bind:
        raise Error(
            "bad-value",
            f"{script.alias} takes no words besides its tags: {', '.join(words)}",
            hint="tags are one word in quotes, and an input is --name=value",
        )
    return replace(request, arguments=words, skip_cache=True)


SWITCHES = frozenset(
    ["quiet", "verbose", "silent", "debug", "offline", "no_prefetch", "json", "new", "renew"]
    + ["skip_cache", "force_cache", "why", "dot", "mermaid"]
)
"""Flags of every script that are on or off, and mean "on" where they stand without a value."""


def _check_switches(flags: Mapping[str, Any]) -> None:
    for name in SWITCHES:
        value = str(flags.get(name, "")).lower()
        if value not in _BOOLEANS:
            raise Error(
                "bad-value",
                f"--{name}={flags[name]} is neither yes nor no",
                hint=f"write --{name}, or leave it out",
            )


def _switched_on(flags: Mapping[str, Any]) -> set[str]:
    return {name for name in SWITCHES.intersection(flags) if is_true(flags[name])}


def options_of(flags: Mapping[str, Any], command: Iterable[str]) -> RunOptions:
    """Return how the run as a whole behaves."""
    on = _switched_on(flags)
    prepared = _full(_text(flags, "prepared")) if flags.get("prepared") else ""
    wheels = _text(flags, "find_links") or (prepared and os.path.join(prepared, "wheels"))
    return RunOptions(
        quiet="quiet" in on,
        verbose="verbose" in on,
        silent="silent" in on,
        debug="debug" in on,
        offline="offline" in on,
        prefetch="no_prefetch" not in on,
        jobs=jobs_of(flags.get("jobs", 1)),
        renew_from=tuple(_text(flags, "renew_from").replace(",", " ").split()),
        out=str(flags.get("out") or ""),
        command=tuple(str(word) for word in command),
        package_files=wheels if "://" in wheels or not wheels else _full(wheels),
        prepared=prepared,
    )


def jobs_of(value: Any) -> int:
    """Return the number of ``--jobs``; raises ``bad-value``."""
    text = str(value).strip()
    if value is True or not text.isdecimal() or int(text) < 1:
        raise Error(
            "bad-value",
            "--jobs needs a number" if value is True else f"--jobs={text} is not a number",
            hint="write how many steps may run at once: --jobs=4",
        )
    return int(text)


def request_of(flags: Mapping[str, Any], tags: Tags, uid: str, script: Script) -> Request:
    """Return the typed request; raises ``unknown-flag`` or ``bad-value`` before anything runs."""
    inputs, modes = _split_inputs(flags, script)
    _check_switches({k: v for k, v in flags.items() if k not in inputs})
    if script.dialect.inputs_bind:
        if _text(flags, "path") and "path" not in script.inputs:
            inputs, flags = _path_as_input(inputs, flags, script)
        inputs = {k: _as_declared(v, script.inputs.get(k)) for k, v in inputs.items()}
        _check_inputs(inputs, script)
    _refuse_modes(inputs, script)
    inputs = {k: _absolute(v, script.inputs.get(k)) for k, v in inputs.items()}
    on = _switched_on(flags)
    return Request(
        tags=tags,
        uid=uid,
        inputs=inputs,
        env=_group(flags, "env"),
        const=_group(flags, "const"),
        state=_group(flags, "state"),
        version=version_range({key: _text(flags, key) for key in _VERSIONS}),
        name=_text(flags, "name"),
        path=os.pathsep.join(_full(p) for p in _text(flags, "path").split(os.pathsep) if p),
        extra_cache_tags=tuple(_text(flags, "extra_cache_tags").replace(",", " ").split()),
        force_new_env_keys=tuple(_text(flags, "force_new_env_keys").replace(",", " ").split()),
        ad={k: _with_full_paths(v) for k, v in _updates(flags, "ad").items()},
        adr={USER + k: _with_full_paths(v) for k, v in _updates(flags, "adr").items()},
        force_cache="force_cache" in on,
        skip_cache="skip_cache" in on,
        new="new" in on,
        renew="renew" in on,
        modes=modes,
    )


def _split_inputs(
    flags: Mapping[str, Any], script: Script
) -> tuple[dict[str, Any], frozenset[str]]:
    """Return the inputs of the script, and the modes that are on; one name may be both."""
    modes = {} if script.dialect.inputs_bind else {k: v for k, v in flags.items() if k in MODES}
    engine = {*FLAGS, *modes}
    inputs = {k: v for k, v in flags.items() if k not in engine or k in script.inputs}
    on = {_SAME_MODES.get(k, k) for k, v in modes.items() if is_true(v)}
    return inputs, frozenset(on - {*script.dialect.idle_flags})


_VERSIONS = ("version", "version_min", "version_max", "version_max_usable")


def _text(flags: Mapping[str, Any], key: str) -> str:
    value = flags.get(key, "")
    if isinstance(value, bool):
        raise Error("bad-value", f"--{key} needs a value", hint=f"write --{key}=VALUE")
    return ",".join(str(v) for v in value) if isinstance(value, list) else str(value or "")


_PATH_SEARCH = r"TMP_PATH|find_artifact|get_default_path_list|\btools\b"


def _path_as_input(
    inputs: dict[str, Any], flags: Mapping[str, Any], script: Script
) -> tuple[dict[str, Any], Mapping[str, Any]]:
    """Return ``--path`` as the one path input of a script that searches no path.

    Raises ``unknown-flag`` where it has none, or several.
    """
    if re.search(_PATH_SEARCH, read_or_empty(os.path.join(script.path, "customize.py"))):
        return inputs, flags
    places = [name for name, spec in script.inputs.items() if spec.type == "path"]
    named = [name for name in places if name.endswith("_path")]
    if len(named) == 1 and script.alias.startswith("get-") and named[0] not in inputs:
        rest = {k: v for k, v in flags.items() if k != "path"}
        return {**inputs, named[0]: flags["path"]}, rest
    if not script.alias.startswith("get-"):
        return inputs, flags
    choices = ", ".join(f"--{name}" for name in named or places)
    raise Error(
        "unknown-flag",
        f"{script.alias} does not use --path",
        hint=f"give the path with one of: {choices}"
        if choices
        else f"see its inputs: `cm run script {script.alias} --help`",
    )


def _as_declared(value: Any, spec: InputSpec | None) -> Any:
    """Return a choice as its script writes it, in another case or by a synonym."""
    if spec is None or not isinstance(value, str) or value in spec.choices:
        return value
    same = [choice for choice in spec.choices if choice.lower() == value.lower()]
    return same[0] if len(same) == 1 else spec.synonyms.get(value.lower(), value)


def _absolute(value: Any, spec: InputSpec | None) -> Any:
    """Return a path as the user means it, from the directory that the user is in."""
    is_path = spec is not None and spec.type == "path" and isinstance(value, str) and value
    return _full(value) if is_path else value


def _full(path: str) -> str:
    return os.path.abspath(os.path.expanduser(path))


def _with_full_paths(update: Dependency) -> Dependency:
    """Return an update whose inputs keep what they mean as paths."""
    inputs = dict(update.inputs)
    for name, word in update.inputs.items():
        if isinstance(word, str) and word and name not in FLAGS:
            full = _full(word)
            inputs[name] = PathArgument.of(word, full, os.path.lexists(full))
    return replace(update, inputs=inputs)


def _group(flags: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = flags.get(key) or {}
    if not isinstance(value, dict):
        raise Error("bad-value", f"--{key} needs a key", hint=f"write --{key}.KEY=value")
    if "" in value:
        raise Error("bad-value", f"--{key}. needs a key", hint=f"write --{key}.KEY=value")
    return {str(k): _plain(v) for k, v in value.items()}


def _plain(value: Any) -> Any:
    if value is True:
        return "yes"
    return "no" if value is False else value


def _updates(flags: Mapping[str, Any], key: str) -> dict[str, Dependency]:
    try:
        return updates(_named_group(flags, key))
    except (AttributeError, TypeError, ValueError) as problem:
        raise Error(
            "bad-value",
            f"--{key}.NAME: cannot be parsed: {problem}",
            hint=f"write --{key}.NAME.tags=TAGS, .version_min=VERSION or .env.KEY=VALUE",
        ) from None


def _named_group(flags: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = _group(flags, key)
    for name, entry in value.items():
        if not isinstance(entry, dict):
            raise Error(
                "bad-value",
                f"--{key}.{name} needs a key",
                hint=f"write --{key}.{name}.KEY=value, such as --{key}.{name}.version=3.11",
            )
    return value


MODES: Mapping[str, str] = {
    "fake_run": "run what the script depends on, and not the script itself",
    "fake_deps": "run nothing that the script depends on",
    "prepare": "the same as fake_run",
    "only_execute_from_cache": "fail where no cache entry answers",
    "ignore_script_error": "go on after a native script that fails",
    "dirty": "leave the files that the script would clean",
    "shell": "start a shell with the env of the script at the end",
    "debug_script": "start a shell before the native script",
    "print_deps": "print the commands of what it depends on",
    "print_versions": "print the versions of what was run",
    "print_readme": "write the commands of what was run into a README",
    "dump_version_info": "write the versions of what was run into version_info.json",
    "save_env": "write the env and the state of the script into files",
    "repro": "write the call and its result into the folder cm-repro",
    "time": "print how long the script took",
}
"""Flags of the first engines that ask for another kind of run, or for more at its end."""
_REFUSED = ("fake_run", "fake_deps", "prepare", "only_execute_from_cache", "shell", "debug_script")
"""Those that a script which knows all its flags refuses by saying what to do."""
_SAME_MODES = {"prepare": "fake_run"}
_PREVIEW_MODES = ("fake_run", "fake_deps", "dry_run", "print_deps", "graph")
"""What other tools call a dry run."""


def _refuse_modes(inputs: Mapping[str, Any], script: Script) -> None:
    for name in _REFUSED:
        if name in inputs and name not in script.inputs and is_true(inputs[name]):
            raise Error(
                "unknown-flag",
                f"--{name} is not possible with this engine",
                hint="to see what would be done, without running anything: `cm plan script ...`",
            )


def unknown_inputs(inputs: Iterable[str], script: Script) -> dict[str, str]:
    """Return the names that the script does not declare, with suggestions."""
    declared = {*script.inputs, *script.dialect.inputs, *script.dialect.places}
    return {
        name: _suggestion(name, script)
        or did_you_mean(name, [*declared, *FLAGS])
        or f"see its inputs: `cm run script {script.alias} --help`"
        for name in inputs
        if name not in declared
    }


def _suggestion(name: str, script: Script) -> str:
    if name.partition("_")[0] == "docker":
        return 'to run it in a container, replace "run" with "docker": `cm docker script ...`'
    if name.startswith("remote_"):
        return 'to run it elsewhere, replace "run" with "remote-run": `cm remote-run script ...`'
    if name in ("site", "on", "partition", "account", "qos", "hosts"):
        return "to run it at a site, describe that in a file and name it: docs/how-to/sites.md"
    preview = f"see what a run would do: `cm plan script {script.alias}`"
    return preview if name.replace("-", "_") in _PREVIEW_MODES else ""


def _check_inputs(inputs: Mapping[str, Any], script: Script) -> None:
    for name, hint in unknown_inputs(inputs, script).items():
        raise Error("unknown-flag", f"{script.alias} knows no flag --{name}", hint=hint)
    for name, value in inputs.items():
        if name in script.inputs:
            repeated = script.inputs[name].repeats and isinstance(value, list)
            for each in value if repeated else [value]:
                check_input(name, each, script)
    _check_agreement([name for name in inputs if name in script.inputs], inputs, script)


def _check_agreement(names: Iterable[str], inputs: Mapping[str, Any], script: Script) -> None:
    """Refuse two inputs that set one env key to different values."""
    first: dict[str, str] = {}
    for name in names:
        key = script.inputs[name].env
        other = first.setdefault(key, name) if key else name
        if str(_plain(inputs[name])) != str(_plain(inputs[other])):
            raise Error(
                "bad-value",
                f"--{other}={_plain(inputs[other])} and --{name}={_plain(inputs[name])} "
                "contradict each other",
                hint=f"give one of them: for {script.alias} they mean the same",
            )


def check_input(name: str, value: Any, script: Script) -> None:
    """Refuse a value that the declared type or choices do not allow; raises ``bad-value``."""
    spec = script.inputs[name]
    text = str(_as_declared(_plain(value), spec))
    if spec.choices and not any(_fits(text, choice) for choice in spec.choices):
        close = did_you_mean(text, spec.choices)
        # --scenario=all is what _all-scenarios does.
        meant = [v for v in (text, f"{text}-{name}", f"{text}-{name}s") if v in script.variations]
        more = "".join(f", or the variation _{variation}" for variation in meant)
        raise Error(
            "bad-value",
            f"{mask_word(f'--{name}={text}')} is not possible for {script.alias}",
            hint=f"{close}\nchoose one of: {', '.join(spec.choices)}{more}".lstrip(),
        )
    if spec.type in ("int", "float"):
        _check_number(name, text, spec)
    if spec.type == "bool" and text.lower() not in _BOOLEANS:
        raise Error("bad-value", f"--{name}={text} is neither yes nor no")


def _fits(text: str, choice: str) -> bool:
    """Return whether a value is a choice; one such as ``size.#`` allows any end."""
    head, point, open_part = choice.rpartition(".#")
    return text == choice or bool(point and not open_part and text.startswith(f"{head}."))


def _check_number(name: str, text: str, spec: InputSpec) -> None:
    try:
        number = float(int(text)) if spec.type == "int" else float(text)
    except (ValueError, OverflowError):
        raise Error("bad-value", f"--{name}={text} is not a number ({spec.type})") from None
    low, high = spec.minimum, spec.maximum
    bounds = [f"at least {low:g}"] if low is not None else []
    bounds += [f"at most {high:g}"] if high is not None else []
    least, most = -math.inf if low is None else low, math.inf if high is None else high
    if not (math.isfinite(number) and least <= number <= most):
        raise Error(
            "bad-value",
            f"--{name}={text} is out of bounds",
            hint=f"it must be a number {' and '.join(bounds) or 'that is finite'}",
        )


def check_places(request: Request, script: Script) -> None:
    """Refuse a run whose inputs name a path that is not what they need.

    Raises ``file-not-found``, ``file-error``, ``not-writable``. A request itself may be for another
    machine, so this is checked where it is run.
    """
    for name, spec in script.inputs.items():
        if spec.must_be:
            check_place(name, request.inputs.get(name) or request.env.get(spec.env), script)


def check_place(name: str, value: Any, script: Script, option: str = "") -> None:
    """Refuse a path that is not what the input ``name`` needs; raises as ``check_places``.

    ``option`` is how it was typed, where that is another word than the name.
    """
    kind = script.inputs[name].must_be
    if kind and isinstance(value, str) and value:
        from cmbench.lib.named_paths import require_place

        require_place(value, option or name, kind)


def check_typed_below(root: PlannedStep) -> None:
    """Refuse a run whose ``--adr.NAME.KEY`` names such a path, or has no effect.

    Raises as ``check_places`` and ``refuse_idle`` do.

    Checked are the steps below the plan's ``root``, those that may not run too, and only what the
    user has typed: what a step passes to another need not exist yet.
    """
    typed = _typed_for_dependencies(root.step_run.request) if root.step_run else {}
    if not typed:
        return
    from cmbench.plan.idle_inputs import refuse_idle

    for planned_step in walk(root):
        if planned_step.step_run is None or planned_step is root:
            continue
        request, script = planned_step.step_run.request, planned_step.step_run.script
        for name, spec in script.inputs.items():
            value = request.inputs.get(name) or request.env.get(spec.env)
            if str(value) in typed:
                flag = typed[str(value)]
                check_place(name, value, script, flag)
                if flag.endswith(f".{name}"):
                    refuse_idle(planned_step.step_run, [name], flag.removesuffix(name))


def _typed_for_dependencies(request: Request) -> dict[str, str]:
    """The words that the user has typed for dependencies, also as paths, and after which flag."""
    flags_by_word = {}
    for group, user_updates in (("ad", request.ad), ("adr", request.adr)):
        for name, update in user_updates.items():
            flag = f"{group}.{name.removeprefix(USER)}"
            flags_by_word.update(
                {str(word): f"{flag}.env.{key}" for key, word in update.env.items()}
            )
            for key, word in update.inputs.items():
                both = (word.word, word.full) if isinstance(word, PathArgument) else (str(word),)
                flags_by_word.update(dict.fromkeys(both, f"{flag}.{key}"))
    return flags_by_word


_BOOLEANS = ("yes", "no", "true", "false", "on", "off", "1", "0", "")
