"""The dictionary ``i`` of hooks in ``customize.py``, with the keys and types of the CM format.

The keys are those that the first engines set, in every phase: ``preprocess`` and
``postprocess`` have them all, so a hook never finds less. What only one of the engines has is
there for scripts of both, but where that would mislead them.
"""

from __future__ import annotations

import copy
import os
import struct
import sys
from collections.abc import Iterable, Mapping
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

from cmbench.plan.hook_call import OF_CMIND, HookCall, TracedUpdates
from cmbench.plan.step_run import StepRun

if TYPE_CHECKING:
    from cmbench.format.model import Request
    from cmbench.run.cm_objects import Automation

_UID = "5b4e0237da074764"
"""Of the automation ``script``, the same in all collections."""
_SWITCHES_OF_DEPENDENCIES = {
    "debug_script_tags": "",
    "time": False,
    "verbose": False,
    "silent": False,
}
_NATIVE_FILES = {
    "tmp_file_run": "tmp-run",
    "tmp_file_run_env": "tmp-run-env.out",
    "tmp_file_run_state": "tmp-run-state.json",
    "tmp_file_state": "tmp-state.json",
}


def hook_input(
    step_run: StepRun,
    module: ModuleType | None,
    automation: Automation,
    command: str,
    verbose: bool,
) -> dict[str, Any]:
    """``i`` for a hook of ``module``; ``command`` is the command line of the whole run."""
    script = step_run.script
    meta = copy.deepcopy(dict(script.meta))
    values = {
        "env": step_run.env,
        "state": step_run.state,
        "const": step_run.const,
        "const_state": {},
    }
    state = run_state(step_run, command, meta)
    common = {
        "input": _call(step_run, values, state, command),
        "automation": automation,
        "artifact": artifact(script.path, script.repo, meta),
        "customize": dict(meta.get("customize") or {}),
        "os_info": os_info(step_run),
        "recursion_spaces": _indent(step_run),
        "script_tags": list(script.tags),
        "variation_tags": list(step_run.step.choice.variations),
    }
    # One object for all hooks of a step: what one writes, such as another script_name, counts.
    step_run.hooks.shared.update(
        **values,
        **_NATIVE_FILES,
        **_of_the_step(step_run),
        meta=meta,
        path=script.path,
        run_state=state,
        customize_code=module,
        customize_common_input=common,
        os_info=common["os_info"],
        script_tags=common["script_tags"],
        variation_tags=common["variation_tags"],
        self=automation,
        verbose=verbose,
    )
    return {**common, **values, "meta": meta, "run_script_input": step_run.hooks.shared}


def _of_the_step(step_run: StepRun) -> dict[str, Any]:
    """Return what ``run_script_input`` says of how a step was chosen and of where the run is."""
    script, dialect = step_run.script, step_run.script.dialect
    hidden = [*dialect.hidden, *(f"{start}*" for start in dialect.hidden_starts)]
    values = {
        "bat_ext": ".sh",
        "reuse_cached": False,
        "found_cached": False,
        "recursion": step_run.parent is not None,
        "recursion_spaces": _indent(step_run),
        "remembered_selections": [],
        "local_env_keys": [dialect.prefix + name for name in hidden],
        "local_env_keys_from_meta": list(script.meta.get("local_env_keys") or []),
        "posthook_deps": copy.deepcopy(list(script.meta.get("posthook_deps") or [])),
        "add_deps_recursive": TracedUpdates(step_run.adr),
        "found_script_tags": list(script.tags),
        "variation_tags_string": ",".join(f"_{name}" for name in step_run.step.choice.variations),
        "debug_script_tags": str(step_run.request.call.get("debug_script_tags") or ""),
    }
    if "ignore_script_error" in step_run.request.modes:
        values["ignore_script_error"] = True
    return values


def _call(
    step_run: StepRun, values: Mapping[str, Any], state: Mapping[str, Any], command: str
) -> HookCall:
    """``i['input']``; of a dependency it says more than of a call."""
    is_mlc = bool(step_run.script.dialect.modules)
    if not isinstance(step_run.hooks.call, HookCall):
        unseen = OF_CMIND if is_mlc else ()
        step_run.hooks.call = HookCall(
            step_run.request, step_run.adr, step_run.parent is not None, unseen
        )
    shown: dict[str, Any] = {"env": values["env"]}
    if step_run.parent is not None:
        shown = {
            **values,
            **{f"local_{name}": {} for name in values},
            "local_env": dict(step_run.request.env),
            "recursion": True,
            "recursion_spaces": _indent(step_run),
            "remembered_selections": [],
            "run_state": state,
            "automation": f"script,{_UID}",
            **_SWITCHES_OF_DEPENDENCIES,
        }
    if not is_mlc:
        parsed = [("script", _UID)]
        shown = {"automation": "script", **shown, "action": "run", "parsed_automation": parsed}
    elif step_run.parent is None:
        shown.update(details=str(step_run.request.tags), mlc_run_cmd=command)
    step_run.hooks.call.show(shown)
    return step_run.hooks.call


def _indent(step_run: StepRun) -> str:
    return "  " * (len(step_run.chain()) - 1)


def os_info(step_run: StepRun) -> dict[str, Any]:
    """The ``os_info`` dictionary: platform, word size, and how this platform spells things."""
    bits = str(struct.calcsize("P") * 8)
    dialect = step_run.script.dialect
    facts = {"HOST_PLATFORM_FLAVOR": os.uname().machine, "HOST_OS_TYPE": sys.platform}
    return {
        "platform": "windows" if sys.platform.startswith("win") else sys.platform,
        "bits": bits,
        "python_bits": bits,
        "bat_ext": ".sh",
        "bat_rem": "# ${rem}",
        "set_env": 'export ${key}="${value}"',
        "set_exec_file": 'chmod 755 "${file_name}"',
        "env_separator": ":",
        "env_quote": '"',
        "env_var": "${env_var}",
        "start_script": ["#!/bin/bash", ""],
        "run_bat": ". ${bat_file}",
        "run_local_bat": ". ./${bat_file}",
        "run_local_bat_from_python": 'bash -c ". ./${bat_file}"',
        "env": {dialect.prefix + k: v for k, v in facts.items() if dialect.modules},
    }


def artifact(path: str, repository: str, meta: Mapping[str, Any]) -> SimpleNamespace:
    """``i['artifact']``: where a script is, what its meta says, and which repository has it."""
    root = os.path.dirname(os.path.dirname(path))
    described = {"alias": repository}
    return SimpleNamespace(
        path=path,
        full_path=path,
        meta=meta,
        original_meta=meta,
        uid=meta.get("uid", ""),
        repo_path=root,
        repo_meta=described,
        repo=SimpleNamespace(path=root, meta=described),
    )


def run_state(step_run: StepRun, command: str, meta: Mapping[str, Any]) -> dict[str, Any]:
    """``run_script_input['run_state']``: how this step was chosen, and what it has taken so far.

    Besides the format's own keys: ``command`` is the command line of the whole run as the record
    has it, and ``commands`` has one per dependency, which runs it alone.
    """
    script = step_run.script
    above = step_run.parent.script if step_run.parent is not None else None
    taken = [str(request.tags) for request in step_run.requests]
    return {
        **{key: list(meta.get(key) or []) for key in _LISTS_OF_META},
        **{key: dict(meta.get(key) or {}) for key in _GROUPS_OF_META},
        "script_id": f"{script.alias},{script.uid}",
        "script_tags": list(script.tags),
        "script_variation_tags": list(step_run.step.choice.variations),
        "script_repo_alias": script.repo,
        "script_repo_git": False,
        "script_entry_repo_alias": script.repo,
        "script_entry_repo_git": False,
        "script_entry_repo_to_report_errors": "",
        "variation_groups": _groups(step_run),
        "default_version": step_run.step.last("default_version"),
        "cache": step_run.step.cacheable,
        "cache_expiration": step_run.step.expires or False,
        "fake_deps": "fake_deps" in step_run.request.modes,
        "parent": f"{above.alias},{above.uid}" if above is not None else None,
        "version_info": [],
        # One of the engines keeps entries of the meta there, the other the tags of what has run.
        "deps": list(meta.get("deps") or []) if script.dialect.deps_told == "entries" else taken,
        "full_deps": taken,
        "command": command,
        "commands": _commands(step_run.requests) if step_run.requests else [],
    }


_LISTS_OF_META = (
    *("prehook_deps", "posthook_deps", "post_deps", "new_env_keys", "new_state_keys"),
    *("file_path_env_keys", "folder_path_env_keys", "update_meta_if_env"),
)
_GROUPS_OF_META = ("docker", "apptainer", "remote_run", "input_mapping")


def _groups(step_run: StepRun) -> dict[str, dict[str, Any]]:
    """Return the groups of variations: their members, and their default where they have one."""
    groups: dict[str, dict[str, Any]] = {}
    for name, variation in step_run.script.variations.items():
        if variation.group:
            group = groups.setdefault(variation.group, {"variations": []})
            group["variations"].append(name)
            if variation.default:
                group["default"] = name
    return groups


def _commands(requests: Iterable[Request]) -> list[str]:
    from cmbench.plan.dependency_request import command_of

    return list(dict.fromkeys(command_of(request) for request in requests))
