"""What a user and a script's meta ask of a container: flags, and the section ``docker:``.

A flag wins over the meta; of the meta, the blocks of active variations win over that of the script,
and their lists are added to it.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cmbench.errors import Error, did_you_mean
from cmbench.format.meta import is_true
from cmbench.index.select import merge_order
from cmbench.plan.step_run import StepRun

FLAGS: Mapping[str, str] = {
    "engine": "docker, podman, apptainer or buildah; the first that answers by default",
    "base_image": "image to build on, by name or by digest: NAME@sha256:...",
    "os": "operating system of the image, without a base image: debian, ubuntu, ...",
    "os_version": "its version",
    "cache": "no: build the image again, every step of it",
    "cached": "cache entries of this machine: mount (read only), bake (into the image), none",
    "it": "open a shell in the container after the run",
    "detached": "start in the background; prints the commands to read its log and to end it",
    "keep_alive": "keep the container; prints the commands to enter and to end it",
    "extra_sys_deps": "more packages of the operating system",
    "mounts": "more folders: HOST:CONTAINER or HOST:CONTAINER:rw, separated by commas",
    "mount_current_dir": "no: keep the current folder out of the container",
    "writable": "inputs whose folders may be written, separated by commas",
    "env": "variables to pass on, by name, separated by commas",
    "extra_run_args": "more arguments for the engine's run command",
    "shm_size": "size of /dev/shm, such as 8g",
    "all_gpus": "give it all NVIDIA GPUs",
    "num_gpus": "give it this many NVIDIA GPUs",
    "device": "devices of the machine to pass on, separated by commas",
    "port_maps": "ports HOST:CONTAINER to open, separated by commas",
    "privileged": "all privileges of the machine's root: a last resort",
    "network": "network of the container, as the engine names it",
    "image_name": "name of the image instead of the script's",
    "run": "yes: run although the script's meta says that it is not for containers",
    "gh_token": "token for GitHub, passed on without being written anywhere",
}
"""Flags, each with ``--docker_`` in front of it."""

_SHORT = ("engine", "base_image")
"""Those that may be written without ``docker_``, if the script has no input of that name."""

_SAME = {
    "interactive": "it",
    "dt": "detached",
    "image_base": "base_image",
    "base": "base_image",
}

_ALWAYS = ("use_host_user_id", "use_host_group_id", "pass_user_id", "pass_user_group", "real_run")
"""Flags of CM that ask for what is done anyway."""

_REGISTERED = "the repositories that are registered here are mounted"
_REPOSITORIES = ("repo", "repos", "repo_branch", "repo_flags")
_REFUSED = {
    **{f"{tool}_{name}": _REGISTERED for tool in ("cm", "mlc") for name in _REPOSITORIES},
    "pre_run_cmds": "put it into the base image, or into a script",
    "run_final_cmds": "put it into the base image, or into a script",
    "run_cmd_prefix": "put it into the base image, or into a script",
    "push_image": "push it with the engine: its name is printed",
    "image_repo": "name the image with --docker_image_name",
    "skip_build": "an existing image is not built again anyway",
}
"""Flags of CM and MLC that would change what is run, with what to do in their place."""


@dataclass(frozen=True, slots=True)
class ContainerOptions:
    """The requested container; texts are empty and tuples are empty for the default."""

    engine: str = ""
    base_image: str = ""
    os: str = ""
    os_version: str = ""
    rebuild: bool = False
    cached: str = "mount"
    interactive: bool = False
    detached: bool = False
    kept: bool = False
    packages: tuple[str, ...] = ()
    mounts: tuple[str, ...] = ()
    current_folder: bool = True
    writable: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    extra_run_args: tuple[str, ...] = ()
    shm_size: str = ""
    gpus: str = ""
    devices: tuple[str, ...] = ()
    ports: tuple[str, ...] = ()
    privileged: bool = False
    network: str = ""
    image_name: str = ""
    gh_token: str = ""
    input_mapping: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def split_flags(
    flags: Mapping[str, Any], inputs: Iterable[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The flags of containers, without ``docker_``, and all others, which go to the script.

    Raises ``unknown-flag`` for a flag of containers that does not exist.
    """
    own: dict[str, Any] = {}
    others: dict[str, Any] = {}
    for name, value in flags.items():
        short = name.removeprefix("docker_")
        if name in inputs or (short == name and name not in _SHORT):
            others[name] = value
        else:
            _check(short, name)
            if short not in _ALWAYS:
                own[_SAME.get(short, short)] = value
    return own, others


def _check(short: str, name: str) -> None:
    if short in _REFUSED:
        raise Error("unknown-flag", f"--{name} is not possible here", hint=_REFUSED[short])
    if short not in FLAGS and short not in _SAME and short not in _ALWAYS:
        hint = did_you_mean(name, [f"docker_{known}" for known in FLAGS])
        raise Error(
            "unknown-flag",
            f"there is no flag --{name} for containers",
            hint=hint or "see them all: `cm docker script --tags=detect,os --help`",
        )


def declared(step_run: StepRun) -> dict[str, Any]:
    """The section ``docker:`` of the step's script with those of its active variations."""
    meta = step_run.script.meta
    blocks: list[Any] = [
        {key: value for key, value in meta.items() if key.startswith("docker_")},
        meta.get("docker"),
    ]
    variations = meta.get("variations") or {}
    for name in merge_order(step_run.step.choice):
        block = variations.get(name) or variations.get(name.partition(".")[0] + ".#")
        blocks.append(block.get("docker") if isinstance(block, Mapping) else None)
    merged: dict[str, Any] = {}
    for block in blocks:
        _lay(merged, block if isinstance(block, Mapping) else {})
    return merged


def _lay(merged: dict[str, Any], block: Mapping[str, Any]) -> None:
    for key, value in block.items():
        name = key.removeprefix("docker_")
        name = _SAME.get(name, name)
        before = merged.get(name)
        if isinstance(value, list) and isinstance(before, list):
            merged[name] = [*before, *(item for item in value if item not in before)]
        elif isinstance(value, Mapping) and isinstance(before, Mapping):
            merged[name] = {**before, **value}
        else:
            merged[name] = value


def options(own: Mapping[str, Any], meta: Mapping[str, Any]) -> ContainerOptions:
    """The flags ``own`` over the section ``meta``; raises ``bad-value``."""
    values = {**meta, **own}
    _refuse_both(own)
    if "run" in values and not is_true(values["run"]):
        raise Error(
            "bad-value",
            "this script says that it is not for containers (docker: run: false)",
            hint="to run it anyway: --docker_run=yes",
        )
    cached = _text(values, "cached") or "mount"
    if cached not in ("mount", "bake", "none"):
        raise Error("bad-value", f"--docker_cached={cached} is not possible", hint=FLAGS["cached"])
    return ContainerOptions(
        engine=_text(own, "engine"),
        base_image=_text(values, "base_image"),
        os=_text(values, "os") if "os" in own or not _text(values, "base_image") else "",
        os_version=_text(values, "os_version"),
        rebuild="cache" in own and not is_true(own["cache"]),
        cached=cached,
        interactive=is_true(own.get("it", False)),
        detached=is_true(own.get("detached", False)),
        kept=is_true(own.get("keep_alive", False)),
        packages=_list(own, "extra_sys_deps") + _list(meta, "extra_sys_deps"),
        mounts=_list(meta, "mounts") + _list(own, "mounts"),
        current_folder=is_true(values.get("mount_current_dir", True)),
        writable=_list(values, "writable"),
        env=_list(values, "env"),
        extra_run_args=_words(meta) + _words(own),
        shm_size=_text(values, "shm_size"),
        gpus=_gpus(values),
        devices=_list(values, "device"),
        ports=_list(values, "port_maps"),
        privileged=is_true(values.get("privileged", False)),
        network=_text(values, "network"),
        image_name=_text(values, "image_name"),
        gh_token=_text(own, "gh_token"),
        input_mapping=_mapping(meta),
        notes=tuple(_notes(meta)),
    )


def _refuse_both(own: Mapping[str, Any]) -> None:
    other = next((name for name in ("detached", "keep_alive") if is_true(own.get(name, False))), "")
    if other and is_true(own.get("it", False)):
        hint = "keep it with --docker_keep_alive, and enter it with the printed command"
        raise Error("bad-value", f"--docker_it and --docker_{other} exclude each other", hint=hint)


def _text(values: Mapping[str, Any], name: str) -> str:
    value = values.get(name, "")
    if value is True:
        raise Error("bad-value", f"--docker_{name} needs a value: {FLAGS[name]}")
    return str(value or "").strip()


def _list(values: Mapping[str, Any], name: str) -> tuple[str, ...]:
    value = values.get(name) or ()
    if isinstance(value, str) or value is True:
        value = (
            _text(values, name).replace(",", " " if name == "extra_sys_deps" else ",").split(",")
        )
        if name == "extra_sys_deps":
            value = " ".join(value).split()
    items: Sequence[Any] = value if isinstance(value, list | tuple) else (value,)
    return tuple(str(item).strip() for item in items if str(item).strip())


def _words(values: Mapping[str, Any]) -> tuple[str, ...]:
    value = values.get("extra_run_args") or ""
    if isinstance(value, list):
        return tuple(str(word) for word in value)
    try:
        return tuple(shlex.split(_text(values, "extra_run_args")))
    except ValueError as problem:
        raise Error("bad-value", f"--docker_extra_run_args: {problem}") from None


def _gpus(values: Mapping[str, Any]) -> str:
    number = _text(values, "num_gpus") if values.get("num_gpus") else ""
    if number and not number.isdigit():
        raise Error("bad-value", f"--docker_num_gpus={number} is not a number")
    return number or ("all" if is_true(values.get("all_gpus", False)) else "")


def _mapping(meta: Mapping[str, Any]) -> dict[str, str]:
    value = meta.get("input_mapping")
    return {str(k): str(v) for k, v in value.items()} if isinstance(value, Mapping) else {}


_UNUSED = {
    "deps": "steps to run on this machine first; run them yourself if needed",
    "pre_run_cmds": "commands in the container before the run",
    "run_cmd_prefix": "a command in front of the run",
    "build_deps": "steps before the build",
}


def _notes(meta: Mapping[str, Any]) -> Iterable[str]:
    for name, meaning in _UNUSED.items():
        if meta.get(name):
            yield f"the script's docker section asks for {name}, which is left out: {meaning}"
